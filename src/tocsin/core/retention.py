"""How long the live state remembers what has ended.

Ended messages answer duplicates, recalls and late confirmations for a while; acknowledged ones wait to be processed;
threads wait to go on. Forgetting is an event of its own, at the end of a decision or in a tick and never in between, so
that a decision can rely on what it has looked up.
"""

from collections.abc import Iterator
from itertools import islice, takewhile

from tocsin.core import events as ev
from tocsin.core.message import State
from tocsin.core.state import ProjectState
from tocsin.core.turn import Turn

__all__ = ["apply_forgotten", "fire_retention", "retention_due", "trim"]

_ENDED = frozenset({State.DELIVERED, State.PROCESSED, State.EXPIRED, State.RECALLED})


def trim(turn: Turn) -> None:
    """Forget the oldest of what is too much, a batch at a time."""
    state, retention = turn.state, turn.policy.retention
    batch = retention.batch
    settled = len(state.settled) >= retention.settled_max + batch
    acknowledged = len(state.acknowledged) >= retention.acknowledged_max + batch
    threads = len(state.threads) >= turn.policy.limits.threads_max + batch
    if settled or acknowledged or threads:
        turn.emit(ev.MessagesForgotten(turn.now, settled * batch, acknowledged * batch, threads * batch))


def retention_due(state: ProjectState) -> int | None:
    """Return when the sweeper finds something to forget."""
    retention, interval = state.policy.retention, state.policy.sweeper.interval_us
    ends: list[int] = []
    if state.settled:
        ends.append(state.settled[0][0] + retention.settled_us)
    if state.acknowledged:
        ends.append(state.acknowledged[0][0] + retention.acknowledged_us)
    if state.threads:
        ends.append(next(iter(state.threads.values())).last_at + retention.thread_idle_us)
    return (min(ends) // interval + 1) * interval if ends else None


def fire_retention(turn: Turn) -> int:
    """Forget what has been remembered for long enough, up to a batch of each; say how much that was."""
    state, retention, batch = turn.state, turn.policy.retention, turn.policy.retention.batch
    settled = _count((at for at, _ in state.settled), turn.now - retention.settled_us, batch)
    acknowledged = _count((at for at, _ in state.acknowledged), turn.now - retention.acknowledged_us, batch)
    threads = _count((thread.last_at for thread in state.threads.values()), turn.now - retention.thread_idle_us, batch)
    if settled or acknowledged or threads:
        turn.emit(ev.MessagesForgotten(turn.now, settled, acknowledged, threads))
    return settled + acknowledged + threads


def _count(moments: Iterator[int], until: int, most: int) -> int:
    return sum(1 for _ in takewhile(lambda at: at <= until, islice(moments, most)))


def apply_forgotten(state: ProjectState, event: ev.MessagesForgotten) -> None:
    """Drop the oldest of each line; what has moved on to another line is only struck from this one."""
    for _ in range(event.settled):
        message = state.messages.get(state.settled.popleft()[1])
        if message is not None and message.state in _ENDED:
            state.drop(message)
    for _ in range(event.acknowledged):
        message = state.messages.get(state.acknowledged.popleft()[1])
        if message is not None and message.state is State.ACKNOWLEDGED:
            state.drop(message)
    for _ in range(event.threads):
        del state.threads[next(iter(state.threads))]
