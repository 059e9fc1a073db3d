"""Policy of escalation: the rules by trigger, and the time given to directors and humans."""

from functools import cached_property
from typing import Literal

from tocsin.core.policy.base import Concern, Count, Seconds, level_named, microseconds
from tocsin.core.protocol.priority import Priority, priority_name

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
    "wake_failed",
]
Action = Literal["boost", "notify_director", "interrupt_recipient", "escalate_to_human"]

_NAMES = tuple(map(priority_name, Priority))
#: Fields that a rule of each trigger may have, in addition to its actions.
_FIELDS: dict[str, tuple[str, ...]] = {
    "time_in_queue": ("level", "after_s"),
    "dependency_blocked": ("level", "after_s"),
    "resource_contended": ("count",),
    "request_timeout": ("level",),
    "critical_error": ("level",),
    "wake_failed": ("level",),
}
_REQUIRED = {"after_s": "a time in seconds", "count": "a number of agents"}
#: Setting that holds the threshold of a trigger whose rule has none.
_ELSEWHERE: dict[str, str] = {
    "request_timeout": "requests.timeout_s",
    "approval_timeout": "approvals.handoffs",
    "consensus_timeout": "discussions.max_s",
    "health_degraded": "health.sustained_s",
    "priority_inflation": "gaming",
    "wake_failed": "wake",
}


class EscalationRule(Concern, frozen=True):
    """One trigger and the actions taken when it is met."""

    #: Condition that opens the escalation.
    trigger: Trigger
    #: Actions taken: `boost`, `notify_director`, `interrupt_recipient`, `escalate_to_human`.
    actions: list[Action]
    #: Priority of the messages or waits that the rule is for; null is any. Only for triggers about a message or wait.
    level: str | None = None
    #: Time that a message or wait must have lasted, seconds; other triggers have their time in another setting.
    after_s: Seconds | None = None
    #: Number of agents that must wait for the same resource.
    count: Count | None = None

    @cached_property
    def after_us(self) -> int:
        """Return how long it must have lasted, in microseconds."""
        return 0 if self.after_s is None else microseconds(self.after_s)


class EscalationPolicy(Concern, frozen=True):
    """Escalation rules, and the time given to each escalation."""

    #: Levels by which the action `boost` raises a message or a wait.
    boost_levels: Count
    #: Time for a director to act before the humans are notified, seconds.
    director_s: Seconds
    #: Time for a human to resolve an escalation whose end the bus cannot observe, before it closes by itself, seconds.
    human_s: Seconds
    #: Escalations that may be open at once; further ones are deferred until one has closed.
    open_max: Count
    #: Deferred escalations kept; beyond this limit the directors are notified and nothing is kept.
    deferred_max: Count
    #: Closed escalations kept.
    history_max: Count
    #: Rules by name.
    rules: dict[str, EscalationRule]

    @cached_property
    def director_us(self) -> int:
        """Return the director's time in microseconds."""
        return microseconds(self.director_s)

    @cached_property
    def human_us(self) -> int:
        """Return the human's time in microseconds."""
        return microseconds(self.human_s)

    @cached_property
    def contention_depth(self) -> int | None:
        """Return how many agents must wait for the same resource to open an escalation; null if there is no rule."""
        found = self.rule_for("resource_contended")
        return None if found is None else found[1].count

    def rule_for(self, trigger: str, level: int | None = None) -> tuple[str, EscalationRule] | None:
        """Return the rule for a trigger; one that names the level has precedence."""
        fitting = [
            (name, rule)
            for name, rule in self.rules.items()
            if rule.trigger == trigger and (rule.level is None or level_named(rule.level) == level)
        ]
        return min(fitting, key=lambda pair: pair[1].level is None, default=None)

    @cached_property
    def queue_after_us(self) -> tuple[int | None, ...]:
        """Return, for each priority, how long a message may be queued before it is escalated; null is for ever."""
        found = [self.rule_for("time_in_queue", level) for level in Priority]
        return tuple(None if rule is None else rule[1].after_us for rule in found)

    @cached_property
    def wait_after_us(self) -> tuple[int | None, ...]:
        """Return, for each priority, how long a wait may last before it is escalated; null is for ever."""
        found = [self.rule_for("dependency_blocked", level) for level in Priority]
        return tuple(None if rule is None else rule[1].after_us for rule in found)

    def contradictions(self) -> list[tuple[str, str]]:
        """Return conflicts between fields: the path, and the rule that it breaks."""
        wrong: list[tuple[str, str]] = []
        seen: dict[tuple[str, str | None], str] = {}
        for name, rule in self.rules.items():
            path = f"$.escalation.rules.{name}"
            if rule.level is not None and rule.level not in _NAMES:
                wrong.append((f"{path}.level", "must be one of " + ", ".join(_NAMES)))
            if not rule.actions:
                wrong.append((f"{path}.actions", "must name at least one action"))
            wrong += [(f"{path}.{field}", reason) for field, reason in _misplaced(rule)]
            other = seen.setdefault((rule.trigger, rule.level), name)
            if other != name:
                wrong.append((path, f"{other} has the same trigger and level"))
        return wrong


def _misplaced(rule: EscalationRule) -> list[tuple[str, str]]:
    """Return the fields that a rule lacks, and those that have no effect for its trigger."""
    wrong: list[tuple[str, str]] = []
    for field in ("level", "after_s", "count"):
        given, fits = getattr(rule, field) is not None, field in _FIELDS.get(rule.trigger, ())
        if given and not fits:
            where = f"; see {_ELSEWHERE[rule.trigger]}" if rule.trigger in _ELSEWHERE else ""
            wrong.append((field, f"must be left out: it has no effect for {rule.trigger}{where}"))
        elif fits and not given and field in _REQUIRED:
            wrong.append((field, f"must be given: {_REQUIRED[field]}"))
    return wrong
