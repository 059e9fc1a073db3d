"""The same agent for code that does not await: a loop in a thread of its own, and every verb as a plain call.

Any thread may call. A message counts as handed over when it is back in the thread that asked for it.
"""

# `type` is what everyone calls a message's type.
# ruff: noqa: A002

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

from tocsin.client.agent import Agent, Messages, Receipts
from tocsin.client.backoff import Retry
from tocsin.client.config import ClientConfig
from tocsin.client.connection import ConnectionState
from tocsin.client.envelopes import Draft, Options, Payload
from tocsin.client.message import Arrived, Message
from tocsin.client.replies import (
    Acknowledged,
    DeadLetters,
    Life,
    Nothing,
    Peer,
    RecallResult,
    Receipt,
    Record,
    Records,
    Redriven,
    Rejected,
    Sent,
)
from tocsin.client.sending import Outcome
from tocsin.core.errors import refusal

__all__ = ["SyncAgent", "SyncMessage"]

Result = TypeVar("Result")


class _Background:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tocsin agent", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something on the loop and wait for it; an interrupted wait cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the sync face cannot be called from its own callbacks: they run on its loop")
        if self._loop.is_closed():
            work.close()
            raise refusal("E_STATE_003", "this agent has left: connect again", retryable=False)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def soon(self, call: Callable[[], None]) -> None:
        """Do something on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """End the loop and its thread; whoever still waits is let go."""
        self.run(_let_go())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _let_go() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class SyncAgent:
    """One agent, attached to a hub."""

    def __init__(self, background: _Background, agent: Agent) -> None:
        self._background = background
        self._agent = agent
        self._is_open = True

    @classmethod
    def connect(
        cls,
        target: str | None = None,
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
        """Attach to a hub, as `Agent.connect` does; close it later, or use `with`."""
        background = _Background()

        async def attached() -> Agent:
            return await Agent.connect(
                target,
                token=token,
                agent=agent,
                role=role,
                agent_type=agent_type,
                capabilities=capabilities,
                sign=sign,
                retry=retry,
                config=config,
            )

        try:
            return cls(background, background.run(attached()))
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
        if self._is_open:
            self._is_open = False
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
        **options: Unpack[Options],
    ) -> "SyncMessage":
        """Send a message and return the first response in its thread."""
        asked = self._agent.request(to, type, payload, timeout_s=timeout_s, retry=retry, **options)
        return SyncMessage(self._background, self._background.run(asked))

    def inbox(
        self, *, receipts: Receipts | str = Receipts.HANDED_OVER, timeout_s: float | None = None
    ) -> "Iterator[SyncMessage]":
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


class SyncMessage(Arrived):
    """One message, and what its recipient can do about it."""

    __slots__ = ("_background", "_message")

    def __init__(self, background: _Background, message: Message) -> None:
        super().__init__(message.signal_id, message.offer, message._received, message.attempt, message.ttl_s)
        self._background = background
        self._message = message

    def confirm(self) -> None:
        """Let the receipt go; the inbox does it by itself unless told otherwise."""
        self._background.soon(self._message.confirm)

    def ack(self, status: str = "received", notes: str = "") -> Acknowledged:
        """Acknowledge it: `received`, `queued` or `processed`."""
        return self._background.run(self._message.ack(status, notes))

    def nack(self, reason: str, *, can_retry: bool = False, code: str = "", suggested_fix: str = "") -> Rejected:
        """Reject it, for now (`can_retry`) or for good."""
        rejected = self._message.nack(reason, can_retry=can_retry, code=code, suggested_fix=suggested_fix)
        return self._background.run(rejected)

    def processed(self) -> Nothing:
        """Say that it has been dealt with."""
        return self._background.run(self._message.processed())

    def reply(self, payload: Payload, *, type: str | None = None, **options: Unpack[Options]) -> Sent:
        """Answer in its thread; `options` are as in `Agent.send`."""
        return self._background.run(self._message.reply(payload, type=type, **options))
