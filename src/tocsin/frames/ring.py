"""Frames in shared memory for readers in other processes: written once, read in place.

    ring = FrameRing(slots=64, slot_bytes=1 << 20, context=context)
    channel = bus.subscribe("detector", ring.channel(capacity=8), Priority.CRITICAL)
    process = context.Process(target=detect, args=(channel.reader(),))
    bus.publish(ring.write(picture))

Theory of operation. A frame's bytes are in one slot of the ring, for all readers. A subscriber's channel carries only
the numbers of frames, in a small ring of its own that only the bus writes and only the reader reads; two semaphores
count its frames and its room. No lock is shared, so a reader that dies at any time leaves only a channel that fills up.

The ring does not wait for readers either: after `slots` more frames a slot is reused. A slot carries the number of its
frame, 0 while it is being written; a frame is intact as long as the slot has its number. Check this after reading, not
only before: with `RingFrame.intact`, or with `RingFrame.copy`, which does it. That relies on stores being visible in
the order in which they are made, as on x86-64; on a machine with weaker guarantees, the semaphore orders a frame's
bytes before its arrival, but the check afterwards may come too soon.
"""

import multiprocessing
import queue
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Any

from tocsin.frames.errors import ChannelClosedError, ChannelEmptyError, FrameOverwrittenError, FrameTooLargeError
from tocsin.frames.shared import SharedWords
from tocsin.frames.waiting import moment_after, time_left

_WORD = 8
_HEADER = 2  # words before the bytes of a slot: number of its frame, size of its frame


class RingFrame:
    """A frame in shared memory, valid until its slot is reused."""

    __slots__ = ("_position", "_view", "_words", "sequence", "size")

    def __init__(self, words: SharedWords, position: int, sequence: int) -> None:
        #: Number in the ring, from 1.
        self.sequence = sequence
        #: Size in bytes.
        self.size = words.words[position + 1]
        self._words = words
        self._position = position
        self._view: memoryview | None = None

    def __len__(self) -> int:
        return self.size

    @property
    def intact(self) -> bool:
        """Return whether its slot still holds this frame."""
        return self._words.open and self._words.words[self._position] == self.sequence

    @property
    def view(self) -> memoryview:
        """Return its bytes in place, read-only; what was read is valid if the frame is `intact` afterwards."""
        if not self.intact:
            raise FrameOverwrittenError(self.sequence)
        if self._view is None:
            start = (self._position + _HEADER) * _WORD
            self._view = self._words.bytes[start : start + self.size].toreadonly()
        return self._view

    def copy(self) -> bytes:
        """Return a copy of its bytes."""
        copied = bytes(self.view)
        if not self.intact:
            raise FrameOverwrittenError(self.sequence)
        return copied

    def release(self) -> None:
        """Release the view, if nothing else uses it."""
        if self._view is not None:
            try:
                self._view.release()
            except BufferError:  # something else uses it, such as an array: it is released with that
                return
            self._view = None


class FrameRing:
    """The publisher's side: slots in shared memory, and channels to readers in other processes."""

    def __init__(self, slots: int, slot_bytes: int, *, context: BaseContext | None = None) -> None:
        if slots < 2 or slot_bytes < 1:
            raise ValueError("a ring must have at least 2 slots of at least 1 byte")
        #: Start method of the processes that read here.
        self.context: BaseContext = context or multiprocessing.get_context()
        #: Number of frames that it holds.
        self.slots = slots
        #: Maximum size of a frame, bytes.
        self.slot_bytes = slot_bytes
        self._stride = _HEADER + -(-slot_bytes // _WORD)
        self._memory = SharedWords.create(slots * self._stride)
        self._held: list[RingFrame | None] = [None] * slots
        self._channels: list[RingChannel] = []
        self._sequence = 0

    def __enter__(self) -> "FrameRing":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, data: bytes | bytearray | memoryview) -> RingFrame:
        """Write a frame's bytes into the next slot; only one thread may write at a time."""
        source = memoryview(data).cast("B")
        if source.nbytes > self.slot_bytes:
            raise FrameTooLargeError(source.nbytes, self.slot_bytes)
        self._sequence += 1
        slot = self._sequence % self.slots
        overwritten = self._held[slot]
        if overwritten is not None:
            overwritten.release()
        position = slot * self._stride
        words = self._memory.words
        words[position] = 0
        words[position + 1] = source.nbytes
        start = (position + _HEADER) * _WORD
        self._memory.bytes[start : start + source.nbytes] = source
        words[position] = self._sequence
        frame = self._held[slot] = RingFrame(self._memory, position, self._sequence)
        return frame

    def channel(self, capacity: int) -> "RingChannel":
        """Return a channel to one reader in another process."""
        if capacity < 1:
            raise ValueError("a channel must hold at least 1 frame")
        self._channels = [channel for channel in self._channels if not channel.closed]
        channel = RingChannel(self, capacity)
        self._channels.append(channel)
        return channel

    def close(self) -> None:
        """Close the channels and remove the memory; readers that have it open keep it until they close."""
        for channel in self._channels:
            channel.close()
        for frame in self._held:
            if frame is not None:
                frame.release()
        self._memory.close()

    def layout(self) -> tuple[str, int, int]:
        """Return what a reader needs to find a frame: the memory's name, words per slot, slots."""
        return self._memory.name, self._stride, self.slots


class RingChannel:
    """The writing end of a channel to another process; it has the queue protocol, so the bus takes it like any queue.

    Its frames are `RingFrame`s of its own ring.
    """

    def __init__(self, ring: FrameRing, capacity: int) -> None:
        #: Number of frames that it holds.
        self.maxsize = capacity
        #: Whether it accepts no more frames.
        self.closed = False
        self._ring = ring
        self._memory = SharedWords.create(_FIRST + capacity)
        self._arrived: Any = ring.context.Semaphore(0)
        self._room: Any = ring.context.Semaphore(capacity)

    def reader(self) -> "RingReader":
        """Return the reading end, to be passed to the process that reads."""
        return RingReader(self._ring.layout(), self._memory.name, self.maxsize, self._arrived, self._room)

    def qsize(self) -> int:
        """Return the number of waiting frames."""
        if self.closed:
            return 0
        words = self._memory.words
        return max(0, words[_WRITTEN] - words[_SKIPPED] - words[_READ])

    def put_nowait(self, frame: RingFrame) -> None:
        """Put a frame, or raise `queue.Full`."""
        self.put(frame, False)

    def put(self, frame: RingFrame, block: bool = True, timeout_s: float | None = None) -> None:
        """Put a frame; wait for room up to a timeout, then raise `queue.Full`."""
        if self.closed:
            raise ChannelClosedError
        if not self._room.acquire(block, timeout_s):
            raise queue.Full
        words = self._memory.words
        written = words[_WRITTEN]
        words[_FIRST + written % self.maxsize] = frame.sequence
        words[_WRITTEN] = written + 1
        self._arrived.release()

    def get_nowait(self) -> None:
        """Skip the oldest waiting frame, or raise `queue.Empty`."""
        if self.closed or not self._arrived.acquire(False):
            raise queue.Empty
        self._memory.words[_SKIPPED] += 1
        self._room.release()

    def close(self) -> None:
        """Signal the end to the reader, and remove the memory."""
        if not self.closed:
            self.closed = True
            self._memory.words[_ENDED] = 1
            self._arrived.release()
            self._memory.close()


class RingReader:
    """The reading end of a channel, for one thread of one other process. It opens the memory at the first read."""

    def __init__(self, layout: tuple[str, int, int], memory: str, capacity: int, arrived: Any, room: Any) -> None:
        self._layout = layout
        self._memory_name = memory
        self._capacity = capacity
        self._arrived = arrived
        self._room = room
        self._slots: SharedWords | None = None
        self._numbers: SharedWords | None = None
        self._frame: RingFrame | None = None
        #: Frames that were overwritten before they could be read.
        self.overwritten = 0

    def __enter__(self) -> "RingReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[RingFrame]:
        try:
            while True:
                yield self.get()
        except ChannelClosedError:
            return

    def get(self, timeout_s: float | None = None) -> RingFrame:
        """Return the oldest frame, waiting for one; it is valid until the next `get`."""
        until = moment_after(timeout_s)
        while True:
            self._let_go()
            if not self._arrived.acquire(True, time_left(until)):
                raise ChannelEmptyError
            frame = self._locate(self._next_number())
            if frame is not None:
                return frame
            self.overwritten += 1

    def close(self) -> None:
        """Release the memory; the last frame's view ends with it."""
        self._let_go()
        for memory in (self._slots, self._numbers):
            if memory is not None:
                memory.close()
        self._slots = self._numbers = None

    def _next_number(self) -> int:
        """Return the oldest number; the bus may skip some meanwhile, so check for that."""
        if self._numbers is None:
            self._numbers = self._attach(self._memory_name)
        words = self._numbers.words
        read = words[_READ]
        while True:
            skipped = words[_SKIPPED]
            if words[_ENDED] and read + skipped >= words[_WRITTEN]:
                self._arrived.release()  # the next call must see the end too
                raise ChannelClosedError
            number: int = words[_FIRST + (read + skipped) % self._capacity]
            if words[_SKIPPED] == skipped:
                break
        words[_READ] = read + 1
        self._room.release()
        return number

    def _locate(self, number: int) -> RingFrame | None:
        name, stride, slots = self._layout
        if self._slots is None:
            self._slots = self._attach(name)
        frame = RingFrame(self._slots, number % slots * stride, number)
        self._frame = frame if frame.intact else None
        return self._frame

    def _attach(self, name: str) -> SharedWords:
        try:
            return SharedWords.attach(name)
        except FileNotFoundError:  # the ring was closed before this process began to read
            self._arrived.release()
            raise ChannelClosedError from None

    def _let_go(self) -> None:
        if self._frame is not None:
            self._frame.release()
            self._frame = None


# The words of a channel's memory. Each but the numbers has one writer: the bus, or for _READ the reader.
_WRITTEN, _SKIPPED, _READ, _ENDED, _FIRST = range(5)
