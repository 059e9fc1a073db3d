"""Protocol versions: negotiation with an agent, and rendering of envelopes in its version.

A 1.0.0 agent sees only what 1.0.0 has: three priorities, no QoS, and a signal type as the custom type that 1.0.0 allows
(`Blocker` arrives as `CUSTOM_BLOCKER`).

Requirement: APM §5.3, §5.4.
"""

import re

import msgspec

from tocsin.core.commands import SYSTEM
from tocsin.core.errors import refusal
from tocsin.core.messages.model import UNENDING, Message
from tocsin.core.policy import Policy
from tocsin.core.protocol.envelope import VERSIONS, iso
from tocsin.core.protocol.priority import apm_name, priority_name
from tocsin.core.state import ProjectState

__all__ = ["highest_common_version", "render", "type_name_for"]

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENCODER = msgspec.json.Encoder()


def highest_common_version(supported: tuple[str, ...]) -> str:
    """Return the highest version that both sides support; refuse if there is none."""
    common = [version for version in VERSIONS if version in supported]
    if not common:
        raise refusal(
            "E_PROTOCOL_001",
            f"no common protocol version: the agent supports {', '.join(supported) or 'none'}",
            field="$.supportedVersions",
            found=", ".join(supported) or "none",
            expected="one of " + ", ".join(VERSIONS),
        )
    return common[-1]


def type_name_for(message_type: str, version: str, policy: Policy) -> str:
    """Return the name of a message type in a protocol version."""
    contract = policy.contract_of(message_type)
    if contract is None or contract.since <= version:
        return message_type
    return "CUSTOM_" + _WORD.sub("_", message_type).upper()


def render(message: Message, state: ProjectState) -> bytes:
    """Return a message's envelope in its recipient's version."""
    policy = state.policy
    recipient = state.agents.get(message.recipient)
    version = recipient.version if recipient is not None else VERSIONS[-1]
    old = version == VERSIONS[0]
    envelope: dict[str, object] = {
        "version": version,
        "messageId": message.message_id,
        "timestamp": iso(message.sent_at),
        "sender": {"agentId": message.sender, "type": _type_of(message.sender, state)},
        "receiver": {"agentId": message.recipient, "type": _type_of(message.recipient, state)},
        "messageType": type_name_for(message.type, version, policy),
        "priority": apm_name(message.priority) if old else priority_name(message.priority),
        "payload": msgspec.Raw(message.payload),
        "metadata": _metadata(message),
    }
    if message.correlation_id is not None:
        envelope["correlationId"] = message.correlation_id
    if not old:
        envelope["qos"] = {
            "deliveryClass": message.delivery_class,
            "importance": message.importance,
            "decayRate": message.decay_rate,
        }
    return _ENCODER.encode(envelope)


def _type_of(name: str, state: ProjectState) -> str:
    agent = state.agents.get(name)
    if agent is not None:
        return agent.agent_type
    return "System" if name == SYSTEM.agent else "Retired"


def _metadata(message: Message) -> dict[str, object]:
    known: dict[str, object] = msgspec.json.decode(message.metadata) if message.metadata != b"{}" else {}
    known["retryCount"] = message.attempts
    if message.expires_at != UNENDING:
        known["ttl"] = (message.expires_at - message.enqueued_at) / 1_000_000
    return known
