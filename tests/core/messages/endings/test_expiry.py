"""The end of what nobody read in time: terminal stamps (SPEC-071 §4.3), the sweeper (§9), TTLs of every type (§6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.driver import SECOND, Team
from tests.fixtures import load
from tocsin.core import events as ev

SWEEP_S = 60


@pytest.mark.parametrize(
    ("signal_type", "ttl_s"),
    [
        ("Blocker", 4 * 3600),
        ("Question", 3600),
        ("ReviewRequested", 24 * 3600),
        ("TaskAssigned", 7 * 86400),
        ("TaskCompleted", 24 * 3600),
        ("StatusUpdate", 24 * 3600),
        ("Acknowledgment", 3600),
        ("MasterPreempted", 120),
        ("PeerJoined", 300),
        ("PeerLeft", 300),
    ],
)
def test_a_signal_expires_with_the_sweep_after_its_ttl(team: Team, signal_type: str, ttl_s: int) -> None:
    sent = team.send("boss", "impl_001", signal_type, qos={"deliveryClass": "async"}).signal_id
    team.advance(ttl_s - 1)
    assert team.message(sent).state == "queued"
    team.advance(1 + SWEEP_S)
    message = team.message(sent)
    assert message.state == "expired"
    assert 0 <= message.expired_at - message.expires_at <= SWEEP_S * SECOND
    assert (message.delivered_at, message.recalled_at) == (0, 0)
    (expired,) = [event for event in team.happened(ev.MessageExpired) if event.message == message.seq]
    assert (expired.reason, expired.due_at) == ("ttl", message.expires_at)


def test_nothing_expired_is_handed_out_between_two_sweeps(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", metadata={"ttl": 5}).signal_id
    session = team.attach("impl_002", "piggyback")
    team.now += 6 * SECOND
    assert team.drain(session) == []
    assert team.message(sent).state == "expired"


def test_nothing_expired_is_pushed_between_two_sweeps(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", metadata={"ttl": 5}).signal_id
    team.now += 6 * SECOND
    team.attach("impl_002")
    assert team.message(sent).state == "expired"


def test_what_is_on_its_way_does_not_expire(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002", metadata={"ttl": 5}).signal_id
    team.drain(session)
    team.advance(9, beating=True)
    assert team.message(sent).state == "offered"
    team.confirm("impl_002", sent)
    message = team.message(sent)
    assert (message.state, message.expired_at) == ("delivered", 0)


def test_what_comes_back_past_its_time_expires(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002", metadata={"ttl": 5}).signal_id
    team.drain(session)
    team.advance(9, beating=True)
    team.detach(session)
    message = team.message(sent)
    assert (message.state, message.delivered_at, message.expired_at) == ("expired", 0, team.now)


def test_a_retry_whose_time_is_over_expires(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    payload = load("apm/task_assignment_payload")
    sent = team.send(
        "manager_001", "impl_001", "TASK_ASSIGNMENT", payload=payload, correlation_id="r", metadata={"ttl": 5}
    ).signal_id
    team.drain(session)
    team.advance(10)
    team.nack("impl_001", sent, can_retry=True)
    team.advance(SWEEP_S + 1, beating=True)
    assert team.message(sent).state == "expired"


def test_an_expired_message_keeps_its_stamp_alone(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", metadata={"ttl": 5}).signal_id
    team.advance(120)
    assert team.recall("impl_001", sent) == "already_expired"
    team.confirm("impl_002", sent)
    message = team.message(sent)
    assert (bool(message.expired_at), message.delivered_at, message.recalled_at) == (True, 0, 0)


def test_the_sweeper_has_a_limit_per_tick_and_goes_on(team: Team) -> None:
    for _ in range(300):
        team.send("boss", "impl_001", "MasterPreempted")
    team.now += 300 * SECOND
    assert team.tick().fired == 256
    ticked = team.tick()
    assert ticked.fired >= 44
    assert len(team.happened(ev.MessageExpired)) == 300


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "drain", "confirm", "recall", "detach", "wait"]), st.integers(0, 5), st.floats(0, 100)
    ),
    max_size=25,
)


@given(STEPS)
def test_the_terminal_stamps_exclude_each_other(steps: list[tuple[str, int, float]]) -> None:
    team = Team()
    team.register("boss", "Director", "director")
    team.register("impl_001")
    session: str | None = None
    sent: list[str] = []
    for action, which, seconds in steps:
        if action == "send":
            sent.append(team.send("boss", "impl_001", metadata={"ttl": 1 + seconds}).signal_id)
        elif action == "drain":
            if session not in team.exchange.state.sessions:
                session = team.attach("impl_001", "piggyback")
            team.drain(session or "", 1 + which)
        elif action == "detach" and session in team.exchange.state.sessions:
            team.detach(session or "")
        elif action == "confirm" and sent:
            team.confirm("impl_001", sent[which % len(sent)])
        elif action == "recall" and sent:
            team.recall("boss", sent[which % len(sent)])
        elif action == "wait":
            team.advance(seconds)
        for message in team.exchange.state.messages.values():
            stamps = [message.delivered_at, message.expired_at, message.recalled_at]
            assert sum(map(bool, stamps)) <= 1
    team.check_replay()
