"""The closed loop: unchanged under the policy in force, and reactions that move with their cause under another."""

import os

import pytest

from tests.core.driver import SECOND
from tests.lab.histories import SETTINGS, Past, busy, traces_of
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import TocsinError
from tocsin.core.exchange import Exchange
from tocsin.core.tick import next_due
from tocsin.lab.figures.fidelity import fidelity_of
from tocsin.lab.replays.closed_loop import ClosedLoop, closed_loop
from tocsin.lab.replays.replay import PreparedTrace, Replay, without_schemas
from tocsin.lab.scenario import parse_scenario
from tocsin.lab.scenario_traces import build_traces
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.policies import default_policy, parse_policy

_TEAM = """
name: team
duration_s: 300
runs: 1
teams: {team: {agents: 20, heartbeat_s: 45, handles: {"*": {receipt_s: 0.05}}}}
loads: [{from: team, to: team, per_s: 4}]
"""


def replayed(past: Past, changes: str | None = None) -> dict[str, MessageHistory]:
    (trace,) = traces_of(past.events)
    policy = None if changes is None else without_schemas(parse_policy(changes))
    replay = closed_loop(PreparedTrace(trace), policy, 1, SETTINGS.clock_us)
    return {history.signal: history for history in replay.histories}


def test_a_busy_team_ends_as_it_did() -> None:
    (trace,) = traces_of(busy(6000))
    prepared = PreparedTrace(trace)
    replay = closed_loop(prepared, None, 1, SETTINGS.clock_us)
    fidelity = fidelity_of(prepared, replay, stamps=False)
    assert fidelity.same >= 0.99 * fidelity.messages
    assert fidelity.distance <= 0.01


def test_windows_that_begin_in_the_middle_end_as_they_did() -> None:
    for trace in traces_of(busy(9000, seed=2, per_day=100_000), window_s=1800):
        prepared = PreparedTrace(trace)
        fidelity = fidelity_of(prepared, closed_loop(prepared, None, 1, SETTINGS.clock_us), stamps=False)
        assert fidelity.same >= SETTINGS.closed_outcomes_min * fidelity.messages


def test_the_same_trace_policy_and_seed_give_the_same_result() -> None:
    (trace,) = traces_of(busy(3000))
    policy = without_schemas(parse_policy("aging: {threshold_s: 5}\nbucket: {capacity: 50, refill_per_s: 5}"))

    def once(seed: int) -> Replay:
        return closed_loop(PreparedTrace(trace), policy, seed, SETTINGS.clock_us)

    assert once(1) == once(1)
    assert once(1) != once(2)


@pytest.mark.skipif(os.environ.get("TOCSIN_FORM") == "compiled", reason="compiled methods cannot be replaced")
@pytest.mark.parametrize("clock_us", [SETTINGS.clock_us, 700_000])
@pytest.mark.parametrize(
    "policy",
    [
        "",
        "aging: {threshold_s: 5}\nsweeper: {interval_s: 1}\nretention: {settled_s: 5, acknowledged_s: 9}",
        "queue_manager: {samples_min: 5, cooldown_s: 4, window_s: 8, latency_high_s: 1, latency_low_s: 0.5}",
    ],
)
def test_ticks_are_the_same_if_the_next_due_time_is_always_asked_for(
    policy: str, clock_us: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = without_schemas(parse_policy(policy))
    recorded = traces_of(busy(5000, per_day=100_000), window_s=1800)
    simulated = build_traces(parse_scenario(_TEAM), SETTINGS)
    traces = [PreparedTrace(one) for one in recorded + simulated]
    asked = 0

    def counted(exchange: Exchange) -> int | None:
        nonlocal asked
        asked += 1
        return next_due(exchange.state)

    monkeypatch.setattr(Exchange, "next_due", counted)
    found = [closed_loop(one, changed, 1, clock_us) for one in traces]
    seldom, asked = asked, 0
    monkeypatch.setattr(ClosedLoop, "may_tick_before", lambda loop, before: True)
    monkeypatch.setattr(ClosedLoop, "next_due", lambda loop: loop.exchange.next_due())
    assert found == [closed_loop(one, changed, 1, clock_us) for one in traces]
    assert seldom < asked


def test_a_policy_that_is_refused_ends_the_replay_with_the_reason() -> None:
    (trace,) = traces_of(busy(300))
    with pytest.raises(TocsinError, match="aging"):
        closed_loop(PreparedTrace(trace), {"aging": {"threshold_s": "soon"}}, 1, SETTINGS.clock_us)


def test_an_answer_follows_its_request() -> None:
    """A request that is delivered ten seconds earlier is answered ten seconds earlier."""
    past = Past(parse_policy("delivery: {channel_backoff_s: [20, 20, 20], receipt_timeout_s: {push: 5}}"))
    ann, bob = past.join("ann"), past.join("bob")
    past.note(ann, "bob", correlation_id="t1")
    request = past.last_id
    past.advance(30)  # the first offer has no receipt: back after 5 s, again 20 s later
    past.tell(cmd.Confirm((request,)), bob)
    past.advance(3)
    past.tell(cmd.Acknowledge(request, "processed"), bob)
    past.advance(2)
    past.note(bob, "ann", correlation_id="t1")
    answer = past.last_id
    past.advance(1)
    recorded = replayed(past)
    sooner = replayed(past, "delivery: {channel_backoff_s: [10, 20, 20], receipt_timeout_s: {push: 5}}")
    assert sooner[answer].accepted_at == recorded[answer].accepted_at - 10 * SECOND
    assert sooner[request].processed_at == recorded[request].processed_at - 10 * SECOND


def test_an_answer_to_what_never_arrives_is_never_sent() -> None:
    past = Past(default_policy())
    ann, bob = past.join("ann"), past.join("bob", kind="piggyback")
    past.note(ann, "bob", correlation_id="t1")
    request = past.last_id
    past.advance(120)
    past.tell(cmd.Drain(past.session(bob), 10), bob)
    past.advance(5)
    past.note(bob, "ann", correlation_id="t1")
    answer = past.last_id
    past.advance(100)
    past.note(ann, "bob")
    histories = replayed(past, "custom_contract: {ttl_s: 60}")
    assert histories[request].outcome == ("expired", "ttl")
    assert answer not in histories


def test_work_waits_until_its_agent_is_free() -> None:
    """Two messages with ten seconds of work each: the second is finished ten seconds after the first."""
    past = Past(parse_policy("contracts: {CUSTOM_NOTE: {ack: required, timeout_s: 300}}"))
    ann, bob = past.join("ann"), past.join("bob", kind="piggyback")
    past.note(ann, "bob")
    first = past.last_id
    past.note(ann, "bob")
    second = past.last_id
    past.advance(1)
    past.tell(cmd.Drain(past.session(bob), 10), bob)
    for name in (first, second):
        past.advance(10)
        past.tell(cmd.Acknowledge(name, "processed"), bob)
    past.advance(1)
    past.note(ann, "bob")
    (trace,) = traces_of(past.events)
    delays = [step.delay_us for step in trace.steps if step.ask == "Acknowledge"]
    assert delays == [(10 * SECOND,)] * 2  # the second counts from the end of the first, not from its offer
    histories = replayed(past)
    assert histories[second].processed_at - histories[first].processed_at == 10 * SECOND


def test_a_message_that_was_refused_is_treated_like_others_of_its_kind() -> None:
    past = Past(parse_policy("bucket: {capacity: 10, refill_per_s: 0.001}"))
    ann, bob = past.join("ann"), past.join("bob")
    for _ in range(4):
        past.note(ann, "bob")
        if not isinstance(past.events[-1], ev.SendRefused):
            past.advance(1)
            in_flight = list(past.exchange.state.sessions[past.session(bob)].in_flight)
            names = tuple(past.exchange.state.messages[seq].message_id for seq in in_flight)
            past.tell(cmd.Confirm(names), bob)
    past.advance(10)
    past.note(ann, "bob")
    past.advance(10)
    (trace,) = traces_of(past.events)
    refused = [row.message_id for row in trace.refused]
    assert len(refused) == 3
    histories = replayed(past, "bucket: {capacity: 1000, refill_per_s: 100}")
    assert [histories[name].state for name in refused[:-1]] == ["delivered"] * 2
    assert histories[refused[0]].delivered_at - histories[refused[0]].first_offered_at == 1 * SECOND


WAKES = "wake: {level: Blocking, after_s: 30, cooldown_s: 0}\nsweeper: {interval_s: 1}"


def woken_twice() -> tuple[Past, list[str]]:
    """Return a history in which an agent is woken for two messages, attaches 3 s later and ends 2 s after that."""
    past, sent = Past(parse_policy(WAKES)), []
    ann, bob = past.join("ann"), past.join("bob", kind=None)
    past.join("cy", kind=None)

    def wait(seconds: int) -> None:
        # Messages that expire show in which seconds the recorded clock ticked.
        for _ in range(seconds):
            past.note(ann, "cy", priority="Info", metadata={"ttl": 0.5})
            past.advance(1)

    past.tell(cmd.DeclareWakers(("bob",)), None)
    for _ in range(2):
        past.note(ann, "bob", priority="Blocking")
        sent.append(past.last_id)
        wait(31)
        wait(3)
        past.tell(cmd.OpenSession("push"), bob)
        past.tell(cmd.Confirm((sent[-1],)), bob)
        past.advance(2)
        past.tell(cmd.CloseSession(past.session(bob)), bob)
        past.tell(cmd.ReportWaker("bob", past.exchange.state.wakes["bob"].wake, "exited", 0), None)
        past.advance(100)
    assert sum(isinstance(event, ev.AgentWoken) for event in past.events) == 2
    return past, sent


def test_a_woken_agent_attaches_as_long_after_its_wake_as_it_did() -> None:
    past, sent = woken_twice()
    recorded, sooner = replayed(past), replayed(past, WAKES.replace("after_s: 30", "after_s: 10"))
    for message in sent:
        assert recorded[message].state == sooner[message].state == "delivered"
        gained_us = recorded[message].delivered_at - sooner[message].delivered_at
        assert abs(gained_us - 20 * SECOND) <= 2 * SECOND


def test_an_agent_that_another_policy_does_not_wake_never_comes() -> None:
    past, sent = woken_twice()
    asleep = replayed(past, WAKES.replace("level: Blocking", "level: Critical"))
    assert {asleep[message].state for message in sent} == {"queued"}
