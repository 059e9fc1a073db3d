"""The scenario on the document's first page, in steps instead of time: workers share a machine too small for them.

Each step publishes one frame, and the machine gives its units of work to the workers in turn, as they have frames. It
knows nothing of priorities: whatever protection there is, is the bus's. A step is two milliseconds, as it were, so
the millisecond for which a full critical channel is waited for is half of a step's work, done before the step's end.
"""

from itertools import cycle

import pytest

from tests.frames.tools import Clock
from tocsin.frames import Channel, FrameBus, Priority
from tocsin.frames.port import Ticket
from tocsin.frames.waiting import Waiter

STEPS = 5000


class Machine:
    """What the workers share."""

    def __init__(self, units_per_step: float) -> None:
        self.units_per_step = units_per_step
        self.units = 0.0
        self.workers: list[tuple[WorkerChannel, int]] = []
        self.turns = cycle(self.workers)

    def work(self, units: float) -> None:
        """Spend units on frames; what a frame costs too much is taken from the next units."""
        self.units += units
        while self.units > 0 and any(len(channel) for channel, _ in self.workers):
            channel, cost = next(self.turns)
            if len(channel):
                channel.get_nowait()
                self.units -= cost
        self.units = min(self.units, 0.0)


class WorkerChannel(Channel[int]):
    """A channel whose reader goes on while the publisher waits."""

    def __init__(self, capacity: int, machine: Machine) -> None:
        super().__init__(capacity)
        self.machine = machine
        self.waited = False

    def park(self, frame: int, waiter: Waiter) -> Ticket:
        ticket = super().park(frame, waiter)
        self.machine.work(self.machine.units_per_step / 2)
        self.waited = True
        return ticket


def run(workers: dict[str, tuple[Priority, int]], units_per_step: float) -> dict[str, float]:
    """Return each worker's share of dropped frames; workers come as priority and cost of a frame."""
    bus: FrameBus[int] = FrameBus(clock=Clock())
    machine = Machine(units_per_step)
    for name, (priority, cost) in workers.items():
        channel = WorkerChannel(5, machine)
        machine.workers.append((channel, cost))
        bus.subscribe(name, channel, priority, timeout_s=1e-9 if priority is Priority.CRITICAL else None)
    for frame in range(STEPS):
        bus.publish(frame)
        waited = any(channel.waited for channel, _ in machine.workers)
        machine.work(units_per_step / 2 if waited else units_per_step)
        for channel, _ in machine.workers:
            channel.waited = False
    stats = bus.stats()
    return {name: stats.subscribers[name].dropped / stats.published for name in workers}


def test_three_workers_on_a_machine_for_half_of_their_work() -> None:
    dropped = run(
        {
            "person detection": (Priority.CRITICAL, 1),
            "fall detection": (Priority.HIGH, 1),
            "experimental pose model": (Priority.BEST_EFFORT, 3),
        },
        units_per_step=2.5,
    )
    assert dropped["person detection"] == 0
    assert dropped["fall detection"] <= 0.10
    assert dropped["experimental pose model"] >= 0.80


def test_one_worker_per_priority_on_a_machine_for_half_of_their_work() -> None:
    workers = {priority.name: (priority, 1) for priority in Priority}
    dropped = run({**workers, "BEST_EFFORT": (Priority.BEST_EFFORT, 2)}, units_per_step=2.5)
    assert dropped["CRITICAL"] == 0
    assert dropped["HIGH"] <= 0.10
    assert dropped["BEST_EFFORT"] >= 0.80
    assert dropped["HIGH"] <= dropped["NORMAL"] <= dropped["BEST_EFFORT"]


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.BEST_EFFORT])
def test_without_priorities_the_same_load_hits_everyone(priority: Priority) -> None:
    dropped = run({"first": (priority, 1), "second": (priority, 1), "third": (priority, 3)}, units_per_step=2.5)
    assert all(0.45 <= share <= 0.55 for share in dropped.values())
