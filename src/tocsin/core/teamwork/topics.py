"""Topics: a publication is delivered at least once to the mailbox of every subscriber.

A subscription is durable: it lasts until it is cancelled, whether its owner has a session or not. A publication is a
broadcast to the subscribers, so each copy is an ordinary message; the limit on subscribers bounds the fan-out. Topic
names have no patterns.

Requirement: LIMINAL's PublishSubscribe.
"""

import re

from tocsin.core import events as ev
from tocsin.core.commands import Publish, Published, Subscribe, Subscriptions, Unsubscribe
from tocsin.core.decision import Decision
from tocsin.core.errors import InvariantViolation, refusal
from tocsin.core.messages.sending import publish
from tocsin.core.protocol.envelope import ANYONE
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import Topic

__all__ = [
    "apply_subscribed",
    "apply_unsubscribed",
    "decide_publish",
    "decide_subscribe",
    "decide_unsubscribe",
    "leave",
]

_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-/]{0,127}")


def decide_subscribe(decision: Decision, command: Subscribe) -> Subscriptions:
    """Subscribe the caller; subscribing twice changes nothing."""
    me, limits = decision.me(), decision.policy.topics
    _check_name(command.topic)
    topic = decision.state.topics.get(command.topic)
    if topic is None or me.agent not in topic.subscribers:
        if topic is None and len(decision.state.topics) >= limits.topics_max:
            raise refusal("E_ADMISSION_008", f"the project has reached its limit of {limits.topics_max} topics")
        if topic is not None and len(topic.subscribers) >= limits.subscribers_max:
            raise refusal(
                "E_ADMISSION_008", f"{command.topic} has reached its limit of {limits.subscribers_max} subscribers"
            )
        if len(_of(decision.state, me.agent)) >= limits.subscriptions_max:
            raise refusal(
                "E_ADMISSION_008", f"{me.agent} has reached its limit of {limits.subscriptions_max} subscriptions"
            )
        decision.emit(ev.Subscribed(decision.now, command.topic, me.agent))
    return Subscriptions(_of(decision.state, me.agent))


def decide_unsubscribe(decision: Decision, command: Unsubscribe) -> Subscriptions:
    """Cancel a subscription of the caller; refuse one that does not exist."""
    me, topic = decision.me(), decision.state.topics.get(command.topic)
    if topic is None or me.agent not in topic.subscribers:
        raise refusal(
            "E_STATE_001", f"{me.agent} is not subscribed to {command.topic[:128]}", found=command.topic[:128]
        )
    decision.emit(ev.Unsubscribed(decision.now, command.topic, me.agent, "asked"))
    return Subscriptions(_of(decision.state, me.agent))


def decide_publish(decision: Decision, command: Publish) -> Published:
    """Send a message to the mailbox of every subscriber but the publisher."""
    me = decision.me()
    _check_name(command.topic)
    envelope = command.envelope
    if envelope.receiver.agent_id != ANYONE:
        raise refusal(
            "E_ROUTING_002",
            f"a publication to {command.topic} must be addressed to {ANYONE}",
            field="$.receiver.agentId",
            found=envelope.receiver.agent_id,
            expected=ANYONE,
        )
    topic = decision.state.topics.get(command.topic)
    names = [] if topic is None else [name for name in topic.subscribers if name != me.agent]
    subscribers = [decision.state.agents[name] for name in names]
    receipt = publish(decision, envelope, subscribers, whole=command.guarantee == "all")
    published = (
        Published(command.topic) if receipt is None else Published(command.topic, receipt.receipts, receipt.failed)
    )
    if receipt is not None and receipt.duplicate:
        return published
    reached, missed = len(published.receipts), len(published.failed)
    decision.emit(
        ev.TopicPublished(
            decision.now, command.topic, envelope.message_id, me.agent, reached, missed, command.guarantee
        )
    )
    return published


def leave(decision: Decision, agent: str) -> None:
    """Cancel the subscriptions of an agent that has left the project."""
    for name in _of(decision.state, agent):
        decision.emit(ev.Unsubscribed(decision.now, name, agent, "retired"))


def _check_name(topic: str) -> None:
    if not _TOPIC.fullmatch(topic):
        raise refusal(
            "E_VALIDATION_004",
            f"{topic[:64]!r} is not a valid topic name",
            field="$.topic",
            found=topic[:64],
            expected="up to 128 letters, digits, dots, dashes, slashes, underscores",
        )


def _of(state: ProjectState, agent: str) -> tuple[str, ...]:
    return tuple(sorted(name for name, topic in state.topics.items() if agent in topic.subscribers))


def apply_subscribed(state: ProjectState, event: ev.Subscribed) -> None:
    """Add the subscriber."""
    topic = state.topics.get(event.topic)
    if topic is None:
        topic = state.topics[event.topic] = Topic(event.topic, [])
    topic.subscribers = sorted([*topic.subscribers, event.subscriber])


def apply_unsubscribed(state: ProjectState, event: ev.Unsubscribed) -> None:
    """Remove the subscriber; a topic without subscribers is removed."""
    topic = state.topics.get(event.topic)
    if topic is None:
        raise InvariantViolation(f"an event names topic {event.topic}, which does not exist")
    topic.subscribers.remove(event.subscriber)
    if not topic.subscribers:
        del state.topics[event.topic]
