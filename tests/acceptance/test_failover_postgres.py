"""Owners that hang, databases that hang, and standbys that are asked meanwhile, in real processes."""

import http.client
import json
import secrets
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.patience import PATIENCE_S
from tests.postgres import Server
from tocsin.cli.remote import Refused, Remote, Unreachable
from tocsin.core.events import MessageAccepted, decode_events

#: Short terms, so that a test does not take long; none of them is measured.
SERVER = """
ownership: {lease_s: 3, renew_s: 0.5, look_s: 0.1}
store: {commit_timeout_s: 1, query_timeout_s: 1, batch_timeout_s: 1}
readiness: {fresh_s: 0.1, timeout_s: 0.3}
"""
POLICY = "storage: {recovery_attempts_max: 100000, recovery_backoff_s: 0.05}"


def folder(path: Path) -> Path:
    """Make the data directory of a hub."""
    path.mkdir()
    (path / "server.yaml").write_text(SERVER)
    (path / "tocsin.yaml").write_text(POLICY)
    return path


@contextmanager
def standing_by(path: Path, store: str) -> Iterator[RunningHub]:
    """Run a standby; it stops with the test."""
    standby = RunningHub(folder(path), "--store", store, "--standby")
    try:
        line = read_line(standby)
        assert line.startswith("standing by"), line + standby.log.read_text()
        standby.url = line.split()[-1]
        yield standby
    finally:
        standby.stop()


def read_line(hub: RunningHub) -> str:
    assert hub.process.stdout is not None
    return hub.process.stdout.readline()


def answer(url: str, path: str = "/ready") -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=PATIENCE_S) as reply:  # noqa: S310
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def until(url: str, status: int, path: str = "/ready") -> Any:
    """Ask until the answer has a status; every other answer must be a 200 or a 503."""
    while True:
        found, body = answer(url, path)
        assert found in (200, 503), body
        if found == status:
            return body


def registered(hub: RunningHub) -> tuple[Remote, str]:
    """Make two agents, and return the first and its token."""
    admin = Remote(hub.url, (hub.data / "admin.token").read_text().strip())
    tokens = [admin.post("v1", "admin", "tokens", body={"agent": name})["token"] for name in ("ada", "bob")]
    return Remote(hub.url, tokens[0]), tokens[0]


def asked(remote: Remote, number: int) -> "Future[tuple[int, str]]":
    """Send a message from another thread; the future holds status and error code, or 0 if the hub hung up."""
    future: Future[tuple[int, str]] = Future()

    def ask() -> None:
        try:
            remote.post("v1", "messages", body=envelope(number))
            future.set_result((200, ""))
        except Refused as refused:
            future.set_result((refused.status if refused.problem["retryable"] else -1, refused.problem["code"]))
        except Unreachable:
            future.set_result((0, ""))

    threading.Thread(target=ask, daemon=True).start()
    return future


def accepted(server: Server, database: str) -> list[tuple[int, str]]:
    """Return epoch and id of every message in the journal."""
    with psycopg.connect(f"host={server.folder} dbname={database} user=tocsin") as connection:
        rows = connection.execute("SELECT epoch, events FROM tocsin_default.journal ORDER BY first_seq").fetchall()
    events = [(epoch, event) for epoch, packed in rows for event in decode_events(packed)]
    return [(epoch, event.message_id) for epoch, event in events if isinstance(event, MessageAccepted)]


def test_an_owner_that_hangs_is_replaced_and_kept_out_when_it_wakes(tmp_path: Path, postgres: Server) -> None:
    name = f"hung_{secrets.token_hex(6)}"
    postgres.database(name)
    store = f"postgresql://tocsin@/{name}?host={postgres.folder}"
    with RunningHub(folder(tmp_path / "one"), "--store", store) as owner, standing_by(tmp_path / "two", store) as other:
        ada, token = registered(owner)
        ada.post("v1", "messages", body=envelope(1))
        owner.process.send_signal(signal.SIGSTOP)
        late = asked(ada, 2)  # it lies in the socket of the stopped process
        try:
            assert read_line(other).startswith("serving"), other.log.read_text()
            Remote(other.url, token).post("v1", "messages", body=envelope(3))
        finally:
            owner.process.send_signal(signal.SIGCONT)
        answered = [(503, f"E_HUB_00{number}") for number in (1, 2, 3, 7)]  # 7: its tokens are too old to be used
        assert late.result(30) in [*answered, (0, "")]
        while "another hub has taken over" not in owner.log.read_text():
            assert owner.process.poll() is None, "it goes on, and waits for the project"
        assert until(other.url, 200)["condition"] == "serving"
        Remote(other.url, token).post("v1", "messages", body=envelope(4))
        assert accepted(postgres, name) == [(1, "msg_1_x"), (2, "msg_3_x"), (2, "msg_4_x")]


def test_callers_of_a_standby_open_no_database_connection(tmp_path: Path, postgres: Server) -> None:
    name = f"asked_{secrets.token_hex(6)}"
    postgres.database(name)
    store = f"postgresql://tocsin@/{name}?host={postgres.folder}"
    with RunningHub(folder(tmp_path / "one"), "--store", store) as owner, standing_by(tmp_path / "two", store) as other:
        _, token = registered(owner)
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")  # the open ones stay
        place = urlsplit(other.url)

        def ask(_: int) -> None:
            connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE_S)
            for path in ("/v1/me", "/ready", "/v1/socket", "/mcp"):
                connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
                reply = connection.getresponse()
                problem = json.loads(reply.read())
                found = (reply.status, problem["code"], problem["retryable"], problem["facts"]["address"])
                assert found == (503, "E_HUB_002", True, owner.url)
            connection.close()

        with ThreadPoolExecutor(20) as callers:
            list(callers.map(ask, range(100)))
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        owner.process.kill()
        assert read_line(other).startswith("serving"), other.log.read_text()
        assert until(other.url, 200)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test to stop."""
    server = Server()
    try:
        yield server.create()
    finally:
        server.remove()


def test_a_standby_whose_database_is_down_says_so(tmp_path: Path, own_server: Server) -> None:
    store = f"postgresql://tocsin@/postgres?host={own_server.folder}"
    with RunningHub(folder(tmp_path / "one"), "--store", store) as owner, standing_by(tmp_path / "two", store) as other:
        own_server.stop()
        owner.process.kill()
        while (found := answer(other.url))[1]["code"] != "E_HUB_007":
            assert found[0] == 503
        assert found[0] == 503
        assert found[1]["retryable"]
        assert "cannot reach the database" in found[1]["detail"]
        health = answer(other.url, "/health")
        assert (health[0], health[1]["condition"]) == (200, "standing_by")
        assert "connection_lost" in health[1]["reason"]
        own_server.start()
        assert read_line(other).startswith("serving"), other.log.read_text()


def test_a_database_that_hangs_is_noticed_and_callers_are_answered(tmp_path: Path, own_server: Server) -> None:
    store = f"postgresql://tocsin@/postgres?host={own_server.folder}"
    with RunningHub(folder(tmp_path / "one"), "--store", store) as hub:
        ada, _ = registered(hub)
        ada.post("v1", "messages", body=envelope(1))
        until(hub.url, 200)
        own_server.freeze()
        try:
            stalled = until(hub.url, 503)
            assert stalled["condition"] in ("stalled", "recovering")
            assert asked(ada, 2).result(30) == (503, "E_HUB_001")
            with pytest.raises(Refused) as refused:
                ada.get("v1", "messages", "msg_1_x", fresh="false")
            assert (refused.value.status, refused.value.problem["code"]) == (503, "E_HUB_007")
            assert answer(hub.url, "/health")[0] == 200
        finally:
            own_server.thaw()
        assert until(hub.url, 200)["condition"] == "serving"
        while asked(ada, 2).result(30) != (200, ""):
            pass
        found = ada.get("v1", "messages", "msg_2_x")
        assert [row["message_id"] for row in found] == ["msg_2_x"]
