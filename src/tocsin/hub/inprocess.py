"""The transport between an agent and a project in the same process.

Messages, their receipts and the confirmations of recipients pass as they are (`LocalLink`): an ordinary message is not
written as JSON, only its payload is. The other operations of the socket protocol are run without a socket. Commands go
to the host as they are, and the host's reply is the answer; the rest goes through `tocsin.hub.operations`, as it does
in a hub. The embedded bus does not authenticate callers: code that shares the process could write to the journal as
well.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from tocsin.client.connection.transport import Item, LinkLost, Refused
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem, TocsinError, error_for, refusal
from tocsin.core.protocol.envelope import VERSIONS, Envelope
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.validation import explain
from tocsin.hub.hosting.host import Condition
from tocsin.hub.operations import Call, in_first_version, perform, speaks_first_version
from tocsin.hub.project import Project
from tocsin.wire import socket as op
from tocsin.wire.drafts import Written
from tocsin.wire.messages import Settled
from tocsin.wire.table import OPERATIONS, unknown_operation

__all__ = ["InProcessLink", "InProcessTransport"]

#: Heartbeats before a session counts as stale.
_BEATS = 4
#: Operations that are one command each, which has their fields.
_COMMANDS: dict[type[Any], type[Any]] = {
    op.Confirm: cmd.Confirm,
    op.Acknowledge: cmd.Acknowledge,
    op.Reject: cmd.Reject,
    op.MarkProcessed: cmd.MarkProcessed,
    op.Recall: cmd.Recall,
}


class InProcessTransport:
    """Connects an agent to the project in this process."""

    def __init__(self, project: Project, caller: Caller, links: "set[InProcessLink]") -> None:
        self._project = project
        self._caller = caller
        self._links = links

    async def dial(self) -> "InProcessLink":
        """Open a link, unless the host has stopped."""
        host = self._project.host
        if host.condition is Condition.STOPPED:
            raise LinkLost(host.reason, refused=_stopped(host.reason))
        link = InProcessLink(self._project, self._caller, self._links)
        self._links.add(link)
        return link


class InProcessLink:
    """One connection."""

    def __init__(self, project: Project, caller: Caller, links: "set[InProcessLink]") -> None:
        self._project = project
        self._host = project.host
        self._caller = caller
        self._links = links
        self._items: list[Item] = []
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: str | None = None
        self._lost: LinkLost | None = None
        self._sink: Callable[[cmd.Delivery], None] | None = None
        self._early: list[cmd.Delivery] = []
        #: Set once the client has closed the link.
        self.released = asyncio.Event()

    @property
    def message_bytes_max(self) -> int:
        """Return the largest envelope that the project accepts, bytes."""
        return self._host.exchange.state.policy.limits.message_bytes_max

    def send_message(self, message: Envelope | Written) -> "asyncio.Future[cmd.Reply]":
        """Send a message; the future holds the reply, or the problem, once it is durable."""
        if self._lost is not None and self._lost.refused is not None:
            return self._answered(self._lost.refused)
        if type(message) is Envelope:
            return self._host.submit(cmd.Send(message), self._caller)
        parsed = self._parsed(message)
        if isinstance(parsed, Problem):
            return self._answered(parsed)
        return self._host.submit(cmd.Send(parsed), self._caller)

    def send_messages(self, messages: Sequence[Envelope | Written]) -> "asyncio.Future[list[cmd.Reply]]":
        """Send messages together; the future holds the replies, or problems, once all are durable."""
        if self._lost is not None and self._lost.refused is not None:
            future: asyncio.Future[list[cmd.Reply]] = asyncio.get_running_loop().create_future()
            future.set_result([self._lost.refused] * len(messages))
            return future
        return self._host.submit_batch(
            [message if type(message) is Envelope else self._parsed(message) for message in messages], self._caller
        )

    def _parsed(self, message: Envelope | Written) -> Envelope | Problem:
        if isinstance(message, Envelope):
            return message
        try:
            return parse_envelope(bytes(message.envelope), self.message_bytes_max)
        except TocsinError as error:
            return error.problem

    def confirm(self, signal_id: str) -> None:
        """Confirm the receipt of a message, before any later call."""
        self._host.confirm(signal_id, self._caller)

    def credit(self, window: int) -> "asyncio.Future[cmd.Reply]":
        """Change the number of messages that may be on their way, before any later call."""
        if self._session is None:
            return self._answered(Problem("E_STATE_003", "the session is closed"))
        return self._host.submit(cmd.GrantCredit(self._session, window), self._caller)

    def deliver_to(self, sink: Callable[[cmd.Delivery], None]) -> None:
        """Call a function with every message from now on, beginning with those that were not received yet."""
        self._sink = sink
        early, self._early = self._early, []
        for push in early:
            self._push(push)

    def _answered(self, problem: Problem) -> "asyncio.Future[cmd.Reply]":
        future: asyncio.Future[cmd.Reply] = asyncio.get_running_loop().create_future()
        future.set_result(problem)
        return future

    async def send(self, operations: Sequence[op.Operation]) -> None:
        """Submit operations in order; they share a commit."""
        if self._lost is not None:
            raise self._lost
        for operation in operations:
            try:
                self._do(operation)
            except TocsinError as error:
                self._put(Refused(operation.id, error.problem))

    async def receive(self) -> Sequence[Item]:
        """Wait for answers and messages."""
        while not self._items:
            if self._lost is not None:
                raise self._lost
            self._ready.clear()
            await self._ready.wait()
        items, self._items = self._items, []
        return items

    async def close(self) -> None:
        """Close the link, and its session if that is still open."""
        self._links.discard(self)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await self._host.submit(cmd.CloseSession(session), self._caller)
        self.released.set()

    def end(self, reason: str) -> None:
        """End the link from the side of the bus; the client does not reconnect."""
        self._lost = LinkLost(reason, refused=_stopped(reason))
        self._ready.set()

    def _do(self, operation: op.Operation) -> None:
        if isinstance(operation, op.Send):
            limit = self._host.exchange.state.policy.limits.message_bytes_max
            envelope = parse_envelope(bytes(operation.envelope), limit)
            self._submit(operation.id, cmd.Send(envelope), _sent)
        elif type(operation) in _COMMANDS:
            self._submit(operation.id, _command(operation), _same)
        elif isinstance(operation, op.Call):
            self._start(operation.id, self._call(operation))
        elif isinstance(operation, op.Credit):
            self._submit(operation.id, cmd.GrantCredit(self._must_session(), operation.window), _same)
        elif isinstance(operation, op.Ping):
            self._submit(operation.id, cmd.Heartbeat(self._must_session()), self._waiting)
        elif isinstance(operation, op.Hello):
            self._start(operation.id, self._hello(operation))
        elif isinstance(operation, op.Bye):
            session, self._session = self._must_session(), None
            self._submit(operation.id, cmd.CloseSession(session), _same)

    def _submit(self, re: int | None, command: cmd.Command, view: Callable[[Any], object]) -> None:
        future = self._host.submit(command, self._caller)
        if re is not None:
            future.add_done_callback(partial(self._answer, re, view))

    def _answer(self, re: int, view: Callable[[Any], object], future: "asyncio.Future[cmd.Reply]") -> None:
        if future.cancelled():
            return
        reply = future.result()
        state = self._host.exchange.state
        if speaks_first_version(state, self._caller.agent):
            reply = in_first_version(reply, state)
        self._put(Refused(re, reply) if isinstance(reply, Problem) else op.Answer(re, view(reply)))

    def _start(self, re: int, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(re, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, re: int, work: Coroutine[Any, Any, object]) -> None:
        try:
            self._put(op.Answer(re, await work))
        except TocsinError as error:
            self._put(Refused(re, error.problem))

    async def _call(self, operation: op.Call) -> object:
        row = OPERATIONS.get(operation.operation)
        if row is None:
            raise unknown_operation(operation.operation)
        call = Call(self._project, self._caller)
        envelope = None if operation.envelope is msgspec.UNSET else bytes(operation.envelope)
        reply: object = await perform(call, row, call.read(row, operation.arguments, envelope))
        return reply

    async def _hello(self, hello: op.Hello) -> op.Welcome:
        if hello.type is not None:
            await self._must(cmd.RegisterAgent(hello.type, hello.versions, hello.capabilities))
        kind: cmd.SessionKind = "daemon" if hello.daemon else "push"
        ready = await self._must(cmd.OpenSession(kind, hello.window), self._push)
        self._session = ready.session
        state, storage = self._host.exchange.state, self._host.storage
        limits, agent = state.policy.limits, state.agents[self._caller.agent]
        return op.Welcome(
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
            raise refusal("E_STATE_003", "the first operation must be hello")
        return self._session

    def _push(self, push: cmd.Delivery) -> None:
        if self._sink is None:
            self._early.append(push)
        elif push.version == VERSIONS[-1]:
            self._sink(push)
        else:  # Its agent registered with an older version: it reads the envelope of that version.
            raw = msgspec.Raw(push.envelope)
            self._put(op.Deliver(push.signal_id, push.offer, push.session, raw, push.interrupts))

    def _put(self, item: Item) -> None:
        self._items.append(item)
        self._ready.set()

    def _waiting(self, _: cmd.Reply) -> op.Waiting:
        agent = self._host.exchange.state.agents.get(self._caller.agent)
        return op.Waiting(() if agent is None else agent.mailbox.depths())


def _stopped(reason: str) -> Problem:
    return Problem("E_HUB_003", f"the bus is closed: {reason}", retryable=False)


def _command(operation: op.Operation) -> cmd.Command:
    """Return the command of an operation, or raise what is wrong with its fields, as a hub would."""
    shape = _COMMANDS[type(operation)]
    try:
        command: cmd.Command = msgspec.convert(operation, shape, from_attributes=True)
    except msgspec.ValidationError:
        fields = {name: getattr(operation, name) for name in shape.__struct_fields__}
        raise error_for(explain(shape, msgspec.to_builtins(fields))) from None
    return command


def _same(reply: cmd.Reply) -> object:
    return reply


def _sent(reply: cmd.Reply) -> object:
    if isinstance(reply, cmd.Acknowledged | cmd.Rejected):
        return Settled(reply.signal_id, reply.state)
    return reply
