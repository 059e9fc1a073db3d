"""Disks that fail under SQLite: what was confirmed stays, what was not is told, and the hub goes on or says why not."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.acceptance.faults import Plan, faulty_vfs
from tests.hub.hosting.test_host import ADA, QUICK, message, replayed
from tests.stores.test_recovery import assert_same
from tocsin.core.commands import Caller, Receipt, RegisterAgent
from tocsin.core.errors import Problem
from tocsin.core.exchange import Exchange
from tocsin.hub.hosting.host import Host
from tocsin.journal.errors import CommitFailed, JournalDamaged
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import parse_policy

_names = (f"faulty{number}" for number in itertools.count())

NO_SPACE: Callable[[], Exception] = lambda: apsw.FullError("no space left")  # noqa: E731
BAD_DISK: Callable[[], Exception] = lambda: apsw.IOError("bad disk")  # noqa: E731


async def start(path: Path, vfs: str) -> tuple[Host, SqliteJournal]:
    journal = SqliteJournal(path, "test", checkpoint_bytes=1 << 14, vfs=vfs)
    host = await Host.start(journal, parse_policy(QUICK))
    for name in ("ada", "bob"):
        await host.submit(RegisterAgent("Manager", ("1.1.0",)), Caller(name, "primary"))
    return host, journal


WRITES = [("write", BAD_DISK, 5), ("write", NO_SPACE, 12), ("write", 100, 9), ("write", 0, 20)]
SYNCS = [("sync", BAD_DISK, 3)]
FAULTS = {"journal.db-wal": WRITES + SYNCS, "journal.db": WRITES + SYNCS, "tables.db-wal": WRITES}


@pytest.mark.parametrize(
    ("file", "what", "error", "after"), [(file, *fault) for file, faults in FAULTS.items() for fault in faults]
)
async def test_a_fault_loses_nothing_that_was_confirmed(
    tmp_path: Path, file: str, what: str, error: Callable[[], Exception] | int, after: int
) -> None:
    with faulty_vfs(next(_names)) as vfs:
        host, journal = await start(tmp_path / "project", vfs.name)
        plan = vfs.fault = Plan(what, file, error, after, times=2)
        confirmed: set[str] = set()
        number = 0
        while plan.struck < 2 and number < 3000:
            number += 1
            reply = await host.submit(message(number), ADA)
            if isinstance(reply, Receipt):
                confirmed.add(reply.message_id)
            else:
                assert isinstance(reply, Problem)
                assert (reply.code, reply.retryable) == ("E_HUB_001", True)
                await asyncio.sleep(0.001)
        assert plan.struck == 2
        while not isinstance(await host.submit(message(5000), ADA), Receipt):
            await asyncio.sleep(0.001)
        assert confirmed <= {entry.message_id for entry in host.exchange.state.messages.values()}
        again: Exchange = replayed(journal)  # type: ignore[arg-type]
        assert_same(again.state, host.exchange.state)
        await host.close()
        host, journal = await start(tmp_path / "project", vfs.name)
        assert confirmed <= {entry.message_id for entry in host.exchange.state.messages.values()}
        await host.close()


async def test_a_full_disk_stops_the_hub_with_its_reason_and_space_brings_it_back(tmp_path: Path) -> None:
    with faulty_vfs(next(_names)) as vfs:
        host, _ = await start(tmp_path / "project", vfs.name)
        assert isinstance(await host.submit(message(1), ADA), Receipt)
        vfs.fault = Plan("write", "journal.db-wal", NO_SPACE, 0, times=1 << 30)
        assert isinstance(await host.submit(message(2), ADA), Problem)
        assert "disk_full" in await host.stopped()
        refused = await host.submit(message(3), ADA)
        assert isinstance(refused, Problem)
        assert "disk_full" in refused.detail
        vfs.fault = None
        await host.close()
        host, _ = await start(tmp_path / "project", vfs.name)
        assert set(host.exchange.state.ids) == {"msg_1_x"}
        assert isinstance(await host.submit(message(2), ADA), Receipt)
        await host.close()


async def test_a_full_disk_that_is_cleared_in_time_is_survived(tmp_path: Path) -> None:
    with faulty_vfs(next(_names)) as vfs:
        host, _ = await start(tmp_path / "project", vfs.name)
        vfs.fault = Plan("write", "journal.db-wal", NO_SPACE, 0, times=2)
        assert isinstance(await host.submit(message(1), ADA), Problem)
        while not isinstance(await host.submit(message(1), ADA), Receipt):
            await asyncio.sleep(0.001)
        await host.close()


@pytest.mark.parametrize(("error", "reason"), [(NO_SPACE, "disk_full"), (BAD_DISK, "io_error")])
def test_what_the_disk_says_is_translated(tmp_path: Path, error: Callable[[], Exception], reason: str) -> None:
    with faulty_vfs(next(_names)) as vfs:
        journal = SqliteJournal(tmp_path / "project", "test", checkpoint_bytes=1 << 20, vfs=vfs.name)
        vfs.fault = Plan("write", "journal.db-wal", error, 0, times=1)
        with pytest.raises(CommitFailed) as raised:
            journal.probe()
        assert raised.value.reason == reason
        journal.recover()
        journal.probe()
        journal.close()


async def test_a_page_that_rotted_on_disk_is_found_and_not_skipped(tmp_path: Path) -> None:
    with faulty_vfs(next(_names)) as vfs:
        host, _ = await start(tmp_path / "project", vfs.name)
        for number in range(200):
            await host.submit(message(number), ADA)
        await host.close()
    file = tmp_path / "project" / "journal.db"
    data = bytearray(file.read_bytes())
    place = data.find(b"msg_150_x")
    assert place > 0
    data[place : place + 9] = b"msg_666_x"
    file.write_bytes(data)
    journal = SqliteJournal(tmp_path / "project", "test", checkpoint_bytes=1 << 20)
    with pytest.raises(JournalDamaged, match=r"group \d+ to \d+: its checksum does not match"):
        list(journal.read(0))
    journal.close()
