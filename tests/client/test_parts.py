"""The parts of the client on their own: envelopes, the inbox, waiting, and what a draft may be."""

import asyncio
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.envelopes import envelope
from tocsin.client import Retry, client_config
from tocsin.client.connection.backoff import Backoff
from tocsin.client.messages.envelopes import EnvelopeReader
from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.message import Message
from tocsin.core.errors import refusal
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.hub.auth.signatures import check_signature
from tocsin.hub.auth.tokens import Grant, fresh_secret, hash_of
from tocsin.wire.drafts import Draft
from tocsin.wire.envelope_writer import EnvelopeWriter
from tocsin.wire.signatures import Signer

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(
    payload=st.dictionaries(st.text(max_size=8), _JSON, max_size=5),
    priority=st.sampled_from([None, *Priority, "HIGH", "ASK"]),
    ttl_s=st.none() | st.floats(0.001, 1e6),
    importance=st.none() | st.integers(1, 10),
)
def test_what_is_written_is_a_good_envelope_and_reads_the_same(
    payload: dict[str, Any], priority: Priority | str | None, ttl_s: float | None, importance: int | None
) -> None:
    writer = EnvelopeWriter()
    writer.introduce("ada", "Manager")
    draft = Draft(to="bob", type="CUSTOM_NOTE", payload=payload, priority=priority, ttl_s=ttl_s, importance=importance)
    written = writer.write(draft)
    envelope = parse_envelope(bytes(written.envelope), 2**20)
    assert envelope.message_id == written.message_id
    received, attempt, ttl = EnvelopeReader().read(written.envelope)
    assert msgspec.json.decode(received.payload) == payload
    assert (received.sender.agent_id, received.receiver.agent_id, attempt, ttl) == ("ada", "bob", 0, ttl_s)
    assert received.priority == (priority_name(priority) if isinstance(priority, Priority) else priority)
    assert received.qos.importance == importance


def test_ids_are_never_used_twice() -> None:
    writer = EnvelopeWriter()
    assert len({writer.fresh_id("msg") for _ in range(10_000)}) == 10_000


@given(body=st.binary(max_size=200))
def test_a_signature_is_what_the_hub_checks(body: bytes) -> None:
    secret = fresh_secret()
    grant = Grant(secret.token_id, "default", "ada", "primary", False, hash_of(secret.secret), 0)
    check_signature(grant, body, Signer(secret.spell()).sign(body), required=True)


@given(attempts=st.integers(1, 60))
def test_waits_double_up_to_a_bound_and_are_drawn_from_all_of_it(attempts: int) -> None:
    backoff = Backoff(0.5, 8.0)
    for number in range(attempts):
        assert 0.0 <= backoff.next_s() <= min(8.0, 0.5 * 2.0**number)
    backoff.reset()
    assert backoff.next_s() <= 0.5


def test_what_is_worth_trying_again() -> None:
    retry = Retry(attempts_max=3, patience_s=10)
    later = refusal("E_ADMISSION_001", "wait", retry_after_s=5)
    backoff = retry.backoff()
    assert retry.worth(later, backoff)
    assert not retry.worth(refusal("E_ADMISSION_001", "wait", retry_after_s=11), backoff)
    assert not retry.worth(refusal("E_ROUTING_001", "nobody"), backoff)
    backoff.next_s()
    assert retry.worth(later, backoff)
    backoff.next_s()
    assert not retry.worth(later, backoff), "three attempts are all"


def message(number: int, priority: str = "Info", attempt: int = 0) -> Message:
    content = {"payload": {"n": number}, "metadata": {"retryCount": attempt, "ttl": 5.0}}
    sent = envelope(f"msg_{number}_a") | content | {"messageType": "CUSTOM_NOTE", "priority": priority}
    received, retries, ttl_s = EnvelopeReader().read(msgspec.Raw(msgspec.json.encode(sent)))
    return Message(None, f"msg_{number}_a", 1, received, retries, ttl_s)  # type: ignore[arg-type]


class InboxMachine(RuleBasedStateMachine):
    """Whatever comes in whatever order: each message is handed out once, and what is held is bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.confirmed: list[str] = []
        self.credits: list[int] = [0]
        self.config = client_config(window=4, held_max=10, remembered_max=1000, pause_after_s=60)
        self.inbox = self.loop.run_until_complete(self._make())
        self.sent = 0
        self.came: dict[str, Message] = {}
        self.seen: list[str] = []
        self.in_hand: list[Message] = []

    async def _make(self) -> Inbox:
        return Inbox(self.config, self.confirmed.append, self.credits.append)

    def teardown(self) -> None:
        self.inbox.end()
        self.loop.close()

    def arrive(self, one: Message) -> None:
        if self.inbox.is_news(one.signal_id, one.attempt):
            self.inbox.put(one)

    @rule()
    def listen(self) -> None:
        self.inbox.listen()

    @precondition(lambda self: self.credits[-1] > self.inbox.held)
    @rule(priority=st.sampled_from(["Info", "Coordinate", "Critical"]))
    def push(self, priority: str) -> None:
        self.sent += 1
        one = message(self.sent, priority)
        self.came[one.signal_id] = one
        self.arrive(one)

    @precondition(lambda self: self.came)
    @rule(data=st.data())
    def push_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.came)))
        receipts = self.confirmed.count(name)
        self.arrive(self.came[name])
        assert self.confirmed.count(name) == receipts + (receipts > 0), "a receipt that was lost is given again"

    @precondition(lambda self: len(self.inbox) > 0)
    @rule()
    def take(self) -> None:
        waiting = [one for one in self.came.values() if one.signal_id not in self.seen]
        taken = self.loop.run_until_complete(self.inbox.take())
        assert taken is not None
        urgent = max(waiting, key=lambda one: ("Info", "Coordinate", "Critical").index(one.priority))
        assert taken.priority == urgent.priority
        self.seen.append(taken.signal_id)
        self.in_hand.append(taken)

    @precondition(lambda self: self.in_hand)
    @rule()
    def confirm(self) -> None:
        self.inbox.confirm(self.in_hand.pop())

    @rule()
    def ask(self) -> None:
        self.inbox.await_response()
        self.inbox.response_came()

    @invariant()
    def each_once(self) -> None:
        assert len(self.seen) == len(set(self.seen))

    @invariant()
    def bounded(self) -> None:
        assert self.inbox.held <= self.config.held_max
        assert self.credits[-1] == self.inbox.window <= self.config.held_max


TestInboxMachine = InboxMachine.TestCase
TestInboxMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


async def test_a_redriven_message_counts_as_new() -> None:
    confirmed: list[str] = []
    inbox = Inbox(client_config(), confirmed.append, lambda _: None)
    first = message(1, attempt=2)
    inbox.put(first)
    inbox.confirm(first)
    assert not inbox.is_news("msg_1_a", 2)
    assert not inbox.is_news("msg_1_a", 3)
    assert inbox.is_news("msg_1_a", 0), "fresh retries: it was redriven"
    inbox.end()


async def test_memory_of_what_was_seen_is_bounded() -> None:
    inbox = Inbox(client_config(remembered_max=3), lambda _: None, lambda _: None)
    for number in range(1, 6):
        inbox.put(message(number))
        inbox.confirm(message(number))
    assert [number for number in range(1, 6) if inbox.is_news(f"msg_{number}_a", 0)] == [1, 2]
    inbox.end()


async def test_the_credit_follows_the_applications_pace() -> None:
    granted: list[int] = []
    inbox = Inbox(client_config(window=16, pause_after_s=0.01), lambda _: None, granted.append)
    inbox.listen()
    inbox.put(message(1))
    while 0 not in granted:
        await asyncio.sleep(0.005)
    assert granted == [16, 0], "nobody took it in time"
    await inbox.take()
    assert granted[2:] == [8], "it begins smaller again"
    inbox.put(message(2))
    await inbox.take()
    assert granted[3:] == [16]
    inbox.end()


async def test_the_application_changes_the_window_and_a_response_passes_none() -> None:
    granted: list[int] = []
    inbox = Inbox(client_config(held_max=4), lambda _: None, granted.append)
    inbox.limit(3)
    assert not granted, "nobody takes anything yet"
    inbox.listen()
    inbox.limit(0)
    inbox.await_response()
    inbox.hold(message(1))
    inbox.response_came()
    inbox.limit(9)
    assert granted == [3, 0, 1, 2, 0, 4], "held_max is the most"
    inbox.end()


async def test_a_message_that_arrives_as_the_time_ends_is_taken() -> None:
    inbox = Inbox(client_config(), lambda _: None, lambda _: None)
    taking = asyncio.create_task(inbox.take(0.01))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, inbox.put, message(1))
    time.sleep(0.02)  # Both are due in the same iteration of the loop, the end of the time first.
    taken = await taking
    assert taken is not None
    assert taken.payload == {"n": 1}
    assert await inbox.take(0.01) is None


async def test_a_reader_that_is_cancelled_as_it_is_woken_wakes_the_next() -> None:
    inbox = Inbox(client_config(), lambda _: None, lambda _: None)
    first, second = asyncio.create_task(inbox.take()), asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    inbox.put(message(1))
    first.cancel()
    taken = await second
    assert taken is not None
    assert taken.payload == {"n": 1}
    inbox.end()


async def test_an_ended_inbox_hands_out_nothing() -> None:
    inbox = Inbox(client_config(), lambda _: None, lambda _: None)
    inbox.put(message(1))
    inbox.end()
    assert await inbox.take() is None
    inbox.end(refusal("E_HUB_004", "gone"))
    with pytest.raises(Exception, match="E_HUB_004"):
        await inbox.take()
