"""Protocol versions: negotiation with an agent, and rendering of envelopes in its version.

A 1.0.0 agent sees only what 1.0.0 has: three priorities, no QoS, and a signal type as the custom type that 1.0.0 allows
(`Blocker` arrives as `CUSTOM_BLOCKER`).

Requirement: APM §5.3, §5.4.
"""

import re

from tocsin.core.commands import SYSTEM
from tocsin.core.errors import refusal
from tocsin.core.messages.message import Message
from tocsin.core.policy import Policy
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.rendering import render_envelope
from tocsin.core.state import ProjectState

__all__ = ["highest_common_version", "render", "type_name_for", "type_of"]

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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
    recipient = state.agents.get(message.recipient)
    version = recipient.version if recipient is not None else VERSIONS[-1]
    return render_envelope(
        message,
        type_name_for(message.type, version, state.policy),
        (type_of(message.sender, state), type_of(message.recipient, state)),
        version,
        (message.payload, message.metadata),
        message.attempts,
    )


def type_of(name: str, state: ProjectState) -> str:
    """Return the type of an agent; one that left the project is `Retired`."""
    agent = state.agents.get(name)
    if agent is not None:
        return agent.agent_type
    return "System" if name == SYSTEM.agent else "Retired"
