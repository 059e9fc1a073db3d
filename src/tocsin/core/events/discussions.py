"""What happens in discussions."""

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
    """An agent asked others to come to a common view."""

    #: The discussion.
    discussion: str
    #: Who wants to know.
    opener: str
    #: What about.
    question: str
    #: Who may speak and vote.
    participants: tuple[str, ...]
    #: What can be voted for.
    options: tuple[str, ...]
    #: How many must have voted.
    voters_min: int
    #: How many must agree: `majority`, `two_thirds` or `unanimous` of the participants.
    consensus: str
    #: When it ends without consensus.
    due_at: int


class DiscussionSpoken(EventBase, frozen=True):
    """A participant said something."""

    #: The discussion.
    discussion: str
    #: Who spoke.
    speaker: str
    #: What.
    text: str


class VoteCast(EventBase, frozen=True):
    """A participant voted, for the first time or otherwise than before."""

    #: The discussion.
    discussion: str
    #: Who voted.
    voter: str
    #: What for.
    option: str


class DiscussionLeft(EventBase, frozen=True):
    """A participant left the project."""

    #: The discussion.
    discussion: str
    #: Who left.
    participant: str


class ConsensusReached(EventBase, frozen=True):
    """Enough participants agree; a director is asked to ratify it."""

    #: The discussion.
    discussion: str
    #: What they agree on.
    option: str
    #: The approval that the directors' word is asked by.
    approval: str = ""


class DiscussionClosed(EventBase, frozen=True):
    """A discussion is over."""

    #: The discussion.
    discussion: str
    #: Who had opened it.
    opener: str
    #: `consensus`, `no_consensus`, `timeout`, `not_ratified`, `too_few`, `cancelled` or `deadlock`.
    outcome: str
    #: What was agreed on; empty where nothing was.
    option: str
    #: Votes by option, as `option=count`.
    votes: tuple[str, ...]
    #: The case in a sentence.
    detail: str
