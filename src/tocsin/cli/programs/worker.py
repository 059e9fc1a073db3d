"""A worker for scripts: runs a command for each message of an agent, and settles the message by its exit code.

The payload is the command's standard input; the environment names the message. Exit code 0 marks the message as
processed, a stated code rejects it for good, and any other code, a signal or a timeout rejects it with a retry, which
the contract of its type allows or not. The receipt is sent when the command has ended or has run for a while.

The worker takes no more messages than it can begin: its window is the number of commands that it may start now. What
it has not taken stays at the hub, for another worker of the agent.

When the worker is stopped it takes nothing more and ends its commands. A command that ends with 0 nevertheless has
done its work. Any other message is given back: one without a receipt when the session ends, which uses no retry, and
one with a receipt by a rejection.

With pause points, the command is stopped (SIGSTOP) while a message that may interrupt it is handled, and continued
(SIGCONT) afterwards.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import msgspec

from tocsin.cli.programs.command import Command
from tocsin.cli.programs.guard import Guard
from tocsin.client.agent import Agent
from tocsin.client.messages.message import Message
from tocsin.client.messages.work import Working
from tocsin.core.errors import StateConflict, TocsinError
from tocsin.core.messages.model import State

__all__ = ["Worker", "WorkerOptions"]

_log = logging.getLogger("tocsin.work")
#: Time for the messages of ended commands to be settled, seconds.
_SETTLE_TIMEOUT_S = 5.0


class WorkerOptions(msgspec.Struct, frozen=True):
    """Options of a worker."""

    #: Commands that run at the same time.
    concurrency: int
    #: Longest run of a command, seconds.
    timeout_s: float
    #: Time from asking a command to end to ending it by force, seconds.
    kill_after_s: float
    #: Exit code that rejects a message for good.
    never_code: int
    #: Run of a command after which the receipt is sent although it goes on, seconds.
    receipt_after_s: float
    #: Run of a command after which its message is acknowledged as queued, seconds; null is never.
    ack_after_s: float | None
    #: Interval of the pause points of a running command, seconds; null is none.
    pause_every_s: float | None
    #: Time without a message after which the worker ends, seconds; null is never.
    idle_s: float | None
    #: Message type of the answer that carries the command's output; null sends none.
    reply: str | None
    #: Bytes of output that are kept for the answer.
    output_bytes_max: int


class _Failed(Exception):
    """The command failed: the work on its message is not done."""


class Worker:
    """Runs one command per message."""

    def __init__(self, agent: Agent, argv: list[str], environment: dict[str, str], options: WorkerOptions) -> None:
        self._agent, self._argv, self._environment, self._options = agent, argv, environment, options
        self._guard = Guard()
        self._taking: asyncio.Task[None] | None = None
        self._handling: set[asyncio.Task[None]] = set()
        self._commands: set[Command] = set()
        #: Messages that have a receipt while their command runs.
        self._received: set[str] = set()
        #: What stopped it; empty while it works.
        self.stopped_by = ""
        #: Number of messages whose command ended by itself, or was ended by its timeout.
        self.handled = 0
        #: Messages whose command was ended because the worker was stopped.
        self.ended: list[str] = []
        #: Number of those that were given back; others are when the session ends.
        self.given_back = 0

    async def run(self) -> None:
        """Handle messages until none has come for the configured time, or until it is stopped."""
        self._taking = asyncio.ensure_future(self._take())
        try:
            await asyncio.wait({self._taking})
            if self.stopped_by and self._handling:
                await asyncio.wait(self._handling, timeout=self._options.kill_after_s + _SETTLE_TIMEOUT_S)
            if not self._taking.cancelled():
                self._taking.result()
        finally:
            tasks = [self._taking, *self._handling]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._guard.close()

    def stop(self, why: str) -> None:
        """Take nothing more, and end the commands; the second time kill them."""
        if self.stopped_by:
            for command in self._commands:
                command.kill()
            return
        self.stopped_by = why
        self._agent.limit_window(0)
        for command in self._commands:
            command.ask_to_end()
        if self._taking is not None:
            self._taking.cancel()

    async def _take(self) -> None:
        """Take messages while commands can be started, until none has come for a while and none is handled."""
        handling, most = self._handling, self._options.concurrency
        self._agent.limit_window(most)
        messages = self._agent.inbox(receipts="manual", timeout_s=self._options.idle_s)
        while True:
            message = await anext(messages, None)
            if message is not None:
                task = asyncio.ensure_future(self._settle(message))
                handling.add(task)
                task.add_done_callback(handling.discard)
            elif not handling:
                return
            while len(handling) >= most:
                await asyncio.wait(handling, return_when=asyncio.FIRST_COMPLETED)

    async def _settle(self, message: Message) -> None:
        """Run the command for a message, and settle the message."""
        try:
            if self._options.pause_every_s is None:
                await self._handle(message, None)
            else:
                with contextlib.suppress(_Failed):
                    async with self._agent.working_on(message) as work:
                        self._received.add(message.signal_id)
                        await self._handle(message, work)
        except TocsinError as error:
            _log.warning("%s could not be settled: %s", message.signal_id, error)
        finally:
            self._received.discard(message.signal_id)
            self._resize()

    async def _handle(self, message: Message, work: Working | None) -> None:
        code, output, why = await self._command(message, work)
        if code == 0:
            self.handled += 1
            if self._options.reply is not None:
                await message.reply(_payload(output), type=self._options.reply)
            if work is None:
                with contextlib.suppress(StateConflict):  # the answer may have settled it
                    await message.mark_processed()
            return
        await self._reject(message, code, why)
        if work is not None:
            raise _Failed

    async def _reject(self, message: Message, code: int | None, why: str) -> None:
        """Reject a message whose command has failed, or give it back if the worker was stopped."""
        never = code == self._options.never_code
        if not self.stopped_by or never:
            self.handled += 1
            _log.info("%s: %s, %s", message.signal_id, why, "rejected for good" if never else "rejected for now")
            await message.reject(why, code="E_TASK_003", can_retry=not never)
            return
        self.ended.append(message.signal_id)
        if message.signal_id in self._received:
            reason = f"the worker was ended by {self.stopped_by} before its command had done its work"
            rejected = await message.reject(reason, code="E_TASK_003", can_retry=True)
            if rejected.state == State.QUEUED:
                self.given_back += 1
            else:
                _log.warning("%s has no retry left: it is a dead letter", message.signal_id)

    async def _command(self, message: Message, work: Working | None) -> tuple[int | None, bytes, str]:
        """Run the command; return its exit code, its output, and how it ended in words."""
        if self.stopped_by:
            return None, b"", "the command was not started"
        options = self._options
        try:
            command = await Command.start(
                self._argv,
                self._environment | _described(message),
                msgspec.json.encode(message.payload),
                self._guard,
                output_bytes_max=None if options.reply is None else options.output_bytes_max,
                kill_after_s=options.kill_after_s,
            )
        except OSError as error:
            return None, b"", f"{self._argv[0]} cannot be started: {error}"
        self._started(command)
        try:
            async with asyncio.timeout(options.timeout_s):
                await self._attend(message, command, work)
        except TimeoutError:
            return None, b"", f"the command ran longer than {options.timeout_s:g} s"
        finally:
            await command.end()
            self._commands.discard(command)
        return command.code, command.output, f"the command ended with exit code {command.code}"

    def _started(self, command: Command) -> None:
        """Note a command, to end it with the worker; the worker may have been stopped meanwhile."""
        self._commands.add(command)
        if self.stopped_by:
            command.ask_to_end()

    async def _attend(self, message: Message, command: Command, work: Working | None) -> None:
        """Wait for the command; send the receipt and the ACK of a long one, and reach its pause points."""
        options, loop = self._options, asyncio.get_running_loop()
        due: list[tuple[float, Callable[[], Awaitable[object]]]] = []
        if work is None:
            due.append((loop.time() + options.receipt_after_s, lambda: self._confirm(message)))
        if options.ack_after_s is not None:
            due.append((loop.time() + options.ack_after_s, lambda: self._acknowledge(message)))
        if work is not None and options.pause_every_s is not None:
            due.append((loop.time() + options.pause_every_s, lambda: self._pause(command, work)))
        while due:
            at, act = min(due, key=lambda entry: entry[0])
            done, _ = await asyncio.wait({command.over}, timeout=max(0.0, at - loop.time()))
            if done or self.stopped_by:
                break
            due.remove((at, act))
            await act()
            if work is not None and options.pause_every_s is not None and not due:
                due.append((loop.time() + options.pause_every_s, lambda: self._pause(command, work)))
        await asyncio.wait({command.over})

    async def _confirm(self, message: Message) -> None:
        self._receive(message)
        message.confirm()

    async def _acknowledge(self, message: Message) -> None:
        self._receive(message)
        await message.acknowledge("queued")

    def _receive(self, message: Message) -> None:
        """Note that a message gets its receipt although its command runs on, and so makes no room for another."""
        self._received.add(message.signal_id)
        self._resize()

    def _resize(self) -> None:
        """Take as many messages as commands can be started; with pause points, the hub looks after that."""
        if not self.stopped_by and self._options.pause_every_s is None:
            self._agent.limit_window(self._options.concurrency - len(self._received))

    async def _pause(self, command: Command, work: Working) -> None:
        """Reach a pause point; stop the command while a message that interrupts it is handled."""
        interruption = await work.pause_point(save=lambda: "")
        if interruption is None:
            return
        self._received.add(interruption.message.signal_id)
        command.pause()
        try:
            with contextlib.suppress(_Failed):
                async with interruption as urgent:
                    code, output, why = await self._command(urgent, None)
                    if code != 0:
                        await self._reject(urgent, code, why)
                        raise _Failed
                    self.handled += 1
                    if self._options.reply is not None:
                        await urgent.reply(_payload(output), type=self._options.reply)
        finally:
            self._received.discard(interruption.message.signal_id)
            command.resume()


def _described(message: Message) -> dict[str, str]:
    """Return the variables that name a message; its content is on standard input."""
    return {
        "TOCSIN_MESSAGE_ID": message.signal_id,
        "TOCSIN_SENDER": message.sender,
        "TOCSIN_TYPE": message.type,
        "TOCSIN_PRIORITY": message.priority,
        "TOCSIN_ATTEMPT": str(message.attempt),
    }


def _payload(output: bytes) -> dict[str, object]:
    """Return the output of a command as a payload: a JSON object as it is, anything else as text."""
    try:
        found = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    return found if isinstance(found, dict) else {"text": output.decode("utf-8", "replace").strip()}
