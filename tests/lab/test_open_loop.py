"""The open loop: every command at its recorded time gives exactly the recorded events."""

import pytest

from tests.lab.histories import Past, busy, traces_of
from tests.pipeline.traffic import simulated
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.lab.figures.fidelity import fidelity_of
from tocsin.lab.replays.open_loop import open_loop
from tocsin.lab.replays.replay import PreparedTrace, without_schemas
from tocsin.lab.traces.trace import Trace, command_of
from tocsin.policies import default_policy, parse_policy

ASSIGNMENT = {
    "taskId": "t",
    "taskRef": "r",
    "taskDescription": "d",
    "memoryLogPath": "m",
    "executionType": "single-step",
}


def exact(trace: Trace) -> None:
    replay = open_loop(PreparedTrace(trace))
    assert replay.differs == ""
    assert (replay.exact, replay.events) == (len(trace.steps), trace.events)
    assert replay.histories == trace.histories
    assert replay.refused == trace.refused
    fidelity = fidelity_of(trace, replay, stamps=True)
    assert (fidelity.same, fidelity.distance) == (fidelity.messages, 0.0)


def test_a_busy_team_comes_back_exactly() -> None:
    (trace,) = traces_of(busy(6000))
    assert {"Send", "Confirm", "Drain", "Acknowledge", "Reject", "Recall", "Redrive", "Heartbeat", "Tick"} <= {
        step.ask for step in trace.steps
    }
    exact(trace)


def test_each_window_begins_with_the_recorded_state() -> None:
    traces = traces_of(busy(9000, seed=2, per_day=100_000), window_s=1800)
    assert len(traces) > 3
    assert all(trace.snapshot for trace in traces[1:])
    for trace in traces:
        exact(trace)


def test_coordination_comes_back_exactly() -> None:
    past = Past(default_policy())
    ann, bob, director = past.join("ann"), past.join("bob"), past.join("dora", "director")
    past.ask(cmd.AcquireLease(exclusive=("src/**",), ttl_s=90), ann)
    past.wait(1)
    past.ask(cmd.AcquireLease(exclusive=("src/a.py",), wait_s=40), bob)
    past.wait(2)
    past.send(ann, "bob", "Question", correlationId="q1")
    question = past.last_id
    past.ask(cmd.Confirm((question,)), bob)
    past.wait(1)
    past.ask(cmd.BeginWork(question), bob)
    past.wait(5)
    past.ask(cmd.FinishWork(), bob)
    past.send(bob, "ann", "CUSTOM_ANSWER", correlationId="q1")
    past.send(ann, "bob", "CUSTOM_PLAN")
    past.wait(3)
    approval = next(iter(past.exchange.state.approvals))
    past.ask(cmd.DecideApproval(approval, "approve", "go"), director)
    override = next(iter(past.exchange.state.leases.leases))
    past.ask(cmd.RequestApproval("lease_override", override), bob)
    past.wait(1)
    past.ask(cmd.ReleaseLease(override), ann)
    past.wait(1)
    past.ask(cmd.OpenDiscussion("tabs?", ("ann", "bob")), director)
    discussion = next(iter(past.exchange.state.discussions))
    past.wait(1)
    past.ask(cmd.Speak(discussion, "yes"), ann)
    past.ask(cmd.RequestApproval("plan_approval", discussion), bob)
    past.ask(cmd.Vote(discussion, "agree"), ann)
    past.ask(cmd.Vote(discussion, "agree"), bob)
    past.ask(cmd.Subscribe("news"), bob)
    past.wait(1)
    past.ask(cmd.WithdrawApproval(next(iter(past.exchange.state.approvals))), bob)
    past.wait(400)
    past.ask(cmd.RetireAgent("bob", "done"), director)
    (trace,) = traces_of(past.events)
    asked = {step.ask for step in trace.steps}
    assert {"AcquireLease", "BeginWork", "FinishWork", "DecideApproval", "Vote", "Speak", "RetireAgent"} <= asked
    exact(trace)


def test_names_notes_and_changed_payloads_come_back_as_they_were_asked() -> None:
    past = Past(default_policy())
    ann, bob, director = past.join("ann"), past.join("bob"), past.join("dora", "director")
    past.ask(cmd.RegisterAgent(), bob)
    past.ask(cmd.AcquireLease(exclusive=("x",), priority="ASK"), ann)
    past.send(ann, "bob")
    past.ask(cmd.BeginWork(past.last_id), bob)
    past.wait(1)
    past.ask(cmd.PutAside("Zeile 42, weiter mit ß"), bob)
    past.send(ann, "bob", "CUSTOM_PLAN")
    past.wait(1)
    past.ask(cmd.DecideApproval(next(iter(past.exchange.state.approvals)), "approve", "", {"steps": 1}), director)
    (trace,) = traces_of(past.events)
    asked = {step.ask: command_of(step) for step in trace.steps if step.ask != "AdoptPolicy"}
    assert asked["RegisterAgent"] == cmd.RegisterAgent("AdHoc"), "the type that it kept"
    lease = asked["AcquireLease"]
    assert isinstance(lease, cmd.AcquireLease)
    assert lease.priority == "Blocking"
    assert asked["PutAside"] == cmd.PutAside("Zeile 42, weiter mit ß")
    decided = asked["DecideApproval"]
    assert isinstance(decided, cmd.DecideApproval)
    assert decided.payload == {}, "segments carry no content"
    exact(trace)


def test_a_refused_send_is_in_the_trace_and_is_refused_again() -> None:
    past = Past(parse_policy("bucket: {capacity: 10, refill_per_s: 1}"))
    ann, _ = past.join("ann"), past.join("bob")
    for _ in range(5):
        past.send(ann, "bob", metadata={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
        past.wait(0.5)
    past.send(Caller("ann", "primary"), "nobody")
    (trace,) = traces_of(past.events)
    assert [refused.code for refused in trace.refused] == ["E_ADMISSION_001"] * 3 + ["E_ROUTING_001"]
    exact(trace)


def test_every_way_to_send_comes_back_exactly() -> None:
    past = Past(default_policy())
    ann, bob = past.join("ann", "director"), past.join("bob", agent_type="Implementation")
    cat = past.join("cat", kind="piggyback")
    past.send(ann, "bob", priority="Critical", metadata={"ttl": 12.5}, qos={"importance": 9, "decayRate": 0.25})
    past.send(ann, "cat", "Question", qos={"deliveryClass": "async"})
    past.send(ann, "*", "StatusUpdate")
    past.ask(cmd.Subscribe("news"), bob)
    past.publish(ann, "news")
    past.request(ann, "bob", correlationId="r1", timeout_s=30)
    past.wait(1)
    past.send(bob, "ann", "CUSTOM_ANSWER", correlationId="r1")
    past.send(ann, "bob", "TASK_ASSIGNMENT", correlationId="t1", payload=ASSIGNMENT)
    task = past.last_id
    past.wait(1)
    ack = {"acknowledgedMessageId": task, "status": "received", "timestamp": "2025-11-12T00:00:00Z"}
    past.send(bob, "ann", "ACK", correlationId="t1", payload=ack)
    done = {"taskId": "t", "status": "completed", "progress": 1.0}
    past.send(bob, "ann", "TASK_UPDATE", correlationId="t1", payload=done)
    past.send(ann, "bob", "TASK_ASSIGNMENT", correlationId="t2", payload=ASSIGNMENT)
    nack = {"rejectedMessageId": past.last_id, "reason": "no", "timestamp": "2025-11-12T00:00:00Z", "canRetry": True}
    past.send(bob, "ann", "NACK", correlationId="t2", payload=nack)
    broken = {"errorType": "SystemError", "errorMessage": "fire", "severity": "critical"}
    past.send(bob, "ann", "ERROR_REPORT", payload=broken)
    past.wait(1)
    past.ask(cmd.CloseSession(past.session(bob)), bob)
    past.wait(60)
    past.ask(cmd.Drain(past.session(cat), 10), cat)
    (trace,) = traces_of(past.events)
    assert {"Publish", "SendRequest", "Subscribe", "CloseSession"} <= {step.ask for step in trace.steps}
    assert [step.envelope for step in trace.steps if step.ask == "Apply"] == []
    assert trace.refused == []
    exact(trace)


def test_a_drain_that_only_finds_what_is_past_its_time_is_a_drain() -> None:
    """Nothing was offered, and no sweeper came: the call itself ended it."""
    past = Past(parse_policy("sessions: {heartbeat_record_s: 1}"))
    ann, bob = past.join("ann"), past.join("bob", kind="piggyback")
    past.wait(7)
    past.send(ann, "bob", metadata={"ttl": 3})
    past.wait(10)
    past.ask(cmd.Drain(past.session(bob), 10), bob)
    (trace,) = traces_of(past.events)
    assert trace.steps[-1].ask == "Drain"
    assert trace.histories[-1].state == "expired"
    exact(trace)


def test_what_a_sender_left_to_the_policy_moves_with_it_and_what_it_named_does_not() -> None:
    past = Past(default_policy())
    ann, _ = past.join("ann"), past.join("bob", kind=None)
    past.send(ann, "bob")
    past.send(ann, "bob", priority="Blocking", metadata={"ttl": 20})
    past.wait(70)
    past.ask(cmd.Recall("msg_none_1"), ann)
    (trace,) = traces_of(past.events)
    other = without_schemas(parse_policy("custom_contract: {priority: Info, ttl_s: 5000}"))
    implied, named = open_loop(PreparedTrace(trace), other).histories
    assert (implied.requested, implied.state) == (0, "queued")
    assert (named.requested, named.outcome) == (2, ("expired", "ttl"))


# In world 0 a wait of the simulator's own kind begins at the very moment of a command: no history of a hub has that.
@pytest.mark.parametrize("seed", range(1, 5))
def test_wild_worlds_are_recorded_without_losing_count(seed: int) -> None:
    events, _ = simulated(seed, 250, errands=False)
    for trace in traces_of(events):
        assert sum(step.events for step in trace.steps) == trace.events
        replay = open_loop(PreparedTrace(trace))
        assert replay.exact > 0.5 * len(trace.steps)


def test_wakes_come_back_exactly() -> None:
    past = Past(
        parse_policy("wake: {after_s: 1, grace_s: 5, run_s: 20, retries_max: 1, backoff_s: [1], cooldown_s: 0}")
    )
    ann, bob = past.join("ann"), past.join("bob", kind=None)
    past.ask(cmd.DeclareWakers(("bob",), ("clone",)), SYSTEM)
    past.send(ann, "bob", priority="Blocking")
    past.wait(10)  # the first attempt fails: nobody attached
    past.ask(cmd.ReportWaker("bob", past.exchange.state.wakes["bob"].wake, "exited", -15, "ended"), SYSTEM)
    past.wait(2)
    past.ask(cmd.OpenSession("push"), bob)
    past.wait(30)  # its process runs too long
    past.ask(cmd.CloseSession(past.session(bob)), bob)
    past.wait(1)
    kinds = {type(event).__name__ for event in past.events}
    assert {"WakersDeclared", "AgentWakeRequested", "AgentWakeFailed", "AgentWoken", "WakerExited"} <= kinds
    (trace,) = traces_of(past.events)
    exact(trace)
