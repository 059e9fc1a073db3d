"""Time slices that the hub's threads request from Linux, which takes such requests from version 6.12 on."""

import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import RunningHub
from tests.hub.test_wakers import script, send, sleeping_bob, written
from tocsin.hub.config import load_config
from tocsin.hub.hosting.time_slice import request_time_slice, time_slice_s

_ASKED_S = 0.0005


def takes_requests() -> bool:
    """Tell whether the kernel of this machine takes requests for time slices."""
    release = platform.release().split(".")
    return sys.platform == "linux" and (int(release[0]), int(release[1])) >= (6, 12)


def in_thread(job: Callable[[], Any]) -> Any:
    """Return the result of a job that runs in a thread of its own."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(job()))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def default_s() -> Iterator[float]:
    """The kernel's default; the thread of the test has it again afterwards."""
    yield time_slice_s()
    request_time_slice(0)


def test_a_thread_and_those_that_it_starts_have_the_time_slice_that_it_requested(default_s: float) -> None:
    def requested() -> tuple[float, float]:
        request_time_slice(_ASKED_S)
        return time_slice_s(), in_thread(time_slice_s)

    expected = (_ASKED_S, _ASKED_S) if takes_requests() else (default_s, default_s)
    assert in_thread(requested) == expected
    assert time_slice_s() == default_s, "of another thread"


def test_the_default_is_back_after_a_request_for_none(default_s: float) -> None:
    request_time_slice(_ASKED_S)
    request_time_slice(0)
    assert time_slice_s() == default_s


def test_the_niceness_of_a_thread_stays(default_s: float) -> None:
    def requested() -> int:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)
        request_time_slice(_ASKED_S)
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert in_thread(requested) == 7


def test_a_machine_without_these_calls_is_left_alone(monkeypatch: pytest.MonkeyPatch, default_s: float) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(platform, "machine", lambda: "pdp11")
        request_time_slice(_ASKED_S)
        assert time_slice_s() == 0
    assert time_slice_s() == default_s


def test_every_thread_of_a_served_hub_has_the_configured_one(tmp_path: Path) -> None:
    expected = round(load_config(None).time_slice_s * 1e9)
    with RunningHub(tmp_path / "data") as hub:
        threads = [one.read_text() for one in Path(f"/proc/{hub.process.pid}/task").glob("*/sched")]
        slices = {int(line.split()[-1]) for text in threads for line in text.splitlines() if "se.slice" in line}
    assert len(threads) > 2, "the loop, commits, and tables"
    assert (slices == {expected}) is takes_requests()


async def test_a_woken_program_has_the_default(tmp_path: Path, default_s: float) -> None:
    program = """
    import pathlib, sys
    from tocsin.hub.hosting.time_slice import time_slice_s
    told = pathlib.Path(sys.argv[1]) / "told"
    told.with_name("told.new").write_text(str(time_slice_s()))
    told.with_name("told.new").rename(told)
    """
    request_time_slice(_ASKED_S)
    async with sleeping_bob(tmp_path, script(tmp_path, program)) as (team, _):
        await send(team, 1)
        told = await written(tmp_path / "told")
    assert float(told) == default_s
