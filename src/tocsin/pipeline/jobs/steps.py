"""Steps of a run, and the lines that report them.

A run tells a listener when a step starts, how far it is, and how it ended. Where there is no terminal the command line
prints a line for each start and end, whose form is stable, so that a program that runs the pipeline in the background
can follow it: `parse_line` reads it.

    2 of 6 START events
    2 of 6 OK events [12345 rows in 5.21 s]
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

__all__ = ["Listener", "Running", "Step", "Steps", "parse_line"]

_LINE = re.compile(
    r"(?P<number>\d+) of (?P<count>\d+) (?P<state>START|OK|ERROR) (?P<name>\S+)"
    r"(?: \[(?:(?P<rows>\d+) rows in )?(?P<seconds>\d+\.\d+) s\])?"
)


class Step(msgspec.Struct, frozen=True):
    """State of one step."""

    #: Place among the steps of the run, from 1.
    number: int
    #: Number of steps of the run.
    count: int
    name: str
    #: `START`, `RUN` while it goes on, `OK` or `ERROR`.
    state: str
    #: Rows that it wrote, where it writes rows.
    rows: int | None = None
    #: Time that it has taken, seconds.
    seconds: float = 0.0
    #: Part that it is at, its parts that are done, and all; 0 if the number is not known.
    part: str = ""
    done: int = 0
    total: int = 0

    @property
    def line(self) -> str:
        """Return the line of a start or an end."""
        head = f"{self.number} of {self.count} {self.state} {self.name}"
        if self.state == "START":
            return head
        rows = "" if self.rows is None else f"{self.rows} rows in "
        return f"{head} [{rows}{self.seconds:.2f} s]"


Listener = Callable[[Step], None]


def parse_line(text: str) -> Step | None:
    """Return the step that a line reports; None for any other line."""
    found = _LINE.fullmatch(text.rstrip("\n"))
    if found is None:
        return None
    rows = None if found["rows"] is None else int(found["rows"])
    seconds = float(found["seconds"] or 0)
    return Step(int(found["number"]), int(found["count"]), found["name"], found["state"], rows, seconds)


class Running:
    """A step that is running."""

    def __init__(self, step: Step, listener: Listener) -> None:
        self._step = step
        self._listener = listener
        self._begin = time.monotonic()
        #: Rows that it wrote, set by its job.
        self.rows: int | None = None

    def at(self, state: str) -> Step:
        """Return the step in a state, now."""
        return msgspec.structs.replace(
            self._step, state=state, rows=self.rows, seconds=time.monotonic() - self._begin
        )  # fmt: skip

    def progress(self, part: str, done: int, total: int) -> None:
        """Report how far the step is."""
        self._listener(msgspec.structs.replace(self.at("RUN"), part=part, done=done, total=total))


class Steps:
    """The steps of a run, in order."""

    def __init__(self, names: Sequence[str], listener: Listener | None = None) -> None:
        self._names = list(names)
        self._listener = listener or (lambda step: None)

    @contextmanager
    def step(self, name: str) -> Iterator[Running]:
        """Report the start and the end of a step around the block."""
        running = Running(Step(self._names.index(name) + 1, len(self._names), name, "START"), self._listener)
        self._listener(running.at("START"))
        try:
            yield running
        except BaseException:
            self._listener(running.at("ERROR"))
            raise
        self._listener(running.at("OK"))
