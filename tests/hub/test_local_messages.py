"""The short way of messages on the embedded bus: structs instead of JSON, with the limits of the long one."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from tests.hub.hosting.test_host import FULL_DISK, QUICK
from tests.hub.journals import MeddledJournal
from tocsin.client import Agent, Draft, NoAnswer, Retry, client_config
from tocsin.client.messages.message import LocalMessage
from tocsin.core import events as ev
from tocsin.core.commands import Caller, Delivery, RegisterAgent
from tocsin.core.errors import AdmissionRefused, HubUnavailable, ProtocolViolation, TocsinError, ValidationFailed
from tocsin.core.protocol.envelope import Envelope
from tocsin.hub import embedded
from tocsin.hub.embedded import Tocsin
from tocsin.policies import parse_policy
from tocsin.wire.drafts import Written
from tocsin.wire.envelope_writer import EnvelopeWriter
from tocsin.wire.socket import Hello

NOTE = "CUSTOM_NOTE"


@asynccontextmanager
async def meddled(path: Path, policy: str = QUICK) -> AsyncIterator[tuple[Tocsin, MeddledJournal]]:
    """Open a bus on a journal whose commits can be held back or made to fail."""
    journals: list[MeddledJournal] = []

    def meddle(folder: Path, project: str, **_: object) -> MeddledJournal:
        journals.append(MeddledJournal(folder, project))
        return journals[0]

    with patch.object(embedded, "SqliteJournal", meddle):
        bus = await Tocsin.open(path / "team", policy=parse_policy(policy))
    (journal,) = journals
    try:
        yield bus, journal
    finally:
        journal.gate.set()
        await bus.close()


def deep(levels: int) -> dict[str, object]:
    payload: dict[str, object] = {}
    for _ in range(levels):
        payload = {"a": payload}
    return payload


def test_an_ordinary_draft_is_not_written(tmp_path: Path) -> None:
    writer = EnvelopeWriter()
    writer.introduce("ada", "AdHoc")
    ordinary = writer.prepare(Draft(to="bob", type=NOTE, payload={"n": 1}, priority="ASK"), 1000_000)
    assert isinstance(ordinary, Envelope)
    assert (bytes(ordinary.payload), ordinary.priority) == (b'{"n":1}', "ASK")
    for unusual in (
        Draft(to="*", type=NOTE, to_type="Manager"),
        Draft(to="bob", type=NOTE, ttl_s=5),
        Draft(to="bob", type=NOTE, correlation_id="t_1"),
        Draft(to="bob", type=NOTE, metadata={"a": 1}),
        Draft(to="bob", type=NOTE, message_id="msg_mine_1"),
        Draft(to="bob", type=NOTE, priority="Loud"),
        Draft(to="../bob", type=NOTE),
        Draft(to="bob", type="CUSTOM NOTE"),
        Draft(to="bob", type=NOTE, payload=deep(130)),
        Draft(to="bob", type=NOTE, payload={"a": msgspec.Raw(b"[" * 130 + b"]" * 130)}),
        Draft(to="bob", type=NOTE, payload=msgspec.Raw(b"[1]")),
        Draft(to="bob", type=NOTE, payload={"a": msgspec.Raw(b"nonsense")}),
        Draft(to="bob", type=NOTE, payload={"a": msgspec.Raw(b'"\xff"')}),
        Draft(to="bob", type=NOTE, payload={"a": "x" * 1000_000}),
    ):
        assert isinstance(writer.prepare(unusual, 1000_000), Written), unusual


def test_an_envelope_has_the_millisecond_in_which_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [1_700_000_000_123_000_000, 1_700_000_000_123_999_999, 1_700_000_000_124_000_000]
    times = iter(moments)
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    writer = EnvelopeWriter()
    envelopes = [writer.prepare(Draft(to="bob", type=NOTE), 1000_000) for _ in moments]
    written = [envelope.timestamp for envelope in envelopes if isinstance(envelope, Envelope)]
    assert written == [datetime(2023, 11, 14, 22, 13, 20, thousandths * 1000, UTC) for thousandths in (123, 123, 124)]


@pytest.mark.parametrize(
    ("payload", "refusal"),
    [
        (msgspec.Raw(b"[1]"), ValidationFailed),
        (msgspec.Raw(b"{nonsense"), ProtocolViolation),
        ({"a": msgspec.Raw(b"nonsense")}, ProtocolViolation),
        ({"a": msgspec.Raw(b'"\xff"')}, ProtocolViolation),
        (deep(130), ProtocolViolation),
        ({"a": "x" * 5000}, ValidationFailed),
        ({"a": {1, 2, object()}}, ValidationFailed),
    ],
    ids=("array", "nonsense", "nested nonsense", "not UTF-8", "too deep", "too large", "not JSON"),
)
async def test_a_payload_that_a_hub_refuses_is_refused(
    tmp_path: Path, payload: dict[str, object], refusal: type[TocsinError]
) -> None:
    policy = parse_policy("limits: {message_bytes_max: 4096}")
    async with await Tocsin.open(tmp_path / "team", policy=policy) as bus, bus.join("ada") as ada, bus.join("bob"):
        await ada.send(to="bob", type=NOTE, payload={"fine": True})
        with pytest.raises(refusal):
            await ada.send(to="bob", type=NOTE, payload=payload)
        assert len(bus.host.exchange.state.messages) == 1


async def test_one_refused_message_of_many_does_not_stop_the_others(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus, bus.join("ada") as ada, bus.join("bob"):
        drafts = [
            Draft(to="bob", type=NOTE),
            Draft(to="nobody", type=NOTE),
            Draft(to="bob", type=NOTE, payload=deep(130)),
            Draft(to="*", type=NOTE),
            Draft(to="bob", type=NOTE),
        ]
        outcomes = await ada.send_many(drafts)
        assert [getattr(outcome, "code", None) for outcome in outcomes] == [
            *(None, "E_ROUTING_001", "E_PROTOCOL_002", None, None)
        ]


async def test_a_message_is_read_as_it_was_when_it_was_pushed(tmp_path: Path) -> None:
    contract = "contracts: {CUSTOM_TRIED: {ack: required, timeout_s: 30, retries_max: 3, backoff_s: [0.001]}}"
    policy = parse_policy(contract)
    opened = await Tocsin.open(tmp_path / "team", policy=policy)
    async with opened as bus, bus.join("ada") as ada, bus.join("bob") as bob:
        inbox = bob.inbox(receipts="manual")
        sent = await ada.send(to="bob", type="CUSTOM_TRIED", payload={"n": 1}, ttl_s=90, metadata={"k": "v"})
        first = await anext(inbox)
        assert isinstance(first, LocalMessage)
        await first.reject("not now", can_retry=True)
        second = await anext(inbox)
        assert (first.offer, first.attempt, first.metadata["retryCount"]) == (1, 0, 0)
        assert (second.offer, second.attempt, second.metadata["retryCount"]) == (2, 1, 1)
        await second.acknowledge("processed")
        # The exchange has dropped the content of a message that has ended.
        state = bus.host.exchange.state
        assert state.messages[state.ids[sent.message_id]].payload == b""
        assert first.payload == second.payload == {"n": 1}
        assert (second.metadata["k"], second.metadata["ttl"], second.ttl_s) == ("v", 90.0, 90.0)
        assert second.message_id == sent.message_id


async def test_an_agent_of_an_older_version_reads_the_envelope_of_that_version(tmp_path: Path) -> None:
    opened = await Tocsin.open(tmp_path / "team")
    async with opened as bus, bus.join("ada") as ada, Agent.connect(bus, agent="old", type="AdHoc") as old:
        await bus.call(RegisterAgent("AdHoc", ("1.0.0",)), Caller("old", "primary"))
        inbox = old.inbox()
        await ada.send(to="old", type="Blocker", payload={"text": "stuck"}, priority="Critical")
        message = await anext(inbox)
        assert (message.type, message.priority) == ("CUSTOM_BLOCKER", "HIGH")


async def test_a_send_that_is_not_answered_in_time_is_given_up(tmp_path: Path) -> None:
    async with meddled(tmp_path) as (bus, journal), bus.join("ada") as ada, bus.join("bob"):
        journal.gate.clear()
        with pytest.raises(NoAnswer) as raised:
            await ada.send(to="bob", type=NOTE, timeout_s=0.01)
        assert raised.value.problem.facts["message_id"] in bus.host.exchange.state.ids
        outcomes = await ada.send_many([Draft(to="bob", type=NOTE)] * 2, timeout_s=0.01)
        assert all(isinstance(outcome, NoAnswer) for outcome in outcomes)
        journal.gate.set()
        assert (await ada.send(to="bob", type=NOTE)).durability == "flushed"


async def test_each_send_is_given_up_at_its_own_deadline(tmp_path: Path) -> None:
    async with meddled(tmp_path) as (bus, journal), bus.join("ada") as ada, bus.join("bob"):
        journal.gate.clear()
        patient = asyncio.create_task(ada.send(to="bob", type=NOTE, timeout_s=60))
        await asyncio.sleep(0)
        outcomes = await asyncio.gather(
            *(ada.send(to="bob", type=NOTE, timeout_s=timeout_s) for timeout_s in (0.2, 0.01)),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [NoAnswer, NoAnswer]
        assert not patient.done()
        journal.gate.set()
        assert (await patient).durability == "flushed"


async def test_sending_many_leaves_turns_of_the_loop_to_others(tmp_path: Path) -> None:
    opened = await Tocsin.open(tmp_path / "team")
    async with opened as bus, bus.join("ada", role="director") as ada, bus.join("bob"):
        messages = bus.host.exchange.state.messages
        batch, count = client_config().batch, 20
        turns = 0
        depths: list[int] = []
        over = asyncio.Event()

        async def other() -> None:
            nonlocal turns
            while not over.is_set():
                turns += 1
                depths.append(len(messages))
                await asyncio.sleep(0)

        def drafts() -> Iterator[Draft]:
            before = turns
            for _ in range(batch * count):
                yield Draft(to="bob", type=NOTE)
            assert turns - before >= count - 1, "others had a turn after each batch that was written"

        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        outcomes = await ada.send_many(drafts())
        over.set()
        await task
        assert not [outcome for outcome in outcomes if isinstance(outcome, TocsinError)]
        assert max(after - before for before, after in pairwise(depths)) <= batch, "and after each that was submitted"


async def test_a_draft_that_cannot_be_written_prevents_all_of_them(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus, bus.join("ada") as ada, bus.join("bob"):
        drafts = [Draft(to="bob", type=NOTE)] * 100
        with pytest.raises(ValidationFailed):
            await ada.send_many([*drafts, Draft(to="bob", type=NOTE, payload={"no": object()})])
        assert not bus.host.exchange.state.messages


async def test_every_send_of_a_failed_commit_can_be_tried_again(tmp_path: Path) -> None:
    async with meddled(tmp_path) as (bus, journal), bus.join("ada") as ada, bus.join("bob") as bob:
        inbox = bob.inbox()
        journal.append_errors.append(FULL_DISK)
        sends = await asyncio.gather(
            *(ada.send(to="bob", type=NOTE, payload={"n": n}) for n in range(5)), return_exceptions=True
        )
        assert all(isinstance(error, HubUnavailable) and error.retryable for error in sends)
        retry = Retry(attempts_max=100, first_s=0.005, max_s=0.02)
        await ada.send(to="bob", type=NOTE, payload={"n": 9}, retry=retry)
        assert (await anext(inbox)).payload == {"n": 9}


async def test_a_receipt_of_a_failed_commit_is_sent_again(tmp_path: Path) -> None:
    async with meddled(tmp_path) as (bus, journal), bus.join("ada") as ada, bus.join("bob") as bob:
        inbox = bob.inbox()
        await ada.send(to="bob", type=NOTE)
        journal.append_errors.append(FULL_DISK)
        delivered = journal.appended(ev.MessageDelivered)
        await anext(inbox)
        await delivered
        assert not journal.append_errors, "the first commit of the receipt failed"


async def test_more_sends_than_the_backlog_are_refused(tmp_path: Path) -> None:
    few = client_config(backlog_max=3)
    async with meddled(tmp_path) as (bus, journal), bus.join("bob"), bus.join("ada", config=few) as ada:
        journal.gate.clear()
        waiting = [asyncio.create_task(ada.send(to="bob", type=NOTE)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(AdmissionRefused, match="3 calls wait"):
            await ada.send(to="bob", type=NOTE)
        journal.gate.set()
        await asyncio.gather(*waiting)


async def test_closing_waits_for_the_sends_under_way(tmp_path: Path) -> None:
    async with meddled(tmp_path) as (bus, journal), bus.join("bob"):
        ada = await bus.join("ada")
        journal.gate.clear()
        sending = asyncio.create_task(ada.send(to="bob", type=NOTE))
        await asyncio.sleep(0)
        closing = asyncio.create_task(ada.close())
        await journal.held()
        assert not closing.done()
        journal.gate.set()
        await closing
        assert (await sending).durability == "flushed"


async def test_messages_of_one_sender_arrive_in_order_also_around_the_connection(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus, bus.join("ada") as ada:
        async with bus.join("bob"):
            pass
        sent = [await ada.send(to="bob", type=NOTE, payload={"n": n}) for n in range(5)]
        async with bus.join("bob") as bob:
            inbox = bob.inbox()
            sending = asyncio.gather(*(ada.send(to="bob", type=NOTE, payload={"n": 5 + n}) for n in range(5)))
            assert [(await anext(inbox)).payload["n"] for _ in range(10)] == list(range(10))
            assert len(sent) + len(await sending) == 10


async def test_the_envelope_of_a_delivery_does_not_change_with_its_message(tmp_path: Path) -> None:
    taken: list[Delivery] = []
    async with await Tocsin.open(tmp_path / "team") as bus, bus.join("ada") as ada:
        link = await bus.transport("bob", "primary").dial()
        await link.send([Hello(id=0, window=1, type="AdHoc", versions=("1.1.0",))])
        await link.receive()
        link.deliver_to(taken.append)
        await ada.send(to="bob", type=NOTE, payload={"n": 1})
        before = taken[0].envelope
        message = taken[0].message
        message.attempts, message.offers, message.payload = 7, 9, b""
        assert taken[0].envelope == before
        assert msgspec.json.decode(before)["payload"] == {"n": 1}
        await link.close()
