"""Base classes of the synchronous SDK, whose other members are generated (`tocsin.client.sync`)."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from tocsin.client import termination
from tocsin.client.agent import Agent, Connecting
from tocsin.client.connection.transport import Bus
from tocsin.client.loop_thread import LoopThread, SyncBus
from tocsin.client.messages.iteration import Messages, Receipts
from tocsin.client.messages.message import Message
from tocsin.core.errors import HubUnavailable

if TYPE_CHECKING:
    from tocsin.client.sync import SyncMessage

__all__ = ["AgentFacade", "Facade", "awaited"]

Wrapped = TypeVar("Wrapped")
Result = TypeVar("Result")


class Facade(Generic[Wrapped]):
    """A synchronous view of an object that lives on an event loop in a background thread."""

    __slots__ = ("_background", "_wrapped")

    def __init__(self, background: LoopThread, wrapped: Wrapped) -> None:
        self._background = background
        self._wrapped = wrapped

    @classmethod
    def optional(cls, background: LoopThread, wrapped: Wrapped | None) -> Self | None:
        """Return the facade of an object, if there is one."""
        return None if wrapped is None else cls(background, wrapped)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._wrapped!r}>"


class AgentFacade(Facade[Agent]):
    """Connecting, closing and the inbox of a synchronous agent."""

    __slots__ = ("_is_open", "_owns_loop")

    def __init__(self, background: LoopThread, wrapped: Agent, *, owns_loop: bool = True) -> None:
        super().__init__(background, wrapped)
        #: Whether the loop belongs to this agent and ends with it.
        self._owns_loop = owns_loop
        self._is_open = True

    @classmethod
    def _connected(cls, target: "str | SyncBus | None", connect: "Callable[[str | Bus | None], Connecting]") -> Self:
        """Connect an agent on the loop of its bus, or on a loop of its own."""

        async def connected(where: str | Bus | None) -> Agent:
            return await connect(where)

        if isinstance(target, SyncBus):
            background = target.background
            return cls(background, background.run(connected(target.bus)), owns_loop=False)
        if target is not None and not isinstance(target, str):
            raise TypeError("a SyncAgent connects to the address of a hub, or to a SyncTocsin")
        background = LoopThread()
        try:
            agent = cls(background, background.run(connected(target)))
            agent._wrapped._watch_sigterm()
            return agent
        except BaseException:
            background.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the session, after calls under way; messages that the application has not taken return to the queue."""
        if not self._is_open:
            return
        self._is_open = False
        if not self._owns_loop:
            with contextlib.suppress(HubUnavailable):  # the bus is closed, and its agents with it
                self._background.run(self._wrapped.close())
            return
        try:
            self._background.run(self._wrapped.close())
        finally:
            self._background.stop()
            termination.restore()

    def inbox(
        self, *, receipts: Receipts | str = Receipts.HANDED_OVER, timeout_s: float | None = None
    ) -> "Iterator[SyncMessage]":
        """Iterate over arriving messages, most urgent first; with `timeout_s`, until none arrives for that time.

        A message counts as handed over when it is in the thread that asked for it.
        """
        from tocsin.client.sync import SyncMessage  # it imports this module

        when = Receipts(receipts)
        messages = self._background.run(_listen(self._wrapped, timeout_s))
        while (taken := self._background.run(_next(messages))) is not None:
            message = SyncMessage(self._background, taken)
            if when is Receipts.HANDED_OVER:
                message.confirm()
            yield message
            if when is Receipts.HANDLED:
                message.confirm()


async def awaited(result: Awaitable[Result]) -> Result:
    """Return the result of something that can be awaited, as a coroutine."""
    return await result


async def _listen(agent: Agent, timeout_s: float | None) -> Messages:
    return agent.inbox(receipts=Receipts.MANUAL, timeout_s=timeout_s)


async def _next(messages: Messages) -> Message | None:
    return await anext(messages, None)
