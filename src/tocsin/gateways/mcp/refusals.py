"""Refusals for models: what is wrong, in which argument, and what to do next."""

import re
from collections.abc import Iterable, Mapping

import msgspec

from tocsin.core.errors import CATALOGUE, Entry, Problem
from tocsin.wire.problems import HTTP_ENTRIES

__all__ = ["INTERNAL_ERROR", "Refusal", "refusal_lines", "refusal_of"]

#: Code of a failure of the server itself.
INTERNAL_ERROR = HTTP_ENTRIES[500].code
_ENTRIES: dict[str, Entry] = CATALOGUE | {entry.code: entry for entry in HTTP_ENTRIES.values()}
#: A field of an envelope or of arguments in a text.
_FIELD = re.compile(r"\$(?:\.[A-Za-z_]\w*|\[\d+\])+")
_ARGUMENT = "Correct the argument in `field` so that it is what `expected` describes, and call again."
_TOKEN = "Calling again does not help: ask the person who set up this server for a new token."  # noqa: S105
_WAIT = "Wait `retry_after_s` seconds and call again, or send with a lower priority."
_AGAIN = "The call was correct: repeat it in a few seconds, with the same message_id if you gave one."
#: What to do next, by code; the catalogue's remedy if a code is absent.
_REPAIR = {
    "E_VALIDATION_001": _ARGUMENT,
    "E_VALIDATION_002": _ARGUMENT,
    "E_VALIDATION_003": _ARGUMENT,
    "E_VALIDATION_004": _ARGUMENT,
    "E_VALIDATION_005": "Send less, or send where the rest can be found.",
    "E_ROUTING_001": "Call list_team, and use one of its names.",
    "E_ROUTING_002": "Call list_team for names and types: some message types are only for some agent types.",
    "E_ROUTING_003": "No hub answers. Start one with `tocsin serve`, or continue and call again later.",
    "E_PROTOCOL_002": "Send JSON that is not nested deeper than a hundred levels.",
    "E_PROTOCOL_003": "Use the correlation_id of the message that you answer; reply_message does.",
    "E_ADMISSION_001": _WAIT,
    "E_ADMISSION_002": _WAIT,
    "E_ADMISSION_003": _WAIT,
    "E_ADMISSION_004": "Send with a lower priority: your role may not use this one.",
    "E_ADMISSION_005": "The recipient's mailbox is full. Wait, or send to another agent.",
    "E_ADMISSION_006": "The recipient is not available. Send with delivery_class async to leave it in its mailbox.",
    "E_ADMISSION_007": "Omit message_id or use a new one: this one belongs to another message.",
    "E_ADMISSION_008": "`detail` names the limit. Wait, free something, or do less at a time, then call again.",
    "E_AUTH_001": _TOKEN,
    "E_AUTH_004": _TOKEN,
    "E_AUTH_005": _TOKEN,
    "E_AUTH_003": "Ask a director or a human to do it: your role may not.",
    "E_AUTH_006": "This hub accepts signed messages only: use `tocsin mcp`, which signs.",
    "E_AUTH_007": "Call register_agent once, then repeat this call.",
    "E_STATE_001": "Check the id: fetch_inbox and search_messages show those of messages; list_requests, "
    "list_approvals, list_discussions and list_escalations the others. Only open ones of your own are found.",
    "E_STATE_002": "`detail` describes the current state. For a message, trace_message shows what happened to it. For "
    "work, begin_work starts it and resume_work continues it; only current work can be paused or finished.",
    "E_LEASE_001": "You do not hold it: acquire_lease acquires it, list_leases shows who holds it.",
    "E_LEASE_002": "Omit wait_s to wait in the queue, do something else first, or ask the holder.",
    "E_LEASE_003": "It lapsed: others may hold it. Acquire it again, and check what changed meanwhile.",
    "E_LEASE_004": "You and others waited for each other. Release what you hold, then acquire all of it at once.",
    "E_LEASE_005": "Name at least one resource; globs may contain *, ?, [a-z] and **, but only a few of them.",
    "E_HUB_001": _AGAIN,
    "E_HUB_002": _AGAIN,
    "E_HUB_003": _AGAIN,
    "E_HUB_006": _AGAIN,
    "E_HUB_007": _AGAIN,
}
#: The same by code and an argument that is at fault, or that the tool has, where the code alone would mislead.
_REPAIR_OF = {
    ("E_ROUTING_002", "message_id"): "No answer is expected: do what the message asks, and acknowledge_message it if "
    "its type requires that.",
    ("E_STATE_001", "discussion"): "Use the id from open_discussion or from a DiscussionOpened in your inbox. Only "
    "participants may vote; when it ends, a DiscussionClosed has the outcome.",
    ("E_STATE_001", "approval"): "Call list_approvals for the open ones.",
    ("E_STATE_001", "escalation"): "Call list_escalations for the existing ones.",
}


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason why a call was refused, and what to do next."""

    #: Stable code, such as `E_ROUTING_001`.
    code: str
    #: Stable name, such as `unknown_recipient`.
    error_code: str
    #: This case in a sentence.
    detail: str
    #: What to do next.
    repair: str
    #: Whether the same call may succeed later.
    retryable: bool
    #: After how many seconds, if that is known.
    retry_after_s: float | None = None
    #: The argument at fault.
    field: str | None = None
    #: What was found there.
    found: str | None = None
    #: What would be right.
    expected: str | None = None
    #: Further facts, such as `recipient_state`.
    facts: dict[str, object] = {}


def refusal_of(problem: Problem, arguments: Iterable[str] = (), names: Mapping[str, str] | None = None) -> Refusal:
    """Return a problem as a refusal of a tool; `names` are its arguments by the envelope's field that each becomes."""
    entry = _ENTRIES.get(problem.code)
    field, detail = problem.field, problem.detail
    if field is not None:
        known_as = names or {}
        field = _argument(field, known_as)
        detail = _FIELD.sub(lambda found: _argument(found[0], known_as), detail)
    # An id that was not found has no field: the tool's arguments tell what kind of id it was.
    known = [field] if field is not None else [*arguments]
    special = (_REPAIR_OF.get((problem.code, argument)) for argument in known)
    remedy = "" if entry is None else f"What usually helps: {entry.remedy}."
    return Refusal(
        code=problem.code,
        error_code="unknown" if entry is None else entry.name,
        detail=detail,
        repair=next(filter(None, special), None) or _REPAIR.get(problem.code) or remedy or "Report it: this is a bug.",
        retryable=problem.retryable,
        retry_after_s=problem.retry_after_s,
        field=field,
        found=problem.found,
        expected=None
        if problem.expected is None
        else _FIELD.sub(lambda found: _argument(found[0], names or {}), problem.expected),
        facts=problem.facts,
    )


def refusal_lines(refusal: Refusal) -> list[str]:
    """Return a refusal as lines of text."""
    lines = [f"Refused: {refusal.code} {refusal.error_code}: {refusal.detail}"]
    for name in ("field", "found", "expected", "retry_after_s"):
        value = getattr(refusal, name)
        if value is not None:
            lines.append(f"{name}: {value}")
    return [*lines, refusal.repair]


def _argument(field: str, names: Mapping[str, str]) -> str:
    """Return the argument that a field of the envelope was made from."""
    for name in sorted(names, key=len, reverse=True):
        if field == name or field.startswith((name + ".", name + "[")):
            return names[name] + field[len(name) :]
    return field.removeprefix("$.")
