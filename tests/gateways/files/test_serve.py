"""`tocsin serve --channels` as a process: with PostgreSQL, and with a directory that cannot be."""

import json
from pathlib import Path

from tests.cli.processes import RunningHub, run
from tests.gateways.files.channels import FileClient
from tests.gateways.files.test_crash import count, until
from tests.postgres import Server


def test_channels_follow_a_journal_in_postgresql(tmp_path: Path, postgres: Server) -> None:
    postgres.database("channels")
    store = f"postgresql://tocsin@/channels?host={postgres.folder}"
    root, data = tmp_path / "channels", tmp_path / "data"
    with RunningHub(data, "--store", store) as hub:
        for agent in ("ada", "eve"):
            hub.json("agents", "add", agent, "--save")
        hub.json("send", "eve", "before there were channels", agent="ada")
    (data / "server.yaml").write_text(json.dumps({"channels": {"agents": {"bob": {}}}}))
    bob = FileClient(root, "bob")
    with RunningHub(data, "--store", store, "--channels", str(root)) as hub:
        until(lambda: count(root / "ada_to_eve" / "messages.ndjson") == 1)
        bob.say(1, "ada")
        until(lambda: len(bob.receipts()) == 1)
        hub.json("send", "bob", "hello", agent="ada")
        until(lambda: len(bob.lines("ada")) == 1)
    assert bob.lines("ada")[0]["payload"]["text"] == "hello"
    assert bob.receipts()[0]["receipt"]["recipient"] == "ada"


def test_a_directory_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    done = run("serve", "--data", "data", "--port", "0", "--channels", "open", cwd=tmp_path)
    assert done.returncode == 1
    assert "sticky" in done.stderr
    assert "Traceback" not in done.stderr
