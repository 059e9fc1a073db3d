"""Effects of the waits of a decision: deadlocks broken, priority inherited, leases granted.

Each step may lead to another: a refused wait frees a lease, a grant lends its holder priority, and that changes its
place in another queue. So the steps are repeated until nothing changes. This terminates: nothing here begins a wait,
inherited priority follows from the holders, places follow from inherited priority, and a request that is granted or
refused has left its queue.
"""

from tocsin.core.decision import Decision
from tocsin.core.leases.transitions import grant_ready, release_for
from tocsin.core.waiting.deadlock import break_deadlock
from tocsin.core.waiting.inheritance import follow_waits

__all__ = ["settle"]


def settle(decision: Decision) -> None:
    """Apply all effects of the waits of this decision."""
    state = decision.state
    book, graph = state.leases, state.waits
    while book.touched or book.unsettled or book.ready or graph.suspects or graph.queue_suspects or graph.lent:
        if break_deadlock(decision, release_for, places=False) or follow_waits(decision):
            continue
        book.settle_places(decision.policy.leases.overtakes_max)
        if not break_deadlock(decision, release_for, places=True):
            grant_ready(decision)
