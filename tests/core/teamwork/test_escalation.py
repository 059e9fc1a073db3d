"""Escalation: every operational trigger of LIMINAL with its number, its paths arrow by arrow, and once per cause."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.envelopes import letter
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation, Problem, TocsinError
from tocsin.core.escalation.paths import PATHS, ROUTES, Place, place_after
from tocsin.core.leases.model import Contention
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import NEVER
from tocsin.core.protocol.priority import Priority
from tocsin.core.snapshot import restore
from tocsin.core.teamwork.model import Escalation
from tocsin.policies import default_policy, parse_policy

LATE_S = 0.05

#: Every arrow that LIMINAL draws, as it is spelt there.
DRAWN = """
    Normal --> TimeBasedEscalation
    Normal --> DependencyEscalation
    Normal --> HealthEscalation
    TimeBasedEscalation --> PriorityBoosted
    PriorityBoosted --> StillWaiting
    StillWaiting --> DirectorNotified
    DependencyEscalation --> InheritancApplied
    InheritancApplied --> Resolved
    InheritancApplied --> DeadlockDetected
    HealthEscalation --> CriticalAlert
    CriticalAlert --> DirectorIntervention
    DeadlockDetected --> VictimSelected
    VictimSelected --> ForcedRelease
    ForcedRelease --> DirectorNotified
    DirectorNotified --> HumanEscalation
    DirectorIntervention --> Resolved
    HumanEscalation --> HumanIntervention
    Resolved --> Normal
    HumanIntervention --> Normal
    DirectorNotified --> Resolved
"""


def spelt(place: Place) -> str:
    words = "".join(word.capitalize() for word in place.value.split("_"))
    return words.replace("Inheritance", "Inheritanc")


def test_every_arrow_of_liminal_is_there_and_no_other_is_called_its_own() -> None:
    drawn = {line.strip() for line in DRAWN.strip().splitlines()}
    ours = {f"{spelt(route.before)} --> {spelt(route.after)}" for route in PATHS if route.required}
    assert ours == drawn


def test_nothing_moves_but_by_the_table() -> None:
    with pytest.raises(InvariantViolation, match="has no step"):
        place_after(Place.NORMAL, "human_acts")


def test_every_place_can_be_reached_and_left() -> None:
    reached = {Place.NORMAL}
    while more := {route.after for route in PATHS if route.before in reached} - reached:
        reached |= more
    assert reached == set(Place)
    assert {route.before for route in PATHS} == set(Place)


def test_every_trigger_has_a_way_and_a_default_rule() -> None:
    rules = default_policy().escalation.rules.values()
    assert {rule.trigger for rule in rules} == set(ROUTES)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("escalation: {rules: {blocking_waits: {level: Urgent}}}", "$.escalation.rules.blocking_waits.level"),
        ("escalation: {rules: {blocking_waits: {actions: []}}}", "$.escalation.rules.blocking_waits.actions"),
        ("escalation: {rules: {blocking_waits: {after_s: null}}}", "$.escalation.rules.blocking_waits.after_s"),
        ("escalation: {rules: {again: {trigger: deadlock, actions: [boost]}}}", "$.escalation.rules.again: deadlock"),
        ("escalation: {rules: {contention: {count: null}}}", "$.escalation.rules.contention.count"),
        ("escalation: {rules: {contention: {after_s: 5}}}", "$.escalation.rules.contention.after_s"),
        ("escalation: {rules: {contention: {level: Info}}}", "$.escalation.rules.contention.level"),
        ("escalation: {rules: {consensus_timeout: {after_s: 10}}}", "consensus_timeout.after_s: .* discussions.max_s"),
        ("escalation: {rules: {health_degraded: {after_s: 5}}}", "health_degraded.after_s: .* health.sustained_s"),
        ("escalation: {rules: {request_timeout: {after_s: 5}}}", "request_timeout.after_s: .* requests.timeout_s"),
        ("escalation: {rules: {deadlock: {level: Blocking}}}", "$.escalation.rules.deadlock.level"),
        ("escalation: {rules: {approval_timeout: {level: Blocking}}}", "$.escalation.rules.approval_timeout.level"),
        ("escalation: {rules: {critical_error: {count: 3}}}", "$.escalation.rules.critical_error.count"),
        ("escalation: {rules: {blocking_waits: {count: 3}}}", "$.escalation.rules.blocking_waits.count"),
        ("leases: {contention_depth: 3}", "contention_depth"),
        ("escalation: {rules: {again: {trigger: boredom, actions: [boost]}}}", "$.escalation.rules.again.trigger"),
    ],
)
def test_rules_that_contradict_are_refused(text: str, path: str) -> None:
    with pytest.raises(TocsinError, match=path.replace("$", r"\$")):
        parse_policy(text)


def note(team: Team, priority: str, receiver: str = "impl_001", sender: str = "impl_002") -> str:
    return team.send(sender, receiver, "CUSTOM_NOTE", priority=priority, metadata={"ttl": 86400}).signal_id


def acquire(team: Team, agent: str, resource: str = "src/api/**", priority: str | None = None) -> None:
    reply = team.handle(cmd.AcquireLease((resource,), (), 3600, 3600, priority), team.caller(agent)).reply
    assert isinstance(reply, cmd.LeaseRecord | Problem)


def error_report(team: Team, severity: str, receiver: str = "manager_001") -> str:
    payload = {"errorType": "TaskFailure", "errorMessage": "the build is broken", "severity": severity}
    return team.send("impl_001", receiver, "ERROR_REPORT", payload=payload).signal_id


def register_all(team: Team) -> None:
    for name, role in (("impl_001", "primary"), ("impl_002", "primary"), ("boss", "director"), ("mensch", "human")):
        team.register(name, role=role)
    team.register("manager_001", "Manager")


def hold_up(team: Team, priority: str) -> None:
    acquire(team, "impl_001")
    acquire(team, "impl_002", priority=priority)


def close_a_circle(team: Team) -> None:
    for agent, resource in (("impl_001", "x"), ("impl_002", "y"), ("impl_001", "y"), ("impl_002", "x")):
        acquire(team, agent, resource)


def degrade(team: Team) -> None:
    team.ask(cmd.ReportHealth({"clone_spawn_p99_s": 5.1}), "boss", cmd.HealthReported)


def inflate(team: Team) -> None:
    for _ in range(6):
        note(team, "Blocking", "manager_001", "impl_001")


def discuss(team: Team) -> None:
    team.ask(cmd.OpenDiscussion("which way?", ("impl_001", "impl_002")), "manager_001", cmd.Discussed)


def request(team: Team) -> None:
    envelope = team.envelope("impl_001", "impl_002", "CUSTOM_QUESTION", correlation_id="req_1", priority="Info")
    team.ask(cmd.SendRequest(envelope, 20), "impl_001", cmd.Requested)


def ask_approval(team: Team) -> None:
    team.ask(cmd.RequestApproval("plan_approval", "the plan"), "impl_001", cmd.ApprovalRequested)


def contend(team: Team) -> None:
    acquire(team, "impl_001")
    acquire(team, "impl_002")
    acquire(team, "manager_001")


@dataclass(frozen=True)
class Trouble:
    """How a trigger is met, when, and what is recorded as crossed."""

    begin: Callable[[Team], object]
    after_s: float
    threshold: float
    later: Callable[[Team], object] = lambda team: None


#: Each trigger with LIMINAL's number, by what happens and not by what the policy says.
OPERATIONAL: dict[str, Trouble] = {
    "deadlock": Trouble(close_a_circle, 0, 0),
    "resource_contended": Trouble(contend, 0, 2),
    "time_in_queue": Trouble(lambda team: note(team, "Blocking"), 60, 60),
    "dependency_blocked": Trouble(lambda team: hold_up(team, "Coordinate"), 60, 60),
    "consensus_timeout": Trouble(discuss, 300, 300),
    "priority_inflation": Trouble(inflate, 0, 0.5),
    "health_degraded": Trouble(degrade, 60, 60, degrade),
    "critical_error": Trouble(lambda team: error_report(team, "critical"), 0, 0),
    "request_timeout": Trouble(request, 20, 20),
    "approval_timeout": Trouble(ask_approval, 300, 300),
}


@pytest.mark.parametrize("trigger", sorted(OPERATIONAL))
def test_liminals_operational_triggers(team: Team, trigger: str) -> None:
    trouble = OPERATIONAL[trigger]
    trouble.begin(team)
    if trouble.after_s:
        team.advance(trouble.after_s - LATE_S)
        trouble.later(team)
        assert not [known for known in opened(team) if known.trigger == trigger]
        team.advance(2 * LATE_S)
        trouble.later(team)
    (event,) = [event for event in team.happened(ev.EscalationOpened) if event.trigger == trigger]
    assert event.threshold == trouble.threshold


def test_a_wait_at_blocking_over_60_s_is_told_to_the_director_then_to_a_human(calm: Team) -> None:
    hold_up(calm, "Blocking")
    calm.advance(60 - LATE_S)
    assert not opened(calm)
    calm.advance(2 * LATE_S)
    (escalation,) = opened(calm)
    assert (escalation.rule, escalation.state) == ("blocking_blocks", "director_notified")
    assert len(notices(calm, "boss")) == 1
    calm.advance(300)
    assert escalation.state == "human_escalation"


def test_the_rules_count_says_how_many_are_contention(new_team: NewTeam) -> None:
    team = new_team("escalation: {rules: {contention: {count: 3}}}")
    register_all(team)
    contend(team)
    assert not opened(team)
    acquire(team, "boss")
    assert team.happened(ev.EscalationOpened)[0].threshold == 3


def opened(team: Team) -> list[Escalation]:
    return list(team.exchange.state.escalations.values())


def places(escalation: Escalation) -> list[str]:
    return [step.state for step in escalation.steps]


def notices(team: Team, agent: str) -> list[Message]:
    known = team.exchange.state.messages.values()
    return [message for message in known if message.recipient == agent and message.sender == "tocsin"]


def resolve(team: Team, escalation: str, by: str, resolution: str = "done") -> cmd.Escalated:
    return team.ask(cmd.ResolveEscalation(escalation, resolution), by, cmd.Escalated)


@pytest.fixture
def calm(new_team: NewTeam) -> Team:
    """Make a team whose messages are not raised by aging, so that escalation alone shows."""
    team = new_team("aging: {enabled: false}")
    team.register("impl_001")
    team.register("impl_002")
    team.register("boss", "Director", "director")
    team.register("mensch", "Human", "human")
    return team


@pytest.mark.parametrize(
    ("priority", "waited_s", "escalated"),
    [
        ("Blocking", 59.9, False),
        ("Blocking", 60 + LATE_S, True),
        ("Info", 600, False),
        ("Coordinate", 600, False),
        ("Critical", 600, False),
    ],
)
def test_blocking_over_60_s_escalates(calm: Team, priority: str, waited_s: float, escalated: bool) -> None:
    note(calm, priority)
    calm.advance(waited_s)
    assert bool(opened(calm)) is escalated


def test_the_time_based_path_to_a_human_who_resolves_it(calm: Team) -> None:
    waiting = note(calm, "Blocking")
    calm.advance(60 + LATE_S)
    (escalation,) = opened(calm)
    assert calm.message(waiting).level == Priority.CRITICAL, "raised by one level"
    assert escalation.state == "priority_boosted"
    calm.advance(60)
    assert escalation.state == "director_notified", "at twice the threshold"
    calm.advance(300 + LATE_S)
    assert escalation.state == "human_escalation"
    resolve(calm, escalation.escalation, "mensch", "woke impl_001 up")
    assert places(escalation) == [
        "time_based_escalation",
        "priority_boosted",
        "still_waiting",
        "director_notified",
        "human_escalation",
        "human_intervention",
        "normal",
    ]
    assert (escalation.resolved_by, escalation.resolution) == ("mensch", "woke impl_001 up")


def test_the_director_is_told_at_twice_the_threshold_and_of_what(calm: Team) -> None:
    waiting = note(calm, "Blocking")
    calm.advance(120 - LATE_S)
    assert not notices(calm, "boss")
    calm.advance(2 * LATE_S)
    (notice,) = notices(calm, "boss")
    (escalation,) = opened(calm)
    assert json.loads(notice.payload)["context"] == {"about": waiting, "escalation": escalation.escalation}
    assert notice.priority == Priority.BLOCKING


def test_the_human_is_told_at_critical_when_the_director_does_nothing(calm: Team) -> None:
    note(calm, "Blocking")
    calm.advance(120 + LATE_S)
    assert not notices(calm, "mensch")
    calm.advance(300 + LATE_S)
    (notice,) = notices(calm, "mensch")
    assert notice.priority == Priority.CRITICAL


def test_a_resolved_cause_does_not_escalate_again_and_nobody_is_told_twice(calm: Team) -> None:
    note(calm, "Blocking")
    calm.advance(420 + 2 * LATE_S)
    (escalation,) = opened(calm)
    resolve(calm, escalation.escalation, "mensch")
    calm.advance(5000)
    assert len(opened(calm)) == 1, "once per cause"
    assert len(notices(calm, "boss")) == len(notices(calm, "mensch")) == 1, "and not once per tick"


def test_a_message_that_is_taken_ends_its_escalation_at_once(calm: Team) -> None:
    waiting = note(calm, "Blocking")
    calm.advance(125)
    session = calm.attach("impl_001", "piggyback")
    assert calm.drain(session) == [waiting]
    (escalation,) = opened(calm)
    assert places(escalation)[-3:] == ["director_notified", "resolved", "normal"]


def test_a_redelivery_of_the_same_waiting_is_no_new_cause(calm: Team) -> None:
    waiting = note(calm, "Blocking")
    calm.advance(70)
    session = calm.attach("impl_001", "piggyback")
    calm.drain(session)
    calm.detach(session)
    assert calm.message(waiting).state == "queued"
    calm.advance(500)
    assert len(opened(calm)) == 1


def test_a_director_resolves_and_may_do_so_before_it_is_told(calm: Team) -> None:
    note(calm, "Blocking")
    calm.advance(70)
    (escalation,) = opened(calm)
    resolve(calm, escalation.escalation, "boss")
    assert places(escalation)[-5:] == [
        "still_waiting",
        "director_notified",
        "director_intervention",
        "resolved",
        "normal",
    ]
    calm.advance(1000)
    assert not notices(calm, "boss")
    assert calm.refused(cmd.ResolveEscalation(escalation.escalation, "again"), "boss").code == "E_STATE_002"


def test_a_director_escalates_by_hand(calm: Team) -> None:
    note(calm, "Blocking")
    calm.advance(125)
    (escalation,) = opened(calm)
    calm.ask(cmd.EscalateToHuman(escalation.escalation, "not mine to decide"), "boss", cmd.Escalated)
    assert escalation.state == "human_escalation"
    assert (escalation.steps[-1].by, escalation.steps[-1].detail) == ("boss", "not mine to decide")
    assert len(notices(calm, "mensch")) == 1
    again = calm.refused(cmd.EscalateToHuman(escalation.escalation), "boss")
    assert again.code == "E_STATE_002"


@pytest.mark.parametrize("command", [cmd.ResolveEscalation, cmd.EscalateToHuman])
def test_only_who_directs_may(calm: Team, command: type) -> None:
    note(calm, "Blocking")
    calm.advance(125)
    (escalation,) = opened(calm)
    assert calm.refused(command(escalation.escalation, "mine"), "impl_001").code == "E_AUTH_003"
    assert calm.refused(command("esc_none", "mine"), "boss").code == "E_STATE_001"


def test_without_a_director_it_goes_to_the_human_at_once(new_team: NewTeam) -> None:
    team = new_team("aging: {enabled: false}")
    team.register("impl_001")
    team.register("impl_002")
    team.register("mensch", "Human", "human")
    note(team, "Blocking")
    team.advance(125)
    (escalation,) = opened(team)
    assert escalation.state == "human_escalation"
    assert len(notices(team, "mensch")) == 1


@pytest.mark.parametrize(("severity", "told"), [("critical", True), ("high", False), ("medium", False), ("low", False)])
def test_a_critical_error_reaches_the_director_at_once(team: Team, severity: str, told: bool) -> None:
    error_report(team, severity)
    assert bool(notices(team, "boss")) is told
    if told:
        (escalation,) = opened(team)
        assert places(escalation) == ["health_escalation", "critical_alert"]
        assert notices(team, "boss")[0].priority == Priority.CRITICAL


def test_a_director_who_was_sent_the_error_is_not_told_twice(team: Team) -> None:
    error_report(team, "critical", "boss")
    assert not notices(team, "boss")
    assert len(opened(team)) == 1


def test_inflation_is_lowered_told_and_over_when_it_ends(team: Team) -> None:
    for _ in range(6):
        note(team, "Blocking", "manager_001", "impl_001")
    (escalation,) = [known for known in opened(team) if known.trigger == "priority_inflation"]
    assert escalation.subject == "impl_001"
    (notice,) = notices(team, "boss")
    assert json.loads(notice.payload)["errorCode"] == "E_ADMISSION_004"
    team.now += 61_000_000
    note(team, "Info", "manager_001", "impl_001")
    assert places(escalation)[-2:] == ["resolved", "normal"]


@pytest.mark.parametrize(
    ("actions", "level", "state", "told"),
    [
        (["boost"], Priority.CRITICAL, "priority_boosted", []),
        (["interrupt_recipient"], Priority.CRITICAL, "priority_boosted", []),
        (["notify_director"], Priority.BLOCKING, "director_notified", ["boss"]),
        (["escalate_to_human"], Priority.BLOCKING, "human_escalation", ["boss", "mensch"]),
        (["notify_director", "escalate_to_human"], Priority.BLOCKING, "human_escalation", ["boss", "mensch"]),
        (["boost", "notify_director"], Priority.CRITICAL, "director_notified", ["boss"]),
        (["escalate_to_human", "boost"], Priority.CRITICAL, "human_escalation", ["boss", "mensch"]),
        (["interrupt_recipient", "notify_director"], Priority.CRITICAL, "director_notified", ["boss"]),
    ],
)
def test_each_action(new_team: NewTeam, actions: list[str], level: Priority, state: str, told: list[str]) -> None:
    rule = f"{{rules: {{blocking_waits: {{actions: [{', '.join(actions)}]}}}}}}"
    team = new_team(f"aging: {{enabled: false}}\nescalation: {rule}")
    for name, role in (("impl_001", "primary"), ("impl_002", "primary"), ("boss", "director"), ("mensch", "human")):
        team.register(name, role=role)
    waiting = note(team, "Blocking")
    team.advance(60 + LATE_S)
    assert team.message(waiting).level == level
    assert opened(team)[0].state == state
    assert [agent for agent in ("boss", "mensch") if notices(team, agent)] == told


@pytest.mark.parametrize("actions", ["boost", "interrupt_recipient", "boost, escalate_to_human"])
@pytest.mark.parametrize("trigger", sorted(ROUTES.keys() - {"wake_failed"}))  # tests/core/wake has that one
def test_a_rule_with_nothing_to_raise_goes_on_to_the_director(new_team: NewTeam, trigger: str, actions: str) -> None:
    """A deadlock that was to be boosted stayed at a place from which nobody's word could take it."""
    name = next(name for name, rule in default_policy().escalation.rules.items() if rule.trigger == trigger)
    team = new_team(f"escalation: {{rules: {{{name}: {{actions: [{actions}]}}}}}}")
    register_all(team)
    OPERATIONAL[trigger].begin(team)
    team.advance(OPERATIONAL[trigger].after_s + LATE_S)
    OPERATIONAL[trigger].later(team)
    (escalation,) = [known for known in opened(team) if known.trigger == trigger]
    assert resolve(team, escalation.escalation, "boss").state == "normal"


def test_the_action_interrupt_recipient_interrupts(new_team: NewTeam) -> None:
    team = new_team(
        "aging: {enabled: false}\n"
        "escalation: {rules: {info_waits: {trigger: time_in_queue, level: Info, after_s: 10, "
        "actions: [interrupt_recipient]}}}"
    )
    team.register("impl_001")
    team.register("impl_002")
    team.attach("impl_001")
    team.ask(cmd.BeginWork(note(team, "Info")), "impl_001", cmd.Attending)
    waiting = note(team, "Info")
    team.advance(10 + LATE_S, beating=True)
    assert team.message(waiting).offers == 1
    assert team.happened(ev.InterruptRaised)


def test_what_finds_no_room_is_opened_when_one_has_closed(new_team: NewTeam) -> None:
    """Only messages in a queue came again; all else that was to be escalated was lost without a word."""
    team = new_team("escalation: {open_max: 1}")
    register_all(team)
    first, second = error_report(team, "critical"), error_report(team, "critical")
    acquire(team, "impl_001")
    acquire(team, "impl_002")
    acquire(team, "manager_001")
    assert [known.subject for known in opened(team)] == [first]
    deferred = team.happened(ev.EscalationDeferred)
    assert [(event.trigger, event.subject, event.kept) for event in deferred] == [
        ("critical_error", second, True),
        ("resource_contended", "src/api/**", True),
    ]
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    resolve(team, opened(team)[0].escalation, "boss")
    assert [known.subject for known in opened(team)] == [first, second], "the oldest cause first"
    resolve(team, opened(team)[1].escalation, "boss")
    assert len(opened(team)) == 2, "what is over by then is not opened"
    assert team.happened(ev.EscalationsForgotten)[-1].causes == (deferred[1].cause,)
    assert not team.exchange.state.deferred


def test_where_too_many_wait_for_room_the_directors_are_told(new_team: NewTeam) -> None:
    team = new_team("escalation: {open_max: 1, deferred_max: 1}")
    register_all(team)
    for _ in range(3):
        error_report(team, "critical")
    assert [event.kept for event in team.happened(ev.EscalationDeferred)] == [True, False]
    assert len(notices(team, "boss")) == 2
    assert len(team.exchange.state.deferred) == 1


def test_a_policy_with_more_room_opens_what_waits(new_team: NewTeam) -> None:
    team = new_team("escalation: {open_max: 1}")
    register_all(team)
    error_report(team, "critical")
    error_report(team, "critical")
    team.adopt("escalation: {open_max: 2}")
    team.tick()
    assert len(opened(team)) == 2


@pytest.mark.parametrize("trigger", ["critical_error", "consensus_timeout"])
def test_what_nothing_shows_to_be_over_has_an_end(team: Team, trigger: str) -> None:
    OPERATIONAL[trigger].begin(team)
    team.advance(OPERATIONAL[trigger].after_s + 1)
    (escalation,) = [known for known in opened(team) if known.trigger == trigger]
    team.advance(86400)
    assert escalation.state == "human_escalation", "a human has a day from when it was told"
    team.advance(700)
    assert places(escalation)[-2:] == ["resolved", "normal"]


def test_a_critical_error_that_a_director_has_dealt_with_is_over(team: Team) -> None:
    session = team.attach("boss", "piggyback")
    report = error_report(team, "critical", "boss")
    team.drain(session)
    team.done("boss", report)
    assert opened(team)[0].state == "normal"


def test_who_can_deal_with_a_critical_error_is_said_by_the_policy(team: Team) -> None:
    session = team.attach("boss", "piggyback")
    report = error_report(team, "critical", "boss")
    team.drain(session)
    team.adopt("roles: {director: {directs: false}}")
    team.done("boss", report)
    assert opened(team)[0].state != "normal", "boss does not direct any more"


def test_no_more_are_open_than_the_policy_allows(new_team: NewTeam) -> None:
    team = new_team("aging: {enabled: false}\nescalation: {open_max: 2}")
    for name in ("impl_001", "impl_002"):
        team.register(name)
    for _ in range(4):
        note(team, "Blocking")
    team.advance(61)
    assert len(opened(team)) == 2
    session = team.attach("impl_001", "piggyback")
    team.drain(session, 2)
    team.advance(61)
    assert len(team.happened(ev.EscalationOpened)) == 4, "the others had to wait for room"


def test_history_is_bounded(new_team: NewTeam) -> None:
    team = new_team("aging: {enabled: false}\nescalation: {history_max: 2}\nquotas: {blocking: {cap: 100}}")
    team.register("boss", "Director", "director")
    team.register("impl_001")
    team.register("impl_002")
    session = team.attach("impl_001", "piggyback")
    for _ in range(4):
        waiting = note(team, "Blocking", sender="boss")
        team.advance(61, beating=True)
        team.drain(session)
        team.done("impl_001", waiting)
    assert len(opened(team)) <= 3
    assert team.happened(ev.EscalationsForgotten)
    assert set(team.exchange.state.causes.values()) == set(team.exchange.state.escalations)
    kept = [known for known in team.exchange.state.escalations.values() if known.closed_at != NEVER]
    assert [known.cause for known in kept] == [event.cause for event in team.happened(ev.EscalationOpened)[-2:]]


def test_the_buss_own_notices_are_not_escalated(calm: Team) -> None:
    note(calm, "Blocking")
    calm.advance(4000)
    assert len(opened(calm)) == 1


def test_a_message_without_a_rule_costs_no_timer(team: Team) -> None:
    from tocsin.core.scheduling import escalation_due

    state = team.exchange.state
    for level in Priority:
        due = escalation_due(state, letter(priority=level))
        assert (due is not None) is (level == Priority.BLOCKING)


def test_two_who_wait_for_one_resource_are_told_of_once(team: Team) -> None:
    for agent in ("impl_001", "impl_002", "manager_001", "twin"):
        acquire(team, agent)
    (escalation,) = [known for known in opened(team) if known.trigger == "resource_contended"]
    assert (escalation.subject, escalation.state) == ("src/api/**", "director_notified")
    assert len(notices(team, "boss")) == 1
    for lease in list(team.exchange.state.leases.leases.values()):
        team.ask(cmd.RetireAgent(lease.holder), "boss", cmd.Done)
    for lease in list(team.exchange.state.leases.leases.values()):
        team.ask(cmd.RetireAgent(lease.holder), "boss", cmd.Done)
    assert escalation.state == "normal"


def test_a_lease_that_blocks_somebody_for_60_s_is_a_blocked_dependency(team: Team) -> None:
    """LIMINAL: Coordinate that blocks progress > 60 s → escalate to Blocking."""
    acquire(team, "impl_001")
    acquire(team, "impl_002")
    team.advance(60 + LATE_S)
    (escalation,) = [known for known in opened(team) if known.trigger == "dependency_blocked"]
    assert escalation.state == "inheritance_applied"
    (raised,) = team.happened(ev.WaitRaised)
    assert (raised.waiter, raised.wait_kind, raised.level) == ("impl_002", "lease", Priority.BLOCKING)
    (request,) = team.exchange.state.leases.queue.values()
    assert request.level == Priority.BLOCKING
    assert team.exchange.state.inherited == {"impl_001": Priority.BLOCKING}, "what is lent follows"
    team.advance(60)
    assert len(opened(team)) == 1, "and that it is Blocking now is no cause of its own"
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert escalation.state == "normal"


def test_a_wait_that_is_raised_goes_before_one_that_was_before_it(new_team: NewTeam) -> None:
    rule = "{trigger: dependency_blocked, level: Info, after_s: 10, actions: [interrupt_recipient]}"
    team = new_team(f"escalation: {{rules: {{info_blocks: {rule}}}}}")
    register_all(team)
    acquire(team, "impl_001")
    acquire(team, "impl_002", priority="Blocking")
    acquire(team, "manager_001", priority="Info")
    team.advance(10 + LATE_S)
    line = team.exchange.state.leases
    assert [request.agent for request in line.waiting_for("src/api/**")] == ["manager_001", "impl_002"]
    assert team.exchange.state.inherited == {"impl_001": Priority.CRITICAL}
    team.ask(cmd.RetireAgent("manager_001"), "boss", cmd.Done)
    assert team.exchange.state.inherited == {"impl_001": Priority.BLOCKING}, "and it is taken back exactly"


def test_a_critical_error_sent_to_several_is_one_cause(team: Team) -> None:
    payload = {"errorType": "TaskFailure", "errorMessage": "the build is broken", "severity": "critical"}
    receipt = team.broadcast("impl_001", "ERROR_REPORT", payload=payload)
    assert len(receipt.receipts) > 1
    assert len(opened(team)) == 1


def test_a_cause_that_outlasts_its_escalation_is_not_forgotten(new_team: NewTeam) -> None:
    """Found by the simulator: a director's word closed it, history had no room, and a new policy armed it again."""
    team = new_team("escalation: {history_max: 1}")
    team.register("boss", "Director", "director")
    for agent in ("impl_001", "impl_002", "impl_003", "impl_004"):
        team.register(agent)
    for number, (holder, waiter) in enumerate([("impl_001", "impl_002"), ("impl_003", "impl_004")]):
        acquire(team, holder, f"resource{number}")
        acquire(team, waiter, f"resource{number}")
    for _ in range(3):
        team.advance(60 + LATE_S)
        for known in opened(team):
            if known.closed_at == NEVER:
                team.ask(cmd.ResolveEscalation(known.escalation, "they know"), "boss", cmd.Escalated)
        team.adopt("escalation: {history_max: 1}")
    causes = [event.cause for event in team.happened(ev.EscalationOpened) if event.trigger == "dependency_blocked"]
    assert len(causes) == len(set(causes)) == 2


def test_a_director_that_comes_late_is_notified_of_open_escalations(new_team: NewTeam) -> None:
    team = new_team()
    team.register("boss", "Director", "director")
    team.register("a", "Manager")
    team.register("b", "Manager")
    error = {"errorType": "SystemError", "errorMessage": "broken", "severity": "critical"}
    team.send("a", "b", "ERROR_REPORT", payload=error)
    team.register("late", "Director", "director")
    heard = [m for m in team.exchange.state.messages.values() if m.recipient == "late"]
    assert [message.type for message in heard] == ["ERROR_REPORT"]
    assert json.loads(heard[0].payload)["context"]["escalation"] in team.exchange.state.open_escalations


def test_an_escalation_is_named_by_its_boost_and_its_resolution(calm: Team) -> None:
    note(calm, "Blocking")
    calm.advance(60 + LATE_S)
    (escalation,) = opened(calm)
    assert escalation.escalation.startswith("esc_")
    assert [event.rule for event in calm.happened(ev.MessageBoosted)] == ["escalation"]
    assert resolve(calm, escalation.escalation, "boss").escalation == escalation.escalation


def test_a_closed_escalation_is_closed_in_a_recovery_point(calm: Team) -> None:
    note(calm, "Blocking")
    calm.advance(60 + LATE_S)
    (escalation,) = opened(calm)
    resolve(calm, escalation.escalation, "boss")
    restored = restore(calm.snapshot())
    assert list(restored.open_escalations) == []
    assert list(restored.closed_escalations) == [escalation.escalation]


@pytest.mark.skipif(os.environ.get("TOCSIN_FORM") == "compiled", reason="compiled methods cannot be replaced")
@pytest.mark.parametrize("waiters", [4, 16])
def test_contention_that_ends_in_one_decision_is_looked_at_once(
    new_team: NewTeam, monkeypatch: pytest.MonkeyPatch, waiters: int
) -> None:
    resources = 8
    team = new_team(f"escalation: {{history_max: {resources - 3}}}")
    team.register("ann")
    names = tuple(f"src/{number}" for number in range(resources))
    team.hold(cmd.AcquireLease(names, ttl_s=3600), "ann")
    for number in range(waiters):
        team.register(f"impl_{number:03d}")
        team.ask(cmd.AcquireLease(names, wait_s=30), f"impl_{number:03d}", cmd.LeaseRecord)
    assert len(opened(team)) == resources
    looked_at: list[str] = []
    book = team.exchange.state.leases
    contention = book.contention

    def counted(resource: str, but: str = "") -> Contention:
        looked_at.append(resource)
        return contention(resource, but)

    monkeypatch.setattr(book, "contention", counted)
    team.advance(31)
    assert not book.queue
    assert all(known.closed_at != NEVER for known in team.exchange.state.escalations.values())
    assert len(looked_at) == resources, "once for each escalation, however many requests have ended"
    assert [len(event.escalations) for event in team.happened(ev.EscalationsForgotten)] == [3]
