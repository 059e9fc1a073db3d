"""Project directories made by earlier versions are opened, brought up to date, and hold what they held.

`earlier/journal-1-tables-3` was made by version 0.1.0, before there were checksums, with `expected.json` beside it. A
directory is added here whenever a schema changes; none is ever made anew.
"""

import shutil
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from tests.ids import SeededIds
from tests.stores.test_recovery import lived_on, project
from tocsin.core.documents import documents
from tocsin.core.messages.model import UNENDING, PublishPath, State
from tocsin.core.policy import document_of, stored_policy
from tocsin.core.policy.document import LATER
from tocsin.hub.hosting.host import Host
from tocsin.journal.errors import JournalUnsupported
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import default_policy

EARLIER = sorted(path for path in (Path(__file__).parent / "earlier").iterdir() if path.is_dir())


@pytest.fixture(params=EARLIER, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a directory of an earlier version."""
    copied: Path = shutil.copytree(request.param, tmp_path / "project")
    return copied


def opened(folder: Path) -> SqliteJournal:
    return SqliteJournal(folder, "default", checkpoint_bytes=1 << 20)


def test_a_directory_of_an_earlier_version_holds_what_it_held(folder: Path) -> None:
    expected: dict[str, Any] = msgspec.json.decode((folder / "expected.json").read_bytes())
    for _ in range(2):
        journal = opened(folder)
        tables = journal.tables()
        state = reopen(journal, tables, SeededIds(0)).state
        assert state.seq == expected["seq"]
        assert sorted(state.agents) == expected["agents"]
        assert [[kind, id_] for kind, id_, _ in documents(state)] == expected["documents"]
        found = {str(m.seq): [m.message_id, m.recipient, m.state, m.payload.decode()] for m in state.messages.values()}
        assert found == expected["messages"]
        tables.close()
        journal.close()


async def test_a_directory_of_an_earlier_version_is_served(folder: Path) -> None:
    host = await Host.start(opened(folder), default_policy())
    assert host.exchange.state.policy_version > 0
    await host.close()
    journal = opened(folder)
    tables = journal.tables()
    exchange = reopen(journal, tables, SeededIds(0))
    assert not tables.standing().sealed
    lived_on(exchange, journal)
    project(exchange, tables)
    # The sessions from before were closed; other rows from before are left, and must stay readable.
    assert tables.standing().sealed == ("sessions",)
    reopen(journal, tables, SeededIds(0))
    tables.close()
    journal.close()


async def test_rows_from_before_there_was_a_ttl_and_a_path_are_opened(folder: Path) -> None:
    connection = apsw.Connection(str(folder / "tables.db"))
    connection.execute("UPDATE signal_queue SET expires_at = NULL, publish_path = NULL WHERE state = 'queued'")
    assert connection.changes()
    connection.close()
    host = await Host.start(opened(folder), default_policy())
    queued = [message for message in host.exchange.state.messages.values() if message.expires_at == UNENDING]
    assert queued
    assert {message.publish_path for message in queued} == {PublishPath.UNKNOWN}
    assert {message.state for message in queued} <= {State.QUEUED, State.OFFERED}, "one expired"
    await host.close()


def test_a_directory_of_a_later_version_is_refused_with_what_to_do(folder: Path) -> None:
    connection = apsw.Connection(str(folder / "journal.db"))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JournalUnsupported, match=r"schema version 99; .* update Tocsin"):
        opened(folder)


def test_a_stored_policy_gets_the_settings_that_it_lacks() -> None:
    document = document_of(default_policy())
    for path in LATER:
        *sections, name = path.split(".")
        place = document
        for section in sections:
            place = place[section]
        del place[name]
    assert stored_policy(document) == default_policy()
