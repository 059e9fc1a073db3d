"""When something is brought before somebody with more power, and what is done about it meanwhile."""

from functools import cached_property
from typing import Literal

from tocsin.core.policy.base import Concern, Count, Seconds, level_named, microseconds
from tocsin.core.priority import Priority, liminal_name

__all__ = ["Action", "EscalationPolicy", "EscalationRule", "Trigger"]

Trigger = Literal[
    "time_in_queue",
    "dependency_blocked",
    "resource_contended",
    "deadlock",
    "request_timeout",
    "approval_timeout",
    "consensus_timeout",
    "health_degraded",
    "priority_inflation",
    "critical_error",
]
Action = Literal["boost", "notify_director", "interrupt_recipient", "escalate_to_human"]

_NAMES = tuple(map(liminal_name, Priority))


class EscalationRule(Concern, frozen=True):
    """One trigger, and what is done when it is met."""

    #: What sets it off.
    trigger: Trigger
    #: What is done about it, in LIMINAL's words.
    actions: list[Action]
    #: Priority of the messages or waits that it is about; null is any.
    level: str | None = None
    #: How long it must have lasted, seconds; null is no time at all, or that of the thing itself.
    after_s: Seconds | None = None
    #: How many there must be.
    count: Count | None = None

    @cached_property
    def after_us(self) -> int:
        """Return how long it must have lasted, in microseconds."""
        return 0 if self.after_s is None else microseconds(self.after_s)


class EscalationPolicy(Concern, frozen=True):
    """The rules, and how long each instance is given."""

    #: By how many levels the action `boost` raises a message.
    boost_levels: Count
    #: Time for a director to act before a human is told, seconds.
    director_s: Seconds
    #: Escalations that may be open at once; what comes after them is looked at again later.
    open_max: Count
    #: Closed escalations that are remembered.
    history_max: Count
    #: The rules by name.
    rules: dict[str, EscalationRule]

    @cached_property
    def director_us(self) -> int:
        """Return the director's time in microseconds."""
        return microseconds(self.director_s)

    def rule_for(self, trigger: Trigger, level: int | None = None) -> tuple[str, EscalationRule] | None:
        """Find the rule for a trigger: one that names the level before one that takes any."""
        fitting = [
            (name, rule)
            for name, rule in self.rules.items()
            if rule.trigger == trigger and (rule.level is None or level_named(rule.level) == level)
        ]
        return min(fitting, key=lambda pair: pair[1].level is None, default=None)

    @cached_property
    def queue_after_us(self) -> tuple[int | None, ...]:
        """Return, for each priority, how long a message may wait before it is escalated; null is for ever."""
        found = [self.rule_for("time_in_queue", level) for level in Priority]
        return tuple(None if rule is None else rule[1].after_us for rule in found)

    @cached_property
    def wait_after_us(self) -> tuple[int | None, ...]:
        """Return, for each priority, how long a wait may block somebody before it is escalated; null is for ever."""
        found = [self.rule_for("dependency_blocked", level) for level in Priority]
        return tuple(None if rule is None else rule[1].after_us for rule in found)

    def contradictions(self) -> list[tuple[str, str]]:
        """List what no single field shows."""
        wrong: list[tuple[str, str]] = []
        seen: dict[tuple[str, str | None], str] = {}
        for name, rule in self.rules.items():
            path = f"$.escalation.rules.{name}"
            if rule.level is not None and rule.level not in _NAMES:
                wrong.append((f"{path}.level", "must be one of " + ", ".join(_NAMES)))
            if not rule.actions:
                wrong.append((f"{path}.actions", "must name at least one action"))
            if rule.trigger in ("time_in_queue", "dependency_blocked") and rule.after_s is None:
                wrong.append((f"{path}.after_s", "must be given: how long is too long"))
            other = seen.setdefault((rule.trigger, rule.level), name)
            if other != name:
                wrong.append((path, f"{other} has the same trigger and level"))
        return wrong
