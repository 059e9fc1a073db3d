"""The history of a message in sentences: each event with its rule, what was measured, and the limit.

The hub adds them to the reply of `trace_message`, so that the command line, the dashboard and MCP show the same words.
An event of an earlier version may lack figures; its sentence then names the rule alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.core.units import duration_text

__all__ = ["WAKER_REASON", "WAKE_FAILURES", "Explained", "Explainer", "Reason"]

Facts = Mapping[str, Any]
_MICROSECONDS = 1_000_000

#: Durations that have a name of their own.
_WINDOWS = {60.0: "minute", 3600.0: "hour", 86400.0: "day"}
_PRESENCE = {
    "available": "available",
    "not_available_stale": "stale (no heartbeat)",
    "not_available_offline": "offline",
}
_PATHS = {
    "pushed_to_ws": "pushed over its connection",
    "buffered_for_piggyback": "kept for its next call",
    "queued_offline": "kept until it is back",
}
_RECEIPTS = {
    "receipt": "it confirmed the receipt",
    "ack": "its ACK implies it",
    "nack": "its NACK implies it",
    "response": "its answer implies it",
    "next_call": "its next call confirmed it",
    "imported": "by the system that it was imported from",
}
_DONE = {"ack": "its ACK says so", "processed": "it said so", "response": "its answer implies it"}
#: Why a message was queued again, without figures.
_REQUEUES = {
    "session_ended": "the session ended before it confirmed the receipt",
    "receipt_timeout": "no receipt",
    "ack_timeout": "no acknowledgement",
    "nack": "the recipient rejected it and allowed a retry",
}
#: Why a message became a dead letter, in words, by the reason of the event.
_DEATHS = {
    "ack_timeout": "never acknowledged",
    "receipt_timeout": "handed out, but its receipt was never confirmed",
    "rejected": "rejected by its recipient",
    "recipient_gone": "its recipient left the project",
    "approval_refused": "refused by a director",
}
#: How the last line of a waker's output begins if it says in words why the waker has failed.
WAKER_REASON = "tocsin wake: "
#: Why a wake failed, in words, by the reason of the event.
WAKE_FAILURES = {
    "waker_failed": "its waker failed",
    "not_attached": "it opened no session",
    "not_taken": "it attached but did not take the message",
    "moot": "the message no longer waits",
    "retired": "it left the project",
}


class Reason(msgspec.Struct, frozen=True):
    """Why a decision came out as it did."""

    #: Name of the rule, such as `gaming`, `aging` or `ack_timeout`.
    rule: str
    #: What was measured, such as "7 of 7 messages at Blocking or above in the last minute"; empty if nothing was.
    measured: str = ""
    #: The limit, such as "50 %"; empty if there is none, or it was not recorded.
    limit: str = ""


class Explained(msgspec.Struct, frozen=True):
    """One event in words."""

    text: str
    reason: Reason | None = None


class Explainer:
    """Explains the events of one message, in order: some sentences need what happened before."""

    def __init__(self) -> None:
        """Begin with no event."""
        #: When its time to live began, microseconds.
        self._since: int | None = None

    def explain(self, kind: str, at: int | None, facts: Facts) -> Explained:
        """Return an event of the message in words; `at` is in microseconds, `facts` are its other fields."""
        if kind in ("MessageAccepted", "MessageReleased", "DeadLetterRedriven"):
            self._since = at
        try:
            if kind == "MessageExpired":
                return _expired(facts, self._since)
            if kind == "MessageRequeued":
                return _requeued(facts, at)
            return _SENTENCES[kind](facts)
        except KeyError:
            # A kind, or a field, of another version.
            return Explained(" ".join([kind, *(f"{name}={value}" for name, value in facts.items())]))


def _level(value: Any) -> str:
    if value is None:
        return "nothing"
    number = int(value)
    return PRIORITY_NAMES[number] if 0 <= number < len(PRIORITY_NAMES) else str(number)


def _accepted(facts: Facts) -> Explained:
    level, asked, rule = _level(facts["priority"]), _level(facts["requested"]), facts["rule"]
    lowered = f"accepted at {level} instead of {asked}" if level != asked else f"accepted at {level}"
    limit = facts.get("limit")
    match rule:
        case "as_requested":
            text, reason = f"accepted at {level}, as requested", Reason(rule)
        case "contract_default":
            text, reason = f"accepted at {level}, the default of its type", Reason(rule)
        case "role_cap":
            reason = Reason(rule, f"{asked} requested", f"{_level(limit)} for the sender's role" if limit else "")
            text = f"{lowered}: the sender's role may use no more"
        case "gaming" if limit is not None and facts.get("window_s"):
            share = f"{facts['high']} of {facts['messages']} messages"
            reason = Reason(
                rule, f"{share} at Blocking or above in the last {_window(facts['window_s'])}", f"{100 * limit:.3g} %"
            )
            text = f"{lowered}, because its sender inflates priorities: {reason.measured}, limit {reason.limit}"
        case "gaming":
            text, reason = f"{lowered}, because its sender inflates priorities", Reason(rule)
        case "confirmation":
            text, reason = f"accepted at {level} as a confirmation, which costs nothing", Reason(rule)
        case "imported":
            text, reason = f"imported at {level}", Reason(rule)
        case _:
            text, reason = f"{lowered} ({rule})", Reason(str(rule))
    if facts.get("tokens") is not None:
        text += f", {facts['tokens']:.0f} tokens left"
    if facts.get("held"):
        return Explained(f"{text}; held until a director decides ({facts['held']})", reason)
    presence, path = _PRESENCE.get(facts["recipient_state"]), _PATHS.get(facts["publish_path"])
    if facts["recipient_state"] == "available" and facts["publish_path"] == "queued_offline":
        path = "kept until it takes more"
    where = f"; the recipient was {presence}" if presence else ""
    return Explained(text + where + (f", {path}" if path and presence else ""), reason)


def _offered(facts: Facts) -> Explained:
    again = "" if facts["offer"] <= 1 else f", offer {facts['offer']}"
    return Explained(f"handed out to session {facts['session']}{again}, after waiting {_micro(facts['waited_us'])}")


def _requeued(facts: Facts, at: int | None) -> Explained:
    cause, timeout_s = facts["cause"], facts["threshold_s"]
    why = _REQUEUES.get(cause, str(cause))
    measured = f"{why} within {duration_text(timeout_s)}" if timeout_s else why
    attempts, most = facts["attempts"], facts["attempts_max"]
    if cause == "session_ended":
        return Explained(f"queued again: {measured}", Reason(cause, measured))
    wait_us = 0 if at is None else facts["ready_at"] - at
    later = f", in {_micro(wait_us)}" if wait_us > 0 else ""
    reason = Reason(cause, f"{measured}, retry {attempts}", f"{most} retries")
    return Explained(f"queued again: {measured}; retry {attempts} of {most}{later}", reason)


def _expired(facts: Facts, since: int | None) -> Explained:
    if facts["reason"] == "stale":
        measured, limit = f"importance {facts['importance']:.2g}", f"{facts['threshold']:g}"
        text = f"expired: its importance fell to {facts['importance']:.2g}, stale below {limit}"
        return Explained(text, Reason("stale", measured, limit))
    limit = "" if since is None else _micro(facts["due_at"] - since)
    text = f"expired: it was not handed out within its time to live{f' of {limit}' if limit else ''}"
    return Explained(text, Reason("ttl", "not handed out", limit))


def _boosted(facts: Facts) -> Explained:
    old, new, limit = _level(facts["old_level"]), _level(facts["new_level"]), duration_text(facts["threshold_s"])
    moved = f"raised from {old} to {new}" if old != new else f"raised within {new}"
    front = f", to the front of {new}" if facts["overdue"] else ""
    measured = f"it waited {_micro(facts['age_us'])}"
    by = "aging" if facts["rule"] == "aging" else "an escalation"
    text = f"{moved}{front} by {by}: {measured}, limit {limit}"
    return Explained(text, Reason(str(facts["rule"]), measured, limit))


def _died(facts: Facts) -> Explained:
    reason, detail = facts["reason"], facts["detail"]
    attempts, most, timeout_s = facts["attempts"], facts.get("attempts_max") or 0, facts.get("threshold_s") or 0.0
    if not timeout_s:
        used = f", {attempts} of {most} retries used" if most else ""
        why = f"{_DEATHS.get(reason, reason)}{used}"
        return Explained(f"became a dead letter: {why} ({facts['code']}): {detail}", Reason(reason, detail))
    what = "no acknowledgement" if reason == "ack_timeout" else "no receipt"
    what += f" within {duration_text(timeout_s)}"
    text = f"became a dead letter: {what}, {attempts} of {most} retries used ({facts['code']})"
    return Explained(text, Reason(reason, f"{what}, {attempts} retries used", f"{most} retries"))


def _purged(facts: Facts) -> Explained:
    limit = facts.get("limit")
    if facts["reason"] == "age":
        most = "" if limit is None else duration_text(limit)
        return Explained(
            f"removed from the dead letters: too old{f', limit {most}' if most else ''}", Reason("age", "", most)
        )
    reason, unit = str(facts["reason"]), "bytes" if facts["reason"] == "bytes" else "dead letters"
    most = "" if limit is None else f"{limit:.0f} {unit}"
    text = f"removed from the dead letters: too many {'bytes' if unit == 'bytes' else 'of them'}"
    return Explained(f"{text}{f', limit {most}' if most else ''}", Reason(reason, "", most))


def _inherited(facts: Facts) -> Explained:
    level, through = _level(facts["new_level"]), facts["through"]
    agent, waiter = facts["agent"], facts["waiter"]
    text = f"raised because {waiter} waits for {agent} ({through}): {agent} inherits {level}"
    return Explained(text, Reason("inheritance", f"{waiter} waits for {agent} ({through})", level))


def _restored(facts: Facts) -> Explained:
    old, new = _level(facts["old_level"]), _level(facts["new_level"])
    return Explained(f"restored: {facts['agent']} inherited {old} and inherits {new} now", Reason("inheritance"))


def _rejected(facts: Facts) -> Explained:
    retry = "a retry is allowed" if facts["can_retry"] else "for good"
    fix = f"; suggested fix: {facts['suggested_fix']}" if facts.get("suggested_fix") else ""
    return Explained(f"rejected, {retry}: {facts['reason']}{fix}", Reason("nack", str(facts["reason"])))


def _acknowledged(facts: Facts) -> Explained:
    notes = f": {facts['notes']}" if facts.get("notes") else ""
    return Explained(f"acknowledged as {facts['status']}, {_micro(facts['latency_us'])} after the offer{notes}")


def _window(seconds: float) -> str:
    """Return the length of a window as in "the last minute"."""
    return _WINDOWS.get(seconds) or duration_text(seconds)


def _wake_requested(facts: Facts) -> Explained:
    again = "" if facts["attempt"] == 1 else f", attempt {facts['attempt']}"
    measured, limit = f"it waited {_micro(facts['waited_us'])}", duration_text(facts["threshold_s"])
    text = f"waking {facts['agent']}{again}: it has no live session and {measured}, limit {limit} ({facts['wake']})"
    return Explained(text, Reason("wake", measured, limit))


def _wake_failed(facts: Facts) -> Explained:
    attempt, most, timeout_s = facts["attempt"], facts["attempts_max"], facts["threshold_s"]
    why = WAKE_FAILURES.get(facts["reason"], str(facts["reason"]))
    why += (f" within {duration_text(timeout_s)}" if timeout_s else "") + (
        f": {facts['detail']}" if facts["detail"] else ""
    )
    after = "; given up and escalated" if facts["final"] else "; it is tried again" if facts["retry_at"] else ""
    text = f"waking {facts['agent']} failed, attempt {attempt} of {most}: {why}{after} ({facts['wake']})"
    return Explained(text, Reason(str(facts["reason"]), f"{why}, attempt {attempt}", f"{most} attempts"))


def _channel_ignored(facts: Facts) -> Explained:
    measured, limit = f"no call in {_micro(facts['waited_us'])}", duration_text(facts["threshold_s"])
    text = (
        f"{facts['agent']} was notified through its channel and made {measured}, limit {limit} "
        f"({facts['notifications']} notifications): the channel no longer counts as a way to it ({facts['session']})"
    )
    return Explained(text, Reason("channel_ignored", measured, limit))


def _micro(microseconds: float) -> str:
    return duration_text(microseconds / _MICROSECONDS)


_SENTENCES: dict[str, Callable[[Facts], Explained]] = {
    "MessageAccepted": _accepted,
    "MessageReleased": lambda facts: Explained(
        f"released by {facts['by']} ({facts['approval']}); its time to live starts now"
    ),
    "MessageOffered": _offered,
    "MessageDelivered": lambda facts: Explained(
        f"received by the recipient: {_RECEIPTS.get(facts['how'], facts['how'])}"
    ),
    "MessageAcknowledged": _acknowledged,
    "MessageRejected": _rejected,
    "MessageReady": lambda facts: Explained("ready for the retry"),
    "MessageProcessed": lambda facts: Explained(
        f"processed by the recipient: {_DONE.get(facts['how'], facts['how'])}, "
        f"{_micro(facts['latency_us'])} after delivery"
    ),
    "MessageRecalled": lambda facts: Explained(f"recalled by {facts['by']} before it was handed out"),
    "MessageBoosted": _boosted,
    "PriorityInherited": _inherited,
    "PriorityRestored": _restored,
    "AgentWakeRequested": _wake_requested,
    "AgentWoken": lambda facts: Explained(
        f"{facts['agent']} was woken and took it {_micro(facts['took_us'])} "
        f"after the wake was requested ({facts['wake']})"
    ),
    "AgentWakeFailed": _wake_failed,
    "ChannelIgnored": _channel_ignored,
    "MessageDied": _died,
    "DeadLetterRedriven": lambda facts: Explained(f"redriven by {facts['by']}: queued again with a new time to live"),
    "DeadLetterPurged": _purged,
    "MessagesForgotten": lambda facts: Explained("its content is no longer kept in memory for a late rejection"),
}
