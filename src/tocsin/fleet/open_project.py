"""One open project: its hub and its application, opened and closed by a task of its own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

from starlette.types import ASGIApp

from tocsin.core.errors import Problem, error_for
from tocsin.fleet.assembly import project_app
from tocsin.hub.service import Hub
from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.journal.open_files import OPEN_FILES, TOO_MANY_FILES, reason_of

__all__ = ["OpenProject"]


class OpenProject:
    """A project that is open, or is being opened."""

    def __init__(self, name: str, open_hub: Callable[[threading.Event], Awaitable[Hub]], drain_s: float) -> None:
        """Open a project; `open_hub` gets an event that is set if the project is closed before it is open."""
        self.name = name
        self._open_hub = open_hub
        self._drain_s = drain_s
        self._given_up = threading.Event()
        self._moves_to: str | None = None
        self._unused = asyncio.Event()
        self._unused.set()
        self._loop = loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[ASGIApp] = loop.create_future()
        #: Set while callers need not wait: the project is open, cannot be opened, or they are refused.
        self._answerable = asyncio.Event()
        #: Why callers are refused while the project waits to be opened; null if they wait too.
        self.refusal: Problem | None = None
        self._closing = asyncio.Event()
        #: Its hub, once it is open.
        self.hub: Hub | None = None
        #: Calls and connections that have not ended.
        self.calls = 0
        #: When the last call began or ended, in the loop's time.
        self.used_at = loop.time()
        # The library of MCP wants to be left by the task that entered it.
        self._task = loop.create_task(self._run(), name=f"project {name}")

    async def app(self) -> ASGIApp:
        """Wait until the project is open, and return its application; raise why it is not opened, or not yet."""
        while not self._ready.done():
            if self.refusal is not None:
                raise error_for(self.refusal)
            await self._answerable.wait()
        return self._ready.result()

    async def opened(self) -> None:
        """Wait until the project is open, also while callers are refused; raise the error that kept it from opening."""
        await asyncio.shield(self._ready)

    def refuse(self, refusal: Problem | None) -> None:
        """Refuse callers until the project is open, those who wait as well; with null, let them wait."""
        self.refusal = refusal
        if refusal is not None:
            self._answerable.set()
        elif not self._ready.done():
            self._answerable.clear()

    @property
    def is_open(self) -> bool:
        """Tell whether the project answers its callers."""
        return self._ready.done() and not self.ended

    @property
    def ended(self) -> bool:
        """Tell whether the project has been closed, or could not be opened."""
        return self._task.done()

    def enter(self) -> None:
        """Note that a call begins."""
        self.calls += 1
        self._unused.clear()
        self.used_at = self._loop.time()

    def leave(self) -> None:
        """Note that a call has ended."""
        self.calls -= 1
        if not self.calls:
            self._unused.set()
        self.used_at = self._loop.time()

    async def close(self, moves_to: str | None, before_release: Callable[[Hub], Awaitable[None]]) -> None:
        """Tell the callers to leave, wait for the work under way, and close.

        `moves_to` is where the callers should go. `before_release` is called once they are gone, while the project is
        still owned.
        """
        self._moves_to = moves_to
        self._given_up.set()
        if self.hub is not None:
            self._tell_callers(self.hub)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain_s):
                    await self._unused.wait()
            await before_release(self.hub)
        self._closing.set()
        await asyncio.wait([self._task])

    def _tell_callers(self, hub: Hub) -> None:
        hub.moves_to = self._moves_to
        hub.closing.set()

    async def _run(self) -> None:
        try:
            self.hub = hub = await self._open_hub(self._given_up)
        except BaseException as error:
            self._fail(error)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        if self._given_up.is_set():
            self._tell_callers(hub)
        stopped = self._loop.create_task(hub.host.stopped(), name=f"project {self.name} stopped")
        closing = self._loop.create_task(self._closing.wait(), name=f"project {self.name} closing")
        try:
            async with AsyncExitStack() as gateways:
                self._ready.set_result(await project_app(hub, gateways))
                self._answerable.set()
                await asyncio.wait([stopped, closing], return_when=asyncio.FIRST_COMPLETED)
                hub.closing.set()
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            stopped.cancel()
            closing.cancel()
            await hub.close()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, OSError):
            error = JournalUnavailable(reason_of(error, "io_error"), str(error))
        if isinstance(error, JournalError) and error.reason == TOO_MANY_FILES:
            OPEN_FILES.report(f"project {self.name} cannot be opened", error)
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # Nobody may be waiting for it.
            self._answerable.set()
