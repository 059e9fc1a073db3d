"""The queue manager: adapts the decay rate of new messages to the average processing latency.

Processing latency is the time from a message's offer to the last confirmation that its contract requires. Above
`latency_high_s` the rate rises by one step, below `latency_low_s` it falls by one; between the two it does not change.
Two changes are at least a cooldown apart, so that the rate does not oscillate. Without traffic to measure, the rate
falls step by step.

Requirement: DECAY §4.
"""

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.policy import Policy
from tocsin.core.queueing.decay import rounded_rate
from tocsin.core.state import LatencyWindow, ProjectState

__all__ = ["apply_rate", "fire_idle", "idle_due", "is_steady", "keep_in_bounds", "observe"]


def observe(decision: Decision) -> None:
    """Change the rate if the latencies require it; called after a latency was added."""
    manager, window = decision.policy.queue_manager, decision.state.latency
    if not manager.enabled or decision.now < window.changed_at + manager.cooldown_us:
        return
    samples = len(window.samples)
    if samples < manager.samples_min:
        return
    average_s = window.total_us / samples / 1_000_000
    if average_s > manager.latency_high_s:
        _change(decision, manager.rate_change, average_s, samples, manager.latency_high_s, "latency_high")
    elif average_s < manager.latency_low_s:
        _change(decision, -manager.rate_change, average_s, samples, manager.latency_low_s, "latency_low")


def is_steady(state: ProjectState, now: int) -> bool:
    """Tell whether `observe` would leave the rate as it is."""
    window = state.latency
    samples = len(window.samples)
    if samples < state.latencies_min or now < window.changed_at + state.rate_cooldown_us:
        return True
    manager = state.policy.queue_manager
    average_s = window.total_us / samples / 1_000_000
    if average_s > manager.latency_high_s:
        return window.rate == manager.rate_max
    return average_s >= manager.latency_low_s or window.rate <= manager.rate_min


def idle_due(state: ProjectState) -> int | None:
    """Return when a raised rate falls because there is no traffic."""
    manager, window = state.policy.queue_manager, state.latency
    if not manager.enabled or _moved(state.policy, window.rate, -manager.rate_change) == window.rate:
        return None
    last = window.samples[-1][0] if window.samples else window.changed_at
    return max(last + manager.window_us, window.changed_at + manager.cooldown_us)


def fire_idle(decision: Decision) -> bool:
    """Lower the rate by one step if there was no traffic; return whether it did."""
    due = idle_due(decision.state)
    if due is None or decision.now < due:
        return False
    manager = decision.policy.queue_manager
    _change(decision, -manager.rate_change, 0.0, 0, manager.latency_low_s, "idle")
    return True


def _change(decision: Decision, by: float, average_s: float, samples: int, threshold_s: float, rule: str) -> None:
    old = decision.state.latency.rate
    new = _moved(decision.policy, old, by)
    if new != old:
        decision.emit(ev.DecayRateChanged(decision.now, old, new, average_s, samples, threshold_s, rule))


def _moved(policy: Policy, rate: float, by: float) -> float:
    """Return a rate changed by one step, rounded and within its bounds."""
    manager = policy.queue_manager
    if by < 0 and rate <= manager.rate_min:
        return rate
    return min(manager.rate_max, max(manager.rate_min, rounded_rate(rate + by, policy.decay)))


def keep_in_bounds(state: ProjectState) -> None:
    """Bring the rate into the bounds of a policy just adopted."""
    manager = state.policy.queue_manager
    if manager.enabled:
        state.latency.rate = min(manager.rate_max, max(manager.rate_min, state.latency.rate))


def apply_rate(state: ProjectState, event: ev.DecayRateChanged) -> None:
    """Set the decay rate of new messages; the latency samples are kept."""
    state.latency = LatencyWindow(event.new_rate, event.at, state.latency.samples, state.latency.total_us)
