"""Commands that open, contribute to and cancel discussions, and their reply."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import AgentName, CommandBase, Duration, Name

__all__ = ["CancelDiscussion", "Consensus", "Discussed", "OpenDiscussion", "Speak", "Vote"]

#: Share of the votes that an option needs.
Consensus: TypeAlias = Literal["majority", "two_thirds", "unanimous"]
_Discussion = Annotated[Name, Meta(description="Id of the discussion.")]


class OpenDiscussion(CommandBase, frozen=True):
    """Open a discussion in which the participants vote on a question."""

    question: Annotated[str, Meta(description="The question to decide.")]
    participants: Annotated[tuple[AgentName, ...], Meta(description="Agents that take part.")]
    options: Annotated[tuple[str, ...], Meta(description="Options to vote for.")] = ("agree", "disagree")
    voters_min: Annotated[int | None, Meta(description="Votes required; the policy's number by default.")] = None
    consensus: Annotated[Consensus, Meta(description="Share of the votes that an option needs.")] = "majority"
    max_s: Annotated[
        Duration | None,
        Meta(description="Seconds until it ends without agreement; by default the policy's maximum."),
    ] = None


class Speak(CommandBase, frozen=True):
    """Send a contribution to all participants of a discussion."""

    discussion: _Discussion
    text: Annotated[str, Meta(description="The contribution.")]


class Vote(CommandBase, frozen=True):
    """Vote in a discussion, or change a vote."""

    discussion: _Discussion
    option: Annotated[str, Meta(description="The option to vote for.")]


class CancelDiscussion(CommandBase, frozen=True):
    """Cancel a discussion; its opener and directors may."""

    discussion: _Discussion


class Discussed(msgspec.Struct, frozen=True):
    """State of a discussion after a change."""

    discussion: str
    #: `open`, `ratifying`, or how it ended.
    state: str
    #: Votes by option.
    votes: dict[str, int]
    #: The option that was agreed on.
    option: str | None = None
