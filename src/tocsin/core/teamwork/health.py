"""Health: metrics against their limits, and alerts that begin and end with hysteresis (LIMINAL's SLAs).

The core has no clock and measures nothing: what took how long is reported to it, as percentiles over a sliding window.
What it knows by itself (queue depths, the rate of escalations) it adds to each report. A limit that is exceeded for
`sustained_s` raises an alert and is escalated; the alert is cleared when the value has stayed well under the limit.
"""

from tocsin.core import events as ev
from tocsin.core.commands import HealthTaken, ReportHealth
from tocsin.core.decision import Turn
from tocsin.core.errors import refusal
from tocsin.core.messages.model import NEVER
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.escalation import close_if_over, open_escalation
from tocsin.core.teamwork.model import Alert

__all__ = ["apply_change", "decide_report", "known_values"]

_MINUTE_US = 60_000_000


def decide_report(turn: Turn, command: ReportHealth) -> HealthTaken:
    """Hold what was measured against its limits."""
    turn.must_direct("report health")
    limits = turn.policy.health.limits
    for metric in command.values:
        if metric not in limits:
            raise refusal(
                "E_VALIDATION_003",
                f"{metric[:64]!r} is no metric of this project",
                field="$.values",
                found=metric[:64],
                expected="one of " + ", ".join(limits),
            )
    measured = command.values | known_values(turn.state, turn.now)
    for metric, value in measured.items():
        if metric in limits:
            _judge(turn, metric, float(value), limits[metric])
    raised = sorted(name for name, alert in turn.state.alerts.items() if alert.raised_at != NEVER)
    return HealthTaken(tuple(raised))


def known_values(state: ProjectState, now: int) -> dict[str, float]:
    """Return what the exchange knows of its own health."""
    depths = [0] * len(Priority)
    for agent in state.agents.values():
        if agent.mailbox.depth:
            depths = [sum(pair) for pair in zip(depths, agent.mailbox.depths(), strict=True)]
    recent = sum(escalation.opened_at > now - _MINUTE_US for escalation in state.escalations.values())
    return {
        "critical_queue_depth": depths[Priority.CRITICAL],
        "blocking_queue_depth": depths[Priority.BLOCKING],
        "escalations_per_minute": recent,
    }


def _judge(turn: Turn, metric: str, value: float, limit: float) -> None:
    alert, policy = turn.state.alerts.get(metric), turn.policy.health
    if alert is None:
        if value > limit:
            turn.emit(ev.HealthBreached(turn.now, metric, value, limit))
    elif alert.raised_at == NEVER:
        if value <= limit:
            turn.emit(ev.HealthRecovered(turn.now, metric, value))
        elif turn.now - alert.since >= policy.sustained_us:
            _raise(turn, alert, value, limit)
    elif value > limit * policy.clear_share:
        if alert.easing:
            turn.emit(ev.AlertWorsened(turn.now, metric, value))
    elif not alert.easing:
        turn.emit(ev.AlertEased(turn.now, metric, value))
    elif turn.now - alert.since >= policy.clear_us:
        _clear(turn, alert, value)


def _raise(turn: Turn, alert: Alert, value: float, limit: float) -> None:
    threshold_s = turn.policy.health.sustained_s
    turn.emit(ev.AlertRaised(turn.now, alert.metric, value, limit, alert.since, threshold_s))
    detail = f"{alert.metric} has been over {limit:g} for {threshold_s:g} s: it is {value:g}"
    open_escalation(turn, "health_degraded", _cause(alert), alert.metric, detail, threshold=threshold_s)


def _clear(turn: Turn, alert: Alert, value: float) -> None:
    cause = _cause(alert)
    turn.emit(ev.AlertCleared(turn.now, alert.metric, value, alert.raised_at))
    name = turn.state.causes.get(cause)
    if name is not None:
        close_if_over(turn, turn.state.escalations[name])


def _cause(alert: Alert) -> str:
    return f"health_degraded {alert.metric} {alert.breach}"


def apply_change(
    state: ProjectState,
    event: ev.HealthBreached | ev.HealthRecovered | ev.AlertRaised | ev.AlertEased | ev.AlertWorsened | ev.AlertCleared,
) -> None:
    """Follow a metric."""
    match event:
        case ev.HealthBreached():
            state.alerts[event.metric] = Alert(event.metric, event.value, event.limit, event.at, state.seq)
        case ev.HealthRecovered() | ev.AlertCleared():
            del state.alerts[event.metric]
        case ev.AlertRaised():
            alert = state.alerts[event.metric]
            alert.raised_at, alert.value = event.at, event.value
        case ev.AlertEased() | ev.AlertWorsened():
            alert = state.alerts[event.metric]
            alert.easing = isinstance(event, ev.AlertEased)
            alert.since, alert.value = event.at, event.value
