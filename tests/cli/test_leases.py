"""Leases from the command line."""

from collections.abc import Iterator

import pytest

from tests.cli.processes import RunningHub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("leases") / "data") as hub:
        for agent in ("ada", "bob"):
            hub.ask("agents", "add", agent, "--save")
        yield hub


def test_a_lease_is_acquired_listed_and_released(hub: RunningHub) -> None:
    held = hub.json("leases", "acquire", "db", "port", agent="ada")
    assert (held["state"], held["exclusive"]) == ("held", ["db", "port"])
    waiting = hub.json("leases", "acquire", "db", "--shared", agent="bob")
    assert (waiting["state"], waiting["place"]) == ("waiting", 1)
    listed = [line.split() for line in hub.run("leases", "list", "db").stdout.splitlines()]
    assert [line[:3] for line in listed[1:]] == [[held["lease"], "ada", "held"], [waiting["lease"], "bob", "waiting"]]
    assert hub.run("leases", "acquire", "db", "--wait-s", "0", agent="bob").returncode == 6
    assert hub.json("leases", "renew", held["lease"], agent="ada")["state"] == "held"
    assert hub.json("leases", "release", "port", agent="ada")["resources"] == ["port"]
    assert hub.json("leases", "release", held["lease"], agent="ada")["resources"] == ["db"]
    assert hub.run("leases", "release", "db", agent="ada").returncode == 3
    gone = hub.json("leases", "force-release", waiting["lease"], "--reason", "enough")
    assert gone["resources"] == ["db"]
