"""Histories of concurrent clients: recorded invocations and answers, and an offline check of what they allow.

All clients of a history are in one process and share one counter, so an answer with a lower number than an invocation
came before it. The check knows nothing of how the bus works: it takes the records and returns what they contradict.
"""

from collections.abc import Iterator
from itertools import count, pairwise

import msgspec

from tests.soak import tally

__all__ = ["History", "Hold", "Recall", "Sent", "Taken", "violations"]


class Sent(msgspec.Struct):
    """A send: when it was invoked, and when its receipt came; 0 if none came."""

    message: str
    sender: str
    recipient: str
    invoked: int
    answered: int = 0


class Taken(msgspec.Struct):
    """A message that an application was handed."""

    message: str
    recipient: str
    at: int


class Recall(msgspec.Struct):
    """A recall and its outcome; empty if no answer came."""

    message: str
    invoked: int
    answered: int = 0
    outcome: str = ""


class Hold(msgspec.Struct):
    """A lease: from the answer that granted it to the invocation of its release."""

    resource: str
    holder: str
    granted: int
    released: int = 0


class History:
    """Records of one run."""

    def __init__(self) -> None:
        self._clock = count(1)
        self.sent: list[Sent] = []
        self.taken: list[Taken] = []
        self.recalls: list[Recall] = []
        self.holds: list[Hold] = []

    def now(self) -> int:
        """Return the next number of the shared counter."""
        return next(self._clock)


def violations(history: History) -> list[str]:
    """Return what contradicts the promises: single delivery, recall, order, and exclusive leases."""
    checked = len(history.sent) + len(history.taken) + len(history.recalls) + len(history.holds)
    tally("operations_checked", checked)
    return [*_delivery(history), *_recalls(history), *_order(history), *_exclusion(history)]


def _delivery(history: History) -> Iterator[str]:
    sent = {one.message: one for one in history.sent}
    recalled = {one.message for one in history.recalls if one.outcome in ("recalled", "")}
    counts: dict[str, int] = {}
    for taken in history.taken:
        counts[taken.message] = counts.get(taken.message, 0) + 1
        origin = sent.get(taken.message)
        if origin is None or origin.recipient != taken.recipient or origin.invoked > taken.at:
            yield f"{taken.recipient} took {taken.message}, which nobody had sent to it"
    yield from (f"{name} was taken {times} times" for name, times in counts.items() if times > 1)
    for one in history.sent:
        if one.answered and one.message not in counts and one.message not in recalled:
            yield f"{one.message} was accepted and never taken"


def _recalls(history: History) -> Iterator[str]:
    taken = {one.message: one.at for one in history.taken}
    for recall in history.recalls:
        if recall.outcome == "recalled" and recall.message in taken:
            yield f"{recall.message} was recalled and taken"
        if recall.outcome == "already_delivered" and recall.message not in taken:
            yield f"{recall.message} was already delivered and never taken"
        if recall.outcome not in ("recalled", "already_delivered", ""):
            yield f"the recall of {recall.message} answered {recall.outcome}"


def _order(history: History) -> Iterator[str]:
    """Check that of two messages of a channel the one whose receipt came before the other was sent is taken first."""
    taken = {one.message: one.at for one in reversed(history.taken)}
    channels: dict[tuple[str, str], list[Sent]] = {}
    for one in history.sent:
        if one.answered and one.message in taken:
            channels.setdefault((one.sender, one.recipient), []).append(one)
    for channel in channels.values():
        for later in channel:
            overtaken = [
                one.message
                for one in channel
                if one.answered < later.invoked and taken[one.message] > taken[later.message]
            ]
            if overtaken:
                yield f"{later.message} was taken before {', '.join(overtaken)}, which was sent before it"


def _exclusion(history: History) -> Iterator[str]:
    held: dict[str, list[Hold]] = {}
    for hold in history.holds:
        held.setdefault(hold.resource, []).append(hold)
    for resource, holds in held.items():
        for before, after in pairwise(sorted(holds, key=lambda hold: hold.granted)):
            if not before.released or after.granted < before.released:
                yield f"{before.holder} and {after.holder} held {resource} at the same time"
