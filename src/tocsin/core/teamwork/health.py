"""Health: metrics compared with their limits, and alerts that begin and end with hysteresis.

The core has no clock and measures nothing: latencies are reported to it as percentiles over a sliding window. It adds
the values that it has itself (queue depths, the rate of escalations) to each report. A limit that is exceeded for
`sustained_s` raises an alert and is escalated to the directors; humans find it among the alerts, not in their inbox.
The alert is cleared when the value has stayed well under the limit.

Requirement: LIMINAL's SLAs.
"""

from tocsin.core import events as ev
from tocsin.core.commands import HealthReported, ReportHealth
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.escalation.closing import close_if_over
from tocsin.core.escalation.opening import open_escalation
from tocsin.core.messages.model import NEVER
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import Alert
from tocsin.core.units import duration_text, measure_text, metric_text

__all__ = ["apply_change", "decide_report", "known_values"]

_MINUTE_US = 60_000_000


def decide_report(decision: Decision, command: ReportHealth) -> HealthReported:
    """Compare the reported values with their limits."""
    decision.must_direct("report health")
    limits = decision.policy.health.limits
    for metric in command.values:
        if metric not in limits:
            raise refusal(
                "E_VALIDATION_003",
                f"{metric[:64]!r} is not a metric of this project",
                field="$.values",
                found=metric[:64],
                expected="one of " + ", ".join(limits),
            )
    measured = command.values | known_values(decision.state, decision.now)
    for metric, value in measured.items():
        if metric in limits:
            _judge(decision, metric, float(value), limits[metric])
    raised = sorted(name for name, alert in decision.state.alerts.items() if alert.raised_at != NEVER)
    return HealthReported(tuple(raised))


def known_values(state: ProjectState, now: int) -> dict[str, float]:
    """Return the health values that the exchange has itself."""
    recent = sum(escalation.opened_at > now - _MINUTE_US for escalation in state.escalations.values())
    return {
        "critical_queue_depth": state.depths[Priority.CRITICAL],
        "blocking_queue_depth": state.depths[Priority.BLOCKING],
        "escalations_per_minute": recent,
    }


def _judge(decision: Decision, metric: str, value: float, limit: float) -> None:
    alert, policy = decision.state.alerts.get(metric), decision.policy.health
    if alert is None:
        if value > limit:
            decision.emit(ev.HealthBreached(decision.now, metric, value, limit))
    elif alert.raised_at == NEVER:
        if value <= limit:
            decision.emit(ev.HealthRecovered(decision.now, metric, value))
        elif decision.now - alert.since >= policy.sustained_us:
            _raise(decision, alert, value, limit)
    elif value > limit * policy.clear_share:
        if alert.easing:
            decision.emit(ev.AlertWorsened(decision.now, metric, value))
    elif not alert.easing:
        decision.emit(ev.AlertEased(decision.now, metric, value))
    elif decision.now - alert.since >= policy.clear_us:
        _clear(decision, alert, value)


def _raise(decision: Decision, alert: Alert, value: float, limit: float) -> None:
    threshold_s = decision.policy.health.sustained_s
    decision.emit(ev.AlertRaised(decision.now, alert.metric, value, limit, alert.since, threshold_s))
    name, over, now = metric_text(alert.metric), measure_text(alert.metric, limit), measure_text(alert.metric, value)
    name = name[:1].upper() + name[1:]
    detail = f"{name} has been over its limit of {over} for {duration_text(threshold_s)}: it is {now}"
    open_escalation(decision, "health_degraded", _cause(alert), alert.metric, detail, threshold=threshold_s)


def _clear(decision: Decision, alert: Alert, value: float) -> None:
    cause = _cause(alert)
    decision.emit(ev.AlertCleared(decision.now, alert.metric, value, alert.raised_at))
    name = decision.state.causes.get(cause)
    if name is not None:
        close_if_over(decision, decision.state.escalations[name])


def _cause(alert: Alert) -> str:
    return f"health_degraded {alert.metric} {alert.breach}"


def apply_change(
    state: ProjectState,
    event: ev.HealthBreached | ev.HealthRecovered | ev.AlertRaised | ev.AlertEased | ev.AlertWorsened | ev.AlertCleared,
) -> None:
    """Update the alert of a metric."""
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
