"""The history of a message in sentences: each event, its time after the first, and the rule behind it."""

from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.wire.history import HistoryEntry, MessageHistory

__all__ = ["explained"]

_HELD = "accepted ({rule}), and held until a director decides: {held}"
_SENTENCES = {
    "MessageAccepted": "accepted ({rule}); the recipient was {recipient_state}, the path {publish_path}",
    "MessageReleased": "released by {by} ({approval}); its time to live starts now",
    "MessageOffered": "handed out to session {session}, offer {offer}, after waiting {waited_us} µs",
    "MessageDelivered": "received by the recipient ({how})",
    "MessageAcknowledged": "acknowledged as {status}",
    "MessageRejected": "rejected: {reason}",
    "MessageRequeued": "queued again because of {cause}: retry {attempts} of {attempts_max}",
    "MessageReady": "ready for the retry",
    "MessageProcessed": "processed by the recipient ({how})",
    "MessageExpired": "expired: {reason}",
    "MessageRecalled": "recalled by {by} before it was handed out",
    "MessageBoosted": "raised from {old_level} to {new_level}: it waited longer than {threshold_s} s ({rule})",
    "PriorityInherited": "raised because {waiter} waits for {agent} ({through}): {agent} inherits {new_level}",
    "PriorityRestored": "restored: {agent} inherited {old_level} and inherits {new_level} now",
    "MessageDied": "became a dead letter: {reason} ({code}): {detail}",
    "DeadLetterRedriven": "redriven by {by}",
    "DeadLetterPurged": "removed from the dead letters: {reason}",
}


def explained(copy: MessageHistory) -> list[str]:
    """Return the history of one copy of a message, a line for each event."""
    message = copy.message
    lines = [
        f"{message.signal_id}: {message.type} from {message.sender} to {message.recipient}, "
        f"{message.priority}, now {message.state}"
    ]
    start = copy.history[0].at if copy.history else None
    for entry in copy.history:
        after = "" if start is None or entry.at is None else f"+{(entry.at - start).total_seconds():.3f} s"
        lines.append(f"  {after:>12}  {_sentence(entry)}")
    return lines


def _sentence(entry: HistoryEntry) -> str:
    kind, facts = entry.kind, entry.facts
    template = _HELD if kind == "MessageAccepted" and facts.get("held") else _SENTENCES.get(kind)
    if template is None:
        return f"{kind} {facts}"
    levels = {name: _level(value) for name, value in facts.items() if name.endswith("_level")}
    try:
        return template.format(**facts | levels)
    except KeyError:
        return f"{kind} {facts}"


def _level(value: int | None) -> str:
    return "nothing" if value is None else PRIORITY_NAMES[value]
