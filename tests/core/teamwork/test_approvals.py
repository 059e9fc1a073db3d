"""Approvals: LIMINAL's four handoff points; a held message is released, changed or refused, or escalated."""

import json

import msgspec
import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem
from tocsin.core.messages.admission import levels
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.protocol.priority import Priority
from tocsin.policies import default_policy, parse_policy

LATE_S = 0.05


def plan(team: Team, receiver: str = "impl_002", sender: str = "impl_001", **parts: object) -> str:
    payload = {"steps": ["first", "second"]}
    parts = {"payload": payload, "metadata": {"ttl": 1000}} | parts
    return team.send(sender, receiver, "CUSTOM_PLAN", **parts).signal_id


def waiting(team: Team) -> list[str]:
    return list(team.exchange.state.approvals)


def decide(team: Team, approval: str, verdict: str, by: str = "boss", **parts: object) -> str:
    command = cmd.DecideApproval(approval, verdict, **parts)  # type: ignore[arg-type]
    return team.ask(command, by, cmd.ApprovalDecided).outcome


def told(team: Team, agent: str, message_type: str) -> list[Message]:
    known = team.exchange.state.messages.values()
    return [message for message in known if message.recipient == agent and message.type == message_type]


def test_liminals_four_handoff_points_and_permission_to_use_a_tool() -> None:
    assert set(default_policy().approvals.handoffs) - {"tool_permission"} == {
        "plan_approval",
        "lease_override",
        "pre_merge_review",
        "ratification",
    }


@pytest.mark.parametrize(
    ("message_type", "handoff"), [("CUSTOM_PLAN", "plan_approval"), ("CUSTOM_MERGE", "pre_merge_review")]
)
def test_a_message_that_needs_approval_is_held(team: Team, message_type: str, handoff: str) -> None:
    team.attach("impl_002")
    receipt = team.send("impl_001", "impl_002", message_type)
    assert (receipt.held, receipt.queued, receipt.delivered) == (True, False, False)
    message = team.message(receipt.signal_id)
    assert message.state is State.HELD
    assert not message.offers
    (approval,) = team.exchange.state.approvals.values()
    assert (approval.handoff, approval.asker, approval.subject) == (handoff, "impl_001", receipt.message_id)
    (notice,) = told(team, "boss", "ApprovalRequested")
    assert json.loads(notice.payload)["approval"] == approval.approval


def test_an_approved_message_goes_as_it_is(team: Team) -> None:
    team.attach("impl_002")
    held = plan(team)
    team.advance(500, beating=True)
    assert decide(team, waiting(team)[0], "approve") == "approved"
    message = team.message(held)
    assert message.state is State.OFFERED
    assert team.seconds_since(message.enqueued_at) == 0, "its age and TTL count from here"
    assert message.expires_at - message.enqueued_at == 1000 * 1_000_000
    assert not team.exchange.state.approvals
    (word,) = told(team, "impl_001", "ApprovalDecided")
    assert json.loads(word.payload)["outcome"] == "approved"


def test_a_changed_message_goes_with_the_directors_payload(team: Team) -> None:
    team.attach("impl_002")
    plan(team)
    assert decide(team, waiting(team)[0], "approve", payload={"steps": ["only"]}) == "changed"
    (push,) = team.exchange.deliveries([event for event in team.events if isinstance(event, ev.MessageOffered)][-1:])
    assert json.loads(push.envelope)["payload"] == {"steps": ["only"]}


def test_a_refused_message_dies_with_the_reason_and_only_a_director_redrives_it(team: Team) -> None:
    held = plan(team)
    assert decide(team, waiting(team)[0], "refuse", reason="too risky") == "refused"
    message = team.message(held)
    assert message.state is State.DEAD
    (died,) = team.happened(ev.MessageDied)
    assert (died.reason, died.code) == ("approval_refused", "E_AUTH_003")
    assert "too risky" in died.detail
    assert told(team, "impl_001", "ERROR_REPORT")
    assert team.redrive("impl_001", held).refused[held].code == "E_AUTH_003"
    assert team.redrive("boss", held).redriven == (held,)


@pytest.mark.parametrize(
    ("verdict", "parts", "code"),
    [
        ("refuse", {}, "E_VALIDATION_001"),
        ("refuse", {"reason": "no", "payload": {}}, "E_VALIDATION_004"),
        ("approve", {"payload": {"a": "x" * 1_048_576}}, "E_VALIDATION_005"),
    ],
)
def test_words_that_are_not_taken(team: Team, verdict: str, parts: dict[str, object], code: str) -> None:
    plan(team)
    command = cmd.DecideApproval(waiting(team)[0], verdict, **parts)  # type: ignore[arg-type]
    assert team.refused(command, "boss").code == code
    assert waiting(team)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [(b"not json", msgspec.DecodeError), (b"[1]", msgspec.ValidationError), (b'"x"', msgspec.ValidationError)],
)
def test_a_payload_is_a_json_object(payload: bytes, problem: type[Exception]) -> None:
    request = b'{"approval": "apr_1", "verdict": "approve", "payload": ' + payload + b"}"
    with pytest.raises(problem):
        msgspec.json.decode(request, type=cmd.DecideApproval)


def test_only_who_directs_decides(team: Team) -> None:
    plan(team)
    (approval,) = waiting(team)
    assert team.refused(cmd.DecideApproval(approval, "approve"), "impl_001").code == "E_AUTH_003"
    assert team.refused(cmd.DecideApproval("apr_none", "approve"), "boss").code == "E_STATE_001"
    team.register("mensch", "Human", "human")
    assert decide(team, approval, "approve", by="mensch") == "approved"


def test_directors_need_nobodys_approval(team: Team) -> None:
    assert team.message(plan(team, sender="boss")).state is State.QUEUED


def test_a_held_broadcast_is_decided_once_for_all(team: Team) -> None:
    receipt = team.broadcast("impl_001", "CUSTOM_PLAN", payload={})
    assert all(copy.held for copy in receipt.receipts)
    (approval,) = waiting(team)
    change = cmd.DecideApproval(approval, "approve", payload={})
    assert team.refused(change, "boss").code == "E_STATE_002"
    decide(team, approval, "approve")
    assert {copy.state for copy in team.exchange.state.copies_of(receipt.broadcast_id)} == {State.QUEUED}


def test_nobody_decides_and_it_is_escalated_and_still_held(team: Team) -> None:
    held = plan(team)
    team.advance(300 + LATE_S)
    (escalation,) = team.exchange.state.escalations.values()
    assert (escalation.trigger, escalation.state) == ("approval_timeout", "director_notified")
    assert team.message(held).state is State.HELD
    decide(team, waiting(team)[0], "approve")
    assert escalation.state == "normal"


def overdues(team: Team, agent: str) -> list[dict[str, str]]:
    return [json.loads(notice.payload) for notice in told(team, agent, "ApprovalOverdue")]


@pytest.mark.parametrize("held", [True, False])
def test_who_waits_is_told_once_that_nobody_has_decided_in_time(team: Team, held: bool) -> None:
    if held:
        plan(team)
    else:
        ask(team, "plan_approval")
    (approval,) = waiting(team)
    team.advance(300 - LATE_S)
    assert not overdues(team, "impl_001")
    team.advance(10 * LATE_S)
    team.advance(400)
    (notice,) = overdues(team, "impl_001")
    assert (notice["approval"], notice["reason"]) == (approval, "nobody has decided it")


def test_an_action_that_nobody_decides_is_given_up_in_the_end(team: Team) -> None:
    approval = ask(team, "plan_approval")
    team.advance(300 + 86400 - LATE_S)
    assert waiting(team) == [approval]
    team.advance(10 * LATE_S)
    assert not waiting(team)
    assert not team.exchange.state.waits.waits
    assert team.happened(ev.ApprovalEnded)[-1].outcome == "timeout"
    (word,) = told(team, "impl_001", "ApprovalDecided")
    assert json.loads(word.payload)["outcome"] == "timeout"
    assert team.exchange.state.open_escalations.keys() == set()


def test_an_approval_where_nobody_could_decide_is_escalated_at_once(new_team: NewTeam) -> None:
    team = new_team("approvals: {give_up_after_s: 60}")
    team.register("impl_001")
    team.register("impl_002")
    first, held = ask(team), plan(team)
    assert len(waiting(team)) == 2
    assert {notice["reason"] for notice in overdues(team, "impl_001")} == {
        "there is nobody in the project to decide it"
    }
    opened = team.exchange.state.escalations.values()
    assert [(known.trigger, known.state) for known in opened] == [("approval_timeout", "human_escalation")] * 2
    team.now += 1
    somebody = Caller("mensch", "human")
    decided = team.handle(cmd.DecideApproval(waiting(team)[1], "approve"), somebody).reply
    assert isinstance(decided, cmd.ApprovalDecided), "who is not registered may still decide"
    assert team.message(held).state is State.QUEUED
    team.advance(60 + LATE_S)
    assert not waiting(team)
    assert [(event.approval == first, event.outcome) for event in team.happened(ev.ApprovalEnded)] == [
        (False, "approved"),
        (True, "timeout"),
    ]


@pytest.mark.parametrize("way", ["recall", "expire", "retire"])
def test_a_message_that_ends_while_it_is_held_ends_its_approval(team: Team, way: str) -> None:
    held = plan(team, metadata={"ttl": 30})
    match way:
        case "recall":
            assert team.recall("impl_001", held) == "recalled"
        case "expire":
            team.advance(61)
        case "retire":
            team.ask(cmd.RetireAgent("impl_002"), "boss", cmd.Done)
    assert not waiting(team)
    assert team.happened(ev.ApprovalEnded)[-1].outcome == "expired"


def ask(team: Team, handoff: cmd.Handoff = "pre_merge_review", agent: str = "impl_001") -> str:
    return team.ask(cmd.RequestApproval(handoff, "branch feature/x", "3 files"), agent, cmd.ApprovalRequested).approval


def test_an_action_waits_for_any_director_and_its_asker_is_told(team: Team) -> None:
    team.register("mensch", "Human", "human")
    approval = ask(team)
    (wait,) = team.exchange.state.waits.waits.values()
    assert (wait.waiter, sorted(wait.on), wait.any_of) == ("impl_001", ["boss", "mensch"], True)
    team.ask(cmd.RetireAgent("mensch"), "boss", cmd.Done)
    assert sorted(wait.on) == ["boss"]
    team.register("chief", "Director", "director")
    assert sorted(wait.on) == ["boss", "chief"]
    decide(team, approval, "refuse", reason="red tests")
    assert not team.exchange.state.waits.waits
    (word,) = told(team, "impl_001", "ApprovalDecided")
    assert json.loads(word.payload)["reason"] == "red tests"


def test_a_policy_that_says_who_directs_says_whom_is_waited_for(team: Team) -> None:
    team.register("mensch", "Human", "human")
    ask(team)
    envelope = team.envelope("impl_001", "impl_002", "CUSTOM_PLAN", correlation_id="req_1")
    team.ask(cmd.SendRequest(envelope), "impl_001", cmd.Requested)
    team.adopt("roles: {director: {directs: false}}")
    assert [sorted(wait.on) for wait in team.exchange.state.waits.waits.values()] == [["mensch"], ["mensch"]]


def test_an_asker_may_withdraw_or_leave(team: Team) -> None:
    first = ask(team)
    assert team.refused(cmd.WithdrawApproval(first), "impl_002").code == "E_STATE_001"
    team.ask(cmd.WithdrawApproval(first), "impl_001", cmd.Done)
    ask(team)
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert [event.outcome for event in team.happened(ev.ApprovalEnded)] == ["withdrawn", "retired"]
    assert not team.exchange.state.waits.waits


def test_a_held_message_is_recalled_and_not_withdrawn(team: Team) -> None:
    plan(team)
    assert team.refused(cmd.WithdrawApproval(waiting(team)[0]), "impl_001").code == "E_STATE_002"


def test_a_director_who_waits_for_the_asker_is_not_waited_for_in_vain(team: Team) -> None:
    """The one director asks impl_001 and impl_001 asks the directors: the circle is broken in the same decision."""
    envelope = team.envelope("boss", "impl_001", "CUSTOM_QUESTION", correlation_id="req_1", priority="Critical")
    team.ask(cmd.SendRequest(envelope), "boss", cmd.Requested)
    ask(team)
    (found,) = team.happened(ev.DeadlockFound)
    assert found.victim == "impl_001"
    assert [event.outcome for event in team.happened(ev.ApprovalEnded)] == ["deadlock"]


@pytest.mark.parametrize("handoff", ["ratification", "birthday"])
def test_a_point_that_is_not_there_or_off(team: Team, handoff: cmd.Handoff) -> None:
    assert team.refused(cmd.RequestApproval(handoff, "x"), "impl_001").code == "E_VALIDATION_003"


def test_open_approvals_are_bounded(new_team: NewTeam) -> None:
    team = new_team("approvals: {open_max: 1}")
    team.register("impl_001")
    team.register("impl_002")
    plan(team)
    assert team.refused(cmd.RequestApproval("plan_approval", "x"), "impl_001").code == "E_ADMISSION_008"
    assert team.refused_send("impl_001", "impl_002", "CUSTOM_PLAN").code == "E_ADMISSION_008"
    assert team.message(team.send("impl_001", "impl_002", "CUSTOM_NOTE").signal_id).state is State.QUEUED


def test_one_agent_leaves_room_for_the_others(new_team: NewTeam) -> None:
    team = new_team("approvals: {per_agent_max: 2}")
    for name in ("impl_001", "impl_002"):
        team.register(name)
    plan(team)
    first = ask(team)
    assert team.refused(cmd.RequestApproval("plan_approval", "x"), "impl_001").code == "E_ADMISSION_008"
    assert team.refused_send("impl_001", "impl_002", "CUSTOM_PLAN").code == "E_ADMISSION_008"
    ask(team, agent="impl_002")
    team.ask(cmd.WithdrawApproval(first), "impl_001", cmd.Done)
    ask(team)


@pytest.mark.parametrize(("asker", "level"), [("impl_001", Priority.BLOCKING), ("twin", Priority.COORDINATE)])
def test_asking_is_as_urgent_as_the_askers_role_may_be(team: Team, asker: str, level: Priority) -> None:
    ask(team, agent=asker)
    (wait,) = team.exchange.state.waits.waits.values()
    assert wait.level == level
    assert team.exchange.state.inherited == {"boss": level}
    (notice,) = told(team, "boss", "ApprovalRequested")
    assert notice.priority == level


@pytest.mark.parametrize(
    "text",
    [
        "approvals: {handoffs: {plan_approval: {message_types: [ACK]}}}",
        "approvals: {handoffs: {plan_approval: {message_types: [CUSTOM_MERGE]}}}",
        "approvals: {handoffs: {coffee: {enabled: true, message_types: [], timeout_s: 1}}}",
    ],
)
def test_policies_that_cannot_be(text: str) -> None:
    with pytest.raises(Exception, match=r"approvals"):
        parse_policy(text)


def test_waiting_for_directors_who_are_not_there_does_not_hide_a_circle(new_team: NewTeam) -> None:
    team = new_team()
    for name in ("a", "b", "c"):
        team.register(name)
    ask(team, agent="c")
    for number, (requester, responder) in enumerate((("a", "c"), ("a", "b"), ("b", "a"))):
        envelope = team.envelope(requester, responder, "CUSTOM_QUESTION", correlation_id=f"req_{number}")
        team.ask(cmd.SendRequest(envelope), requester, cmd.Requested)
    (found,) = team.happened(ev.DeadlockFound)
    assert found.victim == "b"


def test_a_held_message_that_dies_and_is_purged_at_once_ends_its_approval(new_team: NewTeam) -> None:
    team = new_team("limits: {dead_letters_max: 1}")
    for name, role in (("impl_001", "primary"), ("impl_002", "primary"), ("boss", "director")):
        team.register(name, role=role)
    plan(team)
    plan(team)
    team.ask(cmd.RetireAgent("impl_002"), "boss", cmd.Done)
    assert team.happened(ev.DeadLetterPurged)
    assert not waiting(team)


def test_an_approved_override_takes_the_lease_away_and_the_next_in_line_has_it(team: Team) -> None:
    held = team.hold(cmd.AcquireLease(exclusive=("src/api/**",)), "impl_001")
    queued = team.wait_for_lease(cmd.AcquireLease(exclusive=("src/api/users.py",)), "impl_002")
    asked = team.ask(cmd.RequestApproval("lease_override", held.lease), "impl_002", cmd.ApprovalRequested)
    assert held.lease in team.exchange.state.leases.leases
    assert decide(team, asked.approval, "approve", reason="it cannot wait") == "approved"
    assert team.exchange.state.leases.leases[queued.lease].holder == "impl_002"
    assert held.lease not in team.exchange.state.leases.leases
    (lost,) = told(team, "impl_001", "LEASE_LOST")
    assert json.loads(lost.payload)["note"] == "impl_002 asked for it: it cannot wait"


def test_an_override_that_is_refused_takes_nothing(team: Team) -> None:
    held = team.hold(cmd.AcquireLease(exclusive=("src/api/**",)), "impl_001")
    asked = team.ask(cmd.RequestApproval("lease_override", held.lease), "impl_002", cmd.ApprovalRequested)
    decide(team, asked.approval, "refuse", reason="so it is")
    assert held.lease in team.exchange.state.leases.leases
    assert not told(team, "impl_001", "LEASE_LOST")


def test_an_override_is_about_a_lease_that_is_held(team: Team) -> None:
    held = team.hold(cmd.AcquireLease(exclusive=("x",)), "impl_001")
    queued = team.wait_for_lease(cmd.AcquireLease(exclusive=("x",)), "impl_002")
    for subject in ("x", "take it from impl_001", queued.lease):
        assert team.refused(cmd.RequestApproval("lease_override", subject), "impl_002").code == "E_LEASE_001"
    team.ask(cmd.ReleaseLease(held.lease), "impl_001", cmd.Released)
    assert team.refused(cmd.RequestApproval("lease_override", held.lease), "impl_002").code == "E_LEASE_001"


@pytest.mark.parametrize("way", ["release", "lapse", "reclaim", "retire", "force", "override"])
def test_a_lease_that_ends_takes_the_overrides_of_it_along(team: Team, way: str) -> None:
    if way == "lapse":
        team.attach("impl_001")
    held = team.hold(cmd.AcquireLease(exclusive=("x", "y"), ttl_s=60), "impl_001")
    asked = team.ask(cmd.RequestApproval("lease_override", held.lease), "impl_002", cmd.ApprovalRequested)
    team.ask(cmd.ReleaseLease(resources=("y",)), "impl_001", cmd.Released)
    assert waiting(team) == [asked.approval], "x is still held"
    match way:
        case "release":
            team.ask(cmd.ReleaseLease(held.lease), "impl_001", cmd.Released)
        case "lapse" | "reclaim":
            team.advance(100, beating=True)
        case "retire":
            team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
        case "force":
            team.ask(cmd.ForceRelease(held.lease, "because"), "boss", cmd.Released)
        case "override":
            other = team.ask(cmd.RequestApproval("lease_override", held.lease), "manager_001", cmd.ApprovalRequested)
            decide(team, other.approval, "approve")
    assert not waiting(team)
    assert not team.exchange.state.waits.waits
    assert team.happened(ev.ApprovalEnded)[-1].outcome == "moot"
    words = [json.loads(word.payload) for word in told(team, "impl_002", "ApprovalDecided")]
    assert [(word["outcome"], word["subject"]) for word in words] == [("moot", held.lease)]


def balances(team: Team, agent: str) -> tuple[float, float, float]:
    return levels(team.exchange.state.agents[agent], team.exchange.state.policy, team.now)


def test_an_asker_pays_for_the_notice_to_each_director(team: Team) -> None:
    team.register("chief", "Director", "director")
    team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    assert balances(team, "impl_001") == (1000 - 20 - 1, 5, 19), "Blocking once, Info for the other director"
    (charged,) = team.happened(ev.AgentCharged)
    assert (charged.agent, charged.cause, charged.copies, charged.cost) == ("impl_001", "approval", 2, 21)


def test_a_held_message_pays_for_the_notices_about_it(team: Team) -> None:
    plan(team)
    assert balances(team, "impl_001")[0] == 1000 - 5 - 1


def test_asking_and_withdrawing_does_not_fill_a_directors_mailbox(team: Team) -> None:
    """300 approvals, asked for and withdrawn, put 300 messages into a director's mailbox, and nothing was refused."""
    refused: list[Problem] = []
    for _ in range(300):
        reply = team.handle(cmd.RequestApproval("pre_merge_review", "the branch"), team.caller("twin")).reply
        if isinstance(reply, cmd.ApprovalRequested):
            team.ask(cmd.WithdrawApproval(reply.approval), "twin", cmd.Done)
        else:
            assert isinstance(reply, Problem)
            refused.append(reply)
    assert {(problem.code, problem.retryable) for problem in refused} == {("E_ADMISSION_001", True)}
    assert len(refused) == 200, "a clone's bucket holds 100 Coordinate messages"
    assert len(team.happened(ev.ApprovalRequested)) == 100


def test_a_director_that_comes_late_is_notified_of_open_approvals(team: Team) -> None:
    """It waited for nobody else, and yet a director that registered later never heard of it."""
    asked = team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    held = plan(team)
    team.register("late", "Director", "director")
    payloads = [msgspec.json.decode(message.payload) for message in told(team, "late", "ApprovalRequested")]
    assert (payloads[0]["text"], payloads[1]["text"].startswith("CUSTOM_PLAN to ")) == ("the branch", True)
    assert [payload["subject"] for payload in payloads] == ["the branch", held]
    assert payloads[0]["approval"] == asked.approval
    team.register("late", "Director", "director", capabilities=("ApprovalRequested",))
    assert len(told(team, "late", "ApprovalRequested")) == 2, "registering again changes nothing"


def test_an_agent_that_becomes_a_director_is_notified_of_open_approvals(team: Team) -> None:
    plan(team)
    team.register("twin", "Implementation", "director")
    assert len(told(team, "twin", "ApprovalRequested")) == 1


def test_a_held_request_that_is_boosted_keeps_its_level_when_it_is_released(team: Team) -> None:
    """A boost while it was held was recorded for the request, and lost for its message."""
    envelope = team.envelope("impl_001", "impl_002", "CUSTOM_PLAN", correlation_id="req_1", metadata={"ttl": 1000})
    team.ask(cmd.SendRequest(envelope, 10, boost_on_timeout=True), "impl_001", cmd.Requested)
    team.advance(10 + LATE_S)
    (approval,) = waiting(team)
    decide(team, approval, "approve")
    assert team.message(envelope.message_id).level == Priority.BLOCKING


def test_a_released_message_has_what_its_sender_inherited_while_it_was_held(team: Team) -> None:
    held = plan(team)
    team.hold(cmd.AcquireLease(("res",), ttl_s=3600), "impl_001")
    team.wait_for_lease(cmd.AcquireLease(("res",), wait_s=3600, priority="Critical"), "impl_002")
    (approval,) = waiting(team)
    decide(team, approval, "approve")
    assert team.message(held).level == Priority.CRITICAL
