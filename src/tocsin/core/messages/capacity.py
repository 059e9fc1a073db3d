"""Room for another message: in the mailbox of its recipient, in what its sender may have unsettled, in the project.

Messages at Critical and above have a reserve beyond each limit.
"""

from tocsin.core.decision import Decision
from tocsin.core.errors import TocsinError, refusal
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Agent

__all__ = ["fits_notice", "over_mailbox", "over_sender_or_project"]


def over_mailbox(decision: Decision, recipient: Agent, priority: int, size: int) -> TocsinError | None:
    """Return the refusal of a message of some bytes for which the recipient's mailbox has no room."""
    limits, hint_s = decision.policy.limits, decision.policy.delivery.retry_hint_s
    depth_max = limits.mailbox_limit(priority)
    if recipient.mailbox.depth >= depth_max:
        return refusal(
            "E_ADMISSION_005",
            f"the mailbox of {recipient.agent} is full ({depth_max} messages): try again in {hint_s:g} s",
            retry_after_s=hint_s,
        )
    found, most = decision.state.volume.to(recipient.agent), limits.with_reserve(limits.mailbox_bytes_max, priority)
    return _over("E_ADMISSION_005", f"the mailbox of {recipient.agent}", found, size, most, hint_s)


def over_sender_or_project(decision: Decision, sender: str, priority: int, size: int) -> TocsinError | None:
    """Return the refusal of messages of some bytes in all that their sender or the project has no room for."""
    limits, volume, hint_s = decision.policy.limits, decision.state.volume, decision.policy.delivery.retry_hint_s
    found, most = volume.of(sender), limits.with_reserve(limits.sender_bytes_max, priority)
    over = _over("E_ADMISSION_008", f"what {sender} has unread with others", found, size, most, hint_s)
    if over is None:
        most = limits.with_reserve(limits.project_bytes_max, priority)
        over = _over("E_ADMISSION_008", "what is unread in the project", volume.unsettled, size, most, hint_s)
    return over


def fits_notice(decision: Decision, recipient: Agent, priority: int, size: int) -> bool:
    """Tell whether there is room for a notice of the bus, which may use the reserves of bytes."""
    limits, volume = decision.policy.limits, decision.state.volume
    return (
        recipient.mailbox.depth < limits.mailbox_limit(priority)
        and volume.to(recipient.agent) + size <= limits.with_reserve(limits.mailbox_bytes_max, Priority.CRITICAL)
        and volume.unsettled + size <= limits.with_reserve(limits.project_bytes_max, Priority.CRITICAL)
    )


def _over(code: str, what: str, found: int, size: int, most: int, hint_s: float) -> TocsinError | None:
    if found + size <= most:
        return None
    if size > most:
        return refusal(code, f"{what} has at most {most} bytes: {size} are too many", retryable=False)
    detail = f"{what} has {found} of at most {most} bytes, too many for {size} more: try again in {hint_s:g} s"
    return refusal(code, detail, retry_after_s=hint_s)
