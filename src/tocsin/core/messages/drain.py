"""Drains: a session takes queued messages in delivery order.

Requirement: SPEC-071 §7.
"""

from tocsin.core.agents.registry import my_session, touch
from tocsin.core.commands import Drain, Drained
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.messages.cursors import cursor_of
from tocsin.core.messages.delivery import delivery_of, pump, take, take_one

__all__ = ["decide_drain"]


def decide_drain(decision: Decision, command: Drain) -> Drained:
    """Offer the most urgent messages; they count as received once their cursor is quoted."""
    limit = decision.policy.limits.drain_max
    if not 1 <= command.limit <= limit:
        raise refusal(
            "E_VALIDATION_004",
            f"a limit of {command.limit} is not allowed: it must be 1 to {limit}",
            field="$.limit",
            found=str(command.limit),
            expected=f"1 to {limit}",
        )
    agent = decision.me()
    session = my_session(decision, command.session)
    touch(decision, session)
    if command.message_id is None:
        taken = take(decision, agent, session, command.limit, command.at_least, command.bytes_max)
    else:
        taken = take_one(decision, agent, session, command.message_id)
    deliveries = tuple(delivery_of(decision.state, message) for message in taken)
    pump(decision, agent)
    return Drained(deliveries, agent.mailbox.depths(), cursor_of(agent, taken))
