"""Groups: receipts join the next commit, commits are bounded, and a Critical message waits for one at most."""

import asyncio
from functools import partial
from itertools import pairwise
from pathlib import Path

from tests.envelopes import parsed
from tests.hub.hosting.test_host import ADA, BOB, FULL_DISK, hosted, message
from tocsin.core import events as ev
from tocsin.core.commands import Acknowledge, Caller, Delivery, Drain, OpenSession, Recall, Receipt, Send, SessionReady
from tocsin.core.errors import Problem
from tocsin.core.messages.model import State
from tocsin.hub.hosting.host import Host

SLOW = """
storage: {recovery_backoff_s: 0.001, recovery_attempts_max: 3, projection_interval_s: 60, receipt_delay_s: 3600}
"""
SMALL = "storage: {projection_interval_s: 60, group_events_max: 4, receipt_delay_s: 3600}"


def urgent(number: int, sender: str = "bob", receiver: str = "ada", correlation_id: str | None = None) -> Send:
    return Send(parsed(f"msg_{number}_u", sender, receiver, priority="Critical", correlationId=correlation_id))


async def listening(host: Host, caller: Caller = BOB) -> list[Delivery]:
    pushes: list[Delivery] = []
    assert isinstance(await host.submit(OpenSession("push", 64), caller, pushes.append), SessionReady)
    return pushes


def state_of(host: Host, number: int) -> State:
    state = host.exchange.state
    return state.messages[state.ids[f"msg_{number}_x"]].state


async def test_a_receipt_joins_the_next_commit_and_starts_none(tmp_path: Path) -> None:
    async with hosted(tmp_path, SLOW) as (host, journal):
        pushes = await listening(host)
        await host.submit(message(1), ADA)
        commits, begun = len(journal.groups), journal.begun
        host.confirm(pushes[0].signal_id, BOB)
        assert state_of(host, 1) is State.DELIVERED, "decided at once"
        for _ in range(5):
            await asyncio.sleep(0)
        assert host.committed_seq < host.exchange.state.seq
        assert journal.begun == begun, "nothing is being committed"
        await host.submit(message(2), ADA)
        assert len(journal.groups) == commits + 1
        assert [type(event) for event in journal.groups[-1]] == [
            *(ev.MessageDelivered, ev.MessageAccepted, ev.MessageOffered)
        ]


async def test_a_receipt_is_committed_after_the_delay(tmp_path: Path) -> None:
    async with hosted(tmp_path, SLOW.replace("3600", "0.001")) as (host, journal):
        pushes = await listening(host)
        await host.submit(message(1), ADA)
        delivered = journal.appended(ev.MessageDelivered)
        host.confirm(pushes[0].signal_id, BOB)
        await delivered


async def test_a_receipt_that_makes_room_is_committed_at_once(tmp_path: Path) -> None:
    async with hosted(tmp_path, SLOW) as (host, journal):
        pushes: list[Delivery] = []
        await host.submit(OpenSession("push", 1), BOB, pushes.append)
        for number in (1, 2):
            await host.submit(message(number), ADA)
        assert [push.signal_id for push in pushes] == ["msg_1_x"]
        offered = journal.appended(ev.MessageOffered)
        host.confirm("msg_1_x", BOB)
        await offered
        while len(pushes) < 2:
            await asyncio.sleep(0)


async def test_a_receipt_is_decided_before_any_later_command_of_its_agent(tmp_path: Path) -> None:
    async with hosted(tmp_path, SMALL) as (host, journal):
        await listening(host)
        await host.submit(message(1), ADA)
        journal.gate.clear()
        under_way = [host.submit(message(number), ADA) for number in range(2, 8)]
        await journal.held()
        more = [host.submit(message(number), ADA) for number in range(8, 12)]  # These wait for room.
        host.confirm("msg_1_x", BOB)
        acknowledged = host.submit(Acknowledge("msg_1_x"), BOB)
        journal.gate.set()
        await asyncio.gather(*under_way, *more)
        assert not isinstance(await acknowledged, Problem)
        seq = host.exchange.state.ids["msg_1_x"]
        events = [event for group in journal.groups for event in group if getattr(event, "message", 0) == seq]
        assert [type(event) for event in events] == [ev.MessageOffered, ev.MessageDelivered, ev.MessageAcknowledged]
        assert getattr(events[1], "how", "") == "receipt"


async def test_receipts_that_wait_are_committed_when_the_host_closes(tmp_path: Path) -> None:
    async with hosted(tmp_path, SLOW) as (host, journal):
        pushes = await listening(host)
        await host.submit(message(1), ADA)
        host.confirm(pushes[0].signal_id, BOB)
        groups = journal.groups
    assert isinstance(groups[-1][0], ev.MessageDelivered)


async def test_unknown_and_repeated_receipts_change_nothing(tmp_path: Path) -> None:
    async with hosted(tmp_path, SLOW) as (host, journal):
        pushes = await listening(host)
        await host.submit(message(1), ADA)
        commits, seq = len(journal.groups), host.exchange.state.seq
        host.confirm("msg_none_x", BOB)
        host.confirm("msg_1_x", ADA)
        assert host.exchange.state.seq == seq
        for _ in range(2):
            host.confirm(pushes[0].signal_id, BOB)
        assert host.exchange.state.seq == seq + 1
        assert len(journal.groups) == commits


async def test_receipts_of_a_failed_commit_are_forgotten_with_it(tmp_path: Path) -> None:
    async with hosted(tmp_path, SLOW) as (host, journal):
        pushes = await listening(host)
        await host.submit(message(1), ADA)
        host.confirm("msg_1_x", BOB)
        journal.append_errors.append(FULL_DISK)
        again = len(pushes)
        assert isinstance(await host.submit(message(2), ADA), Problem)
        host.confirm("msg_1_x", BOB)  # Nobody decides while the state is rebuilt.
        while len(pushes) == again:
            await asyncio.sleep(0.001)
        assert pushes[-1].signal_id == "msg_1_x"
        assert state_of(host, 1) is State.OFFERED


async def test_a_commit_has_a_limited_number_of_events(tmp_path: Path) -> None:
    async with hosted(tmp_path, SMALL) as (host, journal):
        first = len(journal.groups)
        replies = await asyncio.gather(*[host.submit(message(number), ADA) for number in range(20)])
        assert all(isinstance(reply, Receipt) for reply in replies)
        assert [len(group) for group in journal.groups[first:]] == [4] * 5


async def test_a_commit_has_a_limited_number_of_bytes(tmp_path: Path) -> None:
    size = memoryview(message(1).envelope.payload).nbytes
    policy = f"storage: {{projection_interval_s: 60, group_bytes_max: {2 * size}}}"
    async with hosted(tmp_path, policy) as (host, journal):
        first = len(journal.groups)
        await asyncio.gather(*[host.submit(message(number), ADA) for number in range(6)])
        assert [len(group) for group in journal.groups[first:]] == [2] * 3


async def test_commands_that_waited_for_room_are_decided_a_few_per_iteration(tmp_path: Path) -> None:
    policy = "storage: {projection_interval_s: 60, group_events_max: 20, turn_words_max: 3}"
    async with hosted(tmp_path, policy) as (host, journal):
        journal.gate.clear()
        replies = [host.submit(message(number), ADA) for number in range(50)]
        decided = [host.exchange.state.seq]
        while decided[-1] < decided[0] + 20:  # Those of the second group, while the first is being committed.
            await asyncio.sleep(0)
            decided.append(host.exchange.state.seq)
        assert max(after - before for before, after in pairwise(decided)) == 3
        journal.gate.set()
        assert all(isinstance(reply, Receipt) for reply in await asyncio.gather(*replies))
        ids = [event.message_id for group in journal.groups for event in group if type(event) is ev.MessageAccepted]
        assert ids == [f"msg_{number}_x" for number in range(50)], "in the order of arrival"


async def test_a_critical_message_goes_with_the_next_commit(tmp_path: Path) -> None:
    async with hosted(tmp_path, SMALL) as (host, journal):
        first = len(journal.groups)
        journal.gate.clear()
        replies = [host.submit(message(number), ADA) for number in range(4)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # These four are being committed.
        replies += [host.submit(message(number), ADA) for number in range(4, 40)]
        said: list[int] = []
        rung = host.submit(urgent(50), BOB)
        own = host.submit(urgent(51, "ada", "bob"), ADA)
        for number, reply in enumerate(replies):
            reply.add_done_callback(partial(lambda number, _: said.append(number), number))
        for reply in (rung, own):
            reply.add_done_callback(lambda _: said.append(-1))
        journal.gate.set()
        await asyncio.gather(rung, own, *replies)
        sent = [event.message_id for event in journal.groups[first + 1] if isinstance(event, ev.MessageAccepted)]
        assert {"msg_50_u", "msg_51_u"} < set(sent)
        assert len(sent) <= 4 + 2
        assert said[4:6] == [-1, -1], "and they leave before the others of their commit"


async def test_a_critical_message_passes_no_other_command_of_its_agent(tmp_path: Path) -> None:
    async with hosted(tmp_path, SMALL) as (host, journal):
        await host.submit(message(0), ADA)
        journal.gate.clear()
        waiting = [host.submit(message(number), ADA) for number in range(1, 20)]
        recalled = host.submit(Recall("msg_0_x"), ADA)
        after = host.submit(urgent(30, "ada", "bob"), ADA)
        threaded = host.submit(urgent(31, "ada", "bob", "req_1"), ADA)
        assert "msg_30_u" not in host.exchange.state.ids
        journal.gate.set()
        await asyncio.gather(*waiting, recalled, after, threaded)
        events = [event for group in journal.groups for event in group]
        accepted = [event.message_id for event in events if isinstance(event, ev.MessageAccepted)]
        assert accepted.index("msg_30_u") < accepted.index("msg_31_u")
        kinds = [type(event) for event in events]
        assert kinds.index(ev.MessageRecalled) < events.index(
            next(event for event in events if getattr(event, "message_id", "") == "msg_30_u")
        )


async def test_a_drain_is_not_pushed_as_well(tmp_path: Path) -> None:
    async with hosted(tmp_path, SLOW) as (host, _):
        pushes: list[Delivery] = []
        ready = await host.submit(OpenSession("push", 0), BOB, pushes.append)
        assert isinstance(ready, SessionReady)
        await host.submit(message(1), ADA)
        await host.submit(Drain(ready.session, 1), BOB)
        assert not pushes
