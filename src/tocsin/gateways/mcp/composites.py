"""Tools that are more than one operation: those that send a message, and fetch_inbox.

Every other tool is its operation as it is (`tools`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.core.commands import SYSTEM, Published, Receipt
from tocsin.core.commands.base import AgentName, MessageRef
from tocsin.core.commands.messages import Reach
from tocsin.core.errors import CATALOGUE, Problem, refusal
from tocsin.core.protocol.envelope import MessageId, TypeName
from tocsin.core.protocol.priority import AnyPriorityName
from tocsin.gateways.mcp.drafts import arguments_with_draft, required_fields, write_draft
from tocsin.gateways.mcp.inbox import Fetched, ShownMessage, fetch
from tocsin.gateways.mcp.parts import MessagePart, fetch_part
from tocsin.gateways.mcp.refusals import refusal_of
from tocsin.gateways.mcp.text import quoted
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.wire.arguments import fields_of
from tocsin.wire.messages import FetchInbox, SendReply
from tocsin.wire.operation import Operation, Request
from tocsin.wire.table import OPERATIONS

__all__ = ["COMPOSITES", "HANDLERS", "Outcome", "send_draft"]

#: The longest that one call waits for an answer, seconds: some clients give up on a call after a minute.
WAIT_MAX_S = 50.0
#: Messages fetched in search of an answer; those before it are returned with it.
_BEFORE_MAX = 20
#: Between two checks for an answer, seconds: first and longest.
_CHECK_S, _CHECK_MAX_S = 0.05, 0.5
_ACK, _NACK, _REPORT = "ACK", "NACK", "ERROR_REPORT"
#: Code of a rejection that has none of the catalogue.
_REJECTED = "E_TASK_003"


class Outcome(msgspec.Struct, frozen=True):
    """The result of a tool call."""

    #: The reply as JSON values, for programs.
    reply: Any
    #: The same for models.
    text: str
    #: Number of waiting messages by priority; set by tools that fetch messages themselves.
    waiting: dict[str, int] | None = None
    #: Cursors of the messages that it fetched.
    cursor: str = ""


Handler: TypeAlias = Callable[[ToolCall, Any], Awaitable[Outcome]]


class ShownReceipt(Receipt, frozen=True, kw_only=True, omit_defaults=True):
    """A receipt for models, which pay for each word: what is as usual is left out."""

    #: Absent if it is the `signal_id`.
    message_id: str = ""
    #: Absent if it is the `to` of the call.
    recipient: str = ""
    #: Priorities are absent if the one that was requested was granted.
    priority: AnyPriorityName | UnsetType = UNSET  # type: ignore[assignment]
    requested_priority: AnyPriorityName | UnsetType = UNSET  # type: ignore[assignment]
    durability: str
    copies: int = 1
    reach: Reach


class SentMessage(SendReply, frozen=True, kw_only=True, omit_defaults=True):
    """The result of sending a message."""

    receipt: ShownReceipt | None = None
    receipts: tuple[ShownReceipt, ...] = ()
    #: To recall it, or to send it again without sending it twice; absent if it is the `signal_id` of the receipt.
    message_id: str = ""
    #: The thread that it belongs to; absent if the message opens it.
    correlation_id: str | None = None


class PublishedMessage(Published, frozen=True, kw_only=True):
    """The result of a publication."""

    receipts: tuple[ShownReceipt, ...] = ()
    message_id: str
    correlation_id: str | None = None


class _Publication(Request, frozen=True):
    type: Annotated[TypeName, Meta(description="Message type, as in post_message.")] = "StatusUpdate"


class _Question(Request, frozen=True):
    to: Annotated[AgentName, Meta(description="Agent to ask.")]
    type: Annotated[TypeName, Meta(description="As in post_message.")] = "Question"
    wait_s: Annotated[float, Meta(ge=0, le=WAIT_MAX_S, description="Seconds that this call waits.")] = 25.0


class NoAnswer(msgspec.Struct, frozen=True):
    """The reason why a request is not answered."""

    code: str
    detail: str
    #: What to do next.
    repair: str


class RequestOutcome(msgspec.Struct, frozen=True):
    """A request and its answer, if there is one."""

    #: To cancel it; or, as message_id with the same content, to wait for the answer again.
    request: str
    #: The thread of the answer.
    correlation_id: str
    #: `answered`; `waiting`: no answer yet; `failed`: there will be none; `ended`: it ended, and the message that ended
    #: it was delivered before.
    state: str
    #: The answer, delivered with this result.
    answer: ShownMessage | None = None
    #: Why there is none.
    problem: NoAnswer | None = None
    #: Messages that were more urgent than the answer, delivered with this result.
    messages: list[ShownMessage] = []


class _Answered(Request, frozen=True):
    message_id: Annotated[MessageRef, Meta(description="The message to answer.")]
    reply_id: Annotated[
        MessageId | None,
        Meta(description="Your own id for the reply, to repeat a call without sending twice."),
    ] = None
    type: Annotated[
        TypeName,
        Meta(description="A TASK_ASSIGNMENT is answered with TASK_UPDATE: " + required_fields("TASK_UPDATE") + "."),
    ] = "StatusUpdate"


class _Fetch(FetchInbox, frozen=True, kw_only=True):
    part: Annotated[
        int,
        Meta(ge=1, description="Part of the message message_id to return, for one that is too large for an answer."),
    ] = 1


class FetchedMessages(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fetched messages, the most urgent first."""

    messages: list[ShownMessage]
    #: A part of a message that is too large for an answer.
    part: MessagePart | None = None


#: What reaches a recipient, by the `reach` of a receipt.
_REACHED_BY = {
    "push": "its connection",
    "channel": "its channel",
    "hook": "its next check or call",
    "waker": "its waker",
    "none": "nothing until it connects",
}


async def send_draft(tool_call: ToolCall, operation: Operation, given: Any, **fixed: Any) -> tuple[str, str, Any]:
    """Perform an operation that sends a message; return its messageId, its thread and the reply."""
    written, thread = await write_draft(tool_call, given, **fixed)
    names = fields_of(operation.request).__struct_fields__
    arguments = {name: value for name in names if (value := getattr(given, name)) is not None}
    reply = await tool_call.ask(operation.name, arguments, bytes(written.envelope))
    return written.message_id, thread or "", reply


async def send_message(tool_call: ToolCall, given: Any, **fixed: Any) -> Outcome:
    """Send a message."""
    message_id, thread, reply = await send_draft(tool_call, OPERATIONS["send_message"], given, **fixed)
    receipts = reply.get("receipts") or ([reply["receipt"]] if "receipt" in reply else [])
    text = f"{message_id} is stored for {_recipients(receipts, reply)}"
    return Outcome(_sent(message_id, thread, reply, getattr(given, "to", "")), text)


async def publish_topic(tool_call: ToolCall, given: Any) -> Outcome:
    """Publish a message."""
    message_id, thread, reply = await send_draft(tool_call, OPERATIONS["publish_topic"], given)
    text = f"{message_id} is published to {_recipients(reply['receipts'], reply)}"
    return Outcome(_sent(message_id, thread, reply), text)


def _sent(message_id: str, thread: str, reply: dict[str, Any], to: str = "") -> dict[str, Any]:
    """Return the reply of a send without what the caller knows."""
    shown = dict(reply)
    if "receipt" in reply:
        shown["receipt"] = _shown_receipt(reply["receipt"], to)
    if "receipts" in reply:
        shown["receipts"] = [_shown_receipt(receipt) for receipt in reply["receipts"]]
    is_named = reply.get("receipt", {}).get("signal_id") == message_id
    names = ({} if is_named else {"message_id": message_id}) | (
        {"correlation_id": thread} if thread not in ("", message_id) else {}
    )
    return names | shown


def _shown_receipt(receipt: dict[str, Any], to: str = "") -> dict[str, Any]:
    usual = {"message_id": receipt["signal_id"], "recipient": to, "duplicate": False, "held": False, "copies": 1}
    if receipt["priority"] == receipt["requested_priority"]:
        usual |= {name: receipt[name] for name in ("priority", "requested_priority")}
    return {name: value for name, value in receipt.items() if name not in usual or usual[name] != value}


def _recipients(receipts: list[dict[str, Any]], reply: dict[str, Any]) -> str:
    described = [
        f"{receipt['recipient']} ({_presence(receipt)}, {_progress(receipt)}, {_level(receipt)})"
        for receipt in receipts
    ]
    failed = "".join(f" Not for {agent}: {problem['detail']}." for agent, problem in reply.get("failed", {}).items())
    return f"{', '.join(described) or 'nobody'}.{failed}"


def _level(receipt: dict[str, Any]) -> str:
    """Return the priority that the message really has."""
    level, asked = receipt["priority"], receipt["requested_priority"]
    return str(level) if level == asked else f"{level} instead of {asked}; trace_message tells why"


def _presence(receipt: dict[str, Any]) -> str:
    return str(receipt["recipient_state"]).removeprefix("not_available_")


def _progress(receipt: dict[str, Any]) -> str:
    """Return how far the message is and, if it waits, what reaches its recipient."""
    if receipt["held"]:
        return "held for approval"
    if receipt["delivered"]:
        return "delivered"
    by = _REACHED_BY.get(receipt.get("reach", ""))
    return f"queued, reached by {by}" if by else "queued"


async def reply_message(tool_call: ToolCall, given: Any) -> Outcome:
    """Answer a message in its thread."""
    answered = (await tool_call.ask("get_message", {"message_id": given.message_id}))[0]
    me = (await tool_call.sender()).agent_id
    to = answered["sender"] if answered["sender"] != me else answered["recipient"]
    if to == SYSTEM.agent:
        detail = f"{given.message_id} is from the hub itself, which reads no answers"
        raise refusal("E_ROUTING_002", detail, field="$.message_id")
    if answered["recipient"] == me and answered["state"] == "queued":
        # The agent answers what a hook or a list has shown it; without the ACK the message would be delivered again.
        await tool_call.ask("acknowledge_message", {"message_id": answered["message_id"]})
    fixed = {"to": to, "correlation_id": answered["correlation_id"] or answered["message_id"]}
    fixed |= {"message_id": given.reply_id, "priority": given.priority or "Coordinate"}
    return await send_message(tool_call, given, **fixed)


async def fetch_inbox(tool_call: ToolCall, given: _Fetch) -> Outcome:
    """Fetch waiting messages, or one by its id; one that is too large for an answer is returned in parts."""
    if given.message_id is not None:
        return await _fetch_part(tool_call, given.message_id, given.part)
    limits = tool_call.limits
    number = min(given.limit or limits.inbox_max, limits.inbox_max)
    bytes_max = min(given.bytes_max or limits.inbox_bytes_max, limits.inbox_bytes_max)
    fetched = await fetch(tool_call, number, given.at_least, bytes_max)
    if not fetched.messages and any(fetched.waiting.values()):
        peeked = await tool_call.ask("peek_inbox", {"limit": 1, "at_least": given.at_least})
        if peeked["messages"]:
            return await _fetch_part(tool_call, peeked["messages"][0]["message_id"], 1)
    return _fetched(fetched)


async def _fetch_part(tool_call: ToolCall, message_id: str, part: int) -> Outcome:
    return _fetched(*await fetch_part(tool_call, message_id, part))


def _fetched(fetched: Fetched, part: MessagePart | None = None) -> Outcome:
    shown = [*fetched.messages, *([] if part is None else [part])]
    what = f"{len(fetched.messages)} messages" if part is None else f"Part {part.part} of {part.parts}: {part.next}"
    text = f"{what}. {quoted(shown)}" if shown else "No messages."
    return Outcome(msgspec.to_builtins(FetchedMessages(fetched.messages, part)), text, fetched.waiting, fetched.cursor)


async def release_lease(tool_call: ToolCall, given: Any) -> Outcome:
    """Release a lease by its id, or resources by their names."""
    if given.lease is None and given.resources:
        reply = await tool_call.ask("release_resources", {"resources": list(given.resources)})
    elif given.lease is not None and not given.resources:
        reply = await tool_call.ask("release_lease", {"lease": given.lease})
    else:
        expected = "a lease, or resources"
        raise refusal("E_VALIDATION_001", f"give either {expected}", field="$.lease", expected=expected)
    freed = f"Released: {', '.join(reply['resources'])}." if reply["resources"] else "The request no longer waits."
    return Outcome(reply, freed)


async def send_request(tool_call: ToolCall, given: Any) -> Outcome:
    """Send a request and wait for its answer."""
    request, thread, _ = await send_draft(tool_call, OPERATIONS["send_request"], given)
    if await _has_ended(tool_call, request, given.wait_s):
        return await _answered(tool_call, request, thread, given.to)
    text = f"No answer to {request} yet. It arrives in your inbox in the thread {thread}; cancel_request ends the wait."
    return _outcome(RequestOutcome(request, thread, "waiting"), text)


async def _has_ended(tool_call: ToolCall, request: str, wait_s: float) -> bool:
    """Wait until a request is no longer open, or until the time is over."""
    loop = asyncio.get_running_loop()
    until, check_s = loop.time() + wait_s, _CHECK_S
    while (await tool_call.ask("list_requests", {"request": request}))["items"]:
        left_s = until - loop.time()
        if left_s <= 0:
            return False
        await asyncio.sleep(min(check_s, left_s))
        check_s = min(check_s * 1.5, _CHECK_MAX_S)
    return True


async def _answered(tool_call: ToolCall, request: str, thread: str, to: str) -> Outcome:
    """Fetch the message that ended a request, and those before it."""
    fetched, before, cursors = Fetched([], {}), list[ShownMessage](), list[str]()
    for _ in range(_BEFORE_MAX + 1):
        fetched = await fetch(tool_call, 1, "Info", None)
        if not fetched.messages:
            break
        (message,) = fetched.messages
        cursors += [fetched.cursor] if fetched.cursor else []
        failure = _failure(message, request)
        if failure is not None:
            refused = refusal_of(failure)
            problem = NoAnswer(refused.code, refused.detail, refused.repair)
            text = f"There will be no answer to {request}. {problem.code}: {problem.detail}\n{problem.repair}"
            result = RequestOutcome(request, thread, "failed", problem=problem, messages=before)
            return _outcome(result, text, fetched.waiting, cursors)
        if message.sender == to and message.correlation_id == thread and message.type != _ACK:
            result = RequestOutcome(request, thread, "answered", answer=message, messages=before)
            return _outcome(result, f"{to} answered. {quoted([message])}", fetched.waiting, cursors)
        before.append(message)
    text = f"{request} has ended; what ended it was delivered before, or is in the thread {thread}."
    return _outcome(RequestOutcome(request, thread, "ended", messages=before), text, fetched.waiting, cursors)


def _outcome(
    result: RequestOutcome, text: str, waiting: dict[str, int] | None = None, cursors: Sequence[str] = ()
) -> Outcome:
    before = f"\nMore urgent, delivered as well. {quoted(result.messages)}" if result.messages else ""
    return Outcome(msgspec.to_builtins(result), text + before, waiting, ",".join(cursors))


def _failure(message: ShownMessage, request: str) -> Problem | None:
    """Return the reason why a request is not answered, if a message gives it."""
    payload = message.payload
    if message.type == _NACK and payload.get("rejectedMessageId") == request:
        detail = str(payload.get("reason", "rejected"))
    elif message.type == _REPORT and message.sender == SYSTEM.agent:
        context = payload.get("context")
        about = context if isinstance(context, dict) else {}
        if request not in (about.get("request"), about.get("messageId"), str(about.get("refused"))[len("request:") :]):
            return None
        detail = str(payload.get("errorMessage", "it could not be answered"))
    else:
        return None
    code = payload.get("errorCode")
    return Problem(code if code in CATALOGUE else _REJECTED, detail)


def _composite(name: str, request: type[msgspec.Struct], reply: Any) -> Operation:
    return msgspec.structs.replace(OPERATIONS[name], request=request, reply=reply)


_SEND, _REQUEST, _PUBLISH = (OPERATIONS[name] for name in ("send_message", "send_request", "publish_topic"))
_REPLY_OMITS = ("to", "to_type", "correlation_id", "delivery_class")
#: Rows whose arguments or reply differ from the operation's.
COMPOSITES: dict[str, Operation] = {
    "send_message": _composite("send_message", arguments_with_draft(_SEND), SentMessage),
    "send_request": _composite(
        "send_request",
        arguments_with_draft(_REQUEST, _Question, omit=("to_type",), delivery_class="async"),
        RequestOutcome,
    ),
    "publish_topic": _composite(
        "publish_topic",
        arguments_with_draft(_PUBLISH, _Publication, omit=("to", "to_type", "delivery_class")),
        PublishedMessage,
    ),
    "fetch_inbox": _composite("fetch_inbox", _Fetch, FetchedMessages),
    "reply_message": Operation(
        name="reply_message",
        summary="Answer a message: sent to its sender, in its thread.",
        request=arguments_with_draft(_SEND, _Answered, omit=_REPLY_OMITS),
        reply=SentMessage,
        kind="command",
        http="",
        tag="messages",
        tool="It also marks a question as processed; a task is done when a TASK_UPDATE with status completed or "
        "failed answers it.",
    ),
}
HANDLERS: dict[str, Handler] = {
    "send_message": send_message,
    "send_request": send_request,
    "publish_topic": publish_topic,
    "reply_message": reply_message,
    "fetch_inbox": fetch_inbox,
    "release_lease": release_lease,
}
