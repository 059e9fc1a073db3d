"""Types of advice: a finding, its evidence, and the change to `tocsin.yaml`."""

from typing import Any

import msgspec
import yaml

__all__ = ["Advice", "Advised", "Evidence", "Goal", "Thresholds", "patch", "seconds"]


class Thresholds(msgspec.Struct, frozen=True):
    """Thresholds of the rules. The defaults are conservative: no advice is better than wrong advice."""

    #: Smallest number of messages, or latencies, that a rule needs.
    messages_min: int = 50
    #: Share of a type's messages that expired, from which its TTL may be too short.
    ttl_expired_share: float = 0.05
    #: Share of those whose recipient took messages within one more TTL, from which the TTL is too short.
    ttl_late_share: float = 0.5
    #: Share of a priority's messages that were boosted, from which aging makes priorities meaningless.
    aging_boosted_share: float = 0.2
    #: Share of a priority's messages to available recipients that waited longer than the bound, from which to advise.
    aging_over_bound_share: float = 0.01
    #: Share of sends that a token bucket or quota refused, from which it is too tight.
    refused_share: float = 0.05
    #: Smallest number of refused senders; quotas are meant to limit a single one.
    refused_senders_min: int = 2
    #: Share of the checked agents that were found gaming, from which the rule is too strict.
    gaming_agents_share: float = 0.5
    #: Smallest number of checked agents for that.
    gaming_agents_min: int = 3
    #: Share of a type's messages sent at one other level than the default, from which the default is wrong.
    level_agreement: float = 0.8
    #: Median reaction time from which a type of Blocking or above is not treated as urgent, seconds.
    reaction_slow_s: float = 600.0
    #: Share of all waiting time for connected recipients, from which one recipient is a bottleneck.
    bottleneck_share: float = 0.5
    #: Smallest share of a bottleneck's messages that found its window full.
    bottleneck_held_back_share: float = 0.1
    #: Smallest 95th percentile of a bottleneck's waiting times, seconds.
    bottleneck_wait_s: float = 1.0
    #: Share of a type's messages that were retried, from which its ACK timeout may be too short.
    retried_share: float = 0.1
    #: Share of those that became dead letters, up to which the timeout is too short.
    retried_dead_share: float = 0.2
    #: Share of decaying messages that went stale although recipients were fast, from which they decay too fast.
    stale_share: float = 0.1
    #: Changes of the decay rate per hour, from which it may oscillate.
    rate_changes_per_h: float = 12.0
    #: Share of changes that reverse the previous one, from which it oscillates.
    rate_reversals_share: float = 0.5


class Evidence(msgspec.Struct, frozen=True):
    """A figure, and the table that it comes from."""

    #: The gold table.
    table: str
    #: Column and selection of the figure: `expired where message_type = Question`.
    figure: str
    #: Value, in the unit of the column.
    value: float
    #: Number of messages, latencies or agents that the figure is based on.
    count: int


class Goal(msgspec.Struct, frozen=True):
    """The figure of the lab that a change is to lower, and the messages that it is taken of; all by default."""

    #: Name of the figure: `tocsin.lab.figures.measures.METRICS`.
    metric: str
    #: Requested priority.
    priority: int | None = None
    #: Priority that the requested one is higher than.
    above: int | None = None
    message_type: str | None = None
    #: Type whose messages do not count.
    other_than: str | None = None

    def covers(self, requested: int, message_type: str) -> bool:
        """Return whether a message counts."""
        return (
            self.priority in (None, requested)
            and (self.above is None or requested > self.above)
            and self.message_type in (None, message_type)
            and (self.other_than is None or self.other_than != message_type)
        )


class Advice(msgspec.Struct, frozen=True):
    """One recommended change."""

    #: Name of the rule.
    rule: str
    #: Subject: a message type, a priority, an agent or a quota.
    subject: str
    #: Finding and recommendation, in a sentence or two.
    text: str
    evidence: tuple[Evidence, ...]
    #: The change, as YAML to merge into the project's `tocsin.yaml`.
    patch: str
    goal: Goal
    #: Effect of the change in a replay of the same history, in a sentence; empty until it is tried.
    verdict: str = ""


class Advised(msgspec.Struct, frozen=True):
    """The advice on one project."""

    advice: list[Advice] = []
    #: What else the reader must know, for example why there is no advice; empty if nothing.
    note: str = ""


def patch(**changes: Any) -> str:
    """Return a change as YAML; whole numbers are written without a decimal point."""
    text: str = yaml.safe_dump(_plain(changes), sort_keys=False, default_flow_style=False)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def seconds(microseconds: float) -> float:
    """Turn microseconds into seconds."""
    return microseconds / 1_000_000
