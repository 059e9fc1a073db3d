"""Handlers of the operations that send and fetch messages."""

import asyncio

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.errors import Problem, TocsinError, error_for, refusal
from tocsin.core.protocol.priority import PRIORITY_NAMES, VOCABULARY
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.records import by_priority
from tocsin.wire.messages import (
    FetchInbox,
    InboxBatch,
    InboxMessage,
    PeekInbox,
    SendMessages,
    SendReply,
    WaitingMessage,
    WaitingMessages,
)

__all__ = ["HANDLERS"]


async def send_message(call: Call, request: cmd.Send) -> SendReply:
    """Send one message."""
    return SendReply.of(await call.submit(request))


async def send_messages(call: Call, request: SendMessages) -> list[SendReply]:
    """Send several messages, each accepted or refused by itself."""
    limits = call.state.policy.limits
    if not call.signature_checked and call.grant is not None and call.state.policy.security.require_signatures:
        raise refusal("E_AUTH_006", "this hub accepts signed messages only, and the batch is not signed")
    if len(request.envelopes) > limits.batch_max:
        raise refusal("E_ADMISSION_008", f"at most {limits.batch_max} envelopes at a time", retryable=False)

    async def send(envelope: msgspec.Raw) -> SendReply:
        try:
            command = cmd.Send(call.read_envelope(bytes(envelope)))
        except TocsinError as error:
            return SendReply.of(error.problem)
        return SendReply.of(await call.project.host.submit(command, call.caller))

    return await asyncio.gather(*[send(envelope) for envelope in request.envelopes])


async def fetch_inbox(call: Call, request: FetchInbox) -> InboxBatch:
    """Hand out waiting messages to the caller's polling session."""
    piggyback = call.project.piggyback
    if request.receipt:
        piggyback.next_call(call.caller, request.receipt)  # the drain is decided after it and shares its commit
    level, name = VOCABULARY[request.at_least], request.message_id
    reply = await piggyback.drain(call.caller, request.limit, level, request.bytes_max, name)
    if isinstance(reply, Problem):
        raise error_for(reply)
    if not isinstance(reply, cmd.Drained):
        return InboxBatch([], {})
    deliveries = [
        InboxMessage(
            item.signal_id, item.offer, msgspec.Raw(item.envelope), item.offer > 1, PRIORITY_NAMES[item.priority]
        )
        for item in reply.deliveries
    ]
    return InboxBatch(deliveries, by_priority(reply.waiting), reply.cursor)


async def peek_inbox(call: Call, request: PeekInbox) -> WaitingMessages:
    """Show what waits for the caller, whose polling session it opens, or keeps alive."""
    attached = await call.project.piggyback.attach(call.caller)
    if isinstance(attached, Problem):
        raise error_for(attached)
    agent = call.state.agents.get(call.agent)
    if agent is None:
        return WaitingMessages([], {})
    level, policy = VOCABULARY[request.at_least], call.state.policy
    found = agent.mailbox.first(request.limit, level, call.project.now(), policy.decay)
    messages = [
        WaitingMessage(
            message_id=message.message_id,
            sender=message.sender,
            type=message.type,
            level=PRIORITY_NAMES[message.level],
            correlation_id=message.correlation_id,
            payload_bytes=len(message.payload),
            payload=msgspec.Raw(message.payload if len(message.payload) <= request.payload_bytes_max else b"null"),
        )
        for message in found
    ]
    waiting = by_priority(agent.mailbox.depths())
    await call.durable()
    return WaitingMessages(messages, waiting)


HANDLERS: dict[str, Handler] = {
    "send_message": send_message,
    "send_messages": send_messages,
    "fetch_inbox": fetch_inbox,
    "peek_inbox": peek_inbox,
}
