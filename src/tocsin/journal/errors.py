"""Errors of a journal. Each store translates its driver's exceptions into these, once.

    JournalError
    ├── CommitFailed          the group may not be durable; the state has to be rebuilt
    ├── OwnershipLost         another hub owns the project now; this one has to step down
    ├── ProjectBusy           another hub has the project open
    ├── JournalUnavailable    the database cannot be reached or read at present
    ├── JournalDamaged        the stored data is not what was written; an operator has to act
    └── JournalUnsupported    this version of the software cannot use the database

The classes differ in what the host does next: rebuild, step down, stand by, try again, stop.
"""

__all__ = [
    "CommitFailed",
    "JournalDamaged",
    "JournalError",
    "JournalUnavailable",
    "JournalUnsupported",
    "OwnershipLost",
    "ProjectBusy",
]


class JournalError(Exception):
    """Base of everything that a journal raises."""

    #: Short stable name for logs and metrics.
    reason = "journal"


class CommitFailed(JournalError):
    """The group may not be durable."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        #: `disk_full`, `io_error`, `connection_lost`, `timeout`, `conflict`, `not_replicated` or `refused`.
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
        #: `disk_full`, `io_error`, `connection_lost`, `timeout` or `database_error`.
        self.reason = reason
        self.detail = detail


class JournalDamaged(JournalError):
    """The stored data is not what was written."""

    reason = "journal_damaged"


class JournalUnsupported(JournalError):
    """This version of the software cannot use the database."""

    reason = "journal_unsupported"
