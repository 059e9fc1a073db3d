"""Appliers of the events of wakes."""

from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.messages.model import NEVER
from tocsin.core.scheduling import check_channel, note_absence, schedule_wake
from tocsin.core.state import ProjectState
from tocsin.core.wake.model import IgnoredChannel, Wakers, Waking

__all__ = [
    "HOUR_US",
    "apply_answered",
    "apply_declared",
    "apply_exited",
    "apply_failed",
    "apply_ignored",
    "apply_requested",
    "apply_woken",
]

HOUR_US = 3_600_000_000


def apply_declared(state: ProjectState, event: ev.WakersDeclared) -> None:
    """Replace the declared wakers, and check every agent that has one and for which messages wait."""
    state.wakers = Wakers(event.agents, event.roles)
    for agent in state.agents.values():
        if agent.mailbox.depth and state.can_wake(agent):
            schedule_wake(state, agent.agent, event.at)


def apply_requested(state: ProjectState, event: ev.AgentWakeRequested) -> None:
    """Begin a wake."""
    record = state.wakes.get(event.agent)
    if record is None:
        record = state.wakes[event.agent] = Waking(event.agent)
    if record.wake:
        raise InvariantViolation(f"an event wakes {event.agent}, which is being woken")
    record.wake, record.message, record.attempt = event.wake, event.message, event.attempt
    record.requested_at, record.due_at = event.at, event.due_at
    record.settled = record.exited = record.failed = False
    record.retry_at = record.rest_until = NEVER
    record.recent = [at for at in record.recent if at > event.at - HOUR_US] + [event.at]
    state.wake_targets[event.message] = event.agent
    schedule_wake(state, event.agent, event.due_at)


def apply_woken(state: ProjectState, event: ev.AgentWoken) -> None:
    """Settle a wake that worked."""
    record = _settled(state, event)
    record.attempt = 0
    record.outcome, record.outcome_at, record.detail = "woken", event.at, ""
    _end_if_over(state, record, event.at)


def apply_failed(state: ProjectState, event: ev.AgentWakeFailed) -> None:
    """Settle a wake that failed."""
    record = _settled(state, event)
    record.outcome, record.outcome_at, record.detail = event.reason, event.at, event.detail
    record.retry_at, record.failed = event.retry_at, event.final
    if not event.retry_at:
        record.attempt = 0
    if event.final:
        record.rest_until = event.at + state.policy.wake.rest_us
    _end_if_over(state, record, event.at)


def apply_exited(state: ProjectState, event: ev.WakerExited) -> None:
    """Record that the waker is over."""
    record = _under_way(state, event)
    record.exited = True
    _end_if_over(state, record, event.at)


def apply_ignored(state: ProjectState, event: ev.ChannelIgnored) -> None:
    """Count a channel session no longer as a way to its agent, which may have to be woken now."""
    state.ignored[event.session] = IgnoredChannel(event.session, event.agent, event.message, event.at)
    note_absence(state, event.agent, event.at)


def apply_answered(state: ProjectState, event: ev.ChannelAnswered) -> None:
    """Count a channel session as a way to its agent again; what waits may be ignored again."""
    if state.ignored.pop(event.session, None) is None:
        raise InvariantViolation(f"an event says that channel {event.session} was answered, which was not ignored")
    check_channel(state, state.agents[event.agent], event.at)


def _under_way(state: ProjectState, event: ev.AgentWoken | ev.AgentWakeFailed | ev.WakerExited) -> Waking:
    record = state.wakes.get(event.agent)
    if record is None or record.wake != event.wake:
        raise InvariantViolation(f"an event names wake {event.wake} of {event.agent}, which is not under way")
    return record


def _settled(state: ProjectState, event: ev.AgentWoken | ev.AgentWakeFailed) -> Waking:
    record = _under_way(state, event)
    if record.settled:
        raise InvariantViolation(f"an event settles wake {event.wake} of {event.agent} again")
    record.settled = True
    del state.wake_targets[event.message]
    # Until its waker is over, the deadline is the end of its run.
    record.due_at = max(event.at, record.requested_at + state.policy.wake.run_us)
    schedule_wake(state, event.agent, record.due_at)
    return record


def _end_if_over(state: ProjectState, record: Waking, at: int) -> None:
    """End a wake that is settled and whose waker is over; check the agent, and those that waited for a free place."""
    if not (record.settled and record.exited):
        return
    record.wake, record.due_at, record.ended_at = "", NEVER, at
    if record.agent not in state.agents:
        del state.wakes[record.agent]
    else:
        schedule_wake(state, record.agent, at)
    blocked, state.timers.wake_blocked = state.timers.wake_blocked, {}
    for name in blocked:
        schedule_wake(state, name, at)
