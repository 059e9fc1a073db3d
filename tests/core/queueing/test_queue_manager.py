"""The control law of the decay rate (DECAY §4): up over the threshold, down under it, bounded, and slow to turn."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, Team
from tests.fixtures import load
from tocsin.core import events as ev
from tocsin.core.errors import TocsinError
from tocsin.core.messages.model import State
from tocsin.policies import parse_policy


def crew(team: Team) -> Team:
    team.register("boss", "Director", "director")
    team.register("impl_001")
    return team


def deliver(team: Team, count: int, latency_s: float) -> None:
    """Let a recipient take a batch of messages and confirm each after some time."""
    session = team.attach("impl_001", window=1000)
    sent = [team.send("boss", "impl_001", "CUSTOM_NOTE").signal_id for _ in range(count)]
    team.now += round(latency_s * SECOND)
    for message_id in sent:
        team.confirm("impl_001", message_id)
    team.detach(session)


def rate(team: Team) -> float:
    return team.exchange.state.latency.rate


def test_over_the_threshold_the_rate_rises(team: Team) -> None:
    deliver(team, 20, 31)
    assert rate(team) == 0.05
    (changed,) = team.happened(ev.DecayRateChanged)
    assert (changed.old_rate, changed.new_rate, changed.rule) == (0.0, 0.05, "latency_high")
    assert (changed.average_s, changed.samples, changed.threshold_s) == (31, 20, 30)


def test_under_the_threshold_it_falls(team: Team) -> None:
    deliver(team, 20, 31)
    team.now += 61 * SECOND
    deliver(team, 20, 1)
    assert rate(team) == 0.0
    assert team.happened(ev.DecayRateChanged)[-1].rule == "latency_low"


@pytest.mark.parametrize("latency_s", [10, 20, 30])
def test_between_the_thresholds_nothing_moves(team: Team, latency_s: float) -> None:
    deliver(team, 20, 31)
    team.now += 61 * SECOND
    deliver(team, 20, latency_s)
    assert rate(team) == 0.05


def test_too_few_latencies_are_not_judged(team: Team) -> None:
    deliver(team, 19, 100)
    assert rate(team) == 0.0


def test_two_changes_are_a_cooldown_apart(team: Team) -> None:
    deliver(team, 20, 31)
    deliver(team, 40, 29)
    assert rate(team) == 0.05
    deliver(team, 40, 61)
    assert rate(team) == 0.1
    first, second = team.happened(ev.DecayRateChanged)
    assert second.at - first.at >= 30 * SECOND


def test_it_is_bounded_above(team: Team) -> None:
    for _ in range(20):
        deliver(team, 20, 61)
    assert rate(team) == 0.5


def test_it_is_bounded_below(team: Team) -> None:
    for _ in range(5):
        deliver(team, 20, 0)
        team.now += 61 * SECOND
    assert rate(team) == 0.0
    assert not team.happened(ev.DecayRateChanged)


def test_without_traffic_it_falls_back_step_by_step(team: Team) -> None:
    for _ in range(3):
        deliver(team, 20, 61)
    assert rate(team) == pytest.approx(0.15)
    team.advance(1000)
    assert rate(team) == 0.0
    falls = [event for event in team.happened(ev.DecayRateChanged) if event.rule == "idle"]
    assert len(falls) == 3
    assert all(later.at - earlier.at >= 30 * SECOND for earlier, later in itertools.pairwise(falls))


def test_the_last_latency_says_when_there_is_no_traffic(team: Team) -> None:
    deliver(team, 20, 61)
    team.advance(20)
    deliver(team, 1, 1)
    last, window_us = team.now, team.exchange.state.policy.queue_manager.window_us
    team.advance(1000)
    falls = [event for event in team.happened(ev.DecayRateChanged) if event.rule == "idle"]
    assert falls[0].at >= last + window_us


def test_it_can_be_off(new_team: NewTeam) -> None:
    team = crew(new_team("queue_manager: {enabled: false}"))
    deliver(team, 50, 100)
    assert rate(team) == 0.0


def test_only_new_messages_of_adaptive_types_get_the_rate(team: Team) -> None:
    old = team.send("boss", "impl_002", "StatusUpdate").signal_id
    deliver(team, 20, 31)
    new = team.send("boss", "impl_002", "StatusUpdate").signal_id
    task = team.send("boss", "impl_002", "TaskAssigned").signal_id
    own = team.send("boss", "impl_002", "StatusUpdate", qos={"decayRate": 0.2}).signal_id
    rates = [team.message(name).decay_rate for name in (old, new, task, own)]
    assert rates == [0.0, 0.05, 0.0, 0.2]


@pytest.mark.parametrize(
    ("message_type", "adaptive"),
    [
        ("STATE_SYNC", True),
        ("TaskCompleted", True),
        ("StatusUpdate", True),
        ("Acknowledgment", True),
        ("MasterPreempted", True),
        ("PeerJoined", True),
        ("PeerLeft", True),
        ("TASK_ASSIGNMENT", False),
        ("ERROR_REPORT", False),
        ("HANDOFF_REQUEST", False),
        ("Blocker", False),
        ("Question", False),
        ("ReviewRequested", False),
        ("TaskAssigned", False),
    ],
)
def test_only_the_less_critical_types_adapt(team: Team, message_type: str, adaptive: bool) -> None:
    contract = team.exchange.state.policy.contract_of(message_type)
    assert contract is not None
    assert contract.adaptive_decay is adaptive


def test_the_latency_of_an_acknowledged_type_ends_with_its_ack(new_team: NewTeam) -> None:
    team = new_team("queue_manager: {samples_min: 1}")
    team.register("manager_001", "Manager")
    team.register("impl_001")
    session = team.attach("impl_001", "piggyback")
    payload = load("apm/task_assignment_payload")
    sent = team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=payload, correlation_id="r").signal_id
    team.drain(session)
    team.confirm("impl_001", sent)
    assert not team.exchange.state.latency.samples
    team.now += 29 * SECOND
    team.ack("impl_001", sent)
    assert [latency for _, latency in team.exchange.state.latency.samples] == [29 * SECOND]


def test_old_latencies_do_not_count(team: Team) -> None:
    deliver(team, 19, 100)
    team.now += 61 * SECOND
    deliver(team, 1, 0)
    assert len(team.exchange.state.latency.samples) == 1


def test_latencies_have_a_limit(new_team: NewTeam) -> None:
    team = crew(new_team("queue_manager: {samples_max: 25}"))
    deliver(team, 100, 1)
    window = team.exchange.state.latency
    assert len(window.samples) == 25
    assert window.total_us == sum(latency for _, latency in window.samples)


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 120), st.floats(0, 200)), max_size=12))
def test_the_rate_keeps_its_bounds_its_step_and_its_cooldown(bursts: list[tuple[int, float, float]]) -> None:
    team = crew(Team("queue_manager: {rate_min: 0.02, rate_max: 0.2, rate_change: 0.07}"))
    for count, latency_s, pause_s in bursts:
        deliver(team, count, latency_s)
        team.advance(pause_s)
    changes = team.happened(ev.DecayRateChanged)
    for change in changes:
        assert 0.02 <= change.new_rate <= 0.2
        assert 0 < abs(change.new_rate - change.old_rate) <= 0.07 + 1e-9
        assert (change.new_rate > change.old_rate) is (change.rule == "latency_high")
    for earlier, later in itertools.pairwise(changes):
        assert later.at - earlier.at >= 30 * SECOND
        assert later.old_rate == earlier.new_rate
    assert all(message.state is not State.QUEUED for message in team.exchange.state.messages.values())
    team.check_replay()


def test_the_lowest_rate_holds_from_the_start(new_team: NewTeam) -> None:
    team = crew(new_team("queue_manager: {rate_min: 0.1}"))
    sent = team.send("boss", "impl_001", "StatusUpdate").signal_id
    assert (rate(team), team.message(sent).decay_rate) == (0.1, 0.1)


def test_a_new_policys_bounds_hold_at_once(team: Team) -> None:
    for _ in range(3):
        deliver(team, 20, 61)
    team.adopt("queue_manager: {rate_max: 0.1}")
    assert rate(team) == 0.1


@pytest.mark.parametrize(
    ("law", "low", "high"),
    [
        ("rate_change: 0", 0.0, 0.5),
        ("rate_change: 0.004", 0.0, 0.5),
        ("rate_min: 0.006", 0.006, 0.5),
        ("rate_max: 0.506, rate_change: 0.5", 0.0, 0.506),
    ],
)
def test_a_law_between_two_steps_is_refused_or_holds(new_team: NewTeam, law: str, low: float, high: float) -> None:
    """Rounding must neither cross a bound nor leave a step that never happens due for ever."""
    try:
        policy = parse_policy(f"queue_manager: {{{law}}}")
    except TocsinError:
        return
    team = crew(new_team())
    deliver(team, 20, 61)
    team.adopt(policy)
    for _ in range(3):
        deliver(team, 20, 61)
    assert low <= rate(team) <= high
    team.advance(3600)
    assert low <= rate(team) <= high
    due = team.exchange.next_due()
    assert due is None or due > team.now, "whoever waits for the next due moment can sleep"
