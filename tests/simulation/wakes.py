"""Wakers that work, fail, run too long or are never heard of again, and what must hold of every wake and channel.

The checks keep an account of their own of who is being woken, since when, and how often, and hold each event to the
policy of that moment.
"""

from typing import TYPE_CHECKING

from tests.simulation.promises import must
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import Event
from tocsin.core.messages.model import State
from tocsin.core.state import ProjectState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

__all__ = ["ACTIONS", "WakeChecks"]

_HOUR_US = 3600 * 1_000_000


def declare(world: "World") -> None:
    """Let the hub be started with other wakers; now and then an agent pretends to be the hub."""
    rng = world.rng
    agents = tuple(rng.sample(list(world.callers), rng.randint(0, len(world.callers))))
    roles = rng.choice(((), (), ("clone",), ("primary", "director")))
    caller = SYSTEM if rng.random() < 0.9 else world.somebody()
    world.ask(cmd.DeclareWakers(agents, roles), caller)


def report(world: "World") -> None:
    """Let a waker end, well or badly; now and then one that is not under way."""
    rng, wakes = world.rng, world.exchange.state.wakes
    under_way = [record for record in wakes.values() if record.wake]
    record = rng.choice(under_way) if under_way else None
    agent, wake = ("nobody", "wak_none") if record is None or rng.random() < 0.05 else (record.agent, record.wake)
    outcome, code = rng.choice((("exited", 0), ("exited", 0), ("exited", 1), ("not_started", None), ("lost", None)))
    world.ask(cmd.ReportWaker(agent, wake, outcome, code, "simulated"), SYSTEM)  # type: ignore[arg-type]


def wake_up(world: "World") -> None:
    """Let an agent that is being woken attach, and mostly take what waits for it."""
    waking = [name for name in world.exchange.state.wake_targets.values() if name in world.callers]
    if not waking:
        return
    caller = world.callers[world.rng.choice(waking)]
    kind = world.rng.choice(("push", "piggyback"))
    ready = world.ask(cmd.OpenSession(kind, 8), caller)  # type: ignore[arg-type]
    if isinstance(ready, cmd.SessionReady) and world.rng.random() < 0.8:
        world.ask(cmd.Drain(ready.session, 500), caller)


def fall_asleep(world: "World") -> None:
    """Let all sessions of an agent end."""
    caller = world.somebody()
    agent = world.exchange.state.agents.get(caller.agent)
    for session in [] if agent is None else list(agent.sessions):
        world.ask(cmd.CloseSession(session), caller)


ACTIONS: "tuple[tuple[Callable[[World], None], float], ...]" = (
    (declare, 1.5),
    (report, 4),
    (wake_up, 2),
    (fall_asleep, 2),
)


def _is_pushed_to(state: ProjectState, name: str) -> bool:
    """Tell whether an agent has a live session that messages are pushed to."""
    return any(not s.stale and s.kind in ("push", "daemon") for s in state.agents[name].sessions.values())


class WakeChecks:
    """The wakes that are under way, and when each agent was woken."""

    def __init__(self) -> None:
        self.declared = ev.WakersDeclared(0, (), ())
        #: Request of the wake that is under way, by agent.
        self.under_way: dict[str, ev.AgentWakeRequested] = {}
        self.settled: set[str] = set()
        self.exited: set[str] = set()
        #: Times of recent requests, of the last end, and of the last failure, by agent.
        self.requested: dict[str, list[int]] = {}
        self.ended: dict[str, int] = {}
        self.freed_at = 0
        self.failed: dict[str, ev.AgentWakeFailed] = {}
        #: End of the rest after the last attempt, by agent, under the policy of that time; attaching ends it.
        self.rest_until: dict[str, int] = {}
        #: Channel sessions that led to nothing, and since when.
        self.ignored: dict[str, int] = {}
        #: Time of the latest call over each open session other than a channel.
        self.called: dict[str, int] = {}

    def follow(self, event: Event, state: ProjectState) -> None:
        """Check an event against the state before it."""
        self._follow_channels(event, state)
        match event:
            case ev.WakersDeclared():
                self.declared = event
            case ev.AgentWakeRequested():
                self._requested(event, state)
            case ev.AgentWoken():
                self._settle(event)
                message = state.messages[event.message]
                if event.session:
                    must(message.state is State.OFFERED, f"{event.agent} was woken and has not taken the message")
                    must(message.session == event.session, f"{event.agent} was woken by another session")
                else:
                    ended = message.state in (State.EXPIRED, State.RECALLED)
                    must(not ended, f"{event.agent} was woken and has not settled the message")
                self.failed.pop(event.agent, None)
                self._end(event)
            case ev.AgentWakeFailed():
                self._settle(event)
                must(not (event.final and event.retry_at), f"{event.wake} failed for good and is tried again")
                self.failed[event.agent] = event
                self.rest_until.pop(event.agent, None)
                if event.final:
                    self.rest_until[event.agent] = event.at + state.policy.wake.rest_us
                self._end(event)
            case ev.WakerExited():
                must(event.wake not in self.exited, f"the waker of {event.wake} ended twice")
                must(self.under_way[event.agent].wake == event.wake, f"{event.wake} is not under way")
                self.exited.add(event.wake)
                self._end(event)
            case ev.SessionOpened():
                self.rest_until.pop(event.agent, None)
                if event.agent not in self.under_way:
                    self.failed.pop(event.agent, None)
            case ev.AgentRegistered() if event.agent not in state.agents:
                # Not when the last one of that name retired: its wake ends after that.
                for known in (self.failed, self.requested, self.ended, self.rest_until):
                    known.pop(event.agent, None)

    def _follow_channels(self, event: Event, state: ProjectState) -> None:
        match event:
            case ev.SessionOpened() if event.session_kind != "channel":
                self.called[event.session] = event.at
            case ev.SessionHeartbeat() if state.sessions[event.session].kind != "channel":
                self.called[event.session] = event.at
            case ev.SessionClosed():
                self.ignored.pop(event.session, None)
                self.called.pop(event.session, None)
            case ev.ChannelAnswered():
                must(event.session in self.ignored, f"{event.session} was not ignored and is answered")
                must(
                    self._called(state, event.agent) == event.at, f"{event.agent} made no call and answers its channel"
                )
                self.ignored.pop(event.session, None)
            case ev.ChannelIgnored():
                self._ignored(event, state)

    def _ignored(self, event: ev.ChannelIgnored, state: ProjectState) -> None:
        name, session, policy = event.agent, state.sessions[event.session], state.policy.wake
        must(session.kind == "channel" and session.agent == name, f"{event.session} is no channel of {name}")
        must(event.session not in self.ignored, f"{event.session} is ignored twice")
        must(not session.stale, f"{event.session} is stale and said to be ignored")
        must(not _is_pushed_to(state, name), f"messages are pushed to {name}, and it ignores its channel")
        message = state.messages[event.message]
        waits = message.state is State.QUEUED and message.recipient == name and event.at <= message.expires_at
        must(waits and message.priority >= policy.level_number, f"{name} ignores a message that is not announced")
        since = max(message.enqueued_at, session.opened_at, self._called(state, name))
        waits_s = policy.notify_again_s + policy.notifications_max * policy.notify_again_s[-1:]
        takes_us = round(sum(waits_s[: policy.notifications_max]) * 1_000_000)
        must(event.at >= since + takes_us, f"{name} was not yet notified as often as the policy says")
        self.ignored[event.session] = event.at

    def _called(self, state: ProjectState, name: str) -> int:
        """Return when an agent made the latest call over a session that is still open."""
        return max((self.called.get(session, 0) for session in state.agents[name].sessions), default=0)

    def _unattended(self, state: ProjectState, name: str) -> bool:
        """Tell whether no session of an agent counts as a way to it."""
        return all(s.stale or s.session in self.ignored for s in state.agents[name].sessions.values())

    def _requested(self, event: ev.AgentWakeRequested, state: ProjectState) -> None:
        name, policy = event.agent, state.policy.wake
        agent, message = state.agents[name], state.messages[event.message]
        known = name in self.declared.agents or agent.role in self.declared.roles
        must(known, f"{name} has no waker and was woken")
        must(name not in self.under_way, f"{name} was woken twice at once")
        must(self._unattended(state, name), f"{name} has a live session and was woken")
        waits = message.state is State.QUEUED and not message.backing_off and message.recipient == name
        must(waits and event.at <= message.expires_at, f"{name} was woken for a message that does not wait")
        levels = ["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"]
        must(message.priority >= levels.index(policy.level), f"{name} was woken for a message of no importance")
        must(event.at >= message.enqueued_at + policy.after_us, f"{name} was woken too early")
        must(len(self.under_way) < policy.processes_max, "more wakes are under way than the policy allows")
        recent = [at for at in self.requested.get(name, []) if at > event.at - _HOUR_US]
        must(len(recent) < policy.per_hour_max, f"{name} was woken more often than the policy allows")
        self.requested[name] = [*recent, event.at]
        failed = self.failed.get(name)
        if event.attempt > 1:
            must(failed is not None and failed.attempt == event.attempt - 1, f"{name} was woken again without a cause")
            must(failed is not None and event.at >= failed.retry_at, f"{name} was woken again before its backoff")
        else:
            must(event.at >= self.rest_until.get(name, 0), f"{name} was woken in its rest")
            must(event.at >= self.ended.get(name, 0) + policy.cooldown_us, f"{name} was woken in its cool-down")
        self.under_way[name] = event

    def _settle(self, event: ev.AgentWoken | ev.AgentWakeFailed) -> None:
        must(self.under_way[event.agent].wake == event.wake, f"{event.wake} is not under way")
        must(event.wake not in self.settled, f"{event.wake} was settled twice")
        self.settled.add(event.wake)

    def _end(self, event: ev.AgentWoken | ev.AgentWakeFailed | ev.WakerExited) -> None:
        if event.wake in self.settled and event.wake in self.exited:
            del self.under_way[event.agent]
            self.ended[event.agent] = self.freed_at = event.at

    def check(self, state: ProjectState) -> None:
        """Check that the state knows the same wakes."""
        known = {name: record.wake for name, record in state.wakes.items() if record.wake}
        must(known == {name: event.wake for name, event in self.under_way.items()}, "the state knows other wakes")
        targets = {e.message: e.agent for e in self.under_way.values() if e.wake not in self.settled}
        must(state.wake_targets == targets, "the state waits for other messages to be taken")
        must(state.ignored.keys() == self.ignored.keys(), "the state ignores other channels")
        for session, since in self.ignored.items():
            name = state.sessions[session].agent
            must(self._called(state, name) <= since, f"{name} has made a call, and its channel is still ignored")

    def check_times(self, state: ProjectState, now: int) -> None:
        """Check, after a tick that left nothing due, that no wake is past its deadline."""
        late = state.policy.timers.granularity_us
        for name, event in self.under_way.items():
            due = state.wakes[name].due_at
            must(now <= due + late, f"the wake {event.wake} of {name} never ends")

    def check_needed(self, state: ProjectState, now: int) -> None:
        """Check, after a tick that left nothing due, that nobody who should be woken is forgotten."""
        late, policy = state.policy.timers.granularity_us, state.policy.wake
        if len(self.under_way) >= policy.processes_max:
            return
        for message in state.messages.values():
            name = message.recipient
            if message.state is not State.QUEUED or message.backing_off or message.priority < policy.level_number:
                continue
            agent, record = state.agents[name], state.wakes.get(name)
            known = name in self.declared.agents or agent.role in self.declared.roles
            if not known or not self._unattended(state, name) or name in self.under_way or now > message.expires_at:
                continue
            # Those that waited for a free place are checked just after another wake has ended.
            since = max(message.enqueued_at, 0 if record is None else record.away_since, self.freed_at)
            since = max(since, self.declared.at - policy.after_us)
            if record is not None:
                since = max(since, record.retry_at, record.rest_until, record.ended_at + policy.cooldown_us)
                recent = [at for at in record.recent if at > now - _HOUR_US]
                since = max(since, now if len(recent) >= policy.per_hour_max else 0)
            must(now <= since + policy.after_us + late, f"{name} should have been woken for message {message.seq}")

    def check_channels(self, state: ProjectState, now: int) -> None:
        """Check, after a tick that left nothing due, that no channel that leads to nothing still counts."""
        late, policy = state.policy.timers.granularity_us, state.policy.wake
        for message in state.messages.values():
            name = message.recipient
            if message.state is not State.QUEUED or message.backing_off or message.priority < policy.level_number:
                continue
            if now > message.expires_at or _is_pushed_to(state, name):
                continue
            for session in state.agents[name].sessions.values():
                if session.kind == "channel" and not session.stale and session.session not in self.ignored:
                    since = max(message.enqueued_at, session.opened_at, self._called(state, name))
                    must(now <= since + policy.notifications_us + late, f"{name} ignores {session.session} unnoticed")

    def check_ended(self) -> None:
        """Check, after everybody has caught up, that every wake has ended."""
        must(not self.under_way, f"wakes that never ended: {list(self.under_way.values())}")
