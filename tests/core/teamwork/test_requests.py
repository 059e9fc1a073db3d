"""Request and response: the wait in the graph, the answer, the time-out with and without a boost, and what ends it."""

import json

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, Team, replayed
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.core.teamwork.model import Escalation

LATE_S = 0.05


def ask(
    team: Team, sender: str = "impl_001", receiver: str = "impl_002", thread: str = "req_1", **parts: object
) -> str:
    options = {name: parts.pop(name) for name in ("timeout_s", "boost_on_timeout", "escalate") if name in parts}
    message_type = str(parts.pop("message_type", "CUSTOM_QUESTION"))
    envelope = team.envelope(sender, receiver, message_type, correlation_id=thread, **parts)  # type: ignore[arg-type]
    command = cmd.SendRequest(envelope, **options)  # type: ignore[arg-type]
    return team.ask(command, sender, cmd.Requested).request


def refused_ask(team: Team, receiver: str = "impl_002", thread: str | None = "req_1", **options: object) -> str:
    message_type = str(options.pop("message_type", "CUSTOM_QUESTION"))
    envelope = team.envelope("impl_001", receiver, message_type, correlation_id=thread)
    return team.refused(cmd.SendRequest(envelope, **options), "impl_001").code  # type: ignore[arg-type]


def reply(team: Team, sender: str = "impl_002", receiver: str = "impl_001", thread: str = "req_1") -> str:
    return team.send(sender, receiver, "CUSTOM_ANSWER", correlation_id=thread).signal_id


def outcomes(team: Team) -> list[str]:
    return [event.outcome for event in team.happened(ev.RequestEnded)]


def notices(team: Team, agent: str) -> list[Message]:
    known = team.exchange.state.messages.values()
    return [message for message in known if message.recipient == agent and message.sender == "tocsin"]


def escalations(team: Team, trigger: str) -> list[Escalation]:
    return [known for known in team.exchange.state.escalations.values() if known.trigger == trigger]


def test_an_answer_ends_the_wait(team: Team) -> None:
    team.attach("impl_002")
    request = ask(team, priority="Blocking")
    assert [wait.label for wait in team.exchange.state.waits.waits.values()] == [f"request:{request}"]
    assert team.exchange.state.inherited == {"impl_002": Priority.BLOCKING}, "who is to answer is lent the priority"
    answer = reply(team)
    (ended,) = team.happened(ev.RequestEnded)
    assert (ended.outcome, ended.detail, ended.requester) == ("answered", answer, "impl_001")
    assert not team.exchange.state.requests
    assert not team.exchange.state.waits.waits
    assert not team.exchange.state.inherited
    team.advance(10_000)
    assert outcomes(team) == ["answered"]


def test_what_is_no_answer_does_not_end_it(team: Team) -> None:
    team.attach("impl_002")
    ask(team)
    reply(team, thread="req_2")
    reply(team, sender="manager_001")
    reply(team, receiver="manager_001")
    assert team.exchange.state.requests


def test_an_assignment_is_answered_by_its_completion(team: Team) -> None:
    team.attach("impl_001")
    payload = {
        "taskId": "t",
        "taskRef": "Task",
        "taskDescription": "Do it",
        "memoryLogPath": "log.md",
        "executionType": "single-step",
    }
    ask(team, "manager_001", "impl_001", message_type="TASK_ASSIGNMENT", payload=payload)
    update = {"taskId": "t", "status": "in_progress", "progress": 0.5}
    team.send("impl_001", "manager_001", "TASK_UPDATE", correlation_id="req_1", payload=update)
    assert team.exchange.state.requests
    update["status"] = "completed"
    team.send("impl_001", "manager_001", "TASK_UPDATE", correlation_id="req_1", payload=update)
    assert outcomes(team) == ["answered"]


def test_no_answer_in_time_is_told_and_escalated(team: Team) -> None:
    request = ask(team, timeout_s=20)
    team.advance(19.9)
    assert team.exchange.state.requests
    team.advance(0.2)
    assert outcomes(team) == ["timeout"]
    assert not team.exchange.state.waits.waits
    (notice,) = notices(team, "impl_001")
    payload = json.loads(notice.payload)
    assert (payload["errorCode"], payload["context"]["request"]) == ("E_PROTOCOL_004", request)
    assert notice.correlation_id == "req_1"
    (escalation,) = escalations(team, "request_timeout")
    assert (escalation.state, escalation.subject) == ("director_notified", request)
    assert len(notices(team, "boss")) == 1


def test_a_request_from_timeout_to_director_to_human_who_resolves_it(team: Team) -> None:
    team.register("mensch", "Human", "human")
    ask(team, timeout_s=20)
    team.advance(20 + LATE_S)
    (escalation,) = escalations(team, "request_timeout")
    team.advance(300 + LATE_S)
    assert escalation.state == "human_escalation"
    assert len(notices(team, "mensch")) == 1
    team.ask(cmd.ResolveEscalation(escalation.escalation, "asked somebody else"), "mensch", cmd.Escalated)
    assert (escalation.state, escalation.resolved_by) == ("normal", "mensch")


def test_a_late_answer_closes_the_escalation(team: Team) -> None:
    team.attach("impl_002")
    ask(team, timeout_s=20)
    team.advance(20 + LATE_S, beating=True)
    (escalation,) = escalations(team, "request_timeout")
    reply(team)
    assert escalation.state == "normal"
    assert outcomes(team) == ["timeout"]


def test_boost_on_timeout_raises_it_once_and_waits_again(new_team: NewTeam) -> None:
    team = new_team("aging: {enabled: false}\nescalation: {rules: {coordinate_blocks: {after_s: 1000}}}")
    team.register("impl_001")
    team.register("impl_002")
    request = ask(team, timeout_s=20, boost_on_timeout=True, priority="Coordinate")
    team.advance(20 + LATE_S)
    assert team.message(request).own_level == Priority.BLOCKING
    assert team.exchange.state.inherited == {"impl_002": Priority.BLOCKING}, "whoever is to answer counts for more too"
    assert team.exchange.state.requests
    team.advance(20)
    assert outcomes(team) == ["timeout"]
    assert len(team.happened(ev.RequestExtended)) == 1


def test_boost_on_timeout_of_a_request_that_was_taken_lends_more(new_team: NewTeam) -> None:
    team = new_team()
    team.register("impl_001")
    team.register("impl_002")
    team.attach("impl_002")
    request = ask(team, timeout_s=20, boost_on_timeout=True, priority="Coordinate")
    team.confirm("impl_002", request)
    team.advance(20 + LATE_S)
    assert team.happened(ev.WaitRaised)[0].level == Priority.BLOCKING
    assert team.exchange.state.inherited == {"impl_002": Priority.BLOCKING}


@pytest.mark.parametrize(("waited_s", "level"), [(59.9, Priority.COORDINATE), (60 + LATE_S, Priority.BLOCKING)])
def test_coordinate_that_blocks_progress_over_60_s_becomes_blocking(
    new_team: NewTeam, waited_s: float, level: Priority
) -> None:
    team = new_team("aging: {enabled: false}")
    for name, role in (("impl_001", "primary"), ("impl_002", "primary"), ("boss", "director")):
        team.register(name, role=role)
    request = ask(team, priority="Coordinate")
    plain = team.send("impl_001", "impl_002", "CUSTOM_NOTE", priority="Coordinate").signal_id
    team.advance(waited_s)
    assert team.message(request).own_level == level
    assert team.message(plain).own_level == Priority.COORDINATE, "nobody waits for that"


def test_a_blocked_wait_goes_to_the_director_at_twice_the_time_and_closes_with_the_answer(team: Team) -> None:
    team.attach("impl_002")
    ask(team, priority="Coordinate")
    team.advance(60 + LATE_S, beating=True)
    (escalation,) = escalations(team, "dependency_blocked")
    assert [step.state for step in escalation.steps] == ["dependency_escalation", "inheritance_applied"]
    team.advance(60 + LATE_S, beating=True)
    assert escalation.state == "director_notified"
    reply(team)
    assert escalation.state == "normal"


def test_two_who_ask_each_other_are_not_left_waiting(team: Team) -> None:
    first = ask(team, "impl_001", "impl_002", "req_1", priority="Coordinate")
    second = ask(team, "impl_002", "impl_001", "req_2", priority="Blocking")
    (found,) = team.happened(ev.DeadlockFound)
    assert (found.victim, found.refused) == ("impl_001", f"request:{first}")
    assert [event.request for event in team.happened(ev.RequestEnded)] == [first]
    assert list(team.exchange.state.requests) == [second]
    (escalation,) = escalations(team, "deadlock")
    assert [step.state for step in escalation.steps] == [
        "dependency_escalation",
        "inheritance_applied",
        "deadlock_detected",
        "victim_selected",
        "forced_release",
        "director_notified",
    ]
    assert len(notices(team, "boss")) == 1, "told once, with the whole circle"
    team.advance(299)
    assert escalation.state == "director_notified"
    team.advance(2)
    assert escalation.state == "normal"


@pytest.mark.parametrize("way", ["recall", "expire", "die", "retire", "reject"])
def test_a_request_that_cannot_be_answered_any_more_ends_at_once(team: Team, way: str) -> None:
    if way == "reject":
        team.attach("impl_002")
    request = ask(team, metadata={"ttl": 30}, timeout_s=500)
    match way:
        case "recall":
            assert team.recall("impl_001", request) == "recalled"
        case "expire":
            team.advance(61)
        case "die" | "retire":
            team.ask(cmd.RetireAgent("impl_002"), "boss", cmd.Done)
        case "reject":
            team.nack("impl_002", request, can_retry=False)
    assert outcomes(team) == ["failed"]
    assert not team.exchange.state.waits.waits
    assert notices(team, "impl_001")


def test_a_delivered_question_to_one_who_leaves_is_over(team: Team) -> None:
    team.attach("impl_002")
    request = ask(team)
    team.confirm("impl_002", request)
    team.ask(cmd.RetireAgent("impl_002"), "boss", cmd.Done)
    assert outcomes(team) == ["failed"]
    assert notices(team, "impl_001")


def test_the_requester_may_stop_waiting_or_leave(team: Team) -> None:
    first = ask(team)
    assert team.refused(cmd.CancelRequest(first), "impl_002").code == "E_STATE_001"
    team.ask(cmd.CancelRequest(first), "impl_001", cmd.Done)
    ask(team, thread="req_2")
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert outcomes(team) == ["cancelled", "retired"]
    assert not team.exchange.state.waits.waits


def test_the_requester_may_wait_longer(team: Team) -> None:
    request = ask(team, timeout_s=60)
    team.advance(50, beating=True)
    extended = team.ask(cmd.ExtendRequest(request, 60), "impl_001", cmd.TimeoutExtended)
    assert extended.due_at == as_datetime(team.now + 60 * SECOND)
    assert team.refused(cmd.ExtendRequest(request, 60), "impl_002").code == "E_STATE_001", "not its requester"
    assert team.refused(cmd.ExtendRequest(request, 0), "impl_001").code == "E_VALIDATION_004"
    team.advance(50, beating=True)
    assert outcomes(team) == []
    team.advance(20, beating=True)
    assert outcomes(team) == ["timeout"]


def test_an_extended_request_is_still_boosted_once(team: Team) -> None:
    request = ask(team, timeout_s=60, boost_on_timeout=True)
    team.ask(cmd.ExtendRequest(request, 100), "impl_001", cmd.TimeoutExtended)
    team.advance(101, beating=True)
    assert [event.by for event in team.happened(ev.RequestExtended)] == ["impl_001", ""]


def test_the_same_request_again_changes_nothing(team: Team) -> None:
    envelope = team.envelope("impl_001", "impl_002", "CUSTOM_QUESTION", correlation_id="req_1")
    first = team.ask(cmd.SendRequest(envelope), "impl_001", cmd.Requested)
    before = len(team.events)
    again = team.ask(cmd.SendRequest(envelope), "impl_001", cmd.Requested)
    assert (again.receipt.duplicate, again.due_at) == (True, first.due_at)
    assert len(team.events) == before
    team.ask(cmd.CancelRequest(first.request), "impl_001", cmd.Done)
    assert team.ask(cmd.SendRequest(envelope), "impl_001", cmd.Requested).due_at is None


def test_what_cannot_be_a_request(team: Team) -> None:
    assert refused_ask(team, receiver="*") == "E_ROUTING_002"
    assert refused_ask(team, receiver="impl_001") == "E_ROUTING_002"
    assert refused_ask(team, thread=None) == "E_VALIDATION_001"
    assert refused_ask(team, message_type="STATE_SYNC") == "E_VALIDATION_003"
    assert refused_ask(team, timeout_s=0) == "E_VALIDATION_004"
    assert refused_ask(team, timeout_s=86401) == "E_VALIDATION_004"
    assert refused_ask(team, receiver="nobody") == "E_ROUTING_001"
    assert not team.exchange.state.requests
    ask(team)
    assert refused_ask(team) == "E_STATE_002"


def test_open_requests_are_bounded(new_team: NewTeam) -> None:
    team = new_team("requests: {open_max: 2}")
    team.register("impl_001")
    team.register("impl_002")
    ask(team, thread="req_1")
    ask(team, thread="req_2")
    assert refused_ask(team, thread="req_3") == "E_ADMISSION_008"


def test_a_request_whose_message_dies_and_is_purged_at_once_is_over(new_team: NewTeam) -> None:
    team = new_team("limits: {dead_letters_max: 1}")
    team.register("impl_001")
    team.register("impl_002")
    ask(team, thread="req_1")
    ask(team, thread="req_2")
    team.ask(cmd.RetireAgent("impl_002"), "impl_002", cmd.Done)
    assert outcomes(team) == ["failed", "failed"]


def answer_held(team: Team) -> tuple[str, str, str]:
    """Ask, and answer with what is held; return the question, the answer and its approval."""
    team.attach("impl_002")
    question = ask(team, timeout_s=500)
    answer = team.send("impl_002", "impl_001", "CUSTOM_PLAN", correlation_id="req_1").signal_id
    (approval,) = team.exchange.state.approvals
    return question, answer, approval


def test_a_held_answer_is_none_until_it_is_released(team: Team) -> None:
    question, answer, approval = answer_held(team)
    assert list(team.exchange.state.requests) == [question]
    assert team.message(question).state is State.DELIVERED, "who answers has it, and is not done"
    team.ask(cmd.DecideApproval(approval, "approve"), "boss", cmd.ApprovalDecided)
    (ended,) = team.happened(ev.RequestEnded)
    assert (ended.outcome, ended.detail) == ("answered", answer)
    assert team.message(question).state is State.PROCESSED
    assert not team.exchange.state.waits.waits


def test_a_refused_answer_leaves_the_request_waiting_for_its_time(team: Team) -> None:
    question, _, approval = answer_held(team)
    team.ask(cmd.DecideApproval(approval, "refuse", "not that"), "boss", cmd.ApprovalDecided)
    assert list(team.exchange.state.requests) == [question]
    assert team.message(question).state is State.DELIVERED
    team.advance(500 + LATE_S, beating=True)
    assert outcomes(team) == ["timeout"]
    assert json.loads(notices(team, "impl_001")[-1].payload)["context"]["request"] == question


def test_a_refused_answer_that_a_director_redrives_is_one(team: Team) -> None:
    question, answer, approval = answer_held(team)
    team.ask(cmd.DecideApproval(approval, "refuse", "not that"), "boss", cmd.ApprovalDecided)
    assert team.redrive("boss", answer).redriven == (answer,)
    assert outcomes(team) == ["answered"]
    assert team.message(question).state is State.PROCESSED


def test_a_held_answer_acknowledges_what_it_answers(new_team: NewTeam) -> None:
    """Else the question would come again and again to one that has answered it."""
    team = new_team("approvals: {handoffs: {plan_approval: {message_types: [TASK_UPDATE]}}}")
    for name, kind, role in (("manager", "Manager", "primary"), ("doer", "Implementation", "primary")):
        team.register(name, kind, role)
    team.register("boss", "Director", "director")
    team.attach("doer")
    task = {
        "taskId": "t",
        "taskRef": "T",
        "taskDescription": "Do it",
        "memoryLogPath": "l",
        "executionType": "single-step",
    }
    question = ask(team, "manager", "doer", message_type="TASK_ASSIGNMENT", payload=task)
    update = {"taskId": "t", "status": "completed", "progress": 1}
    team.send("doer", "manager", "TASK_UPDATE", correlation_id="req_1", payload=update)
    assert team.message(question).state is State.ACKNOWLEDGED
    assert not outcomes(team)
    (approval,) = team.exchange.state.approvals
    team.ask(cmd.DecideApproval(approval, "approve"), "boss", cmd.ApprovalDecided)
    assert outcomes(team) == ["answered"]
    assert team.message(question).state is State.PROCESSED


def test_an_answer_that_is_broadcast_is_looked_at_whole(team: Team) -> None:
    """The copy of a broadcast carries no payload of its own in its event, and the decision broke on that."""
    team.attach("impl_001")
    task = {
        "taskId": "t",
        "taskRef": "T",
        "taskDescription": "Do it",
        "memoryLogPath": "l",
        "executionType": "single-step",
    }
    ask(team, "manager_001", "impl_001", message_type="TASK_ASSIGNMENT", payload=task)
    for status, ended in (("in_progress", []), ("completed", ["answered"])):
        update = {"taskId": "t", "status": status, "progress": 0.5}
        team.broadcast("impl_001", "TASK_UPDATE", correlation_id="req_1", payload=update, receiver_type="Manager")
        assert outcomes(team) == ended


def test_a_held_request_waits_for_any_director_and_then_for_its_responder(team: Team) -> None:
    team.register("mensch", "Human", "human")
    request = ask(team, message_type="CUSTOM_PLAN", priority="Blocking")
    (wait,) = team.exchange.state.waits.waits.values()
    assert (sorted(wait.on), wait.any_of, wait.level) == (["boss", "mensch"], True, Priority.BLOCKING)
    assert team.exchange.state.inherited.keys() == {"boss", "mensch"}, "not who has not got it yet"
    team.ask(cmd.RetireAgent("mensch"), "boss", cmd.Done)
    assert sorted(wait.on) == ["boss"]
    team.register("chief", "Director", "director")
    assert sorted(wait.on) == ["boss", "chief"]
    (approval,) = team.exchange.state.approvals
    team.ask(cmd.DecideApproval(approval, "approve"), "boss", cmd.ApprovalDecided)
    assert sorted(wait.on) == ["impl_002"]
    assert team.exchange.state.inherited == {"impl_002": Priority.BLOCKING}
    team.attach("impl_002")
    team.confirm("impl_002", request)
    reply(team)
    assert outcomes(team) == ["answered"]


def test_a_held_request_and_directors_who_wait_for_its_sender_are_a_circle(team: Team) -> None:
    team.hold(cmd.AcquireLease(exclusive=("x",)), "impl_001")
    request = ask(team, message_type="CUSTOM_PLAN", priority="Info")
    team.handle(cmd.AcquireLease(exclusive=("x",), priority="Critical"), team.caller("boss"))
    (found,) = team.happened(ev.DeadlockFound)
    assert (found.victim, found.refused) == ("impl_001", f"request:{request}")
    assert outcomes(team) == ["deadlock"]


@pytest.mark.parametrize("way", ["refuse", "recall", "timeout"])
def test_a_held_request_that_nobody_lets_go_is_over_and_told(team: Team, way: str) -> None:
    request = ask(team, message_type="CUSTOM_PLAN", timeout_s=20)
    (approval,) = team.exchange.state.approvals
    match way:
        case "refuse":
            team.ask(cmd.DecideApproval(approval, "refuse", "no"), "boss", cmd.ApprovalDecided)
        case "recall":
            assert team.recall("impl_001", request) == "recalled"
        case "timeout":
            team.advance(20 + LATE_S)
    assert outcomes(team) == ["timeout" if way == "timeout" else "failed"]
    assert not team.exchange.state.waits.waits
    told = [json.loads(notice.payload) for notice in notices(team, "impl_001") if notice.type == "ERROR_REPORT"]
    assert request in [report["context"].get("request") for report in told]
    if way == "timeout":
        assert told[0]["errorMessage"].startswith("nobody released")


def test_who_wants_no_escalation_is_only_told(team: Team) -> None:
    request = ask(team, timeout_s=10, escalate=False)
    team.advance(11)
    assert outcomes(team) == ["timeout"]
    (notice,) = notices(team, "impl_001")
    assert json.loads(notice.payload)["context"]["request"] == request
    assert not escalations(team, "request_timeout")


def test_open_requests_are_counted_by_requester(new_team: NewTeam) -> None:
    team = new_team("requests: {open_max: 2}")
    for agent in ("impl_001", "impl_002", "impl_003"):
        team.register(agent)
    state = team.exchange.state
    ask(team, thread="req_1")
    ask(team, "impl_003", thread="req_1")
    last = ask(team, thread="req_2")
    assert state.asking == {"impl_001": 2, "impl_003": 1}
    assert refused_ask(team, thread="req_3") == "E_ADMISSION_008"
    team.ask(cmd.CancelRequest(last), "impl_001", cmd.Done)
    reply(team)
    assert state.asking == {"impl_003": 1}
    assert replayed(team.events).state.asking == state.asking
