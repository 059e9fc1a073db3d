"""What follows from waiting, settled before a decision ends: deadlocks are broken, and priority is lent and given back.

Each step may lead to another (a refused wait lowers someone, who loses a place in line), so it goes on until nothing
more follows. It comes to an end: a broken deadlock ends a wait, and nothing here begins one.
"""

from tocsin.core.deadlock import break_deadlock
from tocsin.core.inheritance import follow_waits
from tocsin.core.turn import Turn
from tocsin.core.waitgraph import Wait

__all__ = ["settle"]


def settle(turn: Turn) -> None:
    """Let everything follow that the waits of this decision lead to."""
    while break_deadlock(turn, _release) or follow_waits(turn):
        pass


def _release(turn: Turn, victim: str, wait: Wait, detail: str) -> None:
    """Release nothing: only leases are held."""
