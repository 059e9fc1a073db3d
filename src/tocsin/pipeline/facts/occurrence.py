"""Events of the kinds that happen rarely, one row each, with the fields that views need.

Views count and list them: refusals, recalls, boosts, deadlocks, inherited priority, dropped frames, decay rates,
leases, escalations, wakes and policies. Rows are only ever added, so a batch costs what is new in it, and a kind that
did not occur costs nothing.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.schemas import EVENT
from tocsin.pipeline.tables.table import Table

__all__ = ["OCCURRENCE", "OCCURRENCE_KINDS"]

#: The kinds, each with the fields that are kept.
OCCURRENCE_KINDS: dict[str, tuple[str, ...]] = {
    "SendRefused": ("sender", "message_type", "code", "requested", "retry_after_s"),
    "BroadcastAccepted": ("sender", "message_type", "failed"),
    "MessageRecalled": (),
    "RecallRefused": ("outcome",),
    "MessageBoosted": ("rule", "old_level", "new_level", "overdue", "age_us"),
    "DeadlockFound": ("cycle", "waits", "victim", "refused"),
    "PriorityInherited": ("agent", "new_level", "raised"),
    "PriorityRestored": ("agent", "new_level", "raised"),
    "FramesShed": ("subscriber_priority", "published", "offered", "dropped", "shed"),
    "DecayRateChanged": ("old_rate", "new_rate", "average_s", "samples", "threshold_s", "rule"),
    "LeaseQueued": ("lease", "agent", "exclusive", "shared", "level", "place"),
    "LeaseGranted": ("lease", "holder", "exclusive", "shared", "level", "waited_us"),
    "LeaseRenewed": ("lease",),
    "LeaseExpiring": ("lease",),
    "LeaseWaitEnded": ("lease", "reason", "waited_us"),
    "LeaseReleased": ("lease", "resources", "reason"),
    "LeaseLapsed": ("lease", "resources"),
    "LeaseReclaimed": ("lease", "resources"),
    "EscalationOpened": ("escalation", "rule", "trigger", "subject", "cause", "threshold", "about"),
    "EscalationMoved": ("escalation", "new_state", "by"),
    "AgentWakeRequested": ("agent", "wake", "message", "attempt", "level"),
    "AgentWoken": ("wake",),
    "AgentWakeFailed": ("wake", "reason", "final"),
    "PolicyAdopted": ("policy_version", "by", "reason", "policy"),
}
_FIELDS = tuple(dict.fromkeys(field for fields in OCCURRENCE_KINDS.values() for field in fields))
_KNOWN = {column.name: column for column in EVENT}
_KINDS = ", ".join(f"'{kind}'" for kind in OCCURRENCE_KINDS)

OCCURRENCE = Table(
    name="occurrence",
    layer="facts",
    about="Events of the kinds that happen rarely, one row each, with the fields that views need.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day of the event, UTC."),
        ("seq", "bigint", "Sequence number of the event in its project's journal."),
        ("kind", "string", "Name of the event type."),
        ("us", "bigint", "Time of the event, microseconds since the epoch."),
        *(
            (
                field,
                _KNOWN[field].type,
                "Field of "
                + ", ".join(f"`{kind}`" for kind, fields in OCCURRENCE_KINDS.items() if field in fields)
                + ".",
            )
            for field in _FIELDS
        ),
    ),
    reads=("event",),
    sql=f"""
SELECT project, date, seq, kind, "at" AS us, {", ".join(f'"{field}"' for field in _FIELDS)}
FROM event WHERE kind IN ({_KINDS}) AND (kind <> 'BroadcastAccepted' OR len(failed) > 0)
ORDER BY kind, seq
""",
)
