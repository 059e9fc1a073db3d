"""Batches: messages that are sent together share a future, and are committed as single ones are."""

import asyncio
from pathlib import Path

from tests.hub.hosting.test_groups import SMALL, urgent
from tests.hub.hosting.test_host import ADA, FULL_DISK, QUICK, hosted, message
from tests.hub.journals import MeddledJournal
from tocsin.core import events as ev
from tocsin.core.commands import Recall, Receipt
from tocsin.core.errors import Problem
from tocsin.core.protocol.envelope import Envelope


def envelopes(*numbers: int) -> list[Envelope | Problem]:
    return [message(number).envelope for number in numbers]


def accepted(journal: MeddledJournal) -> list[list[str]]:
    """Name the messages of each commit."""
    return [[event.message_id for event in group if isinstance(event, ev.MessageAccepted)] for group in journal.groups]


def names(*numbers: int) -> list[str]:
    return [f"msg_{number}_x" for number in numbers]


async def test_the_replies_are_in_the_order_of_the_messages_and_name_the_durability(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        unread = Problem("E_PROTOCOL_002", "not JSON")
        commits = len(journal.groups)
        replies = await host.submit_batch([*envelopes(1, 2), unread, *envelopes(2, 3)], ADA)
        assert len(journal.groups) == commits + 1
        assert [getattr(reply, "message_id", None) for reply in replies] == [
            *("msg_1_x", "msg_2_x", None, "msg_2_x", "msg_3_x")
        ]
        assert replies[2] is unread
        receipts = [reply for reply in replies if isinstance(reply, Receipt)]
        assert [receipt.duplicate for receipt in receipts] == [False, False, True, False]
        assert {(receipt.durability, receipt.copies) for receipt in receipts} == {("flushed", 1)}


async def test_a_batch_that_is_larger_than_a_commit_is_decided_over_several(tmp_path: Path) -> None:
    async with hosted(tmp_path, SMALL) as (host, journal):
        first = len(journal.groups)
        replies = await host.submit_batch(envelopes(*range(10)), ADA)
        assert [reply.message_id for reply in replies if isinstance(reply, Receipt)] == names(*range(10))
        assert accepted(journal)[first:] == [names(0, 1, 2, 3), names(4, 5, 6, 7), names(8, 9)]


async def test_a_critical_message_of_a_batch_that_waits_goes_with_the_next_commit(tmp_path: Path) -> None:
    async with hosted(tmp_path, SMALL) as (host, journal):
        first = len(journal.groups)
        journal.gate.clear()
        waiting = [host.submit(message(number), ADA) for number in range(4)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # These four are being committed.
        waiting += [host.submit(message(number), ADA) for number in range(4, 8)]
        rings = [*envelopes(10, 11), urgent(50, "ada", "bob").envelope, *envelopes(12)]
        replies = host.submit_batch(rings, ADA)
        assert "msg_50_u" in host.exchange.state.ids
        assert "msg_10_x" not in host.exchange.state.ids
        journal.gate.set()
        found = await replies
        await asyncio.gather(*waiting)
        assert [reply.message_id for reply in found if isinstance(reply, Receipt)] == [
            *names(10, 11),
            "msg_50_u",
            *names(12),
        ]
        assert "msg_50_u" in accepted(journal)[first + 1]
        assert accepted(journal)[first + 2] == names(10, 11, 12)


async def test_a_critical_message_of_a_batch_does_not_pass_an_earlier_recall_of_its_agent(tmp_path: Path) -> None:
    async with hosted(tmp_path, SMALL) as (host, journal):
        await host.submit(message(0), ADA)
        journal.gate.clear()
        waiting = [host.submit(message(number), ADA) for number in range(1, 9)]
        recalled = host.submit(Recall("msg_0_x"), ADA)
        replies = host.submit_batch([urgent(30, "ada", "bob").envelope], ADA)
        assert "msg_30_u" not in host.exchange.state.ids
        journal.gate.set()
        await asyncio.gather(*waiting, recalled, replies)


async def test_what_a_failed_commit_takes_along_can_be_tried_again(tmp_path: Path) -> None:
    async with hosted(tmp_path, QUICK.replace("group_events_max: 50", "group_events_max: 4")) as (host, journal):
        journal.gate.clear()
        replies = host.submit_batch(envelopes(*range(10)), ADA)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        journal.append_errors.append(FULL_DISK)
        journal.gate.set()
        found = await replies
        assert len(found) == 10
        assert all(isinstance(reply, Problem) and reply.retryable for reply in found)


async def test_a_host_that_does_not_serve_refuses_every_message(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        await host.close()
        assert [type(reply) for reply in await host.submit_batch(envelopes(1, 2), ADA)] == [Problem, Problem]
