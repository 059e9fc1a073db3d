"""Traces of a scenario: registrations, sends and consumer models, generated from one seed."""

import math
from itertools import count

import numpy as np

from tocsin.core.commands import SYSTEM
from tocsin.core.errors import refusal
from tocsin.core.policy import document_of
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.lab.scenario import Duration, Handling, LeaseContention, Load, RandomDuration, Scenario, Team
from tocsin.lab.settings import Settings
from tocsin.lab.traces.recorded_envelope import recorded_envelope
from tocsin.lab.traces.trace import ConsumerAction, ConsumerModel, Poller, Step, Trace, encoded_consumers
from tocsin.policies import default_policy

__all__ = ["build_traces"]

_SECOND = 1_000_000
#: Start of every scenario: a fixed date, microseconds since the epoch.
_BEGIN = 1_762_905_600 * _SECOND
#: Time before the first message in which agents register and attach, microseconds.
_JOINING_US = 1 * _SECOND


def build_traces(scenario: Scenario, settings: Settings) -> list[Trace]:
    """Return the traces of a scenario, one per run."""
    if scenario.agents > settings.agents_max:
        raise refusal(
            "E_LAB_003", f"{scenario.agents} agents are too many: the limit is {settings.agents_max} (agents_max)"
        )
    messages = sum(_expected(load, scenario.duration_s) for load in scenario.loads)
    if messages > settings.messages_max:
        raise refusal(
            "E_LAB_003",
            f"about {messages:.0f} messages are too many: the limit is {settings.messages_max} (messages_max)",
        )
    return [_run(scenario, settings, number) for number in range(1, scenario.runs + 1)]


def _expected(load: Load, duration_s: float) -> float:
    seconds = min(duration_s, duration_s if load.stop_s is None else load.stop_s) - load.start_s
    return max(0.0, seconds) * (load.size / load.every_s if load.pattern == "burst" else load.per_s)


def _run(scenario: Scenario, settings: Settings, number: int) -> Trace:
    random = np.random.default_rng((settings.seed, number))
    begin = _BEGIN + _JOINING_US
    ends_at = begin + round(scenario.duration_s * _SECOND)
    document = document_of(default_policy())
    adopted = {"policy": document, "reason": "scenario"}
    steps = [Step(_BEGIN, SYSTEM.agent, SYSTEM.role, "AdoptPolicy", body=adopted)]
    pollers: list[Poller] = []
    consumers: list[ConsumerModel] = []
    for name, team in scenario.teams.items():
        _join(scenario, name, team, steps, pollers, begin, random)
        consumers += _consumer_models(name, team, settings, random)
    arrivals: list[Step] = []
    serial = count(1)
    for load in scenario.loads:
        arrivals += _arrivals(scenario, load, begin, serial, random)
    for contention in scenario.leases:
        arrivals += _lease_steps(scenario, contention, begin, serial)
    arrivals.sort(key=lambda step: step.at)
    return Trace(
        project=scenario.name,
        window=f"run-{number}",
        begins_at=_BEGIN,
        ends_at=ends_at,
        snapshot=b"",
        policy=None,
        steps=steps + arrivals,
        refused=[],
        events=0,
        consumer_data=encoded_consumers(consumers),
        pollers=pollers,
        recorded=False,
    )


def _join(
    scenario: Scenario,
    name: str,
    team: Team,
    steps: list[Step],
    pollers: list[Poller],
    begin: int,
    random: np.random.Generator,
) -> None:
    """Add the steps that register and attach a team, and its pollers, each with its own phase."""
    members = scenario.members(name)
    every_us = round((team.poll_s if team.session == "piggyback" else team.heartbeat_s) * _SECOND)
    phases = random.random(len(members))
    for agent, phase in zip(members, phases, strict=True):
        body = {"type": team.type, "versions": (VERSIONS[-1],)}
        steps.append(Step(_BEGIN, agent, team.role, "RegisterAgent", body=body))
        if team.session == "none":
            continue
        session = f"ses_{agent}"
        opened = {"kind": team.session, "window": team.window}
        steps.append(Step(_BEGIN, agent, team.role, "OpenSession", ids=(session,), body=opened))
        limit = team.takes if team.session == "piggyback" else 0
        first = begin + (every_us if team.agents == 1 else max(1, round(phase * every_us)))
        pollers.append(Poller(agent, team.role, session, limit, first, max(1, every_us)))


def _consumer_models(name: str, team: Team, settings: Settings, random: np.random.Generator) -> list[ConsumerModel]:
    handles = team.handles or {"*": Handling()}
    if "*" not in handles:
        handles = handles | {"*": Handling()}
    found = []
    for message_type, handling in handles.items():
        examples = _examples(handling, settings.examples_max, random)
        found.append(ConsumerModel(f"{name}-*", message_type, examples))
    return found


def _examples(handling: Handling, number: int, random: np.random.Generator) -> list[tuple[ConsumerAction, ...]]:
    receipts = _draws(handling.receipt_s, number, random)
    works = _draws(handling.work_s, number, random)
    thinks = _draws(handling.think_s, number, random)
    answered = random.permutation(np.arange(number) < round(handling.answers * number))
    examples = []
    for place in range(number):
        actions: list[ConsumerAction] = []
        if handling.receipt_s is not None:
            actions.append(ConsumerAction("Confirm", {}, receipts[place]))
        if handling.work_s is not None and handling.ack == "reject":
            actions.append(ConsumerAction("Reject", {"reason": "scenario"}, works[place], serial=True))
        elif handling.work_s is not None and handling.ack != "none":
            actions.append(ConsumerAction("Acknowledge", {"status": handling.ack}, works[place], serial=True))
        if answered[place]:
            actions.append(ConsumerAction("Send", {}, thinks[place], message_type=handling.answer_type))
        examples.append(tuple(actions))
    return examples


def _draws(duration: Duration | None, number: int, random: np.random.Generator) -> list[int]:
    """Return durations at evenly spaced quantiles, in random order, microseconds."""
    if not isinstance(duration, RandomDuration):
        return [round((duration or 0.0) * _SECOND)] * number
    places = (np.arange(number) + 0.5) / number
    if duration.mean is not None:
        values = -duration.mean * np.log1p(-places)
    else:
        low, high = duration.low or 0.0, duration.high or 0.0
        values = low + (high - low) * places
    return [round(float(value) * _SECOND) for value in random.permutation(values)]


def _arrivals(
    scenario: Scenario, load: Load, begin: int, serial: "count[int]", random: np.random.Generator
) -> list[Step]:
    senders, recipients = scenario.members(load.sender), scenario.members(load.to)
    stop_s = scenario.duration_s if load.stop_s is None else min(load.stop_s, scenario.duration_s)
    times = _times(load, stop_s, random)
    froms = random.integers(len(senders), size=len(times))
    tos = random.integers(len(recipients), size=len(times))
    role = scenario.teams[load.sender if load.sender in scenario.teams else load.sender.rpartition("-")[0]].role
    sender_type = scenario.teams[senders[0].rpartition("-")[0]].type
    metadata = _metadata(load.ttl_s)
    steps = []
    for seconds, sender, recipient in zip(times.tolist(), froms.tolist(), tos.tolist(), strict=True):
        name = senders[sender]
        receiver = recipients[recipient]
        if receiver == name:
            receiver = recipients[(recipient + 1) % len(recipients)]
        at = begin + round(seconds * _SECOND)
        envelope = recorded_envelope(
            f"msg_{next(serial):09d}_0",
            name,
            sender_type,
            receiver,
            "*",
            load.type,
            VERSIONS[-1],
            at,
            priority=load.priority,
            importance=load.importance,
            metadata=metadata,
        )
        steps.append(Step(at, name, role, "Send", envelope=envelope))
    return steps


def _metadata(ttl_s: float | None) -> bytes:
    return b"{}" if ttl_s is None else f'{{"ttl":{ttl_s!r}}}'.encode()


def _times(load: Load, stop_s: float, random: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    span = max(0.0, stop_s - load.start_s)
    if load.pattern == "burst":
        starts = np.arange(load.start_s, stop_s, load.every_s)
        return np.repeat(starts, load.size)
    if load.pattern == "steady":
        return load.start_s + (np.arange(math.floor(span * load.per_s)) + 1) / load.per_s
    return load.start_s + np.sort(random.random(random.poisson(span * load.per_s))) * span


def _lease_steps(scenario: Scenario, contention: LeaseContention, begin: int, serial: "count[int]") -> list[Step]:
    """Return steps in which each of two agents acquires its first lease, then requests the other's."""
    steps: list[Step] = []
    gap_us, hold_us = round(contention.gap_s * _SECOND), round(contention.hold_s * _SECOND)
    for start in np.arange(0.0, scenario.duration_s, contention.every_s).tolist():
        at = begin + round(start * _SECOND)
        for agent, order in zip(contention.agents, (contention.resources, contention.resources[::-1]), strict=True):
            role = scenario.teams[agent.rpartition("-")[0]].role
            number = next(serial)
            first, second = f"lse_{number}_1", f"lse_{number}_2"
            first_step = Step(at, agent, role, "AcquireLease", body={"exclusive": (order[0],), "lease": first})
            second_step = Step(at, agent, role, "AcquireLease", body={"exclusive": (order[1],), "lease": second})
            second_step.after, second_step.delay_us = (f"g {first}",), (gap_us,)
            steps += [first_step, second_step]
            for lease, anchor, delay_us in (
                (second, f"g {second}", hold_us),
                (first, f"g {second}", hold_us),
                (first, f"x {second}", 0),
            ):
                step = Step(at, agent, role, "ReleaseLease", body={"lease": lease})
                step.after, step.delay_us = (anchor,), (delay_us,)
                steps.append(step)
    return steps
