"""Whole data folders of earlier versions are opened, with everything that was in them.

Each folder below `tests/fixtures/upgrade` was made by the version that it is named after (`python -m tests.upgrade`),
and none is ever made anew: `0.1.0-first` by the version before tokens had checksums. Its policy keeps everything for a
hundred years.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.processes import RunningHub
from tests.postgres import Server
from tests.upgrade.earlier import FOLDERS, Earlier
from tests.upgrade.seen import remotes, seen
from tocsin.cli.remote import Refused, Remote

#: Who has the saved tokens of the folder, without those of agents that never had one.
_AGENTS = 10


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Earlier:
    return Earlier(request.param, tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server().create()
    yield server
    server.remove()


def test_a_folder_of_an_earlier_version_is_served_with_all_that_was_in_it(earlier: Earlier) -> None:
    data = earlier.data("sqlite")
    for _ in range(2):
        with RunningHub(data) as hub:
            assert_seen(hub, earlier.expected["sqlite"])


def test_what_was_open_goes_on(earlier: Earlier) -> None:
    data = earlier.data("sqlite")
    with RunningHub(data) as hub:
        go_on(hub)


def test_a_project_on_postgresql_is_served_with_all_that_was_in_it(earlier: Earlier, server: Server) -> None:
    data, database = earlier.data("postgres"), server.database("upgraded")
    server.restore(data / "dump.sql", database)
    store = f"postgresql:///upgraded?host={server.folder}&user=tocsin"
    for _ in range(2):
        with RunningHub(data, "--store", store) as hub:
            assert_seen(hub, earlier.expected["postgres"])
    with RunningHub(data, "--store", store) as hub:
        go_on(hub)


def assert_seen(hub: RunningHub, expected: dict[str, Any]) -> None:
    """Compare what agents and administrators see with what they saw; each kind of thing by itself."""
    admin, agents = remotes(hub.data, hub.url)
    assert len(agents) == _AGENTS
    found = seen(admin, agents)
    for kind in found:
        assert found[kind] == expected[kind], kind


def go_on(hub: RunningHub) -> None:
    """Settle what was left open."""
    admin, agents = remotes(hub.data, hub.url)
    director, human = agents["dora"], agents["hugo"]
    (held,) = [one for one in human.list("list_approvals") if one.asker == "bob"]
    human.ask("decide_approval", {"approval": held.approval, "verdict": "approve"})
    assert held.subject in [m.message_id for m in agents["carl"].list("list_inbox")]
    (letter,) = [letter.message.message_id for letter in director.list("list_dead_letters")]
    director.ask("redrive_dead_letters", {"signal_ids": [letter]})
    assert letter in [message.message_id for message in agents["erin"].list("list_inbox")]
    (lease,) = [one for one in admin.ask("list_leases").held if one.agent == "carl-2"]
    human.ask("force_release", {"lease": lease.lease, "reason": "bob-2 needs it"})
    assert [one.agent for one in admin.ask("list_leases").held] == ["bob-2"]
    first = agents["nora"].ask("fetch_inbox", {"limit": 1}).deliveries[0]
    assert msgspec.json.decode(first.envelope)["payload"] == {"text": "a note at Critical"}
    agents["ada"].ask("register_agent", {"type": "Implementation"})
    with pytest.raises(Refused):
        Remote(hub.url, "not-a-token").ask("get_me")
