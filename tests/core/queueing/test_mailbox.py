"""The mailbox: its heaps agree with `rank`, the definition of the delivery order, whatever happens to its messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from tests.core.driver import SECOND
from tests.core.envelopes import letter
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.protocol.priority import Priority
from tocsin.core.queueing.mailbox import Mailbox, rank
from tocsin.policies import default_policy

DECAY = default_policy().decay
TOP = Priority.BLOCKING

PARTS = st.fixed_dictionaries(
    {
        "level": st.integers(0, 4),
        "importance": st.integers(1, 10),
        "decay_rate": st.sampled_from([0.0, 0.0, 0.01, 0.5, 1.0]),
        "attempts": st.integers(0, 3),
        "overdue": st.booleans(),
        "enqueued_at": st.integers(0, 100).map(lambda seconds: seconds * SECOND),
    }
)


def filled(parts: list[dict[str, Any]]) -> tuple[Mailbox, dict[int, Message]]:
    messages: dict[int, Message] = {}
    mailbox = Mailbox(messages, TOP)
    for seq, fields in enumerate(parts, 1):
        messages[seq] = letter(seq=seq, **fields)
        mailbox.add(messages[seq])
    return mailbox, messages


def emptied(mailbox: Mailbox, now: int) -> list[int]:
    order: list[int] = []
    while (head := mailbox.head(now, DECAY)) is not None:
        order.append(head.seq)
        mailbox.remove(head)
        head.state = State.OFFERED
    return order


@given(st.lists(PARTS, max_size=40), st.integers(0, 200))
def test_the_heaps_agree_with_the_definition(parts: list[dict[str, Any]], now_s: int) -> None:
    mailbox, messages = filled(parts)
    now = now_s * SECOND
    expected = sorted(messages.values(), key=lambda message: rank(message, now, DECAY, TOP))
    assert emptied(mailbox, now) == [message.seq for message in expected]
    assert mailbox.depth == 0
    assert mailbox.depths() == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"level": 3}, {"level": 2, "importance": 10}),
        ({"level": 1, "overdue": True, "importance": 1}, {"level": 1, "importance": 10}),
        ({"importance": 6}, {"importance": 5}),
        ({"importance": 5}, {"importance": 9, "decay_rate": 1.0}),
        ({"decay_rate": 0.5, "enqueued_at": 2 * SECOND}, {"decay_rate": 0.5, "enqueued_at": SECOND}),
        ({"attempts": 0}, {"attempts": 1}),
        ({"importance": 9, "attempts": 3}, {"importance": 8, "attempts": 0}),
        ({"seq": 1}, {"seq": 2}),
        ({"overdue": True, "seq": 1, "attempts": 3}, {"overdue": True, "seq": 2}),
        ({"level": 3, "importance": 6}, {"level": 3, "importance": 5, "overdue": True}),
    ],
)
def test_the_delivery_order(first: dict[str, Any], second: dict[str, Any]) -> None:
    now = 30 * SECOND
    one, two = letter(**({"seq": 2} | first)), letter(**({"seq": 1} | second))
    assert rank(one, now, DECAY, TOP) < rank(two, now, DECAY, TOP)
    messages = {one.seq: one, two.seq: two}
    mailbox = Mailbox(messages, TOP)
    mailbox.add(two)
    mailbox.add(one)
    assert mailbox.head(now, DECAY) is one


def test_looking_at_the_first_takes_nothing_out() -> None:
    mailbox, _ = filled([{"level": level, "importance": 5 + level % 2} for level in (0, 2, 1, 2, 3)])
    first = mailbox.first(3, 2, 0, DECAY)
    assert [message.level for message in first] == [3, 2, 2]
    assert mailbox.first(10, 2, 0, DECAY) == first
    assert [message.seq for message in mailbox.first(10, 0, 0, DECAY)] == emptied(mailbox, 0)


def test_an_empty_mailbox_has_no_head() -> None:
    assert Mailbox({}, TOP).head(0, DECAY) is None


def test_it_counts_by_level() -> None:
    mailbox, _ = filled([{"level": level} for level in (0, 0, 1, 3, 4, 4, 4)])
    assert (mailbox.depth, mailbox.depths()) == (7, (2, 1, 0, 1, 3))


def test_taking_many_out_leaves_the_rest_in_order() -> None:
    mailbox, messages = filled([{"importance": 1 + seq % 10} for seq in range(1000)])
    for seq in range(1, 1001):
        if seq % 7:
            mailbox.remove(messages[seq])
            messages[seq].state = State.EXPIRED
    left = [message for message in messages.values() if message.state is State.QUEUED]
    left.sort(key=lambda message: rank(message, 0, DECAY, TOP))
    assert emptied(mailbox, 0) == [message.seq for message in left]


class MailboxLife(RuleBasedStateMachine):
    """Messages come, rise, fall overdue, are taken, come back and are forgotten; the order holds all the time."""

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[int, Message] = {}
        self.mailbox = Mailbox(self.messages, TOP)
        self.now = 100 * SECOND
        self.seq = 0

    def waiting(self) -> list[Message]:
        return [message for message in self.messages.values() if message.state is State.QUEUED]

    @rule(target=known, parts=PARTS)
    def add(self, parts: dict[str, Any]) -> Any:
        self.seq += 1
        message = self.messages[self.seq] = letter(seq=self.seq, **parts)
        self.mailbox.add(message)
        return multiple(self.seq)

    @rule(seq=known)
    def take(self, seq: int) -> None:
        message = self.messages.get(seq)
        if message is not None and message.state is State.QUEUED:
            self.mailbox.remove(message)
            message.state = State.OFFERED

    @rule(seq=known, attempt=st.booleans(), anew=st.booleans())
    def come_back(self, seq: int, attempt: bool, anew: bool) -> None:
        message = self.messages.get(seq)
        if message is None or message.state is State.QUEUED:
            return
        message.state = State.QUEUED
        message.attempts += attempt
        if anew:
            message.attempts, message.overdue, message.enqueued_at = 0, False, self.now
        self.mailbox.add(message)

    @rule(seq=known, overdue=st.booleans())
    def rise(self, seq: int, overdue: bool) -> None:
        message = self.messages.get(seq)
        if message is not None and message.state is State.QUEUED:
            self.mailbox.remove(message)
            message.level = min(message.level + 1, 3) if message.level < 4 else 4
            message.overdue = message.overdue or overdue
            self.mailbox.add(message)

    @rule(seq=known)
    def forget(self, seq: int) -> None:
        message = self.messages.get(seq)
        if message is not None and message.state is not State.QUEUED:
            del self.messages[seq]

    @rule(seconds=st.integers(0, 60))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @rule()
    def look(self) -> None:
        """Look at the head, which also clears what is dead above it: so not after every step."""
        expected = min(self.waiting(), key=lambda message: rank(message, self.now, DECAY, TOP), default=None)
        assert self.mailbox.head(self.now, DECAY) is expected

    @invariant()
    def the_count_is_right(self) -> None:
        levels = [message.level for message in self.waiting()]
        assert self.mailbox.depths() == tuple(levels.count(level) for level in range(5))
        assert self.mailbox.depth == len(levels)

    def teardown(self) -> None:
        left = sorted(self.waiting(), key=lambda message: rank(message, self.now, DECAY, TOP))
        assert emptied(self.mailbox, self.now) == [message.seq for message in left]


TestMailboxLife = MailboxLife.TestCase


@given(st.lists(PARTS, min_size=2, max_size=8), st.data())
def test_what_comes_back_stands_in_one_place_only(parts: list[dict[str, Any]], data: st.DataObject) -> None:
    """A message that was taken unseen and came back as new must not pass for what it was."""
    mailbox, messages = filled([fields | {"level": 2, "decay_rate": 0.0} for fields in parts])
    for seq in data.draw(st.sets(st.sampled_from(sorted(messages)), max_size=len(messages) - 1)):
        message = messages[seq]
        mailbox.remove(message)
        message.overdue, message.attempts = False, 0
        mailbox.add(message)
    expected = sorted(messages.values(), key=lambda message: rank(message, 0, DECAY, TOP))
    assert emptied(mailbox, 0) == [message.seq for message in expected]


@given(st.lists(PARTS, max_size=40), st.sets(st.integers(1, 40)))
def test_iterating_yields_each_message_that_waits_once(parts: list[dict[str, Any]], taken: set[int]) -> None:
    mailbox, messages = filled(parts)
    for seq in taken & messages.keys():
        mailbox.remove(messages[seq])
        messages[seq].state = State.OFFERED
    assert sorted(message.seq for message in mailbox) == sorted(messages.keys() - taken)
