"""When something is brought before somebody with more power, and what is done about it meanwhile."""

from functools import cached_property
from typing import Literal

from tocsin.core.policy.base import Concern, Count, Seconds, level_named, microseconds
from tocsin.core.protocol.priority import Priority, liminal_name

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
#: Beside its actions, what a rule for each trigger may say, and what it must.
_FIELDS: dict[str, tuple[str, ...]] = {
    "time_in_queue": ("level", "after_s"),
    "dependency_blocked": ("level", "after_s"),
    "resource_contended": ("count",),
    "request_timeout": ("level",),
    "critical_error": ("level",),
}
_REQUIRED = {"after_s": "how long is too long", "count": "how many are too many"}
#: Where the number of a trigger is whose rule has none.
_ELSEWHERE: dict[str, str] = {
    "request_timeout": "requests.timeout_s",
    "approval_timeout": "approvals.handoffs",
    "consensus_timeout": "discussions.max_s",
    "health_degraded": "health.sustained_s",
    "priority_inflation": "gaming",
}


class EscalationRule(Concern, frozen=True):
    """One trigger, and what is done when it is met."""

    #: What sets it off.
    trigger: Trigger
    #: What is done about it, in LIMINAL's words.
    actions: list[Action]
    #: Priority of the messages or waits that it is about; null is any. Only where it is about such.
    level: str | None = None
    #: How long a message or a wait must have lasted, seconds; other triggers have their time from their own concern.
    after_s: Seconds | None = None
    #: How many must wait for the same resource.
    count: Count | None = None

    @cached_property
    def after_us(self) -> int:
        """Return how long it must have lasted, in microseconds."""
        return 0 if self.after_s is None else microseconds(self.after_s)


class EscalationPolicy(Concern, frozen=True):
    """The rules, and how long each instance is given."""

    #: By how many levels the action `boost` raises a message or a wait.
    boost_levels: Count
    #: Time for a director to act before a human is told, seconds.
    director_s: Seconds
    #: Time for a human to say how it ended, where nothing else can show it, before it closes by itself, seconds.
    human_s: Seconds
    #: Escalations that may be open at once; what comes after them is opened when one has closed.
    open_max: Count
    #: Causes that may wait for that; of what comes after them, the directors are told and nothing is kept.
    deferred_max: Count
    #: Closed escalations that are remembered.
    history_max: Count
    #: The rules by name.
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
        """Return how many must wait for the same resource to be worth telling; null is any number."""
        found = self.rule_for("resource_contended")
        return None if found is None else found[1].count

    def rule_for(self, trigger: str, level: int | None = None) -> tuple[str, EscalationRule] | None:
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
            wrong += [(f"{path}.{field}", reason) for field, reason in _misplaced(rule)]
            other = seen.setdefault((rule.trigger, rule.level), name)
            if other != name:
                wrong.append((path, f"{other} has the same trigger and level"))
        return wrong


def _misplaced(rule: EscalationRule) -> list[tuple[str, str]]:
    """List what a rule for its trigger lacks, and what it says that nothing would read."""
    wrong: list[tuple[str, str]] = []
    for field in ("level", "after_s", "count"):
        given, fits = getattr(rule, field) is not None, field in _FIELDS.get(rule.trigger, ())
        if given and not fits:
            where = f"; see {_ELSEWHERE[rule.trigger]}" if rule.trigger in _ELSEWHERE else ""
            wrong.append((field, f"must be left out: it means nothing to {rule.trigger}{where}"))
        elif fits and not given and field in _REQUIRED:
            wrong.append((field, f"must be given: {_REQUIRED[field]}"))
    return wrong
