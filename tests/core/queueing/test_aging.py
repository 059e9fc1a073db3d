"""Aging: waiting raises a message (LIMINAL), it keeps its time (design §5.6), and the longest wait has a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, START, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.protocol.priority import Priority

INFO, COORDINATE, BLOCKING, CRITICAL, OVERRIDE = Priority

#: What is a little more than a timer is ever late.
LATE_S = 0.02


def note(team: Team, priority: str, receiver: str = "impl_001") -> str:
    return team.send("boss", receiver, "CUSTOM_NOTE", priority=priority, metadata={"ttl": 86400}).signal_id


#: A policy by which nothing but waiting raises a message.
UNESCALATED = "escalation: {rules: {blocking_waits: {after_s: 1000000}}}"


def staffed(team: Team) -> Team:
    team.register("boss", "Director", "director")
    team.register("impl_001")
    return team


@pytest.mark.parametrize(
    ("priority", "waited_s", "level", "overdue"),
    [
        ("Info", 59, INFO, False),
        ("Info", 60, COORDINATE, False),
        ("Info", 119, COORDINATE, False),
        ("Info", 120, BLOCKING, False),
        ("Info", 179, BLOCKING, False),
        ("Info", 180, BLOCKING, True),
        ("Info", 10_000, BLOCKING, True),
        ("Coordinate", 60, BLOCKING, False),
        ("Coordinate", 120, BLOCKING, True),
        ("Blocking", 59, BLOCKING, False),
        ("Blocking", 60, BLOCKING, True),
        ("Critical", 1000, CRITICAL, False),
        ("DirectorOverride", 1000, OVERRIDE, False),
    ],
)
def test_each_minute_of_waiting_raises_by_one(
    new_team: NewTeam, priority: str, waited_s: int, level: Priority, overdue: bool
) -> None:
    team = staffed(new_team(UNESCALATED))
    sent = note(team, priority)
    team.advance(waited_s + LATE_S)
    message = team.message(sent)
    assert (message.level, message.overdue) == (level, overdue)
    assert message.priority == message.requested, "what it was admitted with stays"


def test_a_boost_says_what_it_did(team: Team) -> None:
    note(team, "Info")
    team.advance(60 + LATE_S)
    (boosted,) = team.happened(ev.MessageBoosted)
    assert (boosted.old_level, boosted.new_level, boosted.rule) == (0, 1, "aging")
    assert (boosted.threshold_s, boosted.boosts, boosted.overdue) == (60, 1, False)
    assert 60 * SECOND <= boosted.age_us <= (60 + LATE_S) * SECOND


def test_the_policy_says_how_fast(new_team: NewTeam) -> None:
    team = staffed(new_team("aging: {threshold_s: 10, boost_levels: 2, top: Critical}"))
    sent = note(team, "Info")
    team.advance(10 + LATE_S)
    assert team.message(sent).level == BLOCKING
    team.advance(10)
    assert (team.message(sent).level, team.message(sent).overdue) == (CRITICAL, False)
    team.advance(10)
    assert team.message(sent).overdue


def test_aging_can_be_off(new_team: NewTeam) -> None:
    team = new_team("aging: {enabled: false}")
    team.register("boss", "Director", "director")
    team.register("impl_001")
    sent = note(team, "Info")
    team.advance(10_000)
    assert team.message(sent).level == INFO


def test_a_boosted_message_keeps_its_place_in_time(team: Team) -> None:
    old = note(team, "Info")
    team.advance(30)
    young = note(team, "Coordinate")
    team.advance(30 + LATE_S)
    assert team.message(old).level == team.message(young).level == COORDINATE
    assert team.drain(team.attach("impl_001", "piggyback")) == [old, young]


def test_a_boost_never_overtakes_an_override(team: Team) -> None:
    old = note(team, "Info")
    team.advance(1000)
    override = note(team, "DirectorOverride")
    assert team.drain(team.attach("impl_001", "piggyback")) == [override, old]


def test_the_overdue_go_before_the_important(team: Team) -> None:
    old = note(team, "Info")
    team.advance(180 + LATE_S)
    team.send("boss", "impl_001", "CUSTOM_NOTE", priority="Blocking", qos={"importance": 10})
    assert team.drain(team.attach("impl_001", "piggyback"), 1) == [old]


def test_a_critical_goes_before_all_that_merely_waited(team: Team) -> None:
    """A hundred Info messages, minutes old, put a Critical in place 101."""
    waiting = [note(team, "Info") for _ in range(100)]
    team.advance(3 * 60 + LATE_S)
    critical = note(team, "Critical")
    assert team.drain(team.attach("impl_001", "piggyback")) == [critical, *waiting]


def test_the_overdue_have_no_precedence_among_what_was_escalated(team: Team) -> None:
    """A Blocking message that waits is overdue and escalated to Critical at the same time: there it goes by age."""
    first = team.send("boss", "impl_001", "CUSTOM_NOTE", priority="Critical", metadata={"ttl": 86400}).signal_id
    raised = note(team, "Blocking")
    important = team.send(
        "boss", "impl_001", "CUSTOM_NOTE", priority="Critical", qos={"importance": 6}, metadata={"ttl": 86400}
    ).signal_id
    team.advance(61)
    assert (team.message(raised).level, team.message(raised).overdue) == (CRITICAL, True)
    assert team.drain(team.attach("impl_001", "piggyback")) == [important, first, raised]


def test_what_is_lent_to_critical_stands_in_front_of_blocking_again_once_the_wait_ends(team: Team) -> None:
    team.register("other", "Implementation", "primary")
    team.register("third", "Implementation", "primary")
    team.hold(cmd.AcquireLease(("res",), ttl_s=86400), "other")
    old = team.send("other", "impl_001", "CUSTOM_NOTE", priority="Info", metadata={"ttl": 86400}).signal_id
    team.advance(180 + LATE_S)
    wait = team.wait_for_lease(cmd.AcquireLease(("res",), wait_s=3600, priority="Critical"), "third")
    critical = note(team, "Critical")
    young = note(team, "Blocking")
    assert (team.message(old).level, team.message(old).overdue) == (CRITICAL, True)
    team.ask(cmd.ReleaseLease(wait.lease), "third", cmd.Released)
    assert (team.message(old).level, team.message(old).overdue) == (BLOCKING, True)
    assert team.drain(team.attach("impl_001", "piggyback"), 3) == [critical, old, young]


def test_what_is_on_its_way_does_not_age(team: Team) -> None:
    team.adopt("delivery: {receipt_timeout_s: {push: 600, piggyback: 600, daemon: 600}}")
    session = team.attach("impl_001", "push")
    sent = note(team, "Info")
    team.advance(500, beating=True)
    assert not team.happened(ev.MessageBoosted)
    team.detach(session)
    team.advance(LATE_S)
    message = team.message(sent)
    assert (message.level, message.overdue) == (BLOCKING, True), "back in the queue it counts its whole age"


def test_a_redriven_message_ages_anew(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    sent = note(team, "Info")
    team.advance(300, beating=True)
    team.drain(session)
    team.nack("impl_001", sent, can_retry=False)
    team.redrive("boss", sent)
    assert (team.message(sent).level, team.message(sent).overdue) == (INFO, False)
    team.advance(60 + LATE_S, beating=True)
    assert team.message(sent).level == COORDINATE


@pytest.mark.parametrize(("priority", "bound_s"), [("Info", 180), ("Coordinate", 120), ("Blocking", 60)])
def test_the_stated_bound_holds_under_a_flood(new_team: NewTeam, priority: str, bound_s: int) -> None:
    """Two Blocking a second, and all the Critical that the quotas of three senders allow, for a recipient that takes
    one message a second: past the bound, only what was Critical and what was older and overdue precedes."""
    team = staffed(new_team(UNESCALATED + "\ngaming: {messages_min: 1000}"))
    for name in ("loud_001", "loud_002", "loud_003"):
        team.register(name)
    session = team.attach("impl_001", "piggyback")
    assert team.exchange.state.policy.aging.bound_us(Priority[priority.upper()]) == bound_s * SECOND
    victim = note(team, priority)
    while team.message(victim).state == "queued":
        for _ in range(2):
            note(team, "Blocking")
        for name in ("loud_001", "loud_002", "loud_003"):
            team.handle(
                cmd.Send(team.envelope(name, "impl_001", "CUSTOM_NOTE", priority="Critical")), team.caller(name)
            )
        taken = team.drain(session, 1)
        if team.message(victim).overdue and taken != [victim]:
            assert team.message(taken[0]).priority == CRITICAL, "the victim is the oldest"
        team.advance(1, beating=True)
    critical = sum(message.priority == CRITICAL for message in team.exchange.state.messages.values())
    quota = team.exchange.state.policy.quotas.critical
    waited_s = team.seconds_since(START)
    assert critical <= 3 * (quota.cap + quota.refill_per_s * waited_s), "they are rationed"
    assert waited_s <= bound_s + critical + 2


FLOOD = st.lists(
    st.tuples(st.sampled_from(["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"]), st.floats(0, 90)),
    min_size=1,
    max_size=30,
)


@given(FLOOD)
def test_past_its_bound_only_older_overdue_ones_and_higher_priorities_precede(letters: list[tuple[str, float]]) -> None:
    team = Team()
    team.register("boss", "Director", "director")
    team.register("impl_001")
    for priority, pause_s in letters:
        note(team, priority)
        team.advance(pause_s)
    team.advance(LATE_S)
    aging = team.exchange.state.policy.aging
    order = team.drain(team.attach("impl_001", "piggyback"))
    messages = [team.message(name) for name in order]
    for place, message in enumerate(messages):
        age = team.now - message.enqueued_at
        bound_us = aging.bound_us(message.priority)
        if bound_us is None or age < bound_us + LATE_S * SECOND:
            continue
        for before in messages[:place]:
            older_and_overdue = before.seq < message.seq and before.overdue
            assert before.level >= CRITICAL or older_and_overdue
    sent_high = [place for place, message in enumerate(messages) if message.priority >= CRITICAL]
    waited_only = [place for place, message in enumerate(messages) if message.level < CRITICAL]
    assert max(sent_high, default=-1) < min(waited_only, default=len(messages))
    team.check_replay()


def test_ticks_are_enough(team: Team) -> None:
    """Nothing but ticks at `next_due` is needed for a message to rise to the front."""
    sent = note(team, "Info")
    for _ in range(10):
        due = team.exchange.next_due()
        if due is None or team.message(sent).overdue:
            break
        team.now = due
        team.ask(cmd.Tick(), None, cmd.Ticked)
    assert team.message(sent).overdue


def test_a_slower_policy_lowers_nobody(team: Team) -> None:
    team.adopt("aging: {boost_levels: 2}")
    sent = note(team, "Info")
    team.advance(60 + LATE_S)
    assert team.message(sent).level == BLOCKING
    team.adopt(None)
    team.advance(60)
    assert (team.message(sent).level, team.message(sent).boosts) == (BLOCKING, 2)


def test_a_slower_policy_postpones_the_next_boost(team: Team) -> None:
    sent = note(team, "Info")
    team.advance(30)
    team.adopt("aging: {threshold_s: 120}")
    team.advance(30 + LATE_S)
    assert team.message(sent).boosts == 0
    team.advance(60)
    assert team.message(sent).boosts == 1
