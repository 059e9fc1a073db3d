"""Refusals as a model reads them: what is wrong, where in its own arguments, and what to do next."""

from collections.abc import Iterable

import msgspec

from tocsin.core.errors import CATALOGUE, Problem
from tocsin.gateways.mcp.tool_call import Refused
from tocsin.wire.problems import ProblemDocument, document_of

__all__ = ["RefusalView", "refusal_view", "refused"]

_ARGUMENT = "Repair the argument that `field` names so that it is what `expected` says, and call again."
_TOKEN = "Calling again does not help: ask whoever set this server up for a new token."  # noqa: S105
_WAIT = "Wait `retry_after_s` seconds and call again, or send with a lower priority."
_AGAIN = "Nothing is wrong with the call: repeat it in a few seconds, with the same own_id if you gave one."
#: What to do next, by code; the catalogue's remedy where a code is not here.
_REPAIR = {
    "E_VALIDATION_001": _ARGUMENT,
    "E_VALIDATION_002": _ARGUMENT,
    "E_VALIDATION_003": _ARGUMENT,
    "E_VALIDATION_004": _ARGUMENT,
    "E_VALIDATION_005": "Say less, or say where the rest can be found.",
    "E_ROUTING_001": "Call list_agents, and use one of the names in it.",
    "E_ROUTING_002": "Call list_agents for names and types: this message type may go to some types only.",
    "E_ROUTING_003": "No hub answers. Start one with `tocsin serve`, or go on and call again later.",
    "E_PROTOCOL_002": "Send plain JSON, not nested deeper than a few hundred levels.",
    "E_PROTOCOL_003": "Use the correlation_id of the message that you answer; reply_message does it by itself.",
    "E_ADMISSION_001": _WAIT,
    "E_ADMISSION_002": _WAIT,
    "E_ADMISSION_003": _WAIT,
    "E_ADMISSION_004": "Send with a lower priority: your role may not use this one.",
    "E_ADMISSION_005": "The recipient has too much to read. Wait, or tell somebody else.",
    "E_ADMISSION_006": "The recipient is not there. Send with delivery_class async to leave it in its mailbox.",
    "E_ADMISSION_007": "Leave own_id out, or use a new one: this one belongs to another message.",
    "E_ADMISSION_008": "Wait and call again with fewer calls at a time.",
    "E_AUTH_001": _TOKEN,
    "E_AUTH_004": _TOKEN,
    "E_AUTH_005": _TOKEN,
    "E_AUTH_003": "Ask a director or a human to do it: your role may not.",
    "E_AUTH_006": "This hub takes signed messages only: use `tocsin mcp`, which signs.",
    "E_AUTH_007": "Call register_agent once, then repeat this call.",
    "E_STATE_001": "Check the id: fetch_inbox and search_messages show those of messages; list_requests, "
    "list_approvals, list_discussions, list_escalations the others. Only what is yours, and not over, is found.",
    "E_STATE_002": "`detail` says how things stand. Of a message, get_message with life tells what happened to it. Of "
    "work, begin_work begins or takes it up again; only what you work on can be paused or finished.",
    "E_LEASE_001": "It is not yours: acquire_lease gets it, list_leases says who has it.",
    "E_LEASE_002": "Leave wait_s out to wait in line, do something else first, or ask the holder.",
    "E_LEASE_003": "It lapsed: others may have it. Acquire it again, and look at what changed meanwhile.",
    "E_LEASE_004": "You and others waited for each other. Release what you hold, then ask again, for all at once.",
    "E_LEASE_005": "Name at least one resource; globs know *, ?, [a-z] and **.",
    "E_HUB_001": _AGAIN,
    "E_HUB_002": _AGAIN,
    "E_HUB_003": _AGAIN,
    "E_HUB_006": _AGAIN,
    "E_HUB_007": _AGAIN,
}
#: The same by an argument that the tool has, where the code alone would mislead.
_REPAIR_OF = {
    (
        "E_STATE_001",
        "discussion",
    ): "Use the id that open_discussion gave, or a DiscussionOpened in your inbox. Only who "
    "takes part may vote; of one that is over, a DiscussionClosed says how it ended.",
    ("E_STATE_001", "approval"): "Call list_approvals for those that are open.",
    ("E_STATE_001", "escalation"): "Call list_escalations for those that there are.",
}


class RefusalView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a call was refused, and what to do next."""

    #: Stable code of the kind, such as `E_ROUTING_001`.
    code: str
    #: Stable name of the kind, such as `unknown_recipient`.
    error_code: str
    #: This case in a sentence.
    detail: str
    #: What to do next.
    repair: str
    #: Whether the very same call may succeed later.
    retryable: bool
    #: After how many seconds, where that is known.
    retry_after_s: float | None = None
    #: The offending argument.
    field: str | None = None
    #: What was found there.
    found: str | None = None
    #: What would be right.
    expected: str | None = None
    #: Further facts, such as `recipient_state`.
    facts: dict[str, object] = {}


def refused(problem: Problem, repair: str = "") -> Refused:
    """Make the refusal of a problem."""
    return Refused(document_of(problem), repair)


def refusal_view(
    document: ProblemDocument, names: dict[str, str], arguments: Iterable[str] = (), repair: str = ""
) -> RefusalView:
    """Say it to a model; `names` are its arguments by the envelope's field that each becomes."""
    entry = CATALOGUE.get(document.code)
    known = (_REPAIR_OF.get((document.code, argument)) for argument in arguments)
    repair = repair or next(filter(None, known), None) or _REPAIR.get(document.code, "")
    remedy = "" if entry is None else f"What usually helps: {entry.remedy}."
    field, detail = document.field, document.detail
    if field is not None:
        argument = _argument(field, names)
        field, detail = argument, detail.replace(field, argument)
    return RefusalView(
        code=document.code,
        error_code=document.error_code,
        detail=detail,
        repair=repair or remedy or "Report it: this should not happen.",
        retryable=document.retryable,
        retry_after_s=document.retry_after_s,
        field=field,
        found=document.found,
        expected=document.expected,
        facts=document.facts,
    )


def _argument(field: str, names: dict[str, str]) -> str:
    """Return the argument that a field of the envelope came from."""
    for name in sorted(names, key=len, reverse=True):
        if field == name or field.startswith((name + ".", name + "[")):
            return names[name] + field[len(name) :]
    return field.removeprefix("$.")
