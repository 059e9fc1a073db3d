"""Policy of notices, requests, approvals, discussions and topics."""

from functools import cached_property

from tocsin.core.policy.base import Concern, Count, Seconds, microseconds

__all__ = ["ApprovalPolicy", "DiscussionPolicy", "Handoff", "NoticePolicy", "RequestPolicy", "TopicPolicy"]


class NoticePolicy(Concern, frozen=True):
    """Notices of the bus about what agents do."""

    #: Notices about one subject that wait in one mailbox; the rest are folded into one that counts them.
    per_subject_max: Count


class RequestPolicy(Concern, frozen=True):
    """Timeouts and limits of requests."""

    #: Time for an answer if the requester does not set one, seconds.
    timeout_s: Seconds
    #: Longest time that a requester may set, seconds.
    timeout_max_s: Seconds
    #: Requests that one agent may have open.
    open_max: Count

    @cached_property
    def timeout_us(self) -> int:
        """Return the time for an answer in microseconds."""
        return microseconds(self.timeout_s)


class Handoff(Concern, frozen=True):
    """One point at which a director must approve."""

    #: Whether approval is required at this point.
    enabled: bool
    #: Message types that are held until a director has approved them; messages of directors are not held.
    message_types: list[str]
    #: Time for a director's decision before it is escalated, seconds.
    timeout_s: Seconds

    @cached_property
    def timeout_us(self) -> int:
        """Return the director's time in microseconds."""
        return microseconds(self.timeout_s)


class ApprovalPolicy(Concern, frozen=True):
    """Approvals by directors."""

    #: Approvals that may be open at once.
    open_max: Count
    #: Approvals that one agent may have open, held messages included.
    per_agent_max: Count
    #: Time after its escalation at which an undecided action is given up, seconds.
    give_up_after_s: Seconds
    #: The handoff points.
    handoffs: dict[str, Handoff]

    @cached_property
    def give_up_after_us(self) -> int:
        """Return the time until an action is given up in microseconds."""
        return microseconds(self.give_up_after_s)

    @cached_property
    def held_types(self) -> dict[str, str]:
        """Return, for each held message type, the handoff point that holds it."""
        return {
            message_type: name
            for name, handoff in self.handoffs.items()
            if handoff.enabled
            for message_type in handoff.message_types
        }

    def contradictions(self) -> list[tuple[str, str]]:
        """Return conflicts between fields: the path, and the rule that it breaks."""
        wrong: list[tuple[str, str]] = []
        if sorted(self.handoffs) != sorted(HANDOFFS):
            wrong.append(("$.approvals.handoffs", "must name " + ", ".join(HANDOFFS)))
        for name, handoff in self.handoffs.items():
            for message_type in handoff.message_types:
                path = f"$.approvals.handoffs.{name}.message_types"
                if message_type in ("ACK", "NACK"):
                    wrong.append((path, f"{message_type} cannot be held"))
                elif handoff.enabled and self.held_types[message_type] != name:
                    wrong.append((path, f"{message_type} is already held at {self.held_types[message_type]}"))
        return wrong


#: Names of the handoff points.
HANDOFFS = ("plan_approval", "lease_override", "pre_merge_review", "ratification", "tool_permission")


class DiscussionPolicy(Concern, frozen=True):
    """Limits of discussions."""

    #: Longest time for a discussion, and the default, seconds.
    max_s: Seconds
    #: Participants who must have voted, if the opener does not set a number.
    participants_min: Count
    #: Maximum number of participants.
    participants_max: Count
    #: Maximum number of contributions to one discussion.
    contributions_max: Count
    #: Maximum number of options to vote on.
    options_max: Count
    #: Discussions that may be open at once.
    open_max: Count
    #: Open discussions that one agent may have.
    per_agent_max: Count


class TopicPolicy(Concern, frozen=True):
    """Limits of topics."""

    #: Subscribers of one topic, which is the fan-out of one publication.
    subscribers_max: Count
    #: Topics that one agent may subscribe to.
    subscriptions_max: Count
    #: Topics in the project.
    topics_max: Count
