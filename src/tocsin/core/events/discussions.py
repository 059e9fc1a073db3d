"""Events of discussions."""

from tocsin.core.events.base import EventBase

__all__ = [
    "ConsensusReached",
    "DiscussionClosed",
    "DiscussionLeft",
    "DiscussionOpened",
    "DiscussionSpoken",
    "VoteCast",
]


class DiscussionOpened(EventBase, frozen=True):
    """A discussion was opened."""

    #: The discussion.
    discussion: str
    #: Agent that opened it.
    opener: str
    #: Question to decide.
    question: str
    #: Agents that may speak and vote.
    participants: tuple[str, ...]
    #: Options to vote for.
    options: tuple[str, ...]
    #: Participants who must have voted.
    voters_min: int
    #: Required agreement: `majority`, `two_thirds` or `unanimous` of the participants.
    consensus: str
    #: Time at which it ends without consensus.
    due_at: int


class DiscussionSpoken(EventBase, frozen=True):
    """A participant or the opener contributed to a discussion."""

    #: The discussion.
    discussion: str
    #: Agent that contributed.
    speaker: str
    #: Text of the contribution.
    text: str


class VoteCast(EventBase, frozen=True):
    """A participant voted for the first time, or changed its vote."""

    #: The discussion.
    discussion: str
    #: Agent that voted.
    voter: str
    #: Option that it voted for.
    option: str


class DiscussionLeft(EventBase, frozen=True):
    """A participant left the project, and so the discussion."""

    #: The discussion.
    discussion: str
    #: Agent that left.
    participant: str


class ConsensusReached(EventBase, frozen=True):
    """Enough participants agreed, and a director was asked to ratify the result."""

    #: The discussion.
    discussion: str
    #: Option that they agreed on.
    option: str
    #: Approval that ratifies it.
    approval: str = ""


class DiscussionClosed(EventBase, frozen=True):
    """A discussion ended."""

    #: The discussion.
    discussion: str
    #: Agent that opened it.
    opener: str
    #: `consensus`, `no_consensus`, `timeout`, `not_ratified`, `too_few`, `cancelled` or `deadlock`.
    outcome: str
    #: Option that was agreed on; empty for none.
    option: str
    #: Votes by option, as `option=count`.
    votes: tuple[str, ...]
    #: Description of the outcome.
    detail: str
