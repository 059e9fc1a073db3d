"""Closing of the sessions of open agents when their process is terminated, or exits without closing them.

Theory of operation. The default action of SIGTERM ends a process at once, so its sessions would stay at the hub for the
time to resume, with all that they have not confirmed. While agents are open, and only if the program has not chosen
what SIGTERM does, a handler in the main thread starts a thread. That thread closes all sessions at the same time, each
on the loop of its agent, waits a limited time, and signals the main thread again. The second signal, also if it comes
from outside, has the default action. The program is not told: its inboxes hand out nothing more and do not
end, so that it is ended where it is, as it would be without a handler.

A program that exits while agents are open closes those of synchronous code here, before their daemon threads end. An
asynchronous agent says goodbye when its event loop cancels the connection.
"""

import asyncio
import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["add", "remove", "restore", "watch"]


class _Open(NamedTuple):
    """An agent whose session is closed when the process ends."""

    loop: asyncio.AbstractEventLoop
    leave: Callable[[], Coroutine[Any, Any, None]]
    #: Longest time that closing takes, seconds.
    timeout_s: float


#: Interval at which the main thread is signalled until it has ended the process, seconds.
_SIGNAL_EVERY_S = 0.05
#: Open agents.
_open: dict[object, _Open] = {}
#: Closes the sessions after SIGTERM.
_closing: threading.Thread | None = None
#: Signals that were blocked in a thread before it forked.
_forking = threading.local()


def add(agent: object, leave: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> None:
    """Call `leave` on the running loop when the process ends while the agent is open."""
    _open[agent] = _Open(asyncio.get_running_loop(), leave, timeout_s)


def watch() -> None:
    """Handle SIGTERM while agents are open, if this is the main thread and SIGTERM has its default action."""
    if _open and _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)


def remove(agent: object) -> None:
    """Forget an agent that is closed."""
    _open.pop(agent, None)
    restore()


def restore() -> None:
    """Give SIGTERM its default action again, if this is the main thread, no agent is open and the process goes on."""
    if not _open and _closing is None and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _terminated(number: int, frame: FrameType | None) -> None:
    """Begin to close the sessions; end the process if that is done, or if SIGTERM comes again meanwhile."""
    global _closing
    if _closing is None and _open:
        _closing = threading.Thread(target=_close_and_end, name="tocsin termination", daemon=True)
        _closing.start()
    else:
        _end()


def _end() -> None:
    """End the process by SIGTERM, so that its parent sees what ended it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)
    # The first process of a container has no default action: the kernel ignores the signal.
    os._exit(128 + signal.SIGTERM)


def _close_and_end() -> None:
    try:
        _close(list(_open.values()))
    finally:
        # Only a signal to the main thread itself interrupts what it waits for, and not one that comes just before.
        while signal.getsignal(signal.SIGTERM) is _terminated:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            time.sleep(_SIGNAL_EVERY_S)


def _close(agents: list[_Open]) -> None:
    """Close sessions at the same time, and wait no longer than the slowest may take."""
    running = [agent for agent in agents if agent.loop.is_running()]
    closing = [asyncio.run_coroutine_threadsafe(agent.leave(), agent.loop) for agent in running]
    wait(closing, max((agent.timeout_s for agent in running), default=0.0))


@atexit.register
def _exit() -> None:
    """Close the agents whose loops still run; end by SIGTERM if that was under way."""
    if _closing is None:
        _close(list(_open.values()))
    else:
        _closing.join()
        _end()


def _before_fork() -> None:
    """Hold back SIGTERM: Python drops what a handler has not handled yet in a forked process."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _after_fork_in_child() -> None:
    """Leave the agents of the parent alone."""
    global _closing
    _closing = None
    _open.clear()
    restore()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child, after_in_parent=_after_fork)
