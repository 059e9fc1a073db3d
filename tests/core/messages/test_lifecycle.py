"""The life of a message: the design's table of states, APM's names for them, and the one table of transitions."""

import pytest

from tests.core.envelopes import letter
from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.messages.lifecycle import APM_STATES, TRANSITIONS, advance, apm_state
from tocsin.core.messages.model import State


@pytest.mark.parametrize(
    ("state", "awaits_ack", "name"),
    [
        (State.HELD, True, "PENDING"),
        (State.HELD, False, "PENDING"),
        (State.QUEUED, True, "PENDING"),
        (State.QUEUED, False, "PENDING"),
        (State.OFFERED, True, "IN_TRANSIT"),
        (State.OFFERED, False, "IN_TRANSIT"),
        (State.DELIVERED, True, "IN_TRANSIT"),
        (State.DELIVERED, False, "DELIVERED"),
        (State.ACKNOWLEDGED, True, "DELIVERED"),
        (State.ACKNOWLEDGED, False, "DELIVERED"),
        (State.PROCESSED, True, "PROCESSED"),
        (State.PROCESSED, False, "PROCESSED"),
        (State.EXPIRED, True, "FAILED"),
        (State.EXPIRED, False, "FAILED"),
        (State.RECALLED, True, None),
        (State.RECALLED, False, None),
        (State.DEAD, True, "FAILED"),
        (State.DEAD, False, "FAILED"),
    ],
)
def test_what_apm_calls_a_state(state: State, awaits_ack: bool, name: str | None) -> None:
    assert apm_state(letter(state=state, ack_required=awaits_ack)) == name


def test_every_state_has_a_name() -> None:
    assert set(APM_STATES) == set(State)
    assert {name for row in APM_STATES.values() for name in row if name} == {
        *("PENDING", "IN_TRANSIT", "DELIVERED", "PROCESSED", "FAILED")
    }


#: The arrows of APM §4.2 and of the design's table.
ARROWS: dict[tuple[State, type], State] = {
    (State.HELD, ev.MessageReleased): State.QUEUED,
    (State.HELD, ev.MessageDied): State.DEAD,
    (State.HELD, ev.MessageExpired): State.EXPIRED,
    (State.HELD, ev.MessageRecalled): State.RECALLED,
    (State.QUEUED, ev.MessageOffered): State.OFFERED,
    (State.QUEUED, ev.MessageDelivered): State.DELIVERED,
    (State.QUEUED, ev.MessageExpired): State.EXPIRED,
    (State.QUEUED, ev.MessageRecalled): State.RECALLED,
    (State.QUEUED, ev.MessageDied): State.DEAD,
    (State.OFFERED, ev.MessageDelivered): State.DELIVERED,
    (State.OFFERED, ev.MessageRequeued): State.QUEUED,
    (State.OFFERED, ev.MessageDied): State.DEAD,
    (State.DELIVERED, ev.MessageAcknowledged): State.ACKNOWLEDGED,
    (State.DELIVERED, ev.MessageProcessed): State.PROCESSED,
    (State.DELIVERED, ev.MessageRequeued): State.QUEUED,
    (State.DELIVERED, ev.MessageDied): State.DEAD,
    (State.ACKNOWLEDGED, ev.MessageProcessed): State.PROCESSED,
    (State.DEAD, ev.DeadLetterRedriven): State.QUEUED,
}

MOVES = sorted({row.event for row in TRANSITIONS}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", MOVES)
def test_a_message_moves_by_the_table_and_not_otherwise(state: State, event: type) -> None:
    message = letter(state=state)
    after = ARROWS.get((state, event))
    if after is None:
        with pytest.raises(InvariantViolation):
            advance(message, event)
        assert message.state is state
    else:
        advance(message, event)
        assert message.state is after


def test_an_arrow_is_drawn_once_and_says_when() -> None:
    assert len({(row.before, row.event) for row in TRANSITIONS}) == len(TRANSITIONS) == len(ARROWS)
    assert all(row.when for row in TRANSITIONS)


@pytest.mark.parametrize("state", [State.PROCESSED, State.EXPIRED, State.RECALLED])
def test_an_end_is_an_end(state: State) -> None:
    assert not [row for row in TRANSITIONS if row.before is state]


def test_every_state_can_be_reached() -> None:
    reached = {State.QUEUED, State.HELD}
    for _ in State:
        reached |= {row.after for row in TRANSITIONS if row.before in reached}
    assert reached == set(State)
