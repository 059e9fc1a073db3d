"""The open loop: every command at its recorded time gives exactly the recorded events."""

import pytest

from tests.lab.histories import Past, busy, traces_of
from tests.pipeline.traffic import simulated
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.lab.figures.fidelity import fidelity_of
from tocsin.lab.replays.open_loop import open_loop
from tocsin.lab.replays.replay import PreparedTrace, without_schemas
from tocsin.lab.traces.step_commands import command_of
from tocsin.lab.traces.trace import Trace
from tocsin.policies import default_policy, parse_policy

ASSIGNMENT = {
    "taskId": "t",
    "taskRef": "r",
    "taskDescription": "d",
    "memoryLogPath": "m",
    "executionType": "single-step",
}


def exact(trace: Trace) -> None:
    prepared = PreparedTrace(trace)
    replay = open_loop(prepared)
    assert replay.differs == ""
    assert (replay.exact, replay.events) == (len(trace.steps), trace.events)
    assert replay.histories == trace.histories
    assert replay.refused == trace.refused
    fidelity = fidelity_of(prepared, replay, stamps=True)
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
    past.tell(cmd.AcquireLease(exclusive=("src/**",), ttl_s=90), ann)
    past.advance(1)
    past.tell(cmd.AcquireLease(exclusive=("src/a.py",), wait_s=40), bob)
    past.advance(2)
    past.note(ann, "bob", "Question", correlation_id="q1")
    question = past.last_id
    past.tell(cmd.Confirm((question,)), bob)
    past.advance(1)
    past.tell(cmd.BeginWork(question), bob)
    past.advance(5)
    past.tell(cmd.FinishWork(), bob)
    past.note(bob, "ann", "CUSTOM_ANSWER", correlation_id="q1")
    past.note(ann, "bob", "CUSTOM_PLAN")
    past.advance(3)
    approval = next(iter(past.exchange.state.approvals))
    past.tell(cmd.DecideApproval(approval, "approve", "go"), director)
    override = next(iter(past.exchange.state.leases.leases))
    past.tell(cmd.RequestApproval("lease_override", override), bob)
    past.advance(1)
    past.tell(cmd.ReleaseLease(override), ann)
    past.advance(1)
    past.tell(cmd.OpenDiscussion("tabs?", ("ann", "bob")), director)
    discussion = next(iter(past.exchange.state.discussions))
    past.advance(1)
    past.tell(cmd.Speak(discussion, "yes"), ann)
    past.tell(cmd.RequestApproval("plan_approval", discussion), bob)
    past.tell(cmd.Vote(discussion, "agree"), ann)
    past.tell(cmd.Vote(discussion, "agree"), bob)
    past.tell(cmd.Subscribe("news"), bob)
    past.advance(1)
    past.tell(cmd.WithdrawApproval(next(iter(past.exchange.state.approvals))), bob)
    past.advance(400)
    past.tell(cmd.RetireAgent("bob", "done"), director)
    (trace,) = traces_of(past.events)
    asked = {step.ask for step in trace.steps}
    assert {"AcquireLease", "BeginWork", "FinishWork", "DecideApproval", "Vote", "Speak", "RetireAgent"} <= asked
    exact(trace)


def test_names_notes_and_changed_payloads_come_back_as_they_were_asked() -> None:
    past = Past(default_policy())
    ann, bob, director = past.join("ann"), past.join("bob"), past.join("dora", "director")
    past.tell(cmd.RegisterAgent(), bob)
    past.tell(cmd.AcquireLease(exclusive=("x",), priority="ASK"), ann)
    past.note(ann, "bob")
    past.tell(cmd.BeginWork(past.last_id), bob)
    past.advance(1)
    past.tell(cmd.PutAside("Zeile 42, weiter mit ß"), bob)
    past.note(ann, "bob", "CUSTOM_PLAN")
    past.advance(1)
    past.tell(cmd.DecideApproval(next(iter(past.exchange.state.approvals)), "approve", "", {"steps": 1}), director)
    (trace,) = traces_of(past.events)
    asked = {
        step.ask: command_of(step.ask, step.args, step.envelope, step.body)
        for step in trace.steps
        if step.ask != "AdoptPolicy"
    }
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
        past.note(ann, "bob", metadata={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
        past.advance(0.5)
    past.note("ann", "nobody")
    (trace,) = traces_of(past.events)
    assert [refused.code for refused in trace.refused] == ["E_ADMISSION_001"] * 3 + ["E_ROUTING_001"]
    exact(trace)


def test_every_way_to_send_comes_back_exactly() -> None:
    past = Past(default_policy())
    ann, bob = past.join("ann", "director"), past.join("bob", agent_type="Implementation")
    cat = past.join("cat", kind="piggyback")
    past.note(ann, "bob", priority="Critical", metadata={"ttl": 12.5}, qos={"importance": 9, "decayRate": 0.25})
    past.note(ann, "cat", "Question", qos={"deliveryClass": "async"})
    past.note(ann, "*", "StatusUpdate")
    past.tell(cmd.Subscribe("news"), bob)
    past.tell(cmd.Publish("news", past.envelope(ann, "*", "CUSTOM_NOTE")), ann)
    past.tell(cmd.SendRequest(past.envelope(ann, "bob", "CUSTOM_NOTE", correlation_id="r1"), 30), ann)
    past.advance(1)
    past.note(bob, "ann", "CUSTOM_ANSWER", correlation_id="r1")
    past.note(ann, "bob", "TASK_ASSIGNMENT", correlation_id="t1", payload=ASSIGNMENT)
    task = past.last_id
    past.advance(1)
    ack = {"acknowledgedMessageId": task, "status": "received", "timestamp": "2025-11-12T00:00:00Z"}
    past.note(bob, "ann", "ACK", correlation_id="t1", payload=ack)
    done = {"taskId": "t", "status": "completed", "progress": 1.0}
    past.note(bob, "ann", "TASK_UPDATE", correlation_id="t1", payload=done)
    past.note(ann, "bob", "TASK_ASSIGNMENT", correlation_id="t2", payload=ASSIGNMENT)
    nack = {"rejectedMessageId": past.last_id, "reason": "no", "timestamp": "2025-11-12T00:00:00Z", "canRetry": True}
    past.note(bob, "ann", "NACK", correlation_id="t2", payload=nack)
    broken = {"errorType": "SystemError", "errorMessage": "fire", "severity": "critical"}
    past.note(bob, "ann", "ERROR_REPORT", payload=broken)
    past.advance(1)
    past.tell(cmd.CloseSession(past.session(bob)), bob)
    past.advance(60)
    past.tell(cmd.Drain(past.session(cat), 10), cat)
    (trace,) = traces_of(past.events)
    assert {"Publish", "SendRequest", "Subscribe", "CloseSession"} <= {step.ask for step in trace.steps}
    assert [step.envelope for step in trace.steps if step.ask == "Apply"] == []
    assert trace.refused == []
    exact(trace)


def test_a_drain_that_only_finds_what_is_past_its_time_is_a_drain() -> None:
    """Nothing was offered, and no sweeper came: the call itself ended it."""
    past = Past(parse_policy("sessions: {heartbeat_record_s: 1}"))
    ann, bob = past.join("ann"), past.join("bob", kind="piggyback")
    past.advance(7)
    past.note(ann, "bob", metadata={"ttl": 3})
    past.advance(10)
    past.tell(cmd.Drain(past.session(bob), 10), bob)
    (trace,) = traces_of(past.events)
    assert trace.steps[-1].ask == "Drain"
    assert trace.histories[-1].state == "expired"
    exact(trace)


def test_what_a_sender_left_to_the_policy_moves_with_it_and_what_it_named_does_not() -> None:
    past = Past(default_policy())
    ann, _ = past.join("ann"), past.join("bob", kind=None)
    past.note(ann, "bob")
    past.note(ann, "bob", priority="Blocking", metadata={"ttl": 20})
    past.advance(70)
    past.tell(cmd.Recall("msg_none_1"), ann)
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


def test_a_session_that_replaces_another_comes_back_exactly() -> None:
    past = Past(parse_policy(""))
    ann, bob = past.join("ann"), past.join("bob")
    for _ in range(3):
        past.note(ann, "bob")
    past.advance(1)
    former = past.session(bob)
    past.tell(cmd.OpenSession("push", 8, (former,)), bob)
    past.advance(1)
    assert [event.reason for event in past.events if isinstance(event, ev.SessionClosed)] == ["replaced"]
    (trace,) = traces_of(past.events)
    assert [step.body.get("replaces") for step in trace.steps if step.ask == "OpenSession"][-1] == [former]
    exact(trace)


def test_wakes_come_back_exactly() -> None:
    past = Past(
        parse_policy("wake: {after_s: 1, grace_s: 5, run_s: 20, retries_max: 1, backoff_s: [1], cooldown_s: 0}")
    )
    ann, bob = past.join("ann"), past.join("bob", kind=None)
    past.tell(cmd.DeclareWakers(("bob",), ("clone",)), None)
    past.note(ann, "bob", priority="Blocking")
    past.advance(10)  # the first attempt fails: nobody attached
    past.tell(cmd.ReportWaker("bob", past.exchange.state.wakes["bob"].wake, "exited", -15, "ended"), None)
    past.advance(2)
    past.tell(cmd.OpenSession("push"), bob)
    past.advance(30)  # its process runs too long
    past.tell(cmd.CloseSession(past.session(bob)), bob)
    past.advance(1)
    kinds = {type(event).__name__ for event in past.events}
    assert {"WakersDeclared", "AgentWakeRequested", "AgentWakeFailed", "AgentWoken", "WakerExited"} <= kinds
    (trace,) = traces_of(past.events)
    exact(trace)
