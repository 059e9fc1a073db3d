"""The same agent for code that does not await: a loop in a thread of its own, and every verb as a plain call.

Of a bus in the same process that is the bus's own loop, which its agents share. Any thread may call. A message counts
as handed over when it is back in the thread that asked for it.
"""

# `type` is what everyone calls a message's type.
# ruff: noqa: A002

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Unpack

from tocsin.client.agent import Agent, Messages, Receipts
from tocsin.client.backoff import Retry
from tocsin.client.config import ClientConfig
from tocsin.client.connection import ConnectionState
from tocsin.client.envelopes import Draft, Options, Payload
from tocsin.client.loop_thread import LoopThread, SyncBus
from tocsin.client.message import Message
from tocsin.client.replies import (
    DeadLetters,
    Life,
    Peer,
    RecallResult,
    Receipt,
    Record,
    Records,
    Redriven,
)
from tocsin.client.sending import Outcome
from tocsin.client.sync_message import SyncMessage
from tocsin.client.sync_teamwork import SyncTeamwork
from tocsin.client.transport import Bus
from tocsin.core.errors import HubUnavailable

__all__ = ["SyncAgent", "SyncMessage"]


class SyncAgent(SyncTeamwork):
    """One agent, attached to a hub or to a project in the same process."""

    def __init__(self, background: LoopThread, agent: Agent, *, alone: bool = True) -> None:
        self._background = background
        self._agent = agent
        #: Whether the loop is this agent's alone, and ends with it.
        self._alone = alone
        self._is_open = True

    @classmethod
    def connect(
        cls,
        target: "str | SyncBus | None" = None,
        *,
        token: str | None = None,
        agent: str | None = None,
        role: str | None = None,
        agent_type: str | None = None,
        capabilities: Sequence[str] = (),
        sign: bool = False,
        retry: Retry | None = None,
        config: ClientConfig | None = None,
    ) -> "SyncAgent":
        """Attach to a hub or to a `SyncTocsin`, as `Agent.connect` does; close it later, or use `with`."""

        async def attached(where: str | Bus | None) -> Agent:
            return await Agent.connect(
                where,
                token=token,
                agent=agent,
                role=role,
                agent_type=agent_type,
                capabilities=capabilities,
                sign=sign,
                retry=retry,
                config=config,
            )

        if isinstance(target, SyncBus):
            return cls(target.background, target.background.run(attached(target.bus)), alone=False)
        if target is not None and not isinstance(target, str):
            raise TypeError("a SyncAgent attaches to the address of a hub, or to a SyncTocsin")
        background = LoopThread()
        try:
            return cls(background, background.run(attached(target)))
        except BaseException:
            background.stop()
            raise

    def __enter__(self) -> "SyncAgent":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Return who this is, as the token says."""
        return self._agent.name

    @property
    def session(self) -> str:
        """Return the session that it is attached by."""
        return self._agent.session

    @property
    def state(self) -> ConnectionState:
        """Return how it is attached."""
        return self._agent.state

    @property
    def waiting(self) -> Mapping[str, int]:
        """Return how many messages wait at the hub, by priority, as last heard."""
        return self._agent.waiting

    def on_state(self, watcher: Callable[[ConnectionState], None]) -> None:
        """Call a function at every change of state, on the agent's own thread."""
        self._background.soon(lambda: self._agent.on_state(watcher))

    def close(self) -> None:
        """Leave: calls under way are answered first, messages that the application has not taken go back."""
        if not self._is_open:
            return
        self._is_open = False
        if not self._alone:
            with contextlib.suppress(HubUnavailable):  # a bus that was closed has let it go
                self._background.run(self._agent.close())
            return
        try:
            self._background.run(self._agent.close())
        finally:
            self._background.stop()

    def send(
        self,
        to: str,
        type: str,
        payload: Payload | None = None,
        *,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        **options: Unpack[Options],
    ) -> Receipt:
        """Send a message and return its receipt once it is durable; `send_many` takes broadcasts too."""
        sent = self._agent.send(to, type, payload, timeout_s=timeout_s, retry=retry, **options)
        return self._background.run(sent)

    def send_many(
        self, drafts: Iterable[Draft], *, timeout_s: float | None = None, retry: Retry | None = None
    ) -> list[Outcome]:
        """Send many messages; each has its receipt or its refusal, in order."""
        return self._background.run(self._agent.send_many(drafts, timeout_s=timeout_s, retry=retry))

    def request(
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
    ) -> SyncMessage:
        """Send a message and return the first response in its thread, as `Agent.request` does."""
        asked = self._agent.request(
            to,
            type,
            payload,
            timeout_s=timeout_s,
            retry=retry,
            escalate=escalate,
            boost_on_timeout=boost_on_timeout,
            **options,
        )
        return SyncMessage(self._background, self._background.run(asked))

    def inbox(
        self, *, receipts: Receipts | str = Receipts.HANDED_OVER, timeout_s: float | None = None
    ) -> Iterator[SyncMessage]:
        """Yield the messages as they come; with `timeout_s`, until none comes for that long."""
        when = Receipts(receipts)
        messages = self._background.run(_listen(self._agent, timeout_s))
        while (taken := self._background.run(_next(messages))) is not None:
            message = SyncMessage(self._background, taken)
            if when is Receipts.HANDED_OVER:
                message.confirm()
            yield message
            if when is Receipts.HANDLED:
                message.confirm()

    def recall(self, message_id: str) -> RecallResult:
        """Take back a message that nobody has been offered yet."""
        return self._background.run(self._agent.recall(message_id))

    def agents(self) -> list[Peer]:
        """List the agents and whether they are there."""
        return self._background.run(self._agent.agents())

    def whois(self, agent: str) -> Peer:
        """Show one agent."""
        return self._background.run(self._agent.whois(agent))

    def message(self, message_id: str) -> list[Record]:
        """Look a message up: every copy that this agent may see, newest first."""
        return self._background.run(self._agent.message(message_id))

    def life(self, message_id: str) -> list[Life]:
        """Tell everything that happened to a message."""
        return self._background.run(self._agent.life(message_id))

    def thread(self, correlation_id: str, *, after: int = 0, limit: int = 100) -> Records:
        """List the messages of a thread, oldest first."""
        return self._background.run(self._agent.thread(correlation_id, after=after, limit=limit))

    def search(self, words: str, *, after: int = 0, limit: int = 100) -> Records:
        """Find messages by words of their payload, newest first."""
        return self._background.run(self._agent.search(words, after=after, limit=limit))

    def dead_letters(self, *, after: int = 0, limit: int = 100) -> DeadLetters:
        """List the dead letters, oldest death first."""
        return self._background.run(self._agent.dead_letters(after=after, limit=limit))

    def redrive(self, *signal_ids: str) -> Redriven:
        """Queue dead letters again: a director's any, a sender's own."""
        return self._background.run(self._agent.redrive(*signal_ids))


async def _listen(agent: Agent, timeout_s: float | None) -> Messages:
    return agent.inbox(receipts=Receipts.MANUAL, timeout_s=timeout_s)


async def _next(messages: Messages) -> Message | None:
    return await anext(messages, None)
