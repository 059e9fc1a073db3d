"""Plans: when a send is decided by one, when not, and what makes a plan void."""

import msgspec
import pytest

from tests.core.driver import SECOND, CountedIds, Team, replayed, snapshot_bytes
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.messages.ordinary.receipts import decide_acknowledge
from tocsin.core.messages.ordinary.sends import decide_send
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.snapshot import Snapshot, restore

NOTE = "CUSTOM_NOTE"
KEY = ("ada", NOTE)


def team_of_two(policy: str | None = None) -> Team:
    team = Team(policy)
    team.register("ada", "Manager")
    team.register("bob")
    return team


def by_plan(team: Team, envelope: Envelope, sender: str = "ada") -> bool:
    """Tell whether a send would be decided by plan."""
    return decide_send(team.exchange.state, team.caller(sender), envelope, team.now) is not None


def in_full(team: Team, command: cmd.Command, agent: str) -> tuple[cmd.Reply, list[Event], bytes]:
    """Decide a command in full on a copy of the state; return reply, events and the state after it."""
    twin = Exchange(CountedIds(), restore(msgspec.msgpack.decode(snapshot_bytes(team.exchange), type=Snapshot)))
    outcome = twin.handle_in_full(command, team.caller(agent), team.now)
    return outcome.reply, outcome.events, snapshot_bytes(twin)


@pytest.mark.parametrize("kind", ["push", "daemon", "piggyback", None])
@pytest.mark.parametrize("role", ["primary", "director"])
def test_an_ordinary_send_is_what_the_full_decision_makes_of_it(kind: cmd.SessionKind | None, role: str) -> None:
    team = team_of_two()
    team.register("ada", "Manager", role)
    if kind is not None:
        team.attach("bob", kind)
    for priority in (None, "Info", "Blocking", "Critical", "LOW"):
        team.advance(1.5)
        envelope = team.envelope("ada", "bob", NOTE, {"n": 1}, priority=priority)
        assert by_plan(team, envelope)
        reply, events, state = in_full(team, cmd.Send(envelope), "ada")
        outcome = team.handle(cmd.Send(envelope), team.caller("ada"))
        assert (outcome.reply, outcome.events) == (reply, events)
        assert snapshot_bytes(team.exchange) == state


def test_an_offer_applied_with_its_acceptance_is_replayed_as_two_events() -> None:
    team = team_of_two()
    team.attach("bob")
    sent = team.send("ada", "bob", NOTE)
    assert [type(event) for event in team.events[-2:]] == [ev.MessageAccepted, ev.MessageOffered]
    team.events += team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)
    assert snapshot_bytes(replayed(team.events)) == snapshot_bytes(team.exchange)


TASK = {"taskId": "t", "taskRef": "r", "taskDescription": "d", "memoryLogPath": "p", "executionType": "single-step"}
ERROR = {"errorType": "TaskFailure", "errorMessage": "it broke", "severity": "low"}
SYNC = {
    "entityType": "task",
    "entityId": "t",
    "operation": "update",
    "state": {},
    "syncTimestamp": "2025-11-12T10:00:00Z",
}


@pytest.mark.parametrize("kind", ["push", None])
@pytest.mark.parametrize(
    ("message_type", "payload", "parts"),
    [
        (NOTE, {"n": 1}, {"correlation_id": "thr_1"}),
        (NOTE, {"n": 1}, {"correlation_id": "thr_known"}),
        (NOTE, {"n": 1}, {"metadata": {"ttl": 5, "colour": "blue"}}),
        (NOTE, {"n": 1}, {"metadata": {"tags": ["a"]}, "qos": {"importance": 3, "decayRate": 0.013}}),
        (NOTE, {"n": 1}, {"version": "1.0.0", "priority": "LOW"}),
        ("TASK_ASSIGNMENT", TASK, {"correlation_id": "req_1"}),
        ("STATE_SYNC", SYNC, {}),
    ],
    ids=str,
)
def test_threads_ttl_metadata_qos_and_built_in_types_are_decided_by_plan(
    kind: cmd.SessionKind | None, message_type: str, payload: dict[str, object], parts: dict[str, object]
) -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE, correlation_id="thr_known")
    if kind is not None:
        team.ask(cmd.Drain(team.attach("bob", "piggyback"), 10), "bob", cmd.Drained)
        team.attach("bob", kind)
    envelope = team.envelope("ada", "bob", message_type, payload, **parts)  # type: ignore[arg-type]
    assert by_plan(team, envelope)
    reply, events, state = in_full(team, cmd.Send(envelope), "ada")
    outcome = team.handle(cmd.Send(envelope), team.caller("ada"))
    assert isinstance(reply, cmd.Receipt)
    assert (outcome.reply, outcome.events) == (reply, events)
    assert snapshot_bytes(team.exchange) == state


def test_a_custom_schema_is_checked_by_plan() -> None:
    team = team_of_two("contracts: {CUSTOM_NOTE: {payload: {required: {n: integer}}}}")
    assert by_plan(team, team.envelope("ada", "bob", NOTE, {"n": 1}))
    wrong = team.envelope("ada", "bob", NOTE, {"n": "one"})
    assert not by_plan(team, wrong)
    reply = team.handle(cmd.Send(wrong), team.caller("ada")).reply
    assert (getattr(reply, "code", ""), getattr(reply, "field", "")) == ("E_VALIDATION_002", "$.payload.n")


def test_a_response_by_plan_settles_its_request() -> None:
    team = team_of_two()
    team.attach("ada")
    team.attach("bob")
    team.send("ada", "bob", "TASK_ASSIGNMENT", payload=TASK, correlation_id="req_1")
    update = {"taskId": "t", "status": "completed", "progress": 1}
    envelope = team.envelope("bob", "ada", "TASK_UPDATE", update, correlation_id="req_1")
    assert by_plan(team, envelope, "bob")
    reply, expected, state = in_full(team, cmd.Send(envelope), "bob")
    outcome = team.handle(cmd.Send(envelope), team.caller("bob"))
    assert (outcome.reply, outcome.events) == (reply, expected)
    assert ev.MessageProcessed in [type(event) for event in expected]
    assert snapshot_bytes(team.exchange) == state


@pytest.mark.parametrize("severity", ["low", "critical"])
def test_a_critical_error_sent_by_plan_is_escalated(severity: str) -> None:
    team = team_of_two()
    envelope = team.envelope("bob", "ada", "ERROR_REPORT", ERROR | {"severity": severity})
    assert by_plan(team, envelope, "bob")
    _, expected, _ = in_full(team, cmd.Send(envelope), "bob")
    events = team.handle(cmd.Send(envelope), team.caller("bob")).events
    assert [type(event) for event in events] == [type(event) for event in expected]
    assert (ev.EscalationOpened in [type(event) for event in events]) == (severity == "critical")


def test_a_thread_over_the_limit_is_forgotten_after_a_send_by_plan() -> None:
    team = team_of_two("limits: {threads_max: 1}\nretention: {batch: 1}")
    team.send("ada", "bob", NOTE, correlation_id="thr_1")
    envelope = team.envelope("ada", "bob", NOTE, correlation_id="thr_2")
    assert by_plan(team, envelope)
    events = team.handle(cmd.Send(envelope), team.caller("ada")).events
    assert [type(event) for event in events] == [ev.MessageAccepted, ev.MessagesForgotten]
    assert list(team.exchange.state.threads) == ["thr_2"]


@pytest.mark.parametrize(
    ("message_type", "parts"),
    [
        (NOTE, {"receiver_type": "Manager"}),
        (NOTE, {"priority": "DirectorOverride"}),
        (NOTE, {"metadata": {"ttl": 1e9}}),
        (NOTE, {"qos": {"deliveryClass": "sync"}}),
        ("TASK_ASSIGNMENT", {"payload": TASK}),
        ("TASK_ASSIGNMENT", {"payload": TASK, "correlation_id": "thr_known"}),
        ("TASK_ASSIGNMENT", {"payload": {}, "correlation_id": "req_1"}),
        ("Question", {"version": "1.0.0", "priority": "LOW"}),
    ],
    ids=str,
)
def test_an_unusual_send_is_decided_in_full(message_type: str, parts: dict[str, object]) -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE, correlation_id="thr_known")
    assert by_plan(team, team.envelope("ada", "bob", NOTE))
    assert not by_plan(team, team.envelope("ada", "bob", message_type, **parts))  # type: ignore[arg-type]


def test_a_registration_by_message_is_decided_in_full() -> None:
    team = team_of_two()
    content = SYNC | {"entityType": "agent", "entityId": "ada", "operation": "create"}
    assert by_plan(team, team.envelope("ada", "bob", "STATE_SYNC", content))
    content["state"] = {"supportedVersions": ["1.1.0"]}
    assert not by_plan(team, team.envelope("ada", "bob", "STATE_SYNC", content))


def test_a_priority_over_the_role_is_lowered_by_plan() -> None:
    team = team_of_two()
    team.register("ada", "Manager", "clone")
    envelope = team.envelope("ada", "bob", NOTE, priority="Critical")
    assert by_plan(team, envelope)
    reply, events, _ = in_full(team, cmd.Send(envelope), "ada")
    outcome = team.handle(cmd.Send(envelope), team.caller("ada"))
    assert (outcome.reply, outcome.events) == (reply, events)
    assert getattr(reply, "priority", "") == "Coordinate"


def test_a_send_that_the_moment_forbids_is_decided_in_full() -> None:
    team = team_of_two("limits: {mailbox_depth_max: 2}\nbucket: {capacity: 12, refill_per_s: 1}")
    first = team.envelope("ada", "bob", NOTE)
    team.ask(cmd.Send(first), "ada", cmd.Receipt)
    assert not by_plan(team, first), "it is a duplicate"
    assert not by_plan(team, team.envelope("bob", "ada", NOTE)), "the sender is another"
    team.send("ada", "bob", NOTE)
    assert not by_plan(team, team.envelope("ada", "bob", NOTE)), "the mailbox is full"
    assert not by_plan(team, team.envelope("ada", "bob", NOTE, priority="Blocking")), "the bucket is empty"


def test_a_sync_message_that_nobody_can_take_now_is_decided_in_full() -> None:
    team = team_of_two()
    question = team.envelope("ada", "bob", "Question")
    assert not by_plan(team, question)
    team.attach("bob")
    assert by_plan(team, question)


def test_a_message_waits_for_a_busy_recipient_by_plan_and_interrupts_it_in_full() -> None:
    team = team_of_two()
    team.register("ada", "Manager", "director")
    team.attach("bob")
    work = team.send("ada", "bob", NOTE)
    team.ask(cmd.BeginWork(work.message_id), "bob", cmd.Attending)
    assert not by_plan(team, team.envelope("ada", "bob", NOTE, priority="DirectorOverride"))
    envelope = team.envelope("ada", "bob", NOTE)
    assert by_plan(team, envelope)
    reply, events, state = in_full(team, cmd.Send(envelope), "ada")
    outcome = team.handle(cmd.Send(envelope), team.caller("ada"))
    assert (outcome.reply, outcome.events) == (reply, events)
    assert getattr(reply, "queued", False)
    assert snapshot_bytes(team.exchange) == state


def test_a_policy_makes_plans_void() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    assert KEY in team.exchange.state.plans
    team.adopt("bucket: {cost: {Coordinate: 7}}")
    assert not team.exchange.state.plans
    tokens = team.exchange.state.agents["ada"].tokens
    team.send("ada", "bob", NOTE)
    assert team.exchange.state.agents["ada"].tokens == tokens - 7


def test_a_registration_makes_plans_void() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    team.register("bob", capabilities=("StatusUpdate",))
    assert team.refused_send("ada", "bob", NOTE).code == "E_ROUTING_002"
    team.register("bob")
    team.register("ada", "Manager", "clone")
    assert team.send("ada", "bob", NOTE, priority="Critical").priority == "Coordinate"


def test_a_retirement_makes_plans_void() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    team.ask(cmd.RetireAgent("bob", "gone"), "bob", cmd.Done)
    assert team.refused_send("ada", "bob", NOTE).code == "E_ROUTING_001"


def test_a_token_with_another_role_does_not_use_the_plan() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    reply = team.handle(cmd.Send(team.envelope("ada", "bob", NOTE)), cmd.Caller("ada", "director")).reply
    assert getattr(reply, "code", "") == "E_AUTH_007"


def test_the_number_of_plans_has_a_limit() -> None:
    team = team_of_two("limits: {plans_max: 4}")
    for number in range(10):
        team.send("ada", "bob", f"CUSTOM_{number}")
        state = team.exchange.state
        assert 2 <= len(state.plans) + sum(len(plan.recipients) for plan in state.plans.values()) <= 4
    team.refused_send("ada", "nobody", NOTE)
    assert "nobody" not in team.exchange.state.plans[KEY].recipients


def test_a_plan_knows_the_recipients_that_a_contract_forbids() -> None:
    team = team_of_two()
    team.register("cleo", capabilities=("StatusUpdate",))
    team.send("ada", "bob", NOTE)
    for _ in range(2):
        assert team.refused_send("ada", "cleo", NOTE).code == "E_ROUTING_002"
    recipients = team.exchange.state.plans[KEY].recipients
    assert recipients == {"bob": team.exchange.state.agents["bob"], "cleo": None}
    team.register("cleo")
    assert team.send("ada", "cleo", NOTE).queued


def test_a_receipt_offers_what_waits_for_room() -> None:
    team = team_of_two()
    team.attach("bob", window=1)
    first, second = team.send("ada", "bob", NOTE), team.send("ada", "bob", NOTE)
    reply, expected, state = in_full(team, cmd.Confirm((first.message_id,)), "bob")
    events = team.exchange.confirm(first.message_id, team.caller("bob"), team.now)
    assert events == expected
    assert [type(event) for event in events] == [ev.MessageDelivered, ev.MessageOffered]
    assert snapshot_bytes(team.exchange) == state
    assert (second.queued, reply) == (True, cmd.Confirmed(1))


def test_a_receipt_lets_the_decay_rate_follow() -> None:
    team = team_of_two("queue_manager: {samples_min: 1, latency_low_s: 0.5, latency_high_s: 1, cooldown_s: 0.001}")
    team.attach("bob")
    sent = team.send("ada", "bob", NOTE)
    team.now += 3 * SECOND
    _, expected, _ = in_full(team, cmd.Confirm((sent.message_id,)), "bob")
    events = team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)
    assert events == expected
    assert [type(event) for event in events] == [ev.MessageDelivered, ev.DecayRateChanged]


def test_a_receipt_of_another_agent_or_twice_changes_nothing() -> None:
    team = team_of_two()
    team.attach("bob")
    sent = team.send("ada", "bob", NOTE)
    assert team.exchange.confirm(sent.message_id, team.caller("ada"), team.now) == []
    assert team.exchange.confirm("msg_none_1", team.caller("bob"), team.now) == []
    assert team.exchange.confirm(sent.message_id, cmd.Caller("bob", "director"), team.now) == []
    assert len(team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)) == 1
    assert team.exchange.confirm(sent.message_id, team.caller("bob"), team.now) == []


def test_receipts_forget_what_is_over_the_limit() -> None:
    team = team_of_two("retention: {settled_max: 1, batch: 2}")
    team.attach("bob")
    events: list[Event] = []
    for _ in range(3):
        sent = team.send("ada", "bob", NOTE)
        events += team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)
    assert isinstance(events[-1], ev.MessagesForgotten)


@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("status", ["received", "queued"])
def test_an_ordinary_acknowledgement_is_what_the_full_decision_makes_of_it(
    status: cmd.AckStatus, confirmed: bool
) -> None:
    team = team_of_two()
    team.attach("bob", window=1)
    first = team.send("ada", "bob", "TASK_ASSIGNMENT", payload=TASK, correlation_id="req_1")
    team.send("ada", "bob", "TASK_ASSIGNMENT", payload=TASK, correlation_id="req_2")
    if confirmed:
        team.confirm("bob", first.message_id)
    command = cmd.Acknowledge(first.message_id, status)
    assert decide_acknowledge(team.exchange.state, team.caller("bob"), command, team.now) is not None
    team.advance(0.5)
    reply, events, state = in_full(team, command, "bob")
    outcome = team.handle(command, team.caller("bob"))
    assert (outcome.reply, outcome.events) == (reply, events)
    assert ev.MessageAcknowledged in [type(event) for event in events]
    assert (ev.MessageOffered in [type(event) for event in events]) != confirmed
    assert snapshot_bytes(team.exchange) == state


def test_an_unusual_acknowledgement_is_decided_in_full() -> None:
    team = team_of_two()
    team.attach("bob")
    sent = team.send("ada", "bob", "TASK_ASSIGNMENT", payload=TASK, correlation_id="req_1")
    note = team.send("ada", "bob", NOTE)
    state, bob = team.exchange.state, team.caller("bob")
    assert decide_acknowledge(state, bob, cmd.Acknowledge(sent.message_id), team.now) is not None
    assert decide_acknowledge(state, bob, cmd.Acknowledge(sent.message_id, "processed"), team.now) is None
    assert decide_acknowledge(state, bob, cmd.Acknowledge(sent.message_id, notes="done"), team.now) is None
    assert decide_acknowledge(state, bob, cmd.Acknowledge(note.message_id), team.now) is None, "it needs no ACK"
    assert decide_acknowledge(state, team.caller("ada"), cmd.Acknowledge(sent.message_id), team.now) is None
    assert decide_acknowledge(state, cmd.Caller("bob", "human"), cmd.Acknowledge(sent.message_id), team.now) is None
    team.ask(cmd.Acknowledge(sent.message_id), "bob", cmd.Acknowledged)
    assert decide_acknowledge(state, bob, cmd.Acknowledge(sent.message_id), team.now) is None, "it was acknowledged"
