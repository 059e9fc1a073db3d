"""Events of a project as a whole: policy, retention and decay rate."""

from tocsin.core.events.base import EventBase

__all__ = [
    "DecayRateChanged",
    "MessagesForgotten",
    "PolicyAdopted",
]


class PolicyAdopted(EventBase, frozen=True):
    """A policy was put in force; the first event of every journal."""

    #: Agent that adopted it.
    by: str
    #: Number of this policy in the project, from 1.
    version: int
    #: Reason given.
    reason: str
    #: The whole policy as a JSON document.
    policy: bytes


class MessagesForgotten(EventBase, frozen=True):
    """Ended and acknowledged messages and idle threads were removed from the live state; the journal keeps them."""

    #: Number of ended messages.
    settled: int
    #: Number of acknowledged messages that were never processed.
    acknowledged: int
    #: Number of idle threads.
    threads: int
    #: Messages that stay without their content: they were received and need no ACK, and a late rejection is refused.
    contents: tuple[int, ...] = ()


class DecayRateChanged(EventBase, frozen=True):
    """The decay rate of new messages was changed by the queue manager."""

    #: Rate before.
    old_rate: float
    #: Rate after.
    new_rate: float
    #: Average processing latency, seconds.
    average_s: float
    #: Number of latencies in that average.
    samples: int
    #: Threshold that was crossed, seconds.
    threshold_s: float
    #: `latency_high`, `latency_low` or `idle`.
    rule: str
