"""What follows from waiting, settled before a decision ends: deadlocks broken, priority lent, leases granted.

Each step may lead to another (a refused wait frees a lease, a grant lends its holder priority, that moves it in another
line), so it goes on until nothing more follows. It comes to an end: nothing here begins a wait, what is lent follows
from who holds what, places follow from what is lent, and whoever is granted something or refused has left the line.
"""

from tocsin.core.decision import Decision
from tocsin.core.leases.transitions import grant_ready, release_for
from tocsin.core.waiting.deadlock import break_deadlock
from tocsin.core.waiting.inheritance import follow_waits

__all__ = ["settle"]


def settle(decision: Decision) -> None:
    """Let everything follow that the waits of this decision lead to."""
    state = decision.state
    book, graph = state.leases, state.waits
    while book.unsettled or book.ready or graph.suspects or graph.queue_suspects or graph.lent:
        if break_deadlock(decision, release_for, places=False) or follow_waits(decision):
            continue
        book.settle_places(decision.policy.leases.overtakes_max)
        if not break_deadlock(decision, release_for, places=True):
            grant_ready(decision)
