"""One run of a worker's command, in a process group of its own that ends with it.

The payload is its standard input, a file without a name: a program that does not read it blocks nobody. When the
program has ended, what it leaves in its group is ended as well: a retry must not run beside the remains of the run
before it. A program that has moved to a session of its own has left the group, and is neither ended nor waited for.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from tocsin.cli.programs.guard import Guard
from tocsin.process_groups import end_group, has_members, signal_group

__all__ = ["Command"]

#: Intervals at which a group that ends is looked at, seconds: they double from the first to the last.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 0.1
#: Time for a group to be gone after SIGKILL, and for its output to be closed, seconds.
_KILLED_S = 2.0


class Command:
    """A command that was started; `over` is done, with its output, when its group has ended."""

    def __init__(self, process: asyncio.subprocess.Process, guard: Guard, kill_after_s: float) -> None:
        self._process, self._guard, self._kill_after_s = process, guard, kill_after_s
        self._group = process.pid
        self._output = bytearray()
        self._killing: asyncio.TimerHandle | None = None
        self.over: asyncio.Task[None]

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        environment: dict[str, str],
        payload: bytes,
        guard: Guard,
        *,
        output_bytes_max: int | None,
        kill_after_s: float,
    ) -> "Command":
        """Start a command; keep its output up to a size, or with null let it write to that of this process."""
        source, sink = (None, None) if output_bytes_max is None else os.pipe()
        try:
            with _file(payload) as given:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=given,
                    stdout=sink,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=guard.registration(),
                )
        except BaseException:
            guard.withdraw(0)
            if source is not None:
                os.close(source)
            raise
        finally:
            if sink is not None:
                os.close(sink)
        guard.registered(process.pid)
        command = cls(process, guard, kill_after_s)
        command.over = asyncio.ensure_future(command._run(source, output_bytes_max or 0))
        return command

    @property
    def code(self) -> int | None:
        """Return its exit code, with a minus the number of the signal that ended it."""
        return self._process.returncode

    @property
    def output(self) -> bytes:
        """Return the first part of its output, up to the limit."""
        return bytes(self._output)

    def pause(self) -> None:
        """Stop it, unless it was asked to end."""
        if self._killing is None:
            signal_group(self._group, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it after a pause."""
        signal_group(self._group, signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Ask it and all others of its group to end; kill them after a while."""
        if self._killing is None and not self.over.done():
            end_group(self._group)
            self._killing = asyncio.get_running_loop().call_later(self._kill_after_s, self.kill)

    def kill(self) -> None:
        """End it and all others of its group at once."""
        if not self.over.done():
            signal_group(self._group, signal.SIGKILL)

    async def end(self) -> None:
        """Ask it to end, and wait until it has."""
        self.ask_to_end()
        await asyncio.wait({self.over}, timeout=self._kill_after_s + 2 * _KILLED_S)

    async def _run(self, source: int | None, output_bytes_max: int) -> None:
        """Wait for the program, end what it has left in its group, and read its output meanwhile."""
        reading = None if source is None else asyncio.ensure_future(self._read(source, output_bytes_max))
        try:
            await self._process.wait()
            if has_members(self._group):
                self.ask_to_end()
                await self._gone()
            if reading is not None:  # A program that has left the group may keep the output open.
                await asyncio.wait({reading}, timeout=_KILLED_S)
        finally:
            if self._killing is not None:
                self._killing.cancel()
            if reading is not None:
                reading.cancel()
            self._guard.withdraw(self._group)

    async def _gone(self) -> None:
        """Wait until the group has no members, or some that even SIGKILL does not end."""
        loop, step = asyncio.get_running_loop(), _FIRST_LOOK_S
        until = loop.time() + self._kill_after_s + _KILLED_S
        while has_members(self._group) and loop.time() < until:
            await asyncio.sleep(step)
            step = min(2 * step, _LAST_LOOK_S)

    async def _read(self, source: int, most: int) -> None:
        """Read the output; the part above the limit is dropped."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(source, "rb"))
        try:
            while part := await reader.read(65536):
                self._output += part[: max(0, most - len(self._output))]
        finally:
            transport.close()


def _file(payload: bytes) -> IO[bytes]:
    """Return a file without a name that holds a payload, in memory where the system has such files."""
    file: IO[bytes]
    if sys.platform == "linux":
        file = os.fdopen(os.memfd_create("payload"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(payload)
    file.seek(0)
    return file
