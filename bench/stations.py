"""A hub that records when Critical messages pass its stations, for `bench.hub`.

`python -m bench.stations FILE serve …` is `tocsin serve …`; it writes the times to FILE when it ends. They are by the
monotonic clock, which all processes of a machine share, so they can be compared with those of the sender and the
recipient. Only modules that stay interpreted in the compiled form are wrapped.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.report import percentile, table

__all__ = ["breakdown", "steps_of"]

#: Steps of a Critical message, each from the end of the one before.
STEPS = {
    "read": "sent, until its frame is read by the hub",
    "decided": "until it is decided",
    "flushed": "until its commit is requested: the commit under way has ended",
    "begun": "until the writing thread begins with it",
    "durable": "until it is durable",
    "noticed": "until the event loop continues",
    "pushed": "until it is given to the recipient's connection",
    "received": "until it is written and the recipient has it",
}
_ID = re.compile(rb'"messageId": ?"([^"]+)"')
_CRITICAL = b'"Critical"'

clock = time.perf_counter


class Recorder:
    """Times of Critical messages, and of commits."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, float]] = {}
        #: When each commit was requested, begun, durable and noticed.
        self.commits: list[list[float]] = []

    def install(self) -> None:
        """Wrap the methods of the hub at which the stations are."""
        from tocsin.gateways.websocket.connection import Connection  # Slow imports, which `bench.hub` does not need.
        from tocsin.gateways.websocket.outbox import Outbox
        from tocsin.hub.hosting.worker import Worker

        received, put_urgent, start = Connection.received, Outbox.put_urgent, Worker.start

        def receive(connection: Connection, data: bytes, *, text: bool) -> None:
            if _CRITICAL not in data:
                received(connection, data, text=text)
                return
            read = clock()
            received(connection, data, text=text)
            found = _ID.search(data)
            if found is not None:
                self.messages[found[1].decode()] = {"read": read, "decided": clock()}

        def put(outbox: Outbox, item: Any, size: int) -> None:
            pushed = clock()
            put_urgent(outbox, item, size)
            found = _ID.search(bytes(item.deliver.envelope))
            if found is not None and found[1].decode() in self.messages:
                self.messages[found[1].decode()]["pushed"] = pushed

        def begin(worker: Worker, job: Callable[[], Any], done: Callable[..., None]) -> None:
            if not worker.name.startswith("writer "):
                start(worker, job, done)
                return
            times = [clock()]
            self.commits.append(times)

            def timed_job() -> Any:
                times.append(clock())
                try:
                    return job()
                finally:
                    times.append(clock())

            def timed_done(*outcome: Any) -> None:
                times.append(clock())
                done(*outcome)

            start(worker, timed_job, timed_done)

        Connection.received = receive  # type: ignore[method-assign, assignment]
        Outbox.put_urgent = put  # type: ignore[method-assign, assignment]
        Worker.start = begin  # type: ignore[method-assign, assignment]

    def write(self, path: Path) -> None:
        """Write the times of every message that was pushed, with those of its commit."""
        commits = iter([times for times in self.commits if len(times) == 4])
        commit = next(commits, None)
        found = {}
        for message, times in self.messages.items():
            while commit is not None and commit[0] < times["decided"]:
                commit = next(commits, None)
            if commit is not None and "pushed" in times:
                found[message] = times | dict(zip(("flushed", "begun", "durable", "noticed"), commit, strict=True))
        path.write_text(json.dumps(found), encoding="ascii")


def steps_of(sent: dict[str, list[float]], passed: dict[str, dict[str, float]]) -> list[dict[str, float]]:
    """Return how long each message took for each step, in milliseconds; `sent` has its sending and its arrival."""
    found = []
    for message, (begin, end) in sent.items():
        times = passed.get(message)
        if times is None:
            continue
        times = times | {"received": end}
        steps, before = {}, begin
        for step in STEPS:
            steps[step] = (times[step] - before) * 1e3
            before = times[step]
        found.append(steps | {"all": (end - begin) * 1e3})
    return found


def breakdown(steps: list[dict[str, float]]) -> str:
    """Return a table of the steps: percentiles of each, and its mean in the slowest twentieth of the messages."""
    if not steps:
        return "no Critical message was traced"
    slow = sorted(steps, key=lambda one: one["all"])[-max(1, len(steps) // 20) :]
    rows = [
        [
            label,
            f"{percentile([one[step] for one in steps], 50):.2f}",
            f"{percentile([one[step] for one in steps], 99):.2f}",
            f"{sum(one[step] for one in slow) / len(slow):.2f}",
        ]
        for step, label in (STEPS | {"all": "in all"}).items()
    ]
    return table([f"Critical messages: {len(steps)}, ms", "p50", "p99", "mean of the slowest 5 %"], rows)


if __name__ == "__main__":
    from tocsin.cli import main

    recorder = Recorder()
    recorder.install()
    path = Path(sys.argv.pop(1))
    try:
        main()
    finally:
        recorder.write(path)
