"""Messages of other systems are imported once, with their times and ends; what is malformed is refused by its place."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.cli.processes import RunningHub, asked
from tests.envelopes import envelope

#: A table from before there were a TTL, recalls and publish paths, and the columns that were added later.
BEFORE = """
CREATE TABLE signal_queue (id TEXT PRIMARY KEY, from_identity TEXT, to_identity TEXT, signal_type TEXT, category TEXT,
                           payload TEXT, created_at TEXT, delivered_at TEXT)"""
LATER = (
    "delivery_class VARCHAR(8) NOT NULL DEFAULT 'async'",
    *("expires_at TIMESTAMPTZ", "expired_at TIMESTAMPTZ", "recalled_at TIMESTAMPTZ"),
    *("correlation_id VARCHAR(36)", "publish_path VARCHAR(24)"),
)
UUID = "3f2c9a10-0000-4000-8000-00000000000"
#: The source's yesterday: what ended long ago would soon leave the tables.
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def at(minutes: float) -> str:
    return (YESTERDAY + timedelta(minutes=minutes)).isoformat()


def made(file: Path, *rows: dict[str, Any], later: bool = True) -> Path:
    connection = apsw.Connection(str(file))
    connection.execute(BEFORE)
    for column in LATER if later else ():
        connection.execute(f"ALTER TABLE signal_queue ADD COLUMN {column}")
    for row in rows:
        names = ", ".join(row)
        places = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO signal_queue ({names}) VALUES ({places})", tuple(row.values()))  # noqa: S608
    connection.close()
    return file


def row(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{UUID}{number}",
        "from_identity": "donna",
        "to_identity": "texi",
        "signal_type": "TaskAssigned",
        "category": "TASK",
        "payload": json.dumps({"text": f"number {number}"}),
        "created_at": at(number),
        **more,
    }


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("new") / "data"
    assert asked("init", "--data", str(data)).exit_code == 0
    return data


@pytest.fixture
def data(new: Path, tmp_path: Path) -> Path:
    copied: Path = shutil.copytree(new, tmp_path / "data")
    return copied


def imported(data: Path, source: Path, *options: str, code: int = 0) -> dict[str, Any]:
    told = asked("--data", str(data), "import", str(source), *options, "--json")
    assert told.exit_code == code, told.stderr
    report: dict[str, Any] = json.loads(told.stdout)
    return report


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    """Make a table of signals with each of the ends, and two that wait."""
    return made(
        tmp_path / "prism.db",
        row(1, delivered_at=at(40), publish_path="pushed_to_ws"),
        row(2, expired_at=at(90), expires_at=at(70)),
        row(3, recalled_at=int(YESTERDAY.timestamp()) + 3000),
        row(4),
        row(5, from_identity=None, signal_type="Odd", category=None, payload="only words"),
    )


def test_a_table_of_signals_is_imported_once(data: Path, signals: Path) -> None:
    report = imported(data, signals)
    assert (report["imported"], report["rejected"], report["waiting"], report["agents"]) == (5, 0, 2, 2)
    assert report["states"] == {"delivered": 1, "expired": 1, "recalled": 1, "queued": 2}
    again = imported(data, signals)
    assert (again["imported"], again["duplicates"]) == (0, 5)


def test_an_import_passes_the_check_of_the_journal(data: Path, signals: Path) -> None:
    imported(data, signals)
    checks = json.loads(asked("--data", str(data), "doctor", "--verify", "--json").stdout)
    assert [check for check in checks if not check["good"]] == []


def test_imported_signals_are_messages_and_those_that_wait_are_delivered(data: Path, signals: Path) -> None:
    imported(data, signals)
    with RunningHub(data) as hub:
        found = {
            item["message_id"].removeprefix(f"msg_prism_{UUID}"): item for item in hub.ask("messages", "find")["items"]
        }
        shown = ("sender", "type", "state", "publish_path")
        assert {number: tuple(item[name] for name in shown) for number, item in found.items()} == {
            "1": ("donna", "TaskAssigned", "delivered", "pushed_to_ws"),
            "2": ("donna", "TaskAssigned", "expired", None),
            "3": ("donna", "TaskAssigned", "recalled", None),
            "4": ("donna", "TaskAssigned", "queued", None),
            "5": ("unknown", "CUSTOM_Odd", "queued", None),
        }
        assert [number for number, item in found.items() if item["expires_at"] is not None] == ["2"]
        hub.ask("agents", "add", "texi", "--save")
        taken = hub.ask("inbox", "--take", agent="texi")["deliveries"]
        assert sorted(item["envelope"]["payload"]["text"] for item in taken) == ["number 4", "only words"]
    assert imported(data, signals)["duplicates"] == 5


def test_rows_from_before_the_columns_were_there_never_expire(data: Path, tmp_path: Path) -> None:
    report = imported(data, made(tmp_path / "old.db", row(1), row(2), later=False))
    assert report["states"] == {"queued": 2}
    with RunningHub(data) as hub:
        assert {item["state"] for item in hub.ask("messages", "find")["items"]} == {"queued"}


def test_malformed_rows_are_refused_by_their_place_and_the_others_taken(data: Path, tmp_path: Path) -> None:
    source = made(
        tmp_path / "prism.db",
        row(1),
        row(2, to_identity="no such name!"),
        row(3, delivered_at=at(40), recalled_at=at(40)),
        row(4, created_at="yesterday"),
        row(5, publish_path="by pigeon"),
        row(6, payload=json.dumps({"text": "x" * 2_000_000})),
    )
    report = imported(data, source, code=1)
    assert (report["read"], report["imported"], report["rejected"]) == (6, 1, 5)
    refused = [json.loads(line) for line in Path(report["quarantine"]).read_text().splitlines()]
    assert all("row " in record["where"] for record in refused)
    told = " ".join(record["wrong"] for record in refused)
    for part in ("the recipient is", "a message ends once", "created_at is", "publish_path is", "more than"):
        assert part in told


@pytest.mark.parametrize("limit", ["mailbox_bytes_max", "project_bytes_max"])
def test_messages_that_wait_are_imported_up_to_the_limits_in_bytes(tmp_path: Path, limit: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "tocsin.yaml").write_text(f"limits: {{{limit}: 1000}}")
    assert asked("init", "--data", str(data)).exit_code == 0
    large = json.dumps({"text": "x" * 600})
    ended = row(1, payload=large, delivered_at=at(40))
    report = imported(data, made(tmp_path / "prism.db", ended, row(2, payload=large), row(3, payload=large)), code=1)
    assert (report["imported"], report["rejected"], report["waiting"]) == (2, 1, 1)
    (refused,) = Path(report["quarantine"]).read_text().splitlines()
    assert json.loads(refused)["wrong"].endswith("is full: 1000 bytes")


def exported(number: int, **more: Any) -> str:
    """Return a line of a file of messages of protocol 1.0.0."""
    fields = {
        "version": "1.0.0",
        "messageType": "STATE_SYNC",
        "priority": "NORMAL",
        "payload": {
            "entityType": "task",
            "entityId": "t",
            "operation": "update",
            "state": {},
            "syncTimestamp": "2025-11-12T10:30:00.000Z",
        },
    } | more
    sent = envelope(f"msg_20251112_{number}", "manager_001", "impl_001", receiver_type="Implementation")
    return json.dumps(sent | fields)


def answered(number: int, kind: str, **payload: Any) -> str:
    return exported(
        100 + number,
        messageType=kind,
        sender={"agentId": "impl_001", "type": "Implementation"},
        receiver={"agentId": "manager_001", "type": "Manager"},
        correlationId=f"msg_20251112_{number}",
        payload={"timestamp": "2025-11-12T10:31:00.000Z", **payload},
    )


def test_a_directory_of_channels_is_imported_with_what_became_of_its_messages(data: Path, tmp_path: Path) -> None:
    there, back, other = (tmp_path / "channels" / name for name in (
        "manager_001_to_impl_001", "impl_001_to_manager_001", "manager_001_to_impl_002",
    ))  # fmt: skip
    for folder in (there, back, other):
        folder.mkdir(parents=True)
    long_ago = {"metadata": {"ttl": 3.0e8}}
    everybody = {"receiver": {"agentId": "*", "type": "*"}, **long_ago}
    there.joinpath("messages.ndjson").write_text(
        "\n".join(
            (
                exported(1, **long_ago),
                exported(2, **long_ago),
                exported(3, **long_ago),
                exported(4),
                "{not json",
                exported(5, **long_ago),
                exported(6, **everybody),
                "",
            )
        )
    )
    other.joinpath("messages.ndjson").write_text(exported(6, **everybody) + "\n")
    back.joinpath("messages.ndjson").write_text(
        "\n".join(
            (
                answered(1, "ACK", acknowledgedMessageId="msg_20251112_1", status="processed"),
                answered(2, "ACK", acknowledgedMessageId="msg_20251112_2", status="received"),
                answered(3, "NACK", rejectedMessageId="msg_20251112_3", reason="no", canRetry=False),
            )
        )
    )
    report = imported(data, tmp_path / "channels", code=1)
    assert (report["imported"], report["rejected"], report["waiting"]) == (7, 1, 3)
    assert report["states"] == {"processed": 1, "acknowledged": 1, "dead": 1, "expired": 1, "queued": 3}
    (refused,) = Path(report["quarantine"]).read_text().splitlines()
    assert json.loads(refused)["where"] == "manager_001_to_impl_001/messages.ndjson:5"
    again = imported(data, tmp_path / "channels", code=1)
    assert (again["imported"], again["duplicates"]) == (0, 7)
    with RunningHub(data) as hub:
        hub.ask("agents", "add", "impl_002", "--save")
        assert "msg_20251112_6" in json.dumps(hub.ask("inbox", "--take", agent="impl_002"))
        busy = hub.run("import", str(tmp_path / "channels"))
        assert busy.returncode != 0
        assert "Stop it" in busy.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--table", "none"), "there is no table none"),
        (("--column", "payload=words"), "has no column words"),
        (("--column", "colour=payload"), "colour is not a value of a message"),
    ],
)
def test_a_source_that_does_not_fit_is_refused(data: Path, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    told = asked("--data", str(data), "import", str(made(tmp_path / "some.db", row(1))), *options)
    assert told.exit_code == 2
    assert says in told.stderr
    assert asked("--data", str(data), "import", str(tmp_path)).exit_code == 2
    assert asked("--data", str(data), "import", str(tmp_path / "none")).exit_code == 4
