"""A message's life in sentences: what happened, when after the start, and by which rule."""

from datetime import datetime
from typing import Any

from tocsin.core.protocol.priority import liminal_name

__all__ = ["explained"]

_HELD = "accepted ({rule}), and held for a director's word: {held}"
_SENTENCES = {
    "MessageAccepted": "accepted ({rule}); the recipient was {recipient_state}, the path {publish_path}",
    "MessageReleased": "let go by {by} ({approval}); its time to live counts from here",
    "MessageOffered": "put on its way to session {session}, time {offer}, after waiting {waited_us} µs",
    "MessageDelivered": "the recipient has it ({how})",
    "MessageAcknowledged": "acknowledged as {status}",
    "MessageRejected": "rejected: {reason}",
    "MessageRequeued": "back to the queue because of {cause}: retry {attempts} of {attempts_max}",
    "MessageReady": "the wait before the retry is over",
    "MessageProcessed": "its recipient is done with it ({how})",
    "MessageExpired": "ended unread: {reason}",
    "MessageRecalled": "taken back by {by} before anyone was offered it",
    "MessageBoosted": "raised from {old_level} to {new_level}: it waited over {threshold_s} s ({rule})",
    "PriorityInherited": "raised with {agent}, which {waiter} waits for ({through}): {agent} is lent {new_level}",
    "PriorityRestored": "back with {agent}, which was lent {old_level} and is lent {new_level}",
    "MessageDied": "went to the dead letters: {reason} ({code}): {detail}",
    "DeadLetterRedriven": "queued again by {by}",
    "DeadLetterPurged": "dropped from the dead letters: {reason}",
}


def explained(copy: dict[str, Any]) -> list[str]:
    """Tell one copy's life."""
    message, life = copy["message"], copy["life"]
    lines = [
        f"{message['signal_id']}: {message['message_type']} from {message['sender']} to {message['recipient']}, "
        f"{message['priority']}, now {message['state']}"
    ]
    start = datetime.fromisoformat(life[0]["at"]) if life and life[0]["at"] else None
    for happening in life:
        after = ""
        if start is not None and happening["at"]:
            after = f"+{(datetime.fromisoformat(happening['at']) - start).total_seconds():.3f} s"
        lines.append(f"  {after:>12}  {_sentence(happening)}")
    return lines


def _sentence(happening: dict[str, Any]) -> str:
    kind, facts = happening["kind"], happening["facts"]
    template = _HELD if kind == "MessageAccepted" and facts.get("held") else _SENTENCES.get(kind)
    if template is None:
        return f"{kind} {facts}"
    levels = {name: _level(value) for name, value in facts.items() if name.endswith("_level")}
    try:
        return template.format(**facts | levels)
    except KeyError:
        return f"{kind} {facts}"


def _level(value: int | None) -> str:
    return "nothing" if value is None else liminal_name(value)
