"""Sending, draining and settling messages: each operation is one command."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.errors import Problem, TocsinError, error_for, refusal
from tocsin.core.protocol.envelope import parse_envelope
from tocsin.core.protocol.priority import VOCABULARY
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.problems import document_of
from tocsin.gateways.http.views import DrainView, SendView, drain_view, receipt_view
from tocsin.wire.traces import carry

__all__ = ["OPERATIONS", "send_view"]


class DrainBody(msgspec.Struct, frozen=True):
    """How much to hand out."""

    #: At most this many; absent is as many as the policy allows.
    limit: Annotated[int, Meta(ge=1)] | None = None
    #: Nothing below this priority.
    at_least: Literal["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"] = "Info"
    #: Payloads of no more than this many bytes in all; absent is as many as the policy allows.
    bytes_max: Annotated[int, Meta(ge=0, le=10**9)] | None = None


class ReceiptsBody(msgspec.Struct, frozen=True):
    """What has arrived."""

    message_ids: list[str]


class AckBody(msgspec.Struct, frozen=True):
    """An acknowledgement."""

    status: Literal["received", "queued", "processed"] = "received"
    notes: str = ""


class NackBody(msgspec.Struct, frozen=True):
    """A rejection."""

    reason: str
    code: str = ""
    #: Whether another attempt may help.
    can_retry: bool = False
    suggested_fix: str = ""


def send_view(reply: cmd.Reply) -> SendView:
    """Write down what became of a send."""
    match reply:
        case cmd.Receipt():
            return SendView(receipt=receipt_view(reply))
        case cmd.BroadcastReceipt():
            failed = {agent: document_of(problem) for agent, problem in reply.failed.items()}
            return SendView(receipts=[receipt_view(receipt) for receipt in reply.receipts], failed=failed)
        case cmd.Registered():
            return SendView(registered={"agent": reply.agent, "version": reply.version})
        case cmd.Acknowledged() | cmd.Rejected():
            return SendView(settled={"signal_id": reply.signal_id, "state": reply.state})
        case Problem():
            return SendView(problem=document_of(reply))
    return SendView()


async def send(call: Call) -> SendView:
    """Send one envelope."""
    limit = call.hub.host.exchange.state.policy.limits.message_bytes_max
    envelope = carry(parse_envelope(call.raw, limit), call.headers)
    view = send_view(await call.submit(cmd.Send(envelope)))
    if view.failed:
        call.status = 207
    return view


async def send_batch(call: Call) -> list[SendView]:
    """Send several envelopes in one commit; each has its own answer, in order."""
    limits = call.hub.host.exchange.state.policy.limits
    try:
        items = msgspec.json.decode(call.raw, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise refusal("E_PROTOCOL_002", f"a batch is a JSON array of envelopes: {error}") from None
    if len(items) > limits.batch_max:
        raise refusal("E_ADMISSION_008", f"at most {limits.batch_max} envelopes at a time", retryable=False)

    async def one(item: msgspec.Raw) -> SendView:
        try:
            envelope = carry(parse_envelope(bytes(item), limits.message_bytes_max), call.headers)
        except TocsinError as error:
            return send_view(error.problem)
        return send_view(await call.hub.host.submit(cmd.Send(envelope), call.caller))

    return await asyncio.gather(*[one(item) for item in items])


async def drain(call: Call) -> DrainView:
    """Take what waits, most urgent first; the next call is its receipt."""
    piggyback, caller, body = call.gateway.piggyback, call.caller, call.body
    reply = await piggyback.drain(caller, body.limit, VOCABULARY[body.at_least], body.bytes_max)
    if isinstance(reply, Problem):
        raise error_for(reply)
    if not isinstance(reply, cmd.Drained):
        return DrainView([], {})

    def afterwards(taken: bool) -> None:
        if call.confirms or not taken:
            piggyback.handed_out(caller, reply, taken=taken)

    call.afterwards = afterwards
    return drain_view(reply)


async def confirm(call: Call) -> cmd.Reply:
    """Confirm receipt."""
    return await call.submit(cmd.Confirm(tuple(call.body.message_ids)))


async def acknowledge(call: Call) -> cmd.Reply:
    """Acknowledge a message."""
    return await call.submit(cmd.Acknowledge(call.path["message_id"], call.body.status, call.body.notes))


async def reject(call: Call) -> cmd.Reply:
    """Reject a message, for now or for good."""
    body = call.body
    return await call.submit(
        cmd.Reject(call.path["message_id"], body.reason, body.code, body.can_retry, body.suggested_fix)
    )


async def mark_processed(call: Call) -> cmd.Reply:
    """Say that a message has been dealt with."""
    return await call.submit(cmd.MarkProcessed(call.path["message_id"]))


async def recall(call: Call) -> cmd.Reply:
    """Take back what nobody has been offered yet; only its sender can."""
    return await call.submit(cmd.Recall(call.path["message_id"]))


_ONE = "/v1/messages/{message_id}"

OPERATIONS = (
    Operation(
        "POST",
        "/v1/messages",
        send,
        SendView,
        body="Envelope",
        envelope=True,
        traced=True,
        tag="messages",
        also=(207,),
    ),
    Operation(
        "POST",
        "/v1/messages/batch",
        send_batch,
        list[SendView],
        body="Envelopes",
        envelope=True,
        traced=True,
        tag="messages",
    ),
    Operation("POST", "/v1/inbox/drain", drain, DrainView, body=DrainBody, tag="inbox"),
    Operation("POST", "/v1/inbox/receipts", confirm, cmd.Confirmed, body=ReceiptsBody, tag="inbox"),
    Operation("POST", _ONE + "/ack", acknowledge, cmd.Acknowledged, body=AckBody, tag="messages"),
    Operation("POST", _ONE + "/nack", reject, cmd.Rejected, body=NackBody, tag="messages"),
    Operation("POST", _ONE + "/processed", mark_processed, cmd.Done, tag="messages"),
    Operation("POST", _ONE + "/recall", recall, cmd.RecallResult, tag="messages"),
)
