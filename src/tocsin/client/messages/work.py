"""Work on a message, and its interruption: work that is put aside is resumed with the notes that were saved.

    async with me.working_on(message) as work:
        while step < steps:
            step = await do(step)
            if (interruption := await work.pause_point(save=lambda: str(step))) is not None:
                async with interruption as urgent:
                    await urgent.reply({"text": "seen"})
                step = int(interruption.saved)

The hub decides which messages may interrupt (`docs/concepts/attention.md`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType

import msgspec

from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.message import Message
from tocsin.client.operation_caller import OperationCaller
from tocsin.core.commands import Attending, Resumed
from tocsin.core.errors import StateConflict, TocsinError, refusal

__all__ = ["Interruption", "Resuming", "Worker", "Working"]

_log = logging.getLogger("tocsin.client")
_ATTENDING = msgspec.json.Decoder(Attending)
_RESUMED = msgspec.json.Decoder(Resumed)


class Worker:
    """The current work of one agent."""

    def __init__(self, caller: OperationCaller, inbox: Inbox, timeout_s: float) -> None:
        self._caller = caller
        self._inbox = inbox
        self._timeout_s = timeout_s
        #: messageIds of the current work, last, and of work put aside for it.
        self._stack: list[str] = []
        #: The latest message that interrupts; the inbox may have handed it out.
        self._interrupter: Message | None = None

    def arrived(self, message: Message) -> None:
        """Remember a message that interrupts."""
        if message.interrupts is not None:
            self._interrupter = message

    def working_on(self, message: Message, *, interruptible: bool) -> "Working":
        """Return the work on a message, which begins when it is entered."""
        return Working(self, message, interruptible=interruptible)

    async def begin(self, message: Message, *, interruptible: bool) -> str:
        """Begin work, or resume it if it was put aside; return the notes that were saved then."""
        arguments = {"message_id": message.message_id, "interruptible": interruptible}
        saved = ""
        try:
            await self._caller.call("begin_work", arguments, _ATTENDING)
        except StateConflict as refused:
            attention = await self._caller.call("get_attention", {}, _ATTENDING)
            if message.message_id not in attention.aside:
                raise refused from None
            saved = await self.resume(message.message_id)
        self._inbox.settled(message)
        self._stack.append(message.message_id)
        return saved

    async def take_up(self, message_id: str | None) -> Resumed:
        """Resume work that was put aside, by default the most recent, without having the message."""
        resumed = await self._caller.call("resume_work", {"message_id": message_id}, _RESUMED)
        self._stack.append(resumed.message_id)
        return resumed

    async def pause_point(self, save: Callable[[], str] | None) -> "Interruption | None":
        """Report a pause point, and put the work aside if a message interrupts it."""
        if not self._stack:
            raise refusal("E_STATE_002", "there is no work to pause: begin it with working_on", retryable=False)
        mine = self._stack[-1]
        attention = await self._caller.call("reach_pause_point", {}, _ATTENDING)
        if attention.interrupted_by is None:
            return None
        urgent = await self._interrupting(attention.interrupted_by)
        if urgent is None:
            await self.resume(mine)
            return None
        attention = await self._caller.call("put_aside", {"saved": "" if save is None else save()}, _ATTENDING)
        self._inbox.settled(urgent)
        self._stack.append(urgent.message_id)
        return Interruption(self, mine, urgent, is_work=attention.working_on == urgent.message_id)

    async def finish(self, message_id: str, *, processed: bool) -> None:
        """Finish work; if the hub put it aside because the agent seemed gone, resume it first."""
        self._stack.remove(message_id)
        try:
            await self._caller.call("finish_work", {"processed": processed}, _ATTENDING)
        except StateConflict:
            try:
                await self.resume(message_id)
            except StateConflict:
                return  # it is neither under way nor put aside: it was finished before
            await self._caller.call("finish_work", {"processed": processed}, _ATTENDING)

    async def resume(self, message_id: str) -> str:
        """Resume work that was put aside, and return the notes that were saved."""
        return (await self._caller.call("resume_work", {"message_id": message_id}, _RESUMED)).saved

    def dropped(self, message_id: str) -> None:
        """Remove an interrupting message that the hub does not count as work, because it had ended by then."""
        self._stack.remove(message_id)

    async def _interrupting(self, message_id: str) -> Message | None:
        """Wait for the message that interrupts; return null if it does not arrive, because it has ended."""
        known = self._interrupter
        if known is not None and known.message_id == message_id and not self._inbox.has(message_id):
            return known
        self._inbox.await_response()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._inbox.take_named(message_id)
        except TimeoutError:
            return None
        finally:
            self._inbox.response_came()


class Working:
    """Work on one message."""

    def __init__(self, worker: Worker, message: Message, *, interruptible: bool) -> None:
        self._worker = worker
        self._interruptible = interruptible
        #: The message that is worked on.
        self.message: Message = message
        #: Notes that were saved when the work was put aside, by this agent or by the hub; empty otherwise.
        self.saved: str = ""

    async def __aenter__(self) -> "Working":
        self.saved = await self._worker.begin(self.message, interruptible=self._interruptible)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _end(self._worker.finish(self.message.message_id, processed=error is None), error)

    async def pause_point(self, save: Callable[[], str] | None = None) -> "Interruption | None":
        """Allow an interruption here; if there is one, put the work aside with the notes that `save` returns.

        The message that interrupts is in the interruption, and is not handed out by the inbox as well.
        """
        return await self._worker.pause_point(save)


class Resuming:
    """Work that is resumed after a crash; its message was confirmed and is not delivered again."""

    def __init__(self, worker: Worker, message_id: str | None) -> None:
        self._worker = worker
        self._wanted = message_id
        #: The messageId of the work; `Agent.get_message` looks the message up.
        self.message_id: str = message_id or ""
        #: Notes that were saved when it was put aside.
        self.saved: str = ""
        #: Whether these notes were returned before.
        self.duplicate: bool = False

    async def __aenter__(self) -> "Resuming":
        resumed = await self._worker.take_up(self._wanted)
        self.message_id, self.saved, self.duplicate = resumed.message_id, resumed.saved, resumed.duplicate
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _end(self._worker.finish(self.message_id, processed=error is None), error)

    async def pause_point(self, save: Callable[[], str] | None = None) -> "Interruption | None":
        """Allow an interruption here; if there is one, put the work aside with the notes that `save` returns."""
        return await self._worker.pause_point(save)


class Interruption:
    """An interruption: entering it returns the message that interrupts, leaving it resumes the work."""

    def __init__(self, worker: Worker, work: str, message: Message, *, is_work: bool) -> None:
        self._worker = worker
        self._work = work
        self._is_work = is_work
        #: The message that interrupts.
        self.message: Message = message
        #: Notes that were saved of the work, once it is resumed.
        self.saved: str = ""

    async def __aenter__(self) -> Message:
        return self.message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _end(self._resume(processed=error is None), error)

    async def pause_point(self, save: Callable[[], str] | None = None) -> "Interruption | None":
        """Allow an interruption of the interruption."""
        return await self._worker.pause_point(save)

    async def _resume(self, *, processed: bool) -> None:
        if self._is_work:
            await self._worker.finish(self.message.message_id, processed=processed)
        else:
            self._worker.dropped(self.message.message_id)
        self.saved = await self._worker.resume(self._work)


async def _end(ending: Awaitable[None], error: BaseException | None) -> None:
    """Report the end of work; an error of the work takes precedence over an error of the report."""
    try:
        await ending
    except TocsinError:
        if error is None:
            raise
        _log.exception("the end of the work could not be reported")
