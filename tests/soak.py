"""Length of the long tests, and counts of what they tried.

`make soak` sets TOCSIN_SOAK to the share of the full length: 1 is all of it, 0.05 a twentieth, to try it. Without it
tests have the length of `make test`. What tests count is added up over all workers and printed at the end of the run.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator

__all__ = ["COUNTS", "KINDS", "SHARE", "SOAK", "scaled", "summary", "tally", "within"]

#: Share of the full length; 0 is the length of `make test`.
SHARE = float(os.environ.get("TOCSIN_SOAK") or 0)
SOAK = SHARE > 0
#: What is counted, in the order of the summary.
KINDS = {
    "kills": "processes killed",
    "simulated_steps": "steps of the simulator",
    "inputs_tried": "generated inputs tried",
    "operations_checked": "recorded operations checked",
    "losses": "tests of these that failed",
}
#: Counts of this process.
COUNTS: Counter[str] = Counter()


def scaled(quick: int, full: int) -> int:
    """Return a number of cases: `quick` in `make test`, the share of `full` in `make soak`, but no less."""
    return max(quick, round(full * SHARE)) if SOAK else quick


def within(quick: int, full: int, budget_s: float) -> Iterator[int]:
    """Number the rounds of a test; at full length it ends when its time is used up, after `quick` rounds at least."""
    end = time.monotonic() + budget_s * SHARE
    for number in range(scaled(quick, full)):
        if SOAK and number >= quick and time.monotonic() > end:
            return
        yield number


def tally(kind: str, number: int = 1) -> None:
    """Count what a test does."""
    if kind not in KINDS:
        raise KeyError(kind)
    COUNTS[kind] += number


def summary(counts: Counter[str]) -> list[str]:
    """Return the counts as lines of a table."""
    return [f"{counts[kind]:>12,}  {about}" for kind, about in KINDS.items()]
