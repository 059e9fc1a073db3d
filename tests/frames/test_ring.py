import multiprocessing
import os
import queue
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from pickle import PickleBuffer
from typing import Any

import pytest

from tests.frames.tools import PATIENCE_S
from tocsin.frames import FrameBus, FrameRing, OnFull, Priority, RingFrame, RingReader
from tocsin.frames.errors import (
    ChannelClosedError,
    ChannelEmptyError,
    FrameOverwrittenError,
    FrameTooLargeError,
    UnfitChannelError,
)

METHODS = sorted(set(multiprocessing.get_all_start_methods()) - {"forkserver"})


def copy_all(reader: RingReader, results: Connection) -> None:
    """Run in a process: send every frame back, then the number of overwritten ones."""
    with reader, results:
        for frame in reader:
            results.send(frame.copy())
        results.send(reader.overwritten)


def take_one_and_hang(reader: RingReader, results: Connection) -> None:
    """Run in a process: take a frame, hold on to it, and wait to be killed."""
    frame = reader.get()
    results.send(bytes(frame.view))
    signal.pause()


@pytest.mark.parametrize("method", METHODS)
def test_processes_read_what_was_written_once(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with FrameRing(slots=16, slot_bytes=1000, context=context) as ring, FrameBus[RingFrame]() as bus:
        here = bus.subscribe("here", priority=Priority.CRITICAL)
        ends = []
        for name in ("first", "second"):
            channel = bus.subscribe(name, ring.channel(4), Priority.CRITICAL, timeout_s=PATIENCE_S)
            results, theirs = context.Pipe(duplex=False)
            process = context.Process(target=copy_all, args=(channel.reader(), theirs))
            process.start()
            theirs.close()
            ends.append((process, results))
        frames = [bytes([number]) * (number * 100) for number in range(10)]
        for frame in frames:
            bus.publish(ring.write(frame))
        for _, results in ends:
            assert [results.recv() for _ in frames] == frames
        assert [here.get().copy() for _ in range(3)] == frames[:3]
        ring.close()
        for process, results in ends:
            assert results.recv() == 0
            results.close()
            process.join(PATIENCE_S)
            assert process.exitcode == 0
        assert bus.stats().critical_dropped == 0


def test_a_reader_that_dies_blocks_nobody() -> None:
    context = multiprocessing.get_context("spawn")
    with FrameRing(slots=4, slot_bytes=8, context=context) as ring, FrameBus[RingFrame]() as bus:
        channel = bus.subscribe("victim", ring.channel(2), Priority.CRITICAL)
        other = bus.subscribe("other", priority=Priority.CRITICAL)
        results, theirs = context.Pipe(duplex=False)
        process = context.Process(target=take_one_and_hang, args=(channel.reader(), theirs))
        process.start()
        theirs.close()
        bus.publish(ring.write(b"0"))
        assert results.recv() == b"0"
        results.close()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE_S)
        for number in range(1, 10):
            bus.publish(ring.write(b"%d" % number))
        victim = bus.stats().subscribers["victim"]
        assert (victim.sent, victim.dropped) == (3, 7)
        assert len(other) == 10


def test_an_overwritten_frame_is_noticed_before_and_after_reading() -> None:
    with FrameRing(slots=2, slot_bytes=8) as ring:
        first = ring.write(b"first")
        view = first.view
        assert (bytes(view), first.intact, len(first)) == (b"first", True, 5)
        ring.write(b"second")
        assert first.copy() == b"first"
        ring.write(b"third")
        assert first.intact is False
        for read in (first.copy, lambda: first.view):
            with pytest.raises(FrameOverwrittenError, match="frame 1 "):
                read()


def test_a_frame_overwritten_while_it_is_copied_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with FrameRing(slots=2, slot_bytes=8) as ring:
        frame = ring.write(b"first")
        looks = iter([True, False])
        monkeypatch.setattr(RingFrame, "intact", property(lambda self: next(looks)))
        with pytest.raises(FrameOverwrittenError):
            frame.copy()


def test_a_reader_passes_over_what_was_overwritten_and_counts_it() -> None:
    with FrameRing(slots=2, slot_bytes=8) as ring:
        channel = ring.channel(8)
        for number in range(5):
            channel.put_nowait(ring.write(b"%d" % number))
        with channel.reader() as reader:
            assert [reader.get().copy() for _ in range(2)] == [b"3", b"4"]
            assert reader.overwritten == 3
            with pytest.raises(ChannelEmptyError):
                reader.get(timeout_s=0)


def test_the_last_frame_ends_with_the_next() -> None:
    with FrameRing(slots=4, slot_bytes=8) as ring:
        channel = ring.channel(4)
        channel.put_nowait(ring.write(b"a"))
        channel.put_nowait(ring.write(b"b"))
        with channel.reader() as reader:
            view = reader.get().view
            reader.get()
            with pytest.raises(ValueError, match="released"):
                bytes(view)
            with pytest.raises(TypeError, match="read-only"):
                ring.write(b"c").view[0] = 1


def test_the_channel_is_bounded_and_can_keep_the_latest() -> None:
    with FrameRing(slots=16, slot_bytes=8) as ring, FrameBus[RingFrame]() as bus:
        newest = bus.subscribe("newest", ring.channel(2))
        latest = bus.subscribe("latest", ring.channel(2), on_full=OnFull.DROP_OLDEST)
        with newest.reader() as first, latest.reader() as second:
            for number in range(5):
                bus.publish(ring.write(b"%d" % number))
            assert (newest.qsize(), latest.qsize()) == (2, 2)
            assert [first.get().copy() for _ in range(2)] == [b"0", b"1"]
            assert [second.get().copy() for _ in range(2)] == [b"3", b"4"]
            bus.publish(ring.write(b"5"))
            assert first.get().copy() == second.get().copy() == b"5"
        assert [account.dropped for account in bus.stats().subscribers.values()] == [3, 3]
        with pytest.raises(queue.Empty):
            latest.get_nowait()


def test_the_end_is_seen_after_the_last_frame_and_every_time() -> None:
    with FrameRing(slots=4, slot_bytes=8) as ring:
        channel = ring.channel(4)
        reader = channel.reader()
        channel.put_nowait(ring.write(b"a"))
        assert reader.get().copy() == b"a"
        channel.put_nowait(ring.write(b"b"))
        channel.close()
        assert [frame.copy() for frame in reader] == [b"b"]
        with pytest.raises(ChannelClosedError):
            reader.get()
        reader.close()
        with pytest.raises(ChannelClosedError):
            channel.put_nowait(ring.write(b"c"))
        assert channel.qsize() == 0


def test_a_reader_that_comes_too_late_sees_the_end() -> None:
    with FrameRing(slots=4, slot_bytes=8) as ring:
        reader = ring.channel(4).reader()
    for _ in range(2):
        with pytest.raises(ChannelClosedError):
            reader.get()


def test_what_does_not_fit_is_refused() -> None:
    with FrameRing(slots=2, slot_bytes=8) as ring, FrameBus[RingFrame]() as bus:
        with pytest.raises(FrameTooLargeError, match="9 bytes"):
            ring.write(b"123456789")
        with pytest.raises(ValueError, match="at least 1"):
            ring.channel(0)
        channel = ring.channel(1)
        channel.close()
        with pytest.raises(UnfitChannelError, match="closed"):
            bus.subscribe("worker", channel)
    with pytest.raises(ValueError, match="at least 2 slots"):
        FrameRing(slots=1, slot_bytes=8)


def test_a_view_that_someone_holds_keeps_the_memory_until_it_is_let_go() -> None:
    ring = FrameRing(slots=2, slot_bytes=8)
    held = PickleBuffer(ring.write(b"held").view)
    ring.write(b"next")
    with pytest.raises(BufferError):
        ring.close()
    assert bytes(held.raw()) == b"held"
    held.release()
    ring.close()


def test_a_slot_whose_view_someone_holds_is_used_again_all_the_same() -> None:
    with FrameRing(slots=2, slot_bytes=8) as ring:
        frame = ring.write(b"held")
        held = PickleBuffer(frame.view)
        ring.write(b"next")
        ring.write(b"over")
        assert bytes(held.raw()) == b"over"
        assert frame.intact is False
        held.release()
        frame.release()


PROGRAM = """
import multiprocessing
from tests.frames.test_ring import copy_all
from tocsin.frames import FrameBus, FrameRing

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    with FrameRing(slots=8, slot_bytes=100, context=context) as ring, FrameBus() as bus:
        channel = bus.subscribe("worker", ring.channel(4))
        results, theirs = context.Pipe(duplex=False)
        process = context.Process(target=copy_all, args=(channel.reader(), theirs))
        process.start()
        bus.publish(ring.write(b"frame"))
        print(results.recv(), *ring.layout()[:1])
        ring.close()
        process.join()
"""


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_behind_and_nothing_complains(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(method=method))
    root = Path(__file__).parents[2]
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    frame, memory = ended.stdout.split()
    assert frame == "b'frame'"
    with pytest.raises(FileNotFoundError):
        SharedMemory(memory)
