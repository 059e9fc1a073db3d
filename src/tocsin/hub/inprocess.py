"""An agent attached to a project in its own process: the client's transport, over the host itself.

Operations become commands and replies become what a client is told, the same way as over a socket, without the socket.
Identity is the caller's word: whoever shares the process could write to the journal as well.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from tocsin.client import operations as op
from tocsin.client import replies
from tocsin.client.transport import Answer, Delivery, Item, LinkLost
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem, TocsinError, error_for, refusal
from tocsin.core.protocol.envelope import parse_envelope
from tocsin.hub.embedded_history import EmbeddedHistory
from tocsin.hub.host import Condition, Host
from tocsin.hub.receipts import receipt_of

__all__ = ["InProcessLink", "InProcessTransport"]

#: Signs of life before a session counts as stale.
_BEATS = 4


class InProcessTransport:
    """The way from an agent to the host beside it."""

    def __init__(
        self, host: Host, embedded_history: EmbeddedHistory, caller: Caller, links: "set[InProcessLink]"
    ) -> None:
        self._host = host
        self._recollection = embedded_history
        self._caller = caller
        self._links = links

    async def dial(self) -> "InProcessLink":
        """Attach, unless the host has stopped."""
        if self._host.condition is Condition.STOPPED:
            raise LinkLost(self._host.reason, refused=_stopped(self._host.reason))
        link = InProcessLink(self._host, self._recollection, self._caller, self._links)
        self._links.add(link)
        return link


class InProcessLink:
    """One attachment."""

    def __init__(
        self, host: Host, embedded_history: EmbeddedHistory, caller: Caller, links: "set[InProcessLink]"
    ) -> None:
        self._host = host
        self._recollection = embedded_history
        self._caller = caller
        self._links = links
        self._items: list[Item] = []
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: str | None = None
        self._lost: LinkLost | None = None
        #: Set once the client has let go.
        self.released = asyncio.Event()

    async def send(self, operations: Sequence[op.Operation]) -> None:
        """Submit operations, in order; they share a commit."""
        if self._lost is not None:
            raise self._lost
        for operation in operations:
            try:
                self._do(operation)
            except TocsinError as error:
                self._put(Answer(operation.id, None, error.problem))

    async def receive(self) -> Sequence[Item]:
        """Wait for answers and pushes."""
        while not self._items:
            if self._lost is not None:
                raise self._lost
            self._ready.clear()
            await self._ready.wait()
        items, self._items = self._items, []
        return items

    async def close(self) -> None:
        """Let go; a session that was not left is closed."""
        self._links.discard(self)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await self._host.submit(cmd.CloseSession(session), self._caller)
        self.released.set()

    def end(self, reason: str) -> None:
        """Tell the client that there will be no more, here or elsewhere."""
        self._lost = LinkLost(reason, refused=_stopped(reason))
        self._ready.set()

    def _do(self, operation: op.Operation) -> None:
        match operation:
            case op.Hello():
                self._start(operation, self._hello(operation))
            case op.Call():
                self._start(operation, self._recollection.answer(operation, self._caller))
            case op.Bye():
                session, self._session = self._must_session(), None
                self._submit(operation, cmd.CloseSession(session), _nothing)
            case op.Credit():
                self._submit(operation, cmd.GrantCredit(self._must_session(), operation.window), _nothing)
            case op.Ping():
                self._submit(operation, cmd.Heartbeat(self._must_session()), self._waiting)
            case _:
                command, view = self._command(operation)
                self._submit(operation, command, view)

    def _command(self, operation: op.Operation) -> tuple[cmd.Command, Callable[[Any], object]]:
        match operation:
            case op.Send():
                limit = self._host.exchange.state.policy.limits.message_bytes_max
                return cmd.Send(parse_envelope(bytes(operation.envelope), limit)), _send_reply
            case op.Confirm():
                return cmd.Confirm(tuple(operation.message_ids)), _same
            case op.Ack():
                return cmd.Acknowledge(operation.message_id, operation.status, operation.notes), _same
            case op.Nack():
                reason, code, fix = operation.reason, operation.code, operation.suggested_fix
                return cmd.Reject(operation.message_id, reason, code, operation.can_retry, fix), _rejected
            case op.Processed():
                return cmd.MarkProcessed(operation.message_id), _nothing
            case op.Recall():
                return cmd.Recall(operation.message_id), _recalled
        raise refusal("E_VALIDATION_003", f"{type(operation).__name__} cannot be done here")

    def _submit(self, operation: op.Operation, command: cmd.Command, view: Callable[[Any], object]) -> None:
        future = self._host.submit(command, self._caller)
        future.add_done_callback(partial(self._answer, operation.id, view))

    def _answer(self, re: int | None, view: Callable[[Any], object], future: "asyncio.Future[cmd.Reply]") -> None:
        if re is None or future.cancelled():
            return
        reply = future.result()
        problem = reply if isinstance(reply, Problem) else None
        self._put(Answer(re, None if problem is not None else view(reply), problem))

    def _start(self, operation: op.Operation, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(operation.id, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, re: int | None, work: Coroutine[Any, Any, object]) -> None:
        try:
            self._put(Answer(re, await work))
        except TocsinError as error:
            self._put(Answer(re, None, error.problem))

    async def _hello(self, hello: op.Hello) -> replies.Welcome:
        if hello.agent_type is not None:
            await self._must(cmd.RegisterAgent(hello.agent_type, hello.supported or (), hello.capabilities or ()))
        ready = await self._must(cmd.OpenSession("push", hello.window), self._push)
        self._session = ready.session
        state, storage = self._host.exchange.state, self._host.storage
        limits, agent = state.policy.limits, state.agents[self._caller.agent]
        return replies.Welcome(
            agent=agent.agent,
            session=ready.session,
            resumed=False,
            version=agent.version,
            window=ready.window,
            heartbeat_s=state.policy.sessions.stale_after_s / _BEATS,
            batch_max=limits.batch_max,
            frame_bytes_max=limits.message_bytes_max * limits.batch_max,
            message_bytes_max=limits.message_bytes_max,
            in_flight_max=storage.commands_waiting_max,
            waiting=agent.mailbox.depths(),
        )

    async def _must(self, command: cmd.Command, sink: Callable[[cmd.Delivery], None] | None = None) -> Any:
        reply = await self._host.submit(command, self._caller, sink)
        if isinstance(reply, Problem):
            raise error_for(reply)
        return reply

    def _must_session(self) -> str:
        if self._session is None:
            raise refusal("E_STATE_003", "say hello first")
        return self._session

    def _push(self, push: cmd.Delivery) -> None:
        self._put(Delivery(push.signal_id, push.offer, msgspec.Raw(push.envelope), push.interrupts))

    def _put(self, item: Item) -> None:
        self._items.append(item)
        self._ready.set()

    def _waiting(self, _: cmd.Reply) -> replies.Waiting:
        agent = self._host.exchange.state.agents.get(self._caller.agent)
        return replies.Waiting(() if agent is None else agent.mailbox.depths())


def _stopped(reason: str) -> Problem:
    return Problem("E_HUB_003", f"the bus is closed: {reason}", retryable=False)


def _same(reply: cmd.Reply) -> object:
    return reply


def _nothing(_: cmd.Reply) -> replies.Nothing:
    return replies.Nothing()


def _rejected(reply: cmd.Rejected) -> replies.Rejected:
    return replies.Rejected(reply.signal_id, reply.state, reply.ready_at)


def _recalled(reply: cmd.RecallResult) -> replies.RecallResult:
    return replies.RecallResult(reply.outcome, reply.outcomes)


def _send_reply(reply: cmd.Reply) -> replies.SendReply:
    match reply:
        case cmd.Receipt():
            return replies.SendReply(receipt=receipt_of(reply))
        case cmd.BroadcastReceipt():
            return replies.SendReply(receipts=tuple(map(receipt_of, reply.receipts)), failed=reply.failed)
        case cmd.Acknowledged() | cmd.Rejected():
            return replies.SendReply(settled=replies.Settled(reply.signal_id, reply.state))
        case cmd.Registered():
            return replies.SendReply(registered=reply)
    return replies.SendReply()
