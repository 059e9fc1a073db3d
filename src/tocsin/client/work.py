"""Working on a message, and being interrupted: what is put aside comes back, exactly once.

    async with me.working_on(message) as work:
        while step < steps:
            step = await do(step)
            if (interruption := await work.pause_point(save=lambda: str(step))) is not None:
                async with interruption as urgent:
                    await urgent.reply({"text": "seen"})
                step = int(interruption.saved)

The hub decides what may interrupt (`docs/concepts/attention.md`); here is only what the agent says about it.
"""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

from tocsin.client import operations as op
from tocsin.client.connection import Connection
from tocsin.client.inbox import Inbox
from tocsin.client.message import Message
from tocsin.client.teamwork_replies import Attending, Resumed
from tocsin.core.errors import StateConflict, TocsinError, refusal

__all__ = ["Interruption", "Resuming", "Worker", "Working"]

_log = logging.getLogger("tocsin.client")
_ATTENDING = msgspec.json.Decoder(Attending)
_RESUMED = msgspec.json.Decoder(Resumed)


class Worker:
    """What one agent works on."""

    def __init__(self, connection: Connection, inbox: Inbox, timeout_s: float) -> None:
        self._connection = connection
        self._inbox = inbox
        self._timeout_s = timeout_s
        #: What the agent works on, the latest last; what is before it was put aside.
        self._stack: list[str] = []
        #: The message that said last that it interrupts: the inbox may have handed it out.
        self._interrupter: Message | None = None

    def arrived(self, message: Message) -> None:
        """Look at what has come."""
        if message.interrupts is not None:
            self._interrupter = message

    def working_on(self, message: Message, *, interruptible: bool) -> "Working":
        """Prepare to work."""
        return Working(self, message, interruptible=interruptible)

    async def begin(self, message: Message, *, interruptible: bool) -> str:
        """Say that work begins, or goes on where it had been put aside; return what was saved of it then."""
        body = {"message_id": message.message_id, "interruptible": interruptible}
        saved = ""
        try:
            await self._call("begin_work", _ATTENDING, body)
        except StateConflict as refused:
            now: Attending = await self._call("attention", _ATTENDING, {})
            if message.message_id not in now.aside:
                raise refused from None
            saved = await self.resume(message.message_id)
        self._inbox.settled(message)
        self._stack.append(message.message_id)
        return saved

    async def take_up(self, message_id: str | None) -> Resumed:
        """Go on with what was put aside, the latest where none is named, without having the message."""
        body = {} if message_id is None else {"message_id": message_id}
        told: Resumed = await self._call("resume_work", _RESUMED, body)
        self._stack.append(told.message_id)
        return told

    async def pause_point(self, save: Callable[[], str] | None) -> "Interruption | None":
        """Let what may interrupt do so; what is worked on is put aside for it."""
        if not self._stack:
            raise refusal("E_STATE_002", "there is no work to pause: begin it with working_on", retryable=False)
        mine = self._stack[-1]
        told: Attending = await self._call("reach_pause_point", _ATTENDING, {})
        if told.interrupted_by is None:
            return None
        urgent = await self._interrupting(told.interrupted_by)
        if urgent is None:
            await self._call("resume_work", _RESUMED, {"message_id": mine})
            return None
        told = await self._call("put_aside", _ATTENDING, {"saved": "" if save is None else save()})
        self._inbox.settled(urgent)
        self._stack.append(urgent.message_id)
        return Interruption(self, mine, urgent, is_work=told.working_on == urgent.message_id)

    async def finish(self, message_id: str, *, processed: bool) -> None:
        """Say that work is done; what was put aside because the agent seemed gone is taken up for that."""
        self._stack.remove(message_id)
        try:
            await self._call("finish_work", _ATTENDING, {"processed": processed})
        except StateConflict:
            try:
                await self._call("resume_work", _RESUMED, {"message_id": message_id})
            except StateConflict:
                return  # it is neither under way nor put aside: this had been said before
            await self._call("finish_work", _ATTENDING, {"processed": processed})

    async def resume(self, message_id: str) -> str:
        """Go on with what was put aside, and return what was saved of it."""
        told: Resumed = await self._call("resume_work", _RESUMED, {"message_id": message_id})
        return told.saved

    def dropped(self, message_id: str) -> None:
        """Note that what interrupted was not work for the hub: it had ended by then."""
        self._stack.remove(message_id)

    async def _interrupting(self, message_id: str) -> Message | None:
        """Wait for the message that interrupts; nothing where it does not come, because it has ended."""
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

    async def _call(self, operation: str, decoder: "msgspec.json.Decoder[Any]", body: dict[str, Any]) -> Any:
        return await self._connection.submit(op.Call(operation=operation, body=body), decoder, self._timeout_s)


class Working:
    """Work on one message."""

    def __init__(self, worker: Worker, message: Message, *, interruptible: bool) -> None:
        self._worker = worker
        self._interruptible = interruptible
        #: What is worked on.
        self.message = message
        #: What had been saved of it, where it had been put aside: by this agent, or for it when it seemed gone.
        self.saved = ""

    async def __aenter__(self) -> "Working":
        self.saved = await self._worker.begin(self.message, interruptible=self._interruptible)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _end(self._worker.finish(self.message.message_id, processed=error is None), error)

    async def pause_point(self, save: Callable[[], str] | None = None) -> "Interruption | None":
        """Let the work be interrupted here; where it is, it is put aside with the text that `save` returns.

        What interrupts it comes with the interruption, and not by the inbox too.
        """
        return await self._worker.pause_point(save)


class Resuming:
    """Work that goes on after a crash: the message had been read by then, and does not come again."""

    def __init__(self, worker: Worker, message_id: str | None) -> None:
        self._worker = worker
        self._wanted = message_id
        #: What is worked on; `Agent.message` looks it up.
        self.message_id = message_id or ""
        #: What was saved of it, and whether this agent had been given that before.
        self.saved = ""
        self.duplicate = False

    async def __aenter__(self) -> "Resuming":
        told = await self._worker.take_up(self._wanted)
        self.message_id, self.saved, self.duplicate = told.message_id, told.saved, told.duplicate
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _end(self._worker.finish(self.message_id, processed=error is None), error)

    async def pause_point(self, save: Callable[[], str] | None = None) -> "Interruption | None":
        """Let the work be interrupted here; where it is, it is put aside with the text that `save` returns."""
        return await self._worker.pause_point(save)


class Interruption:
    """What interrupts: `async with` it as the message to deal with; then the work goes on where it was."""

    def __init__(self, worker: Worker, work: str, message: Message, *, is_work: bool) -> None:
        self._worker = worker
        self._work = work
        self._is_work = is_work
        #: What interrupts.
        self.message = message
        #: What was saved of the work, once it goes on.
        self.saved = ""

    async def __aenter__(self) -> Message:
        return self.message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _end(self._go_on(processed=error is None), error)

    async def pause_point(self, save: Callable[[], str] | None = None) -> "Interruption | None":
        """Let this be interrupted in its turn."""
        return await self._worker.pause_point(save)

    async def _go_on(self, *, processed: bool) -> None:
        if self._is_work:
            await self._worker.finish(self.message.message_id, processed=processed)
        else:
            self._worker.dropped(self.message.message_id)
        self.saved = await self._worker.resume(self._work)


async def _end(last_words: Any, error: BaseException | None) -> None:
    """Say the last words; what went wrong before is more important than what goes wrong with them."""
    try:
        await last_words
    except TocsinError:
        if error is None:
            raise
        _log.exception("the end of some work could not be told")
