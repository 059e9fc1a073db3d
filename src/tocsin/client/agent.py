"""A connected agent, the main object of the SDK.

    async with Agent.connect("http://127.0.0.1:7077", token=token) as me:
        receipt = await me.send(to="bob", type="Question", payload={"text": "ready?"})
        async for message in me.inbox():
            await message.reply({"text": "yes"})

Receipts are automatic. By default the receipt is sent when a message is handed to the application: a message that the
application did not get is delivered again, one that it got is not. `Receipts` has the alternatives.
"""

# `type` is the name of a message's type, and of an agent's, on every interface.
# ruff: noqa: A002

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Literal, Never, Unpack, overload

import msgspec

from tocsin.client.config import ClientConfig, client_config
from tocsin.client.connection.backoff import Retry
from tocsin.client.connection.connection import Connection, ConnectionState
from tocsin.client.connection.endpoint import signer_of, transport_to
from tocsin.client.connection.transport import Bus, Transport
from tocsin.client.errors import NoAnswer, no_response
from tocsin.client.leases import Leases
from tocsin.client.messages.envelopes import EnvelopeReader
from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.message import LocalMessage, Message
from tocsin.client.messages.requests import Awaited, Requests, failure_in
from tocsin.client.messages.sending import Outcome, Sender, local_result
from tocsin.client.messages.settling import Settler
from tocsin.client.messages.work import Worker
from tocsin.client.operation_caller import OperationCaller
from tocsin.client.teamwork import Teamwork
from tocsin.core.commands import SYSTEM, BroadcastReceipt, Delivery, Receipt
from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import ANYONE
from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.wire.arguments import unknown_argument
from tocsin.wire.drafts import Draft, EnvelopeWriter, Options, Payload
from tocsin.wire.messages import Sent
from tocsin.wire.socket import Deliver, Hello, Welcome

__all__ = ["Agent", "Connecting", "Messages", "Receipts", "refuse_unknown"]

_log = logging.getLogger("tocsin.client")
#: The sender's type in envelopes of an agent that connects without one; the hub uses the registered type.
_SOME_TYPE = "AdHoc"
#: Options of a message that is sent to a bus in this process without a draft.
_PLAIN = frozenset({"priority"})
_CONNECT = ("token", "agent", "role", "type", "capabilities", "daemon", "sign", "retry", "config")


class Receipts(StrEnum):
    """When the receipt of a message is sent."""

    #: When it is handed to the application.
    HANDED_OVER = "handed_over"
    #: When the application takes the next one: a handler that fails gets its message again.
    HANDLED = "handled"
    #: When the application calls `confirm`, `acknowledge`, `reject`, `mark_processed` or `reply`.
    MANUAL = "manual"


class Agent(Teamwork):
    """One agent, connected to a hub or to a project in the same process."""

    def __init__(
        self,
        transport: Transport,
        *,
        writer: EnvelopeWriter,
        type: str | None,
        capabilities: Sequence[str],
        daemon: bool,
        retry: Retry | None,
        config: ClientConfig,
    ) -> None:
        self._config = config
        self._call_timeout_s = config.call_timeout_s
        self._type = type
        self._capabilities = tuple(capabilities)
        self._daemon = daemon
        self._writer = writer
        self._reader = EnvelopeReader()
        self._requests = Requests()
        self._connection = Connection(
            transport,
            config,
            self._greeting,
            self._welcomed,
            self._arrived,
            lambda window: self._inbox.shrink(window),
            self._take,
        )
        self._connection.watch(self._followed)
        self._inbox = Inbox(config, self._connection.confirm, self._connection.credit)
        self._caller = OperationCaller(self._connection, config.call_timeout_s, writer.sign)
        self._sender = Sender(self._connection, self._caller, writer, retry, config.batch)
        self._settler = Settler(self._connection, self._inbox, self._sender, config.call_timeout_s)
        self._leases = Leases(self._caller, self._inbox, config, writer.fresh_id)
        self._worker = Worker(self._caller, self._inbox, config.call_timeout_s)

    @classmethod
    def connect(
        cls,
        target: "str | Bus | None" = None,
        *,
        token: str | None = None,
        agent: str | None = None,
        role: str | None = None,
        type: str | None = None,
        capabilities: Sequence[str] = (),
        daemon: bool = False,
        sign: bool = False,
        retry: Retry | None = None,
        config: ClientConfig | None = None,
        **unknown: Never,
    ) -> "Connecting":
        """Connect an agent; use `async with` or `await`.

        Args:
            target: Address of a hub, or an embedded bus; by default `TOCSIN_URL`, or else the configured address.
            token: The agent's token; by default `TOCSIN_TOKEN`, or else the content of the file `TOCSIN_TOKEN_FILE`.
            agent: Name of the agent, on an embedded bus or a hub that trusts this machine.
            role: Role of the agent, on an embedded bus or a hub that trusts this machine; `primary` by default.
            type: Register the agent with this type, or change its type; by default its registration stays as it is.
            capabilities: Message types that the agent accepts, registered with `type`; empty accepts any.
            daemon: Open a `daemon` session: the agent's always-on listener, shown apart from its other sessions.
            sign: Sign every envelope with the token.
            retry: When to retry sends that are refused for now; by default they are not retried.
            config: Timeouts and limits; `client_config(window=8)` makes one.
            unknown: Refused, with the name that an old spelling has now.
        """
        refuse_unknown("connect", unknown, _CONNECT)

        def make() -> Agent:
            signer = signer_of(token) if sign else None
            return cls(
                transport_to(target, token, agent, role, config or client_config(), signer),
                writer=EnvelopeWriter(signer),
                type=type,
                capabilities=capabilities,
                daemon=daemon,
                retry=retry,
                config=config or client_config(),
            )

        return Connecting(make)

    async def __aenter__(self) -> "Agent":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """Return the agent's name, as its token gives it."""
        welcome = self._connection.welcome
        return "" if welcome is None else welcome.agent

    @property
    def session(self) -> str:
        """Return the id of its session."""
        welcome = self._connection.welcome
        return "" if welcome is None else welcome.session

    @property
    def state(self) -> ConnectionState:
        """Return the state of its connection."""
        return self._connection.state

    @property
    def waiting(self) -> Mapping[str, int]:
        """Return the number of messages that wait at the hub, by priority, as last reported."""
        return {PRIORITY_NAMES[level]: count for level, count in enumerate(self._connection.waiting)}

    def on_state(self, watcher: Callable[[ConnectionState], None]) -> None:
        """Call a function at every change of the connection's state."""
        self._connection.watch(watcher)

    async def until(self, *states: ConnectionState) -> ConnectionState:
        """Wait until the connection has one of some states."""
        return await self._connection.until(*states)

    async def _open(self) -> None:
        await self._connection.open()

    async def close(self) -> None:
        """Close the session, after calls under way; messages that the application has not taken return to the queue."""
        self._leases.close()
        self._inbox.end()
        await self._connection.close()

    @overload
    async def send(  # type: ignore[overload-overlap]
        self,
        to: Literal["*"],
        type: str,
        payload: Payload | None = ...,
        *,
        timeout_s: float | None = ...,
        retry: Retry | None = ...,
        **options: Unpack[Options],
    ) -> BroadcastReceipt: ...

    @overload
    async def send(
        self,
        to: str,
        type: str,
        payload: Payload | None = ...,
        *,
        timeout_s: float | None = ...,
        retry: Retry | None = ...,
        **options: Unpack[Options],
    ) -> Receipt: ...

    async def send(
        self,
        to: str,
        type: str,
        payload: Payload | None = None,
        *,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        **options: Unpack[Options],
    ) -> Sent:
        """Send a message and return its receipt once it is durable.

        `to="*"` sends to all agents, or to all of `to_type`. `options` are the fields of `Draft`.
        """
        if payload is None:
            payload = {}
        timeout_s = timeout_s or self._call_timeout_s
        if retry is None and options.keys() <= _PLAIN:
            sending = self._sender.send_plain(to, type, payload, options.get("priority"), timeout_s)
            if sending is not None:
                try:
                    reply = await sending[0]
                except NoAnswer as error:
                    error.problem.facts["message_id"] = sending[1]
                    raise
                return reply if isinstance(reply, Receipt) else local_result(reply)
        draft = Draft(to=to, type=type, payload=payload, **options)
        return await self._sender.send(draft, timeout_s, retry)

    async def send_many(
        self, drafts: Iterable[Draft], *, timeout_s: float | None = None, retry: Retry | None = None
    ) -> list[Outcome]:
        """Send many messages; return for each its receipt, or the refusal that `send` would raise."""
        return await self._sender.send_many(drafts, timeout_s or self._call_timeout_s, retry)

    async def request(
        self,
        to: str,
        type: str,
        payload: Payload | None = None,
        *,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        escalate: bool = True,
        boost_on_timeout: bool = False,
        **options: Unpack[Options],
    ) -> Message:
        """Send a message and return the first response in its thread; a rejection, or its death, is raised.

        The response is not handed out by `inbox` as well; one that arrives too late is. The hub records the wait for
        one other agent: the wait lends its priority, and it is ended (`Deadlock`) if it closes a cycle of waits. With
        `boost_on_timeout` the message gets a higher priority and the same time again at the timeout. With `escalate`,
        which is the default, the directors are notified at the timeout; otherwise only this agent is.
        """
        timeout_s = timeout_s or self._config.request_timeout_s
        known = to not in (ANYONE, self.name)
        patience_s = timeout_s
        if known:  # the hub reports the timeout; this one applies if it does not
            patience_s = timeout_s * (2 if boost_on_timeout else 1) + self._call_timeout_s
        thread = options["correlation_id"] = options.get("correlation_id") or self._writer.fresh_id("thr")
        draft = Draft(to=to, type=type, payload={} if payload is None else payload, **options)
        written = self._writer.write(draft)
        awaited = Awaited(to, written.message_id, asyncio.get_running_loop().create_future())
        response: Message | None = None
        self._requests.expect(thread, awaited)
        self._inbox.await_response()
        try:
            async with asyncio.timeout(patience_s) as patience:
                if known:
                    known = await self._sender.request(
                        written, timeout_s, retry, boost=boost_on_timeout, escalate=escalate
                    )
                if not known:
                    patience.reschedule(asyncio.get_running_loop().time() + timeout_s)
                    await self._sender.send_written(written, timeout_s, retry)
                response = await awaited.response
        except NoAnswer:
            raise
        except TimeoutError:
            detail = f"{to} did not answer {written.message_id} within {timeout_s:g} s"
            raise no_response(detail, message_id=written.message_id, correlation_id=thread) from None
        finally:
            self._requests.give_up(thread, awaited)
            if response is None and _has_come(awaited.response):
                self._inbox.put(awaited.response.result())
            self._inbox.response_came()
            if known and (response is None or failure_in(response) is None):
                self._sender.stop_waiting(written)
        self._inbox.confirm(response)
        failure = failure_in(response)
        if failure is not None:
            raise failure
        return response

    def inbox(self, *, receipts: Receipts | str = Receipts.HANDED_OVER, timeout_s: float | None = None) -> "Messages":
        """Iterate over arriving messages, most urgent first; with `timeout_s`, until none arrives for that time."""
        return Messages(self._inbox, Receipts(receipts), timeout_s)

    def _greeting(self, session: str | None) -> Hello:
        return Hello(
            id=0,
            window=self._inbox.window,
            session=session,
            type=self._type,
            capabilities=self._capabilities,
            daemon=self._daemon,
        )

    def _welcomed(self, welcome: Welcome) -> None:
        self._writer.introduce(welcome.agent, self._type or _SOME_TYPE)
        self._inbox.granted(welcome.window)

    def _arrived(self, delivery: Deliver) -> None:
        try:
            received, attempt, ttl_s = self._reader.read(delivery.envelope)
        except msgspec.DecodeError:
            # It stays unconfirmed, so another client gets it, or it becomes a dead letter, which can be inspected.
            _log.exception("%s cannot be read", delivery.signal_id)
            return
        if not self._inbox.is_news(delivery.signal_id, attempt):
            return
        interrupts = delivery.interrupts
        message = Message(self._settler, delivery.signal_id, delivery.offer, received, attempt, ttl_s, interrupts)
        if interrupts is None and not self._requests.waiting and received.sender.agent_id != SYSTEM.agent:
            self._inbox.put(message)
        else:
            self._receive(message)

    def _take(self, delivery: Delivery) -> None:
        """Take a message from a project in this process."""
        inbox = self._inbox
        if not inbox.is_news(delivery.signal_id, delivery.attempt):
            return
        message = LocalMessage(self._settler, delivery)
        if delivery.interrupts is None and not self._requests.waiting and delivery.message.sender != SYSTEM.agent:
            inbox.put(message)
        else:
            self._receive(message)

    def _receive(self, message: Message) -> None:
        self._worker.arrived(message)
        awaited = self._requests.match(message)
        is_notice = awaited is None and message.sender == SYSTEM.agent
        if is_notice and (self._leases.takes(message) or self._requests.takes(message)):
            self._connection.confirm(message.signal_id)
        elif awaited is None:
            self._inbox.put(message)
        else:
            self._inbox.hold(message)
            awaited.response.set_result(message)

    def _followed(self, state: ConnectionState) -> None:
        if state is ConnectionState.FAILED:
            self._inbox.end(self._connection.error)
            if self._connection.error is not None:
                self._requests.fail(self._connection.error)
        elif state is ConnectionState.CLOSED:
            self._inbox.end()
            self._requests.fail(refusal("E_STATE_003", "this agent is closed", retryable=False))


class Messages:
    """The messages of an agent, as an asynchronous iterator; several iterators share the messages."""

    def __init__(self, inbox: Inbox, receipts: Receipts, timeout_s: float | None) -> None:
        self._inbox = inbox
        self._receipts = receipts
        self._timeout_s = timeout_s
        self._in_hand: Message | None = None
        inbox.listen()

    def __aiter__(self) -> "Messages":
        return self

    async def __anext__(self) -> Message:
        if self._in_hand is not None:
            self._inbox.confirm(self._in_hand)
            self._in_hand = None
        message = self._inbox.take_now() or await self._take()
        if message is None:
            raise StopAsyncIteration
        # Nothing is awaited between here and the application, so nothing can be cancelled.
        if self._receipts is Receipts.HANDED_OVER:
            self._inbox.confirm(message)
        elif self._receipts is Receipts.HANDLED:
            self._in_hand = message
        return message

    async def _take(self) -> Message | None:
        if self._timeout_s is None:
            return await self._inbox.take()
        try:
            async with asyncio.timeout(self._timeout_s) as patience:
                message = await self._inbox.take()
                patience.reschedule(None)
                return message
        except TimeoutError:
            if not patience.expired():
                raise
            return None


class Connecting:
    """An agent to connect: use it with `async with`, or `await` it and close the agent later."""

    def __init__(self, make: Callable[[], Agent]) -> None:
        self._make = make
        self._agent: Agent | None = None

    def __await__(self) -> Generator[None, None, Agent]:
        return self._open().__await__()

    async def _open(self) -> Agent:
        agent = self._make()
        await agent._open()
        return agent

    async def __aenter__(self) -> Agent:
        self._agent = await self._open()
        return self._agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._agent is not None:
            await self._agent.close()


def _has_come(response: "asyncio.Future[Message]") -> bool:
    return response.done() and not response.cancelled() and response.exception() is None


def refuse_unknown(function: str, unknown: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise `TypeError` for an argument that a function does not have, with the name that it may have now."""
    for name in unknown:
        raise TypeError(unknown_argument(function, name, list(known)).problem.detail)
