"""A worker for scripts: runs a command for each message of an agent, and settles the message by its exit code.

The payload is the command's standard input; the environment names the message. Exit code 0 marks the message as
processed, a stated code rejects it for good, and any other code, a signal or a timeout rejects it with a retry, which
the contract of its type allows or not. The receipt is sent when the command has ended or has run for a while, so a
worker that is killed before that gets the message again.

With pause points, the command is stopped (SIGSTOP) while a message that may interrupt it is handled, and continued
(SIGCONT) afterwards.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable

import msgspec

from tocsin.client.agent import Agent
from tocsin.client.messages.message import Message
from tocsin.client.messages.work import Working
from tocsin.core.errors import StateConflict, TocsinError

__all__ = ["Worker", "WorkerOptions"]

_log = logging.getLogger("tocsin.work")
#: Time for a command to end after it was asked to, seconds.
_END_TIMEOUT_S = 5.0


class WorkerOptions(msgspec.Struct, frozen=True):
    """Options of a worker."""

    #: Commands that run at the same time.
    concurrency: int
    #: Longest run of a command, seconds.
    timeout_s: float
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

    async def run(self) -> int:
        """Handle messages until none has come for the configured time; return how many were handled."""
        workers = [asyncio.ensure_future(self._work()) for _ in range(self._options.concurrency)]
        try:
            return sum(await asyncio.gather(*workers))
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> int:
        handled = 0
        async for message in self._agent.inbox(receipts="manual", timeout_s=self._options.idle_s):
            await self._settle(message)
            handled += 1
        return handled

    async def _settle(self, message: Message) -> None:
        """Run the command for a message, and settle the message."""
        try:
            if self._options.pause_every_s is None:
                await self._handle(message, None)
            else:
                with contextlib.suppress(_Failed):
                    async with self._agent.working_on(message) as work:
                        await self._handle(message, work)
        except TocsinError as error:
            _log.warning("%s could not be settled: %s", message.signal_id, error)

    async def _handle(self, message: Message, work: Working | None) -> None:
        code, output, why = await self._command(message, work)
        if code == 0:
            if self._options.reply is not None:
                await message.reply(_payload(output), type=self._options.reply)
            if work is None:
                with contextlib.suppress(StateConflict):  # the answer may have settled it
                    await message.mark_processed()
            return
        never = code == self._options.never_code
        _log.info("%s: %s, %s", message.signal_id, why, "rejected for good" if never else "rejected for now")
        await message.reject(why, code="E_TASK_003", can_retry=not never)
        if work is not None:
            raise _Failed

    async def _command(self, message: Message, work: Working | None) -> tuple[int | None, bytes, str]:
        """Run the command; return its exit code, its output, and how it ended in words."""
        keeps_output = self._options.reply is not None
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE if keeps_output else None,
                env=self._environment | _described(message),
                start_new_session=True,
            )
        except OSError as error:
            return None, b"", f"{self._argv[0]} cannot be started: {error}"
        talking = asyncio.ensure_future(self._talk(process, msgspec.json.encode(message.payload)))
        try:
            async with asyncio.timeout(self._options.timeout_s):
                await self._attend(message, process, talking, work)
        except TimeoutError:
            await _end(process)
            return None, b"", f"the command ran longer than {self._options.timeout_s:g} s"
        except BaseException:
            await _end(process)
            raise
        finally:
            talking.cancel()
            output = (await asyncio.gather(talking, return_exceptions=True))[0]
        code = process.returncode
        kept = output if isinstance(output, bytes) else b""
        return code, kept, f"the command ended with exit code {code}"

    async def _talk(self, process: asyncio.subprocess.Process, payload: bytes) -> bytes:
        """Write the payload, and read the output up to its limit; the rest is read and dropped."""
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(payload)
                await process.stdin.drain()
            process.stdin.close()
        output = b""
        while process.stdout is not None and (part := await process.stdout.read(65536)):
            output += part[: max(0, self._options.output_bytes_max - len(output))]
        await process.wait()
        return output

    async def _attend(
        self,
        message: Message,
        process: asyncio.subprocess.Process,
        talking: "asyncio.Future[bytes]",
        work: Working | None,
    ) -> None:
        """Wait for the command; send the receipt and the ACK of a long one, and reach its pause points."""
        options, loop = self._options, asyncio.get_running_loop()
        due: list[tuple[float, Callable[[], Awaitable[object]]]] = []
        if work is None:
            due.append((loop.time() + options.receipt_after_s, lambda: _confirmed(message)))
        if options.ack_after_s is not None:
            due.append((loop.time() + options.ack_after_s, lambda: message.acknowledge("queued")))
        if work is not None and options.pause_every_s is not None:
            due.append((loop.time() + options.pause_every_s, lambda: self._pause(process, work)))
        while due:
            at, act = min(due, key=lambda entry: entry[0])
            done, _ = await asyncio.wait({talking}, timeout=max(0.0, at - loop.time()))
            if done:
                return
            due.remove((at, act))
            await act()
            if work is not None and options.pause_every_s is not None and not due:
                due.append((loop.time() + options.pause_every_s, lambda: self._pause(process, work)))
        await talking

    async def _pause(self, process: asyncio.subprocess.Process, work: Working) -> None:
        """Reach a pause point; stop the command while a message that interrupts it is handled."""
        interruption = await work.pause_point(save=lambda: "")
        if interruption is None:
            return
        _signal(process, signal.SIGSTOP)
        try:
            with contextlib.suppress(_Failed):
                async with interruption as urgent:
                    code, output, why = await self._command(urgent, None)
                    if code != 0:
                        await urgent.reject(why, code="E_TASK_003", can_retry=code != self._options.never_code)
                        raise _Failed
                    if self._options.reply is not None:
                        await urgent.reply(_payload(output), type=self._options.reply)
        finally:
            _signal(process, signal.SIGCONT)


async def _confirmed(message: Message) -> None:
    message.confirm()


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


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a command and its process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(process, number)
        _signal(process, signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_TIMEOUT_S):
                await process.wait()
                return


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
