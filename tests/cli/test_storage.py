"""Damaged and full directories on the command line: what is said, what is repaired, and never a traceback."""

import json
import os
import shutil
import signal
from pathlib import Path

import apsw
import pytest

from tests.cli.processes import RunningHub, asked, run


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a project with one undelivered message, whose hub has stopped."""
    data = tmp_path_factory.mktemp("template") / "data"
    with RunningHub(data) as hub:
        for name in ("ada", "bob"):
            hub.ask("agents", "add", name, "--save")
        hub.ask("send", "bob", "the number is 42", agent="ada")
        assert all(row["good"] for row in hub.ask("doctor", "--verify")), "beside a hub"
    return data


@pytest.fixture
def stopped(template: Path, tmp_path: Path) -> Path:
    """A copy of that directory, for one test to damage."""
    return shutil.copytree(template, tmp_path / "data")


def verified(data: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(asked("--data", str(data), "doctor", "--verify", "--json").stdout)
    return found


def test_an_edited_payload_is_found_and_the_message_delivered_as_it_was_sent(stopped: Path) -> None:
    connection = apsw.Connection(str(stopped / "tables.db"))
    connection.execute("UPDATE signal_queue SET payload = replace(payload, '42', '43')")
    assert connection.changes()
    connection.close()
    told = asked("--data", str(stopped), "doctor", "--verify")
    assert told.exit_code == 1
    assert "the checksum of payload does not match" in told.stdout
    assert "the next start of the hub rebuilds them from the journal" in told.stdout
    with RunningHub(stopped) as hub:
        assert "42" in json.dumps(hub.ask("inbox", "--take", agent="bob"))
        log = hub.log.read_text()
    assert "are damaged" in log
    assert "were rebuilt up to event" in log
    assert all(row["good"] for row in verified(stopped))


def test_a_damaged_group_stops_the_start_with_its_number(stopped: Path) -> None:
    # The tables are behind the group, so that the start has to read it.
    (stopped / "tables.db").unlink()
    connection = apsw.Connection(str(stopped / "journal.db"))
    connection.execute("UPDATE journal SET events = events || x'00' WHERE first_seq = 1")
    connection.close()
    told = run("serve", "--data", str(stopped), "--port", "0", cwd=stopped.parent)
    assert told.returncode == 1
    assert "group 1 to" in told.stderr
    assert "its checksum does not match" in told.stderr
    assert "restore the directory from a backup" in told.stderr
    assert "Traceback" not in told.stderr


def test_lost_commits_stop_the_start_until_the_loss_is_accepted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with RunningHub(data) as hub:
        for name in ("ada", "bob"):
            hub.ask("agents", "add", name, "--save")
        hub.ask("send", "bob", "one", agent="ada")
        os.kill(hub.process.pid, signal.SIGKILL)
        hub.process.wait()
    wal = data / "journal.db-wal"
    content = bytearray(wal.read_bytes())
    written = len(content.rstrip(b"\0"))  # The log has space in reserve.
    content[written - 100] ^= 1
    wal.write_bytes(content)
    told = run("serve", "--data", str(data), "--port", "0", cwd=tmp_path)
    assert told.returncode == 1
    assert "commits were lost" in told.stderr
    assert "tocsin doctor --accept-loss" in told.stderr
    assert "Traceback" not in told.stderr
    given_up = json.loads(asked("--data", str(data), "doctor", "--accept-loss", "--json").stdout)
    assert given_up["confirmed_seq"] > given_up["last_seq"]
    with RunningHub(data) as hub:
        assert hub.ask("doctor")[1]["good"]
        busy = hub.run("doctor", "--accept-loss")
        assert busy.returncode != 0
        assert "Stop it first" in busy.stderr


@pytest.mark.parametrize("gone", [("journal.db", "tables.db"), ("journal.db", "tables.db", "journal.last")])
def test_a_directory_without_its_files_is_not_begun_anew(stopped: Path, gone: tuple[str, ...]) -> None:
    for name in gone:
        (stopped / name).unlink()
    told = asked("serve", "--data", str(stopped), "--port", "0")
    assert told.exit_code == 1
    assert "journal.db is missing, but the directory is not new" in told.stderr
    assert "use another directory" in told.stderr


def test_a_full_disk_at_the_start_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tocsin.journal.sqlite import connection

    def small(*arguments: object, **named: object) -> apsw.Connection:
        opened: apsw.Connection = connection.connect(*arguments, **named)  # type: ignore[arg-type]
        connection.pragma(opened, "max_page_count=2")
        return opened

    monkeypatch.setattr("tocsin.journal.sqlite.journal.connect", small)
    told = asked("serve", "--data", str(tmp_path / "data"), "--port", "0")
    assert told.exit_code == 1
    assert "disk_full" in told.stderr
    assert "Free some space" in told.stderr
    monkeypatch.undo()
    with RunningHub(tmp_path / "data"):
        pass


def test_a_directory_of_a_later_version_is_refused_with_what_to_do(stopped: Path) -> None:
    connection = apsw.Connection(str(stopped / "tables.db"))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    told = asked("serve", "--data", str(stopped), "--port", "0")
    assert told.exit_code == 1
    assert "update Tocsin" in told.stderr


def test_the_options_of_the_check_exclude_each_other(tmp_path: Path) -> None:
    assert asked("doctor", "--verify", "--accept-loss").exit_code == 2
    assert asked("--data", str(tmp_path / "none"), "doctor", "--verify").exit_code == 4
    assert asked("doctor", "--accept-loss", "--store", "postgresql://x").exit_code == 2
