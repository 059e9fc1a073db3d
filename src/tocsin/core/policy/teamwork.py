"""How agents talk with each other beyond single messages: requests, discussions, topics and approvals."""

from functools import cached_property

from tocsin.core.policy.base import Concern, Count, Seconds, microseconds

__all__ = ["RequestPolicy"]


class RequestPolicy(Concern, frozen=True):
    """How long an agent waits for an answer."""

    #: Time for an answer where the requester names none, seconds.
    timeout_s: Seconds
    #: Longest time that a requester may name, seconds.
    timeout_max_s: Seconds
    #: Requests that one agent may have open.
    open_max: Count

    @cached_property
    def timeout_us(self) -> int:
        """Return the time for an answer in microseconds."""
        return microseconds(self.timeout_s)


class Handoff(Concern, frozen=True):
    """One point at which the directors are asked first."""

    #: Whether they are.
    enabled: bool
    #: Message types that are held until a director has approved them; a director's own never are.
    message_types: list[str]
    #: Time for a director before it is escalated, seconds.
    timeout_s: Seconds

    @cached_property
    def timeout_us(self) -> int:
        """Return the director's time in microseconds."""
        return microseconds(self.timeout_s)


class ApprovalPolicy(Concern, frozen=True):
    """What needs a director's word."""

    #: Approvals that may be open at once.
    open_max: Count
    #: Approvals that one agent may have open, held messages among them.
    per_agent_max: Count
    #: Time after its escalation at which an action that still nobody has decided is given up, seconds.
    give_up_after_s: Seconds
    #: LIMINAL's four handoff points.
    handoffs: dict[str, Handoff]

    @cached_property
    def give_up_after_us(self) -> int:
        """Return the time until an action is given up in microseconds."""
        return microseconds(self.give_up_after_s)

    @cached_property
    def held_types(self) -> dict[str, str]:
        """Return the handoff point at which messages of a type are held."""
        return {
            message_type: name
            for name, handoff in self.handoffs.items()
            if handoff.enabled
            for message_type in handoff.message_types
        }

    def contradictions(self) -> list[tuple[str, str]]:
        """List what no single field shows."""
        wrong: list[tuple[str, str]] = []
        if sorted(self.handoffs) != sorted(HANDOFFS):
            wrong.append(("$.approvals.handoffs", "must name " + ", ".join(HANDOFFS)))
        for name, handoff in self.handoffs.items():
            for message_type in handoff.message_types:
                path = f"$.approvals.handoffs.{name}.message_types"
                if message_type in ("ACK", "NACK"):
                    wrong.append((path, f"{message_type} cannot be held"))
                elif handoff.enabled and self.held_types[message_type] != name:
                    wrong.append((path, f"{message_type} is held at {self.held_types[message_type]} already"))
        return wrong


#: LIMINAL's handoff points.
HANDOFFS = ("plan_approval", "lease_override", "pre_merge_review", "ratification")


class DiscussionPolicy(Concern, frozen=True):
    """How agents come to a common view."""

    #: Longest time for a discussion, and the usual one, seconds (LIMINAL: 300).
    max_s: Seconds
    #: Fewest participants who must have voted, where the opener names none.
    participants_min: Count
    #: Most participants.
    participants_max: Count
    #: Most contributions to one discussion.
    contributions_max: Count
    #: Most options to vote on.
    options_max: Count
    #: Discussions that may be open at once.
    open_max: Count
    #: Discussions that one agent may have opened and that are still open.
    per_agent_max: Count


class TopicPolicy(Concern, frozen=True):
    """How far a publication reaches."""

    #: Subscribers of one topic: the fan-out of one publication.
    subscribers_max: Count
    #: Topics that one agent may have subscribed to.
    subscriptions_max: Count
    #: Topics of the project.
    topics_max: Count
