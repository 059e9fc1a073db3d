"""Importance that fades: DECAY's formula in the design's unit, the stale threshold, and the dequeue order."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, Team
from tests.core.envelopes import letter
from tests.fixtures import load_bytes
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.queueing.decay import current_importance, rounded_rate, stale_at
from tocsin.policies import default_policy

DECAY = default_policy().decay
INTERVAL = 60 * SECOND


@pytest.mark.parametrize(
    ("importance", "rate", "age_s", "left"),
    [
        (10, 0.1, 0, 10.0),
        (10, 0.1, 60, 9.0),
        (10, 0.1, 300, 5.0),
        (10, 0.1, 540, 1.0),
        (10, 0.1, 600, 0.0),
        (10, 1.0, 30, 5.0),
        (4, 0.5, 60, 2.0),
        (5, 0.0, 86400, 5.0),
        (1, 0.25, 120, 0.5),
    ],
)
def test_the_formula(importance: int, rate: float, age_s: int, left: float) -> None:
    message = letter(importance=importance, decay_rate=rate)
    assert current_importance(message, age_s * SECOND, DECAY) == pytest.approx(left)


@pytest.mark.parametrize(
    ("importance", "rate", "stale_s"),
    [(10, 0.1, 540), (10, 0.5, 108), (5, 0.1, 480), (2, 0.5, 60), (1, 0.5, 0), (10, 1.0, 54)],
)
def test_when_a_message_goes_stale(importance: int, rate: float, stale_s: int) -> None:
    due = stale_at(letter(importance=importance, decay_rate=rate), DECAY)
    assert due is not None
    assert due == pytest.approx(stale_s * SECOND, abs=1)


def test_what_does_not_decay_is_never_stale() -> None:
    assert stale_at(letter(importance=1, decay_rate=0.0), DECAY) is None


@given(st.integers(1, 10), st.integers(1, 100), st.integers(0, 3600))
def test_stale_is_under_the_threshold(importance: int, hundredths: int, age_s: int) -> None:
    message = letter(importance=importance, decay_rate=hundredths / 100)
    due = stale_at(message, DECAY)
    assert due is not None
    left = current_importance(message, age_s * SECOND, DECAY)
    if age_s * SECOND <= due:
        assert left >= DECAY.stale_threshold - 1e-9
    elif age_s * SECOND > due + 1:
        assert left < DECAY.stale_threshold


@given(st.floats(0, 1), st.sampled_from([0.01, 0.05, 0.1, 0.3]))
def test_a_rate_is_rounded_to_whole_steps(rate: float, step: float) -> None:
    decay = msgspec.structs.replace(DECAY, rate_step=step)
    rounded = rounded_rate(rate, decay)
    assert 0 <= rounded <= 1
    assert abs(rounded - rate) <= step / 2 + 1e-9
    assert rounded_rate(rounded, decay) == rounded


def test_the_example_is_taken(team: Team) -> None:
    envelope = parse_envelope(load_bytes("decay/message"), 1_048_576)
    receipt = team.ask(cmd.Send(envelope), "impl_001", cmd.Receipt)
    message = team.message(receipt.signal_id)
    assert (message.importance, message.decay_rate) == (10, 0.1)
    assert message.expires_at - message.created_at == 3600 * SECOND


def test_a_message_has_importance_five_and_does_not_decay_by_default(team: Team) -> None:
    message = team.message(team.send("impl_001", "impl_002", "TaskAssigned").signal_id)
    assert (message.importance, message.decay_rate) == (5, 0.0)


def test_a_stale_message_is_removed_and_logged(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", qos={"importance": 2, "decayRate": 0.5}).signal_id
    team.advance(59)
    assert team.message(sent).state == "queued"
    team.advance(1 + 5)
    message = team.message(sent)
    assert (message.state, message.delivered_at, message.recalled_at) == ("expired", 0, 0)
    (expired,) = team.happened(ev.MessageExpired)
    assert (expired.reason, expired.threshold) == ("stale", 1)
    assert expired.importance < 1
    assert 0 < expired.at - expired.due_at <= 5 * SECOND, "the decay task comes every five seconds"


def test_a_stale_message_is_not_handed_out_before_the_task_comes(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", qos={"importance": 2, "decayRate": 0.5}).signal_id
    team.now += 61 * SECOND
    assert team.drain(team.attach("impl_002", "piggyback")) == []
    assert team.message(sent).state == "expired"


def test_what_is_on_its_way_does_not_go_stale(team: Team) -> None:
    team.adopt("delivery: {receipt_timeout_s: {push: 600, piggyback: 600, daemon: 600}}")
    team.attach("impl_002", "push")
    sent = team.send("impl_001", "impl_002", qos={"importance": 2, "decayRate": 0.5}).signal_id
    team.advance(300, beating=True)
    assert team.message(sent).state == "offered"


def test_the_most_important_now_goes_first(team: Team) -> None:
    fading = team.send("impl_001", "impl_002", qos={"importance": 10, "decayRate": 0.5}).signal_id
    steady = team.send("impl_001", "impl_002", qos={"importance": 8}).signal_id
    session = team.attach("impl_002", "piggyback")
    team.now += 10 * SECOND
    assert team.drain(session, 1) == [fading], "10 * (1 - 0.5 / 6) is over 8"
    team.detach(session)
    team.now += 20 * SECOND
    assert team.drain(team.attach("impl_002", "piggyback"), 1) == [steady], "10 * (1 - 0.5 / 2) is under 8"


def test_of_two_that_fade_alike_the_younger_goes_first(team: Team) -> None:
    sent = []
    for _ in range(3):
        sent.append(team.send("impl_001", "impl_002", qos={"importance": 9, "decayRate": 0.1}).signal_id)
        team.now += SECOND
    assert team.drain(team.attach("impl_002", "piggyback")) == sent[::-1]


def test_of_two_equals_the_one_tried_less_goes_first(new_team: NewTeam) -> None:
    team = new_team("contracts: {CUSTOM_NOTE: {retries_max: 2, backoff_s: [0.001]}}")
    team.register("impl_001")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    first, second = (
        team.send("impl_001", "impl_002", "CUSTOM_NOTE", qos={"importance": 9, "decayRate": 0.1}).signal_id
        for _ in range(2)
    )
    assert team.drain(session, 1) == [first]
    team.nack("impl_002", first, can_retry=True)
    team.advance(0.1)
    assert team.drain(session) == [second, first]


@pytest.mark.parametrize("importance", [1, 5, 10])
def test_importance_never_beats_a_level(team: Team, importance: int) -> None:
    low = team.send("impl_001", "impl_002", priority="INFO", qos={"importance": 10}).signal_id
    high = team.send("impl_001", "impl_002", priority="TASK", qos={"importance": importance}).signal_id
    assert team.drain(team.attach("impl_002", "piggyback")) == [high, low]


def test_a_decay_rate_is_rounded_to_the_policys_step(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", qos={"decayRate": 0.1234}).signal_id
    assert team.message(sent).decay_rate == 0.12


def test_a_message_is_replicated_by_its_snapshot(team: Team) -> None:
    team.send("impl_001", "impl_002", qos={"importance": 9, "decayRate": 0.1})
    assert msgspec.msgpack.encode(team.snapshot())
