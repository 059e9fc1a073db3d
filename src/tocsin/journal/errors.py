"""Errors of a journal. Each store translates its driver's exceptions into these, once.

    JournalError
    ├── CommitFailed          the group may not be durable; the state has to be rebuilt
    ├── OwnershipLost         another hub owns the project now; this one has to step down
    ├── ProjectBusy           another hub has the project open
    ├── JournalUnavailable    the database cannot be reached or read at present
    ├── JournalDamaged        the stored data is not what was written; an operator has to act
    │   ├── TablesDamaged     only the tables are damaged, which can be rebuilt from the journal
    │   └── CommitsLost       the journal ends before an event that was confirmed
    └── JournalUnsupported    this version of the software cannot use the database

The classes differ in what the host does next: rebuild, step down, stand by, try again, stop. `advice` tells an operator
what to do about an error that prevents a start.
"""

__all__ = [
    "CommitFailed",
    "CommitsLost",
    "JournalDamaged",
    "JournalError",
    "JournalUnavailable",
    "JournalUnsupported",
    "OwnershipLost",
    "ProjectBusy",
    "TablesDamaged",
    "advice",
]


class JournalError(Exception):
    """Base of everything that a journal raises."""

    #: Short stable name for logs and metrics.
    reason = "journal"


class CommitFailed(JournalError):
    """The group may not be durable."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        #: `disk_full`, `io_error`, `too_many_files`, `connection_lost`, `timeout`, `conflict`, `not_replicated` or
        #: `refused`.
        self.reason = reason
        self.detail = detail


class OwnershipLost(JournalError):
    """Another hub owns the project now."""

    reason = "ownership_lost"

    def __init__(self, project: str, epoch: int) -> None:
        super().__init__(f"project {project!r} is no longer owned in epoch {epoch}: another hub has taken over")
        self.project = project
        self.epoch = epoch


class ProjectBusy(JournalError):
    """Another hub has the project open."""

    reason = "project_busy"

    def __init__(self, project: str, owner: str = "") -> None:
        super().__init__(f"project {project!r} is open in another hub" + (f": {owner}" if owner else ""))
        self.project = project
        self.owner = owner


class JournalUnavailable(JournalError):
    """The database cannot be reached or read at present."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        #: `disk_full`, `io_error`, `too_many_files`, `connection_lost`, `timeout` or `database_error`.
        self.reason = reason
        self.detail = detail


class JournalDamaged(JournalError):
    """The stored data is not what was written."""

    reason = "journal_damaged"


class TablesDamaged(JournalDamaged):
    """A table is not what was written; the journal still is."""

    reason = "tables_damaged"


class CommitsLost(JournalDamaged):
    """The journal ends before an event that was confirmed."""

    reason = "commits_lost"

    def __init__(self, where: str, last_seq: int, confirmed_seq: int) -> None:
        super().__init__(
            f"commits were lost: {where} ends with event {last_seq}, but event {confirmed_seq} was confirmed before"
        )
        self.last_seq = last_seq
        self.confirmed_seq = confirmed_seq


class JournalUnsupported(JournalError):
    """This version of the software cannot use the database."""

    reason = "journal_unsupported"


#: What to do about an error that prevents a start, by its reason.
_ADVICE = {
    "disk_full": "Free some space on the disk of the project's directory, or move the directory, and start again;"
    " nothing that was confirmed is lost.",
    "io_error": "Check that the disk of the project's directory is mounted, writable and healthy, and start again.",
    "too_many_files": "Raise the limit of open files (`ulimit -n`, LimitNOFILE= in the systemd unit), and start again.",
    "database_error": "Run `tocsin doctor --verify` to see whether what is stored is damaged.",
    "tables_damaged": "Keep a copy of the directory. Put back tables.db from a backup, however old, and start again if"
    " the journal still has the events after it; `tocsin doctor --verify` says how far the journal goes back.",
    "commits_lost": "Keep a copy of the directory. Restore it from a backup that has these events, or run"
    " `tocsin doctor --accept-loss` to continue without them.",
    "journal_damaged": "Keep a copy of the directory, check the disk, and restore the directory from a backup;"
    " `tocsin doctor --verify` lists everything that is damaged.",
}


def advice(error: JournalError) -> str:
    """Return what an operator can do about an error that prevents a start; nothing where the error says it."""
    return _ADVICE.get(error.reason, "")
