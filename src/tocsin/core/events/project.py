"""What happens to a project as a whole: its policy, and what follows from it."""

from tocsin.core.events.base import EventBase

__all__ = [
    "DecayRateChanged",
    "MessagesForgotten",
    "PolicyAdopted",
]


class PolicyAdopted(EventBase, frozen=True):
    """The project is run by this policy from now on; the first event of every journal."""

    #: Who adopted it.
    by: str
    #: Counts the policies of the project, from 1.
    version: int
    #: Why.
    reason: str
    #: The whole policy as a JSON document.
    policy: bytes


class MessagesForgotten(EventBase, frozen=True):
    """The live state no longer remembers the oldest of what has ended; the journal does."""

    #: How many ended messages.
    settled: int
    #: How many acknowledged messages that were never processed.
    acknowledged: int
    #: How many idle threads.
    threads: int


class DecayRateChanged(EventBase, frozen=True):
    """The queue manager changed the decay rate of new messages."""

    #: Rate before.
    old_rate: float
    #: Rate after.
    new_rate: float
    #: Average processing latency that it saw, seconds.
    average_s: float
    #: How many latencies that is the average of.
    samples: int
    #: The threshold that was crossed, seconds.
    threshold_s: float
    #: `latency_high`, `latency_low` or `idle`.
    rule: str
