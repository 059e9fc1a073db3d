"""Retention of ended messages, acknowledged messages and threads in the live state.

Ended messages answer duplicates, recalls and late confirmations for a while; acknowledged ones wait to be processed;
threads wait for further messages. Forgetting is an event of its own, at the end of a decision or in a tick and never in
between, so that a decision can rely on what it has looked up.
"""

from collections.abc import Iterable

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.messages.message import drop_content
from tocsin.core.messages.model import State
from tocsin.core.state import ProjectState
from tocsin.core.timers import earliest

__all__ = ["apply_forgotten", "fire_retention", "is_over_limits", "retention_due", "trim"]

_ENDED = frozenset({State.DELIVERED, State.PROCESSED, State.EXPIRED, State.RECALLED})


def trim(decision: Decision) -> None:
    """Forget the oldest entries over the limits, a batch at a time."""
    state, batch = decision.state, decision.policy.retention.batch
    settled = len(state.settled) >= state.settled_full
    acknowledged = len(state.acknowledged) >= state.acknowledged_full
    threads = len(state.threads) >= state.threads_full
    contents: tuple[int, ...] = ()
    if state.volume.kept_bytes > state.kept_full:
        excess = state.volume.kept_bytes - decision.policy.retention.settled_bytes_max
        contents = state.volume.oldest(excess, batch, state.messages)
    if settled or acknowledged or threads or contents:
        forgotten = (settled * batch, acknowledged * batch, threads * batch, contents)
        decision.emit(ev.MessagesForgotten(decision.now, *forgotten))


def is_over_limits(state: ProjectState) -> bool:
    """Tell whether `trim` would forget anything."""
    return (
        len(state.settled) >= state.settled_full
        or len(state.acknowledged) >= state.acknowledged_full
        or len(state.threads) >= state.threads_full
        or state.volume.kept_bytes > state.kept_full
    )


def retention_due(state: ProjectState) -> int | None:
    """Return when the next entry can be forgotten."""
    if not state.settled and not state.acknowledged and not state.threads:
        return None
    policy = state.policy
    retention, interval = policy.retention, policy.sweeper.interval_us
    over: int | None = None
    if state.settled:
        over = state.settled[0][0] + retention.settled_us
    if state.acknowledged:
        due = state.acknowledged[0][0] + retention.acknowledged_us
        over = due if over is None or due < over else over
    if state.threads:
        over = earliest(over, next(iter(state.threads.values())).last_at + retention.thread_idle_us)
    return None if over is None else over - over % interval + interval


def fire_retention(decision: Decision) -> int:
    """Forget entries that were kept long enough, up to a batch of each kind; return their number."""
    state, retention, batch = decision.state, decision.policy.retention, decision.policy.retention.batch
    settled = _older(state.settled, decision.now - retention.settled_us, batch)
    acknowledged = _older(state.acknowledged, decision.now - retention.acknowledged_us, batch)
    threads = 0
    for thread in state.threads.values():
        if threads >= batch or thread.last_at > decision.now - retention.thread_idle_us:
            break
        threads += 1
    if settled or acknowledged or threads:
        decision.emit(ev.MessagesForgotten(decision.now, settled, acknowledged, threads))
    return settled + acknowledged + threads


def _older(entries: Iterable[tuple[int, int]], until: int, most: int) -> int:
    """Count the leading entries that are at least that old.

    A loop, because the compiled form would evaluate a generator to its end.
    """
    count = 0
    for at, _ in entries:
        if count >= most or at > until:
            break
        count += 1
    return count


def apply_forgotten(state: ProjectState, event: ev.MessagesForgotten) -> None:
    """Drop the oldest entries of each list; an entry that has moved to another list is only removed from this one."""
    for number in event.contents:
        message = state.message(number)
        state.volume.remove(message)
        drop_content(message)
    for _ in range(event.settled):
        ended = state.messages.get(state.settled.popleft()[1])
        if ended is not None and ended.state in _ENDED:
            state.drop(ended)
    for _ in range(event.acknowledged):
        ended = state.messages.get(state.acknowledged.popleft()[1])
        if ended is not None and ended.state is State.ACKNOWLEDGED:
            state.drop(ended)
    for _ in range(event.threads):
        del state.threads[next(iter(state.threads))]
