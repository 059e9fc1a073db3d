"""The projection writer does its other work although captures never end."""

import asyncio
import errno
from pathlib import Path

import pytest

from tests.acceptance.victim import POLICY
from tests.envelopes import parsed
from tests.hub.hosting.test_host import ADA, FULL_DISK, hosted, message
from tocsin.core.commands import Caller, Receipt, RegisterAgent, Send
from tocsin.core.errors import Problem
from tocsin.hub.hosting.host import Host
from tocsin.journal.sqlite import SqliteJournal
from tocsin.journal.sqlite.tables import SqliteTables
from tocsin.journal.tables import Standing
from tocsin.policies import parse_policy

#: How long a machine that is busy with other things may take.
_PATIENCE_S = 50


async def test_segments_and_pruning_go_on_under_load(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "project", "test", checkpoint_bytes=1 << 16)
    host = await Host.start(journal, parse_policy(POLICY), segments=tmp_path / "segments")
    ada = Caller("ada", "primary")
    for caller in (ada, Caller("bob", "primary")):
        await host.submit(RegisterAgent("Manager", ("1.1.0",)), caller)

    async def load() -> None:
        """Keep a capture waiting at all times."""
        number = 0
        while True:
            number += 1
            assert isinstance(await host.submit(Send(parsed(number, messageType="TaskAssigned")), ada), Receipt)

    loads = [asyncio.create_task(load())]
    async with asyncio.timeout(_PATIENCE_S):
        while not await asyncio.to_thread(journal.pruned_seq):
            assert not loads[0].done() or loads[0].result()
            await asyncio.sleep(0)
    loads[0].cancel()
    await asyncio.gather(*loads, return_exceptions=True)
    await host.close()
    assert list((tmp_path / "segments").glob("project=test/date=*/*.ndjson.zst"))


async def test_a_capture_does_not_wait_until_everything_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many messages the search index is far behind; tables that are asked for are written first."""
    batches = 0

    def index(*_: object) -> int:
        nonlocal batches
        batches += 1
        return 1  # there is always more to index

    monkeypatch.setattr(SqliteTables, "index", index)
    async with hosted(tmp_path, "storage: {projection_interval_s: 600, notify_interval_s: 0.001}") as (host, _):
        assert isinstance(await host.submit(message(1), ADA), Receipt)
        enough = batches + 100
        while batches < enough:  # it indexes what commits leave time for: all of it
            await asyncio.sleep(0.001)
        await host.projected(host.committed_seq)
        assert host.projected_seq == host.committed_seq


async def test_tables_are_written_again_after_any_time_without_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy would give up after three failures; what is read with the tables fails like the tables themselves."""
    failures = 0

    def fail(*_: object) -> None:
        nonlocal failures
        failures += 1
        raise OSError(errno.EMFILE, "Too many open files")

    async with hosted(tmp_path) as (host, _):
        monkeypatch.setattr(SqliteTables, "write", fail)
        monkeypatch.setattr(SqliteJournal, "tables", fail)
        assert isinstance(await host.submit(message(1), ADA), Receipt)
        async with asyncio.timeout(_PATIENCE_S):
            while failures < 10:
                await asyncio.sleep(0.001)
            assert isinstance(await host.submit(message(2), ADA), Receipt)
            monkeypatch.undo()
            await host.projected(host.committed_seq)
        assert host.projected_seq == host.committed_seq


class Looks:
    """Counts how often the search index and the position of the tables are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: Messages that each look at the index has added.
        self.added: list[int] = []
        self.positions = 0
        index, standing = SqliteTables.index, SqliteTables.standing

        def counted_index(tables: SqliteTables, limit: int) -> int:
            self.added.append(index(tables, limit))
            return self.added[-1]

        def counted_standing(tables: SqliteTables) -> Standing:
            self.positions += 1
            return standing(tables)

        monkeypatch.setattr(SqliteTables, "index", counted_index)
        monkeypatch.setattr(SqliteTables, "standing", counted_standing)

    async def complete(self, messages: int) -> int:
        """Wait until that many messages are indexed and the index is left alone; return the number of looks at it."""
        while sum(self.added) < messages or self.added[-1]:
            await asyncio.sleep(0.001)
        looks, enough = len(self.added), self.positions + 20
        while self.positions < enough:  # an idle hub still looks whether its store is there
            await asyncio.sleep(0.001)
            if len(self.added) > looks:
                looks, enough = len(self.added), self.positions + 20
        return looks


_IDLE = "storage: {projection_interval_s: 600, notify_interval_s: 0.001}"


async def test_a_complete_search_index_is_left_alone_until_the_tables_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    async with hosted(tmp_path, _IDLE) as (host, _), asyncio.timeout(_PATIENCE_S):
        for number in (1, 2):
            assert isinstance(await host.submit(message(number), ADA), Receipt)
            await host.projected(host.committed_seq)
            await looks.complete(number)
        assert sum(looks.added) == 2


async def test_the_search_index_is_looked_at_again_after_the_state_was_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged tables are rebuilt then, up to the same event, and their index is empty."""
    looks = Looks(monkeypatch)
    async with hosted(tmp_path, _IDLE) as (host, journal), asyncio.timeout(_PATIENCE_S):
        assert isinstance(await host.submit(message(1), ADA), Receipt)
        await host.projected(host.committed_seq)
        looked, projected = await looks.complete(1), host.projected_seq
        journal.append_errors.append(FULL_DISK)
        assert isinstance(await host.submit(message(2), ADA), Problem)
        while len(looks.added) == looked:
            await asyncio.sleep(0.001)
        assert host.projected_seq == projected
