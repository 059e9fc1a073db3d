"""What advice is: a finding, its evidence, and the change to `tocsin.yaml` that it asks for."""

from typing import Any

import msgspec
import yaml

__all__ = ["Advice", "Evidence", "Thresholds", "patch", "seconds"]


class Thresholds(msgspec.Struct, frozen=True):
    """When a figure is worth a word. The defaults are careful: better no advice than a wrong one."""

    #: Fewest messages, or latencies, to judge from.
    messages_min: int = 50
    #: Share of a type's messages whose TTL ran out, from which it may be too short.
    ttl_expired_share: float = 0.05
    #: Share of those whose recipient came within one more TTL, from which it is.
    ttl_late_share: float = 0.5
    #: A TTL this many times the longest wait seen never bites.
    ttl_unused_factor: float = 20.0
    #: No TTL shorter than this is advised for that reason, seconds.
    ttl_floor_s: float = 3600.0
    #: Share of a priority's messages that waiting raised, from which aging blurs the priorities.
    aging_boosted_share: float = 0.2
    #: Share of a priority's messages that waited beyond the bound for a recipient that was available.
    aging_over_bound_share: float = 0.01
    #: Share of sends that a bucket or quota refused, from which it is too tight.
    refused_share: float = 0.05
    #: Fewest senders that must be hit: one alone is what quotas are for.
    refused_senders_min: int = 2
    #: Share of the agents judged that were found gaming, from which the rule is too strict.
    gaming_agents_share: float = 0.5
    #: Fewest agents judged to say so.
    gaming_agents_min: int = 3
    #: Share of a type's messages sent at one other level than its default, from which the default is wrong.
    level_agreement: float = 0.8
    #: Median reaction from which a type of Blocking or above is not treated as such, seconds.
    reaction_slow_s: float = 600.0
    #: Share of all time spent waiting for listeners that one of them is waited for, from which it is a bottleneck.
    bottleneck_share: float = 0.5
    #: Share of its messages that must have found its window full to count as one.
    bottleneck_held_back_share: float = 0.1
    #: How long 5 % of its messages must have waited, or longer, to count as one, seconds.
    bottleneck_wait_s: float = 1.0
    #: Share of a type's messages that were tried again, from which its ACK timeout may be too short.
    retried_share: float = 0.1
    #: Share of those that died all the same, up to which it is.
    retried_dead_share: float = 0.2
    #: Share of decaying messages that went stale while the bus was calm, from which they decay too fast.
    stale_share: float = 0.1
    #: Changes of the decay rate per hour, from which it may swing.
    rate_changes_per_h: float = 12.0
    #: Share of them that undo the one before, from which it does.
    rate_reversals_share: float = 0.5


class Evidence(msgspec.Struct, frozen=True):
    """A figure, and where it can be looked up."""

    #: The gold table.
    table: str
    #: What of it, with how it was chosen: `expired where message_type = Question`.
    figure: str
    #: The value, in the figure's own unit.
    value: float
    #: How many rows of history it stands on: messages, latencies, agents.
    count: int


class Advice(msgspec.Struct, frozen=True):
    """One piece."""

    #: The rule that gives it.
    rule: str
    #: What it is about: a type, a priority, an agent, a quota.
    subject: str
    #: The finding and the remedy, in a sentence or two.
    text: str
    evidence: tuple[Evidence, ...]
    #: The change, as YAML to lay over the project's `tocsin.yaml`.
    patch: str


def patch(**changes: Any) -> str:
    """Write a change as YAML; a whole number as people write it."""
    text: str = yaml.safe_dump(_plain(changes), sort_keys=False, default_flow_style=False)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def seconds(microseconds: float) -> float:
    """Turn microseconds into seconds."""
    return microseconds / 1_000_000
