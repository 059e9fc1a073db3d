"""An agent, attached: the one object that applications hold.

    async with Agent.connect("http://127.0.0.1:7077", token=token) as me:
        receipt = await me.send(to="bob", type="Question", payload={"text": "ready?"})
        async for message in me.inbox():
            await message.reply({"text": "yes"})

Receipts are automatic. By default one is sent at the moment at which a message is handed to the application: what the
application never saw comes again, what it saw does not. `Receipts` has the other moments.
"""

# `type` is what everyone calls a message's type.
# ruff: noqa: A002

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Literal, Unpack, overload

import msgspec

from tocsin.client import operations as op
from tocsin.client.backoff import Retry
from tocsin.client.config import ClientConfig, client_config
from tocsin.client.connection import Connection, ConnectionState
from tocsin.client.endpoint import signer_of, transport_to
from tocsin.client.envelopes import Draft, EnvelopeReader, EnvelopeWriter, Options, Payload
from tocsin.client.errors import NoAnswer, no_response
from tocsin.client.inbox import Inbox
from tocsin.client.leases import Leases
from tocsin.client.message import Message
from tocsin.client.replies import BroadcastReceipt, RecallResult, Receipt, Sent, Welcome
from tocsin.client.requests import Awaited, Requests, failure_in
from tocsin.client.sending import Outcome, Sender
from tocsin.client.settling import Settler
from tocsin.client.teamwork import Teamwork
from tocsin.client.transport import Bus, Delivery, Transport
from tocsin.client.work import Worker
from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import ANYONE, VERSIONS
from tocsin.core.protocol.priority import Priority, liminal_name

__all__ = ["Agent", "Connecting", "Messages", "Receipts"]

_log = logging.getLogger("tocsin.client")
_RECALLED = msgspec.json.Decoder(RecallResult)
#: What an agent says that it is where it does not say: envelopes need a type, and the hub knows the true one.
_SOME_TYPE = "AdHoc"


class Receipts(StrEnum):
    """When the receipt of a message goes."""

    #: When it is handed to the application.
    HANDED_OVER = "handed_over"
    #: When the application comes back for the next one: a handler that fails sees its message again.
    HANDLED = "handled"
    #: When the application says so: `confirm`, `ack`, `nack`, `processed` or `reply`.
    MANUAL = "manual"


class Agent(Teamwork):
    """One agent, attached to a hub or to a project in the same process."""

    def __init__(
        self,
        transport: Transport,
        *,
        writer: EnvelopeWriter,
        agent_type: str | None,
        capabilities: Sequence[str],
        retry: Retry | None,
        config: ClientConfig,
    ) -> None:
        self._config = config
        self._call_timeout_s = config.call_timeout_s
        self._agent_type = agent_type
        self._capabilities = tuple(capabilities)
        self._writer = writer
        self._reader = EnvelopeReader()
        self._requests = Requests()
        self._connection = Connection(
            transport, config, self._greeting, self._welcomed, self._arrived, lambda window: self._inbox.shrink(window)
        )
        self._connection.watch(self._followed)
        self._inbox = Inbox(config, self._connection.confirm, self._connection.credit)
        self._sender = Sender(self._connection, writer, retry)
        self._settler = Settler(self._connection, self._inbox, self._sender, config.call_timeout_s)
        self._leases = Leases(self._connection, self._inbox, config, writer.fresh_id)
        self._worker = Worker(self._connection, self._inbox, config.call_timeout_s)

    @classmethod
    def connect(
        cls,
        target: "str | Bus | None" = None,
        *,
        token: str | None = None,
        agent: str | None = None,
        role: str | None = None,
        agent_type: str | None = None,
        capabilities: Sequence[str] = (),
        sign: bool = False,
        retry: Retry | None = None,
        config: ClientConfig | None = None,
    ) -> "Connecting":
        """Attach, as `async with` or `await`.

        `target` is the address of a hub (else `TOCSIN_URL`, else the configured one) or an embedded bus. A hub knows
        the agent by its token (else `TOCSIN_TOKEN`, else the file that `TOCSIN_TOKEN_FILE` names); a bus, and a hub
        that trusts this machine, by `agent` and `role`. `agent_type` registers the agent, or registers it anew.
        """

        def make() -> Agent:
            signer = signer_of(token) if sign else None
            return cls(
                transport_to(target, token, agent, role, config or client_config(), signer),
                writer=EnvelopeWriter(signer),
                agent_type=agent_type,
                capabilities=capabilities,
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
        """Return who this is, as the token says."""
        welcome = self._connection.welcome
        return "" if welcome is None else welcome.agent

    @property
    def session(self) -> str:
        """Return the session that it is attached by."""
        welcome = self._connection.welcome
        return "" if welcome is None else welcome.session

    @property
    def state(self) -> ConnectionState:
        """Return how it is attached."""
        return self._connection.state

    @property
    def waiting(self) -> Mapping[str, int]:
        """Return how many messages wait at the hub, by priority, as last heard."""
        return {liminal_name(Priority(level)): count for level, count in enumerate(self._connection.waiting)}

    def on_state(self, watcher: Callable[[ConnectionState], None]) -> None:
        """Call a function at every change of state."""
        self._connection.watch(watcher)

    async def until(self, *states: ConnectionState) -> ConnectionState:
        """Wait for one of some states."""
        return await self._connection.until(*states)

    async def open(self) -> None:
        """Attach; `connect` does it."""
        await self._connection.open()

    async def close(self) -> None:
        """Leave: calls under way are answered first, messages that the application has not taken go back."""
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

        `to="*"` sends to all, or to all of `to_type`. `options` are the fields of `Draft`.
        """
        written = self._sender.write(Draft(to=to, type=type, payload={} if payload is None else payload, **options))
        return await self._sender.send(written, timeout_s or self._call_timeout_s, retry)

    async def send_many(
        self, drafts: Iterable[Draft], *, timeout_s: float | None = None, retry: Retry | None = None
    ) -> list[Outcome]:
        """Send many messages; in its place each has its receipt, or the refusal that `send` would have raised."""
        return await self._sender.send_many(drafts, timeout_s or self._call_timeout_s, retry)

    async def request(
        self,
        to: str,
        type: str,
        payload: Payload | None = None,
        *,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        escalate: bool = False,
        boost_on_timeout: bool = False,
        **options: Unpack[Options],
    ) -> Message:
        """Send a message and return the first response in its thread; a rejection, or its death, is raised.

        The response is not handed out by `inbox` too; one that comes too late is. The hub knows of the wait for one
        other agent: it lends its priority, and gives way (`Deadlock`) where it closes a circle. With `boost_on_timeout`
        the message is raised and given the same time again when its time is over; with `escalate`, its directors are
        told when it is.
        """
        timeout_s = timeout_s or self._config.request_timeout_s
        known = to not in (ANYONE, self.name)
        patience_s = timeout_s
        if known:  # the hub says when the time is over; should it not, this does
            patience_s = timeout_s * (2 if boost_on_timeout else 1) + self._call_timeout_s
        thread = options["correlation_id"] = options.get("correlation_id") or self._writer.fresh_id("thr")
        draft = Draft(to=to, type=type, payload={} if payload is None else payload, **options)
        written = self._sender.write(draft)
        awaited = Awaited(to, written.message_id, asyncio.get_running_loop().create_future())
        response: Message | None = None
        self._requests.expect(thread, awaited)
        self._inbox.await_response()
        try:
            async with asyncio.timeout(patience_s) as patience:
                if known:
                    known = await self._sender.ask(
                        written, timeout_s, self._call_timeout_s, retry, boost=boost_on_timeout, escalate=escalate
                    )
                if not known:
                    patience.reschedule(asyncio.get_running_loop().time() + timeout_s)
                    await self._sender.send(written, timeout_s, retry)
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
                self._sender.wait_no_longer(written, self._call_timeout_s)
        self._inbox.confirm(response)
        failure = failure_in(response)
        if failure is not None:
            raise failure
        return response

    def inbox(self, *, receipts: Receipts | str = Receipts.HANDED_OVER, timeout_s: float | None = None) -> "Messages":
        """Return the messages as they come, most urgent first; with `timeout_s`, until none comes for that long."""
        return Messages(self._inbox, Receipts(receipts), timeout_s)

    async def recall(self, message_id: str) -> RecallResult:
        """Take back a message that nobody has been offered yet."""
        operation = op.Recall(message_id=message_id)
        told: RecallResult = await self._connection.submit(operation, _RECALLED, self._call_timeout_s)
        return told

    def _greeting(self, session: str | None) -> op.Hello:
        known = self._agent_type is not None
        return op.Hello(
            window=self._inbox.window,
            session=session,
            agent_type=self._agent_type,
            supported=VERSIONS if known else None,
            capabilities=self._capabilities if known else None,
        )

    def _welcomed(self, welcome: Welcome) -> None:
        self._writer.introduce(welcome.agent, self._agent_type or _SOME_TYPE)
        self._inbox.granted(welcome.window)

    def _arrived(self, delivery: Delivery) -> None:
        try:
            received, attempt, ttl_s = self._reader.read(delivery.envelope)
        except msgspec.DecodeError:
            # Unconfirmed, it comes to another client, or ends among the dead letters, where it can be looked at.
            _log.exception("%s cannot be read", delivery.signal_id)
            return
        if not self._inbox.is_news(delivery.signal_id, attempt):
            return
        message = Message(
            self._settler, delivery.signal_id, delivery.offer, received, attempt, ttl_s, delivery.interrupts
        )
        self._worker.arrived(message)
        awaited = self._requests.match(message)
        if awaited is None and (self._leases.takes(message) or self._requests.takes(message)):
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
            self._requests.fail(refusal("E_STATE_003", "this agent has left", retryable=False))


class Messages:
    """The messages of an agent, as an asynchronous iterator; several may share the work."""

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
        message = await self._take()
        if message is None:
            raise StopAsyncIteration
        # From here to the application there is nothing to wait for, so nothing that could be cancelled.
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
    """An agent about to be attached: `async with` it, or `await` it and close it later."""

    def __init__(self, make: Callable[[], Agent]) -> None:
        self._make = make
        self._agent: Agent | None = None

    def __await__(self) -> Generator[None, None, Agent]:
        return self._open().__await__()

    async def _open(self) -> Agent:
        agent = self._make()
        await agent.open()
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
