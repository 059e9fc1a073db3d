"""Escalation: every operational trigger of LIMINAL with its number, its paths arrow by arrow, and once per cause."""

import json

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.letters import letter
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.affairs import Escalation
from tocsin.core.errors import InvariantViolation
from tocsin.core.escalation_paths import PATHS, ROUTES, Place, place_after
from tocsin.core.message import NEVER, Message
from tocsin.core.priority import Priority
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
    ours = {f"{spelt(route.before)} --> {spelt(route.after)}" for route in PATHS if route.liminal}
    assert ours == drawn


def test_nothing_moves_but_by_the_table() -> None:
    with pytest.raises(InvariantViolation, match="cannot be"):
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
    ("rule", "trigger", "level", "after_s", "count", "actions"),
    [
        ("deadlock", "deadlock", None, None, None, ["notify_director"]),
        ("contention", "resource_contended", None, None, 2, ["notify_director"]),
        ("blocking_waits", "time_in_queue", "Blocking", 60, None, ["boost"]),
        ("coordinate_blocks", "dependency_blocked", "Coordinate", 60, None, ["boost"]),
        ("consensus_timeout", "consensus_timeout", None, 300, None, ["notify_director"]),
        ("priority_inflation", "priority_inflation", None, None, None, ["notify_director"]),
        ("health_degraded", "health_degraded", None, 60, None, ["notify_director"]),
        ("critical_error", "critical_error", None, None, None, ["notify_director"]),
    ],
)
def test_liminals_operational_triggers(
    rule: str, trigger: str, level: str | None, after_s: float | None, count: int | None, actions: list[str]
) -> None:
    known = default_policy().escalation.rules[rule]
    assert (known.trigger, known.level, known.after_s, known.count, known.actions) == (
        trigger,
        level,
        after_s,
        count,
        actions,
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("escalation: {rules: {blocking_waits: {level: Urgent}}}", "$.escalation.rules.blocking_waits.level"),
        ("escalation: {rules: {blocking_waits: {actions: []}}}", "$.escalation.rules.blocking_waits.actions"),
        ("escalation: {rules: {blocking_waits: {after_s: null}}}", "$.escalation.rules.blocking_waits.after_s"),
        (
            "escalation: {rules: {again: {trigger: deadlock, actions: [boost]}}}",
            "$.escalation.rules.again",
        ),
        ("escalation: {rules: {again: {trigger: boredom, actions: [boost]}}}", "$.escalation.rules.again.trigger"),
    ],
)
def test_rules_that_contradict_are_refused(text: str, path: str) -> None:
    with pytest.raises(Exception, match=path.replace("$", r"\$")):
        parse_policy(text)


def note(team: Team, priority: str, receiver: str = "impl_001", sender: str = "impl_002") -> str:
    return team.send(sender, receiver, "CUSTOM_NOTE", priority=priority, metadata={"ttl": 86400}).signal_id


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
    assert not notices(calm, "boss")
    calm.advance(60)
    assert escalation.state == "director_notified", "at twice the threshold"
    (notice,) = notices(calm, "boss")
    payload = json.loads(notice.payload)
    assert payload["context"] == {"about": waiting, "escalation": escalation.escalation}
    assert notice.priority == Priority.BLOCKING
    calm.advance(300 + LATE_S)
    assert escalation.state == "human_escalation"
    (notice,) = notices(calm, "mensch")
    assert notice.priority == Priority.CRITICAL
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


def error_report(team: Team, severity: str, receiver: str = "manager_001") -> str:
    payload = {"errorType": "TaskFailure", "errorMessage": "the build is broken", "severity": severity}
    return team.send("impl_001", receiver, "ERROR_REPORT", payload=payload).signal_id


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
    ("actions", "level", "state"),
    [
        (["boost"], Priority.CRITICAL, "priority_boosted"),
        (["interrupt_recipient"], Priority.CRITICAL, "priority_boosted"),
        (["notify_director"], Priority.BLOCKING, "director_notified"),
        (["notify_director", "escalate_to_human"], Priority.BLOCKING, "human_escalation"),
    ],
)
def test_each_action(new_team: NewTeam, actions: list[str], level: Priority, state: str) -> None:
    rule = f"{{rules: {{blocking_waits: {{actions: [{', '.join(actions)}]}}}}}}"
    team = new_team(f"aging: {{enabled: false}}\nescalation: {rule}")
    for name, role in (("impl_001", "primary"), ("impl_002", "primary"), ("boss", "director"), ("mensch", "human")):
        team.register(name, role=role)
    waiting = note(team, "Blocking")
    team.advance(60 + LATE_S)
    assert team.message(waiting).level == level
    assert opened(team)[0].state == state


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
    from tocsin.core.arming import escalation_due

    state = team.exchange.state
    for level in Priority:
        due = escalation_due(state, letter(priority=level))
        assert (due is not None) is (level == Priority.BLOCKING)


def acquire(team: Team, agent: str, resource: str = "src/api/**") -> None:
    reply = team.handle(cmd.AcquireLease(exclusive=(resource,)), team.caller(agent)).reply
    assert isinstance(reply, cmd.Held | cmd.Queued)


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
    acquire(team, "impl_001")
    acquire(team, "impl_002")
    team.advance(60 + LATE_S)
    (escalation,) = [known for known in opened(team) if known.trigger == "dependency_blocked"]
    assert escalation.state == "inheritance_applied"
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert escalation.state == "normal"


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
