"""What the tools that coordinate take: each argument with its limits and with what a model needs to know of it."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from tocsin.core.protocol.envelope import TypeName
from tocsin.gateways.mcp.arguments import Arguments, Id, Level, Name, Saying

__all__ = [
    "AcquireArguments",
    "ApprovalArguments",
    "BeginArguments",
    "DecideArguments",
    "DiscussionArguments",
    "EscalationsArguments",
    "FinishArguments",
    "ListLeasesArguments",
    "NoArguments",
    "PauseArguments",
    "PublishArguments",
    "ReleaseArguments",
    "RenewArguments",
    "ResolveArguments",
    "SpeakArguments",
    "SubscribeArguments",
    "VoteArguments",
]

_RESOURCE = (
    "Names or path globs from the project's root: `src/api/users.py`, `src/api/**`, `port 8080`. `*` is any characters "
    "of one segment, `**` any number of segments."
)
Resources = tuple[Annotated[str, Meta(min_length=1, max_length=512)], ...]
LeaseId = Annotated[
    str, Meta(min_length=1, max_length=128, description="The lease, as acquire_lease or list_leases gave it.")
]
Seconds = Annotated[float, Meta(gt=0, le=3.2e9)]
Named = Annotated[str, Meta(min_length=1, max_length=192)]
Prose = Annotated[str, Meta(min_length=1, max_length=10_000)]


class NoArguments(Arguments, frozen=True, kw_only=True):
    """Nothing."""


class AcquireArguments(Arguments, frozen=True, kw_only=True):
    """What to hold, and how."""

    exclusive: Annotated[Resources, Meta(max_length=64, description=f"What to have alone. {_RESOURCE}")] = ()
    shared: Annotated[
        Resources, Meta(max_length=64, description="What to share with others who only share it, such as to read it.")
    ] = ()
    ttl_s: Annotated[Seconds, Meta(description="Seconds to hold it, unless renewed; the policy's where left out.")] | (
        None
    ) = None
    wait_s: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=3.2e9,
                description="Seconds to wait in line where it is not free. 0: be refused at once. Leave it out for the "
                "policy's.",
            ),
        ]
        | None
    ) = None
    priority: (
        Annotated[
            Level,
            Meta(description="How urgently you need it: it decides your place in line, and raises whoever holds it."),
        ]
        | None
    ) = None
    lease: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=128,
                description="An id of your own: asking again with the same id asks nothing twice, and says how it "
                "stands. Leave it out to get one.",
            ),
        ]
        | None
    ) = None


class RenewArguments(Arguments, frozen=True, kw_only=True):
    """Which lease, and for how long."""

    lease: LeaseId
    ttl_s: Annotated[Seconds, Meta(description="Seconds from now on; as before where left out.")] | None = None


class ReleaseArguments(Arguments, frozen=True, kw_only=True):
    """Which lease, or which resources."""

    lease: LeaseId | None = None
    resources: Annotated[
        Resources, Meta(max_length=64, description="In place of lease: what to set free, by the very names you hold.")
    ] = ()


class ListLeasesArguments(Arguments, frozen=True, kw_only=True):
    """Which leases."""

    resource: (
        Annotated[
            str, Meta(min_length=1, max_length=512, description="Only what conflicts with this name or path glob.")
        ]
        | None
    ) = None
    agent: Annotated[Name, Meta(description="Only those of this agent.")] | None = None


class BeginArguments(Arguments, frozen=True, kw_only=True):
    """What you work on."""

    message_id: Id
    interruptible: Annotated[
        bool, Meta(description="Whether something urgent may interrupt you at any time, and not only at pause points.")
    ] = True


class PauseArguments(Arguments, frozen=True, kw_only=True):
    """What to remember."""

    saved: Annotated[
        str,
        Meta(
            max_length=65_536,
            description="What you need to know to go on later, in your own words: where you are, what is left. Kept "
            "only if you are interrupted, and given back by finish_work.",
        ),
    ] = ""


class FinishArguments(Arguments, frozen=True, kw_only=True):
    """What is finished, and how."""

    message_id: Annotated[Id, Meta(description="The message_id of what you worked on.")]
    processed: Annotated[
        bool, Meta(description="false: you stop without having dealt with it, and the message stays open.")
    ] = True


class SubscribeArguments(Arguments, frozen=True, kw_only=True):
    """Which topic."""

    topic: Annotated[Named, Meta(description="The topic, such as builds.")]
    subscribed: Annotated[bool, Meta(description="false: you do not want it any longer.")] = True


class PublishArguments(Saying, frozen=True, kw_only=True):
    """Where, what, and how."""

    topic: Annotated[Named, Meta(description="The topic to publish to.")]
    message_type: Annotated[TypeName, Meta(description="What kind of message.")] = "StatusUpdate"
    guarantee: Annotated[
        Literal["each", "all"],
        Meta(description="each: reach every subscriber that can take it, and name the others. all: reach all or none."),
    ] = "each"


class DiscussionArguments(Arguments, frozen=True, kw_only=True):
    """What to discuss, and with whom."""

    question: Annotated[Prose, Meta(description="What you want to agree on.")]
    participants: Annotated[
        list[Name],
        Meta(
            max_length=100,
            description="Who speaks and votes, by name; you only if you are named. At least as many as must vote.",
        ),
    ]
    options: Annotated[tuple[Named, ...], Meta(min_length=2, max_length=100, description="What can be voted for.")] = (
        "agree",
        "disagree",
    )
    consensus: Annotated[
        Literal["majority", "two_thirds", "unanimous"], Meta(description="How many of the participants must agree.")
    ] = "majority"
    voters_min: (
        Annotated[
            int,
            Meta(ge=1, le=10_000, description="How many must have voted for it to count; the policy's where left out."),
        ]
        | None
    ) = None
    max_s: (
        Annotated[
            Seconds,
            Meta(description="Seconds after which it ends, agreed or not; left out, the policy's, which is the most."),
        ]
        | None
    ) = None


DiscussionId = Annotated[Named, Meta(description="The discussion, as open_discussion or a DiscussionOpened named it.")]


class SpeakArguments(Arguments, frozen=True, kw_only=True):
    """Where, and what."""

    discussion: DiscussionId
    text: Annotated[Prose, Meta(description="What to say, to all who take part.")]


class VoteArguments(Arguments, frozen=True, kw_only=True):
    """Where, and what for."""

    discussion: DiscussionId
    option: Annotated[Named, Meta(description="One of the options.")]


class ApprovalArguments(Arguments, frozen=True, kw_only=True):
    """What to ask."""

    handoff: Annotated[
        Literal["plan_approval", "lease_override", "pre_merge_review", "ratification"],
        Meta(
            description="plan_approval: before you begin a plan. lease_override: to take what another holds. "
            "pre_merge_review: before you merge. ratification: of what was agreed on."
        ),
    ]
    subject: Annotated[
        Prose, Meta(description="What for, in a sentence; of a lease_override, the id of a lease that is held.")
    ]
    details: Annotated[str, Meta(max_length=10_000, description="What a director needs to know to decide.")] = ""


class DecideArguments(Arguments, frozen=True, kw_only=True):
    """Which, and your word."""

    approval: Annotated[Named, Meta(description="The approval, as list_approvals gave it.")]
    verdict: Annotated[Literal["approve", "refuse"], Meta(description="Your word.")]
    reason: Annotated[str, Meta(max_length=10_000, description="Why; a refusal must say.")] = ""
    payload: (
        Annotated[
            dict[str, Any],
            Meta(description="The payload with which a held message goes instead of its own; only with approve."),
        ]
        | None
    ) = None


class EscalationsArguments(Arguments, frozen=True, kw_only=True):
    """Which escalations."""

    closed: Annotated[bool, Meta(description="Whether to list those too that are over.")] = False


class ResolveArguments(Arguments, frozen=True, kw_only=True):
    """Which, and how."""

    escalation: Annotated[Named, Meta(description="The escalation, as list_escalations or an ERROR_REPORT named it.")]
    resolution: Annotated[Prose, Meta(description="How it was taken care of.")]
