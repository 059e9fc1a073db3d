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
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Never, Unpack, overload

from tocsin.client import termination
from tocsin.client.config import ClientConfig, client_config
from tocsin.client.connection.backoff import Retry
from tocsin.client.connection.connection import Connection, ConnectionState
from tocsin.client.connection.endpoint import signer_of, transport_to
from tocsin.client.connection.transport import Bus, Transport
from tocsin.client.errors import NoAnswer, no_response
from tocsin.client.leases import Leases
from tocsin.client.messages.arrivals import Arrivals
from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.iteration import Messages, Receipts
from tocsin.client.messages.message import Message
from tocsin.client.messages.requests import Awaited, Requests, failure_in
from tocsin.client.messages.sending import Outcome, Sender, local_result
from tocsin.client.messages.settling import Settler
from tocsin.client.messages.work import Worker
from tocsin.client.operation_caller import OperationCaller
from tocsin.client.teamwork import Teamwork
from tocsin.core.commands import BroadcastReceipt, Receipt
from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import ANYONE
from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.wire.arguments import unknown_argument
from tocsin.wire.drafts import Draft, Options, Payload
from tocsin.wire.envelope_writer import EnvelopeWriter
from tocsin.wire.messages import Sent
from tocsin.wire.socket import Hello, Welcome

__all__ = ["Agent", "Connecting", "refuse_unknown"]

#: The sender's type in envelopes of an agent that connects without one; the hub uses the registered type.
_SOME_TYPE = "AdHoc"
#: Options of a message that is sent to a bus in this process without a draft.
_PLAIN = frozenset({"priority"})
_CONNECT = ("token", "agent", "role", "type", "capabilities", "daemon", "sign", "retry", "config")


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
        leaves: bool,
    ) -> None:
        self._config = config
        #: Whether its session is closed when the process ends, and whether that is under way.
        self._leaves, self._is_leaving = leaves, False
        self._call_timeout_s = config.call_timeout_s
        self._type = type
        self._capabilities = tuple(capabilities)
        self._daemon = daemon
        self._writer = writer
        self._requests = Requests()
        self._connection = Connection(
            transport,
            config,
            self._greeting,
            self._welcomed,
            lambda window: self._inbox.shrink(window),
        )
        self._connection.watch(self._followed)
        self._inbox = Inbox(config, self._connection.confirm, self._connection.credit)
        self._caller = OperationCaller(self._connection, config.call_timeout_s, writer.sign)
        self._sender = Sender(self._connection, self._caller, writer, retry, config.batch)
        self._settler = Settler(self._connection, self._inbox, self._sender, config.call_timeout_s)
        self._leases = Leases(self._caller, self._inbox, config, writer.fresh_id)
        self._worker = Worker(self._caller, self._inbox, config.call_timeout_s)
        arrivals = Arrivals(
            self._settler, self._connection.confirm, self._inbox, self._requests, self._leases, self._worker
        )
        self._connection.deliver_to(arrivals.take, arrivals.take_local)

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
                # A bus in this process ends with it, and its sessions with the bus.
                leaves=target is None or isinstance(target, str),
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

    @property
    def unconfirmed(self) -> int:
        """Return the number of messages that have arrived and have no receipt yet."""
        return self._inbox.held

    @property
    def is_paused(self) -> bool:
        """Return whether the hub pushes no messages at present, because the application takes none."""
        return not self._inbox.window

    def limit_window(self, window: int) -> None:
        """Take at most so many messages without a receipt from now on; 0 takes none.

        A worker keeps it at the number of messages that it can work on, so that the others stay at the hub.
        """
        self._inbox.limit(window)

    def on_state(self, watcher: Callable[[ConnectionState], None]) -> None:
        """Call a function at every change of the connection's state."""
        self._connection.watch(watcher)

    async def until(self, *states: ConnectionState) -> ConnectionState:
        """Wait until the connection has one of some states."""
        return await self._connection.until(*states)

    async def _open(self) -> None:
        await self._connection.open()
        if self._leaves:
            config = self._config
            termination.add(self, self._leave, config.close_timeout_s + config.goodbye_timeout_s)
            self._watch_sigterm()

    def _watch_sigterm(self) -> None:
        """Let SIGTERM close the session; the thread that connects calls it, because only the main thread can."""
        if self._config.close_on_sigterm:
            termination.watch()

    async def close(self) -> None:
        """Close the session, after calls under way; messages that the application has not taken return to the queue."""
        self._leases.close()
        self._inbox.end()
        await self._connection.close()

    async def _leave(self) -> None:
        """Close the session because the process ends; the application gets nothing more and is not told."""
        self._is_leaving = True
        self._inbox.freeze()
        await self.close()

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
        if not welcome.resumed:
            self._inbox.give_up()
        self._writer.introduce(welcome.agent, self._type or _SOME_TYPE)
        self._inbox.granted(welcome.window)

    def _followed(self, state: ConnectionState) -> None:
        if state in (ConnectionState.FAILED, ConnectionState.CLOSED):
            termination.remove(self)
        if self._is_leaving:
            return
        if state is ConnectionState.FAILED:
            self._inbox.end(self._connection.error)
            if self._connection.error is not None:
                self._requests.fail(self._connection.error)
        elif state is ConnectionState.CLOSED:
            self._inbox.end()
            self._requests.fail(refusal("E_STATE_003", "this agent is closed", retryable=False))


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
