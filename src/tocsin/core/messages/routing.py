"""Routing: the recipients of a message, and the checks on its sender and recipients.

Requirement: APM §3.
"""

import msgspec

from tocsin.core.agents.presence import resolve
from tocsin.core.decision import Decision
from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.core.messages.capacity import over_mailbox
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.policy import Policy
from tocsin.core.protocol.contracts import Contract, DeliveryClass
from tocsin.core.protocol.envelope import ANYONE, AgentRef
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Agent

__all__ = ["Route", "check_recipient", "check_sender", "recipients_of", "route"]

#: Type that a director or a human has in addition to its own.
_DIRECTING_TYPE = "Manager"


class Route(msgspec.Struct, frozen=True):
    """Route to one recipient, as found at send time."""

    recipient: Agent
    recipient_state: RecipientState
    publish_path: PublishPath
    session: str | None


def recipients_of(decision: Decision, receiver: AgentRef) -> list[Agent]:
    """Return the agents that a receiver names: one agent, all, or all of a type; a broadcast excludes its sender."""
    agents = decision.state.agents
    if receiver.agent_id != ANYONE:
        agent = agents.get(receiver.agent_id)
        if agent is None:
            raise refusal(
                "E_ROUTING_001",
                f"there is no agent {receiver.agent_id} in this project",
                field="$.receiver.agentId",
                found=receiver.agent_id,
                expected="a registered agent",
            )
        if receiver.type not in (ANYONE, agent.agent_type):
            raise refusal(
                "E_ROUTING_002",
                f"{agent.agent} is of type {agent.agent_type}, not {receiver.type}",
                field="$.receiver.type",
                found=receiver.type,
                expected=agent.agent_type,
            )
        return [agent]
    found = [
        agent
        for agent in agents.values()
        if agent.agent != decision.caller.agent and receiver.type in (ANYONE, agent.agent_type)
    ]
    if not found:
        raise refusal(
            "E_ROUTING_001",
            f"there is no agent of type {receiver.type} in this project except the sender",
            field="$.receiver.type",
            found=receiver.type,
            expected="a type that a registered agent has",
        )
    limit = decision.policy.limits.broadcast_recipients_max
    if len(found) > limit:
        raise refusal(
            "E_ADMISSION_008",
            f"{len(found)} recipients are too many for a broadcast: at most {limit} are allowed",
            retryable=False,
        )
    return found


def check_sender(sender: Agent, message_type: str, contract: Contract, policy: Policy) -> None:
    """Refuse a sender that the contract does not allow for this type."""
    directs = policy.roles[sender.role].directs
    if contract.system and not directs:
        raise refusal("E_AUTH_003", f"{message_type} is a message of the bus itself: only a director may send it")
    if policy.routing.enforce_direction and not _allowed(sender, contract.senders, policy):
        raise refusal(
            "E_AUTH_003",
            f"{sender.agent} is of type {sender.agent_type}: {message_type} may be sent only by "
            f"{', '.join(contract.senders)}",
            field="$.sender.type",
            found=sender.agent_type,
            expected=" or ".join(contract.senders),
        )


def route(
    decision: Decision,
    recipient: Agent,
    message_type: str,
    contract: Contract,
    delivery_class: DeliveryClass,
    priority: Priority,
    size: int,
) -> Route | Problem:
    """Return the route of a message of some priority and bytes to one recipient, or the problem that prevents it."""
    try:
        check_recipient(recipient, message_type, contract, decision.policy)
        over = over_mailbox(decision, recipient, priority, size)
        if over is not None:
            raise over
        pump(decision, recipient)  # room in a window goes to what waits already
        recipient_state, path, session = resolve(recipient, decision.policy, decision.now)
        if delivery_class is DeliveryClass.SYNC and path is PublishPath.QUEUED:
            raise _unavailable(recipient, recipient_state, decision.policy.delivery.retry_hint_s)
    except TocsinError as error:
        return error.problem
    return Route(recipient, recipient_state, path, session)


def _unavailable(recipient: Agent, recipient_state: RecipientState, hint_s: float) -> TocsinError:
    """Return the refusal of a sync message that would have to be queued."""
    away = "stale: its session has no recent heartbeat" if recipient_state is RecipientState.STALE else "offline"
    why = f"{recipient.agent} is {away}"
    if recipient_state is RecipientState.AVAILABLE:
        why = f"{recipient.agent} has no live connection with room for another message"
        recipient_state = RecipientState.STALE
    return refusal(
        "E_ADMISSION_006",
        f"{why}. A sync message is not queued: try again, or send it async",
        retry_after_s=hint_s,
        recipient_state=recipient_state.value,
    )


def check_recipient(recipient: Agent, message_type: str, contract: Contract, policy: Policy) -> None:
    """Refuse a recipient that the contract does not allow for this type, or that did not declare it."""
    if policy.routing.enforce_direction and not _allowed(recipient, contract.receivers, policy):
        raise refusal(
            "E_ROUTING_002",
            f"{recipient.agent} is of type {recipient.agent_type}: {message_type} may be sent only to "
            f"{', '.join(contract.receivers)}",
            field="$.receiver.type",
            found=recipient.agent_type,
            expected=" or ".join(contract.receivers),
        )
    taken = recipient.capabilities
    always = message_type in ("ACK", "NACK")
    if taken and policy.routing.enforce_capabilities and message_type not in taken and not always:
        raise refusal(
            "E_ROUTING_002",
            f"{recipient.agent} declared that it accepts {', '.join(taken)}, not {message_type}",
            field="$.messageType",
            found=message_type,
            expected="one of " + ", ".join(taken),
        )


def _allowed(agent: Agent, types: list[str], policy: Policy) -> bool:
    if not types or agent.agent_type in types:
        return True
    return _DIRECTING_TYPE in types and policy.roles[agent.role].directs
