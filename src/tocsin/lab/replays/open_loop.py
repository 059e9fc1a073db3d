"""The open loop: every command at its recorded time, including the ticks of the hub's clock.

Under the policy in force the replay must give exactly the recorded events: each step's events are compared with the
recorded fingerprint. This shows that the commands were recognised correctly.
"""

from typing import Any

from tocsin.core.commands import AdoptPolicy
from tocsin.core.errors import Problem
from tocsin.core.events import Event
from tocsin.lab.replays.replay import Ids, PreparedTrace, Replay, begin
from tocsin.lab.traces.trace import TICK, fingerprint

__all__ = ["open_loop"]

_SENDS = frozenset({"Send", "SendRequest", "Publish"})


def open_loop(prepared: PreparedTrace, policy: dict[str, Any] | None = None) -> Replay:
    """Run every command at its recorded time; under another policy reactions do not move with their cause."""
    trace, ids = prepared.trace, Ids()
    exchange, tracker = begin(trace, policy, ids)
    exact = decisions = missed = 0
    differs = ""
    for index, step in enumerate(trace.steps):
        command = prepared.commands[index]
        first = exchange.state.seq + 1
        events: list[Event] = []
        if command is None:
            events = prepared.applied[index]
            exchange.replay(events)
        elif step.ask == "AdoptPolicy" and policy is not None:
            if not exchange.state.has_policy:
                events = exchange.handle(AdoptPolicy(policy, "lab"), prepared.callers[index], step.at).events
        else:
            ids.load(step.ids)
            while True:
                outcome = exchange.handle(command, prepared.callers[index], step.at)
                events += outcome.events
                decisions += 1
                # One recorded tick may stand for several: each does a limited amount of work.
                if step.ask != TICK or len(events) >= step.events or not outcome.events:
                    break
            missed += step.ask not in _SENDS and isinstance(outcome.reply, Problem)
        tracker.follow(first, events)
        if fingerprint(events) == step.digest:
            exact += 1
        elif not differs:
            agent = prepared.callers[index].agent
            differs = f"step {index}, {step.ask} of {agent}: {len(events)} events, {step.events} recorded"
    return Replay(
        histories=list(tracker.histories.values()),
        refused=tracker.refused,
        escalations=tracker.escalations,
        deadlocks=tracker.deadlocks,
        rate_changes=tracker.rate_changes,
        events=tracker.events,
        decisions=decisions,
        missed=missed,
        exact=exact,
        differs=differs,
        roles={name: agent.role for name, agent in exchange.state.agents.items()},
    )
