"""The tables follow late under load, within the policy's bound, and at once for a reader that waits for them."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.hub.hosting.test_host import ADA, BOB, hosted, message
from tests.ids import SeededIds
from tests.patience import PATIENCE_S
from tests.stores.test_recovery import assert_same
from tocsin.core.commands import Confirm, Drain, OpenSession, Receipt, SessionReady
from tocsin.core.errors import Problem
from tocsin.hub.hosting.host import Condition, Host
from tocsin.hub.reader import Reader
from tocsin.journal.errors import CommitFailed, JournalUnavailable
from tocsin.journal.records import life_of
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite.tables import SqliteTables
from tocsin.journal.tables import Batch

#: Not the delay of any other timer.
INTERVAL_S = 3599
#: Nothing is projected by itself; groups are small, so that many of them make up the lag.
LAZY = f"projection_interval_s: {INTERVAL_S}, projection_events_max: 1000000, group_events_max: 10"


def policy(lag_max: int = 1_000_000, slice_: int = 3) -> str:
    return f"storage: {{{LAZY}, projection_lag_max: {lag_max}, projection_slice: {slice_}}}"


class Interval:
    """The interval at which tables are updated; it ends when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def remember(delay: float, callback: Any, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
            if delay == INTERVAL_S:
                self.end = callback
            return call_later(delay, callback, *arguments, **options)

        monkeypatch.setattr(loop, "call_later", remember)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Last events of the updates that have begun."""
    begun: list[int] = []
    write = SqliteTables.write

    def counted(tables: SqliteTables, batch: Batch) -> None:
        begun.append(batch.standing.seq)
        write(tables, batch)

    monkeypatch.setattr(SqliteTables, "write", counted)
    return begun


async def written(host: Host) -> None:
    """Wait for the tables without asking for them."""
    async with asyncio.timeout(PATIENCE_S):
        while host.projected_seq < host.committed_seq:
            await asyncio.sleep(0.001)


class HeldTables:
    """Holds up the writing of tables until a test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write = SqliteTables.write
        self._begun, self.gate = threading.Event(), threading.Event()

        def held(tables: SqliteTables, batch: Batch) -> None:
            self._begun.set()
            assert self.gate.wait(PATIENCE_S)
            write(tables, batch)

        monkeypatch.setattr(SqliteTables, "write", held)

    async def begun(self) -> None:
        """Wait until tables are about to be written."""
        assert await asyncio.to_thread(self._begun.wait, PATIENCE_S)


async def test_commands_wait_while_the_tables_are_as_far_behind_as_the_policy_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(tmp_path, policy(lag_max=60)) as (host, _):
        held = HeldTables(monkeypatch)
        sends = [host.submit(message(number), ADA) for number in range(200)]
        while host.exchange.state.seq - host.projected_seq < 60:
            await host.durable()
        await held.begun()
        await host.durable()
        behind = host.exchange.state.seq - host.projected_seq
        assert 60 <= behind < 60 + 2 * 10  # the open group and the one that is being committed
        assert not sends[-1].done()
        assert host.exchange.state.seq == host.committed_seq
        held.gate.set()
        assert all(isinstance(reply, Receipt) for reply in await asyncio.gather(*sends))


def capture_policy(**changes: float) -> str:
    return "storage: {" + LAZY + "".join(f", projection_{name}: {value}" for name, value in changes.items()) + "}"


@pytest.mark.parametrize(
    ("changes", "events", "captured"),
    [
        ({"busy_events": 5, "delay_max_s": 3600}, 4, True),
        ({"busy_events": 5, "delay_max_s": 3600}, 5, False),
        ({"busy_events": 5, "delay_max_s": 0.001}, 5, True),
    ],
    ids=("few events", "many events", "many events and late"),
)
async def test_the_tables_are_left_for_later_while_many_events_happen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writes: list[int],
    changes: dict[str, float],
    events: int,
    captured: bool,
) -> None:
    interval = Interval(monkeypatch)
    async with hosted(tmp_path, capture_policy(**changes)) as (host, _):
        await host.projected(host.committed_seq)
        interval.end()
        writes.clear()
        await asyncio.gather(*[host.submit(message(number), ADA) for number in range(events)])
        first = host.committed_seq
        interval.end()
        await host.submit(message(events), ADA)
        interval.end()
        await written(host)
        assert writes == ([first, first + 1] if captured else [first + 1]), "little has happened since"


async def test_the_tables_are_updated_after_a_number_of_payload_bytes(tmp_path: Path, writes: list[int]) -> None:
    size = memoryview(message(0).envelope.payload).nbytes
    async with hosted(tmp_path, capture_policy(bytes_max=3 * size)) as (host, _):
        await host.projected(host.committed_seq)
        writes.clear()
        for number in range(3):
            await host.submit(message(number), ADA)
        await written(host)
        assert writes == [host.committed_seq], "not before the third"


async def test_a_host_that_is_closed_finishes_the_commands_that_wait_for_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(tmp_path, policy(lag_max=20)) as (host, _):
        held = HeldTables(monkeypatch)
        sends = [host.submit(message(number), ADA) for number in range(50)]
        while host.exchange.state.seq - host.projected_seq < 20:
            await host.durable()
        held.gate.set()
    assert all(isinstance(reply, Receipt) for reply in await asyncio.gather(*sends))


async def test_a_reader_gets_fresh_tables_long_before_the_interval_is_over(tmp_path: Path) -> None:
    async with hosted(tmp_path, policy()) as (host, journal):
        reader = Reader(
            journal,
            journal.tables(),
            host.projected,
            host.tables_progressed_at,
            fresh_timeout_s=60.0,
            fresh_max_s=60.0,
            query_timeout_s=60.0,
        )
        for number in range(3):
            await host.submit(message(number), ADA)
            (signal,) = await reader.ask(lambda tables, number=number: tables.signals(f"msg_{number}_x"))  # type: ignore[misc]
            assert signal.state == "queued"
        assert (await reader.ask(lambda tables: tables.standing())).seq == host.committed_seq
        await reader.close()


async def test_a_reader_that_comes_while_tables_are_written_gets_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(tmp_path, policy()) as (host, _):
        held = HeldTables(monkeypatch)
        first = host.projected(host.committed_seq)
        await held.begun()
        await host.submit(message(1), ADA)
        second = host.projected(host.committed_seq)
        held.gate.set()
        await first
        await second
        assert host.projected_seq == host.committed_seq


async def test_a_reader_that_comes_while_the_last_group_is_committed_gets_it(tmp_path: Path) -> None:
    async with hosted(tmp_path, policy()) as (host, journal):
        await host.projected(host.committed_seq)
        journal.gate.clear()
        sent = host.submit(message(1), ADA)
        await asyncio.sleep(0)  # the group goes to its commit
        reached = host.projected(host.exchange.state.seq)
        journal.gate.set()
        await sent
        await reached


async def test_a_message_that_lived_between_two_updates_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(tmp_path, policy()) as (host, journal):
        written: list[tuple[int, int]] = []
        write = SqliteTables.write

        def counted(tables: SqliteTables, batch: Batch) -> None:
            new, changed = list(batch.new_messages), list(batch.changed_messages)
            written.append((len(new), len(changed)))
            write(tables, msgspec.structs.replace(batch, new_messages=new, changed_messages=changed))

        monkeypatch.setattr(SqliteTables, "write", counted)
        session = await host.submit(OpenSession("piggyback", 100), BOB)
        assert isinstance(session, SessionReady)
        for number in range(20):
            await host.submit(message(number), ADA)
            await host.submit(Drain(session.session, 1), BOB)
            await host.submit(Confirm((f"msg_{number}_x",)), BOB)
        await host.projected(host.committed_seq)
        assert written == [(20, 0)]
        (signal,) = journal.tables().signals("msg_7_x")
        assert signal.state == "delivered"
        assert [entry["kind"] for entry in life_of(signal.life)] == [
            "MessageAccepted",
            "MessageOffered",
            "MessageDelivered",
        ]


async def test_rows_whose_commit_was_reported_as_failed_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt used to add every event to the histories again, or to fail for ever."""
    text = policy().replace("storage: {", "storage: {recovery_backoff_s: 0.001, ")
    async with hosted(tmp_path, text) as (host, journal):
        write = SqliteTables.write
        failures = [JournalUnavailable("io_error", "the answer was lost")]

        def lost(tables: SqliteTables, batch: Batch) -> None:
            write(tables, batch)
            raise failures.pop()

        monkeypatch.setattr(SqliteTables, "write", lost)
        await host.submit(message(1), ADA)
        await host.projected(host.committed_seq)
        assert not failures
        (signal,) = journal.tables().signals("msg_1_x")
        assert [entry["kind"] for entry in life_of(signal.life)] == ["MessageAccepted"]


async def test_a_state_is_not_rebuilt_while_an_attempt_to_write_the_tables_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rebuilt state used to be older than the tables, and what it wrote next was there already."""
    text = policy().replace("storage: {", "storage: {recovery_backoff_s: 0.001, ")
    async with hosted(tmp_path, text) as (host, journal):
        begun, gate = threading.Event(), threading.Event()
        write = SqliteTables.write
        attempts: list[int] = []

        def tried(tables: SqliteTables, batch: Batch) -> None:
            attempts.append(batch.standing.seq)
            if len(attempts) == 1:
                raise JournalUnavailable("io_error", "the first attempt fails")
            begun.set()
            assert gate.wait(PATIENCE_S)
            write(tables, batch)

        monkeypatch.setattr(SqliteTables, "write", tried)
        await host.submit(message(1), ADA)
        reached = host.projected(host.committed_seq)
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        journal.append_errors.append(CommitFailed("disk_full", "no space left"))
        assert isinstance(await host.submit(message(2), ADA), Problem)
        for _ in range(50):  # as long as the rebuild takes if it does not wait
            await asyncio.to_thread(lambda: None)
        assert host.condition.value == "recovering"
        gate.set()
        await reached
        while host.condition is not Condition.SERVING:
            await asyncio.sleep(0)
        assert isinstance(await host.submit(message(2), ADA), Receipt)
        await host.projected(host.committed_seq)
        tables = journal.tables()
        assert_same(reopen(journal, tables, SeededIds(0)).state, host.exchange.state)
        tables.close()
