"""Servers that go away under PostgreSQL journals: nothing confirmed is lost."""

import asyncio
import json
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.witness import Witness
from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.hub.hosting.test_host import ADA, QUICK, message
from tests.ids import SeededIds
from tests.patience import PATIENCE_S
from tests.postgres import Server
from tocsin.cli.remote import Refused, Remote
from tocsin.core.commands import Caller, Receipt, RegisterAgent
from tocsin.core.events import MessageAccepted, decode_events
from tocsin.core.exchange import Exchange
from tocsin.hub.hosting.host import Host
from tocsin.journal.base import Commit
from tocsin.journal.errors import CommitFailed
from tocsin.journal.log import tail
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.postgres.copies import commit_of, standbys_awaited
from tocsin.journal.terms import StoreTimeouts
from tocsin.policies import parse_policy

PATIENT = QUICK.replace("recovery_attempts_max: 3", "recovery_attempts_max: 100000")


class Load:
    """Senders that never give up, and what was confirmed to them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._running = True
        self.confirmed: dict[str, Receipt] = {}
        self._grown = asyncio.Event()
        self._tasks = [asyncio.create_task(self._send(number)) for number in range(8)]

    @classmethod
    async def on(cls, host: Host) -> "Load":
        for name in ("ada", "bob"):
            await host.submit(RegisterAgent("Manager", ("1.1.0",)), Caller(name, "primary"))
        return cls(host)

    async def _send(self, sender: int) -> None:
        number = 0
        while self._running:
            number += 1
            reply = await self._host.submit(message(sender * 1_000_000 + number), ADA)
            if isinstance(reply, Receipt):
                self.confirmed[reply.message_id] = reply
                self._grown.set()
            else:
                await asyncio.sleep(0.002)

    async def grows(self, by: int) -> None:
        """Wait until some more sends have been confirmed."""
        wanted = len(self.confirmed) + by
        while len(self.confirmed) < wanted:
            self._grown.clear()
            await self._grown.wait()

    async def end(self) -> None:
        self._running = False
        await asyncio.gather(*self._tasks)


def stored(dsn: str) -> set[str]:
    journal = PostgresJournal(dsn, "test", wait_s=30)
    exchange = Exchange(SeededIds(0))
    exchange.replay(event for _, event in tail(journal, 0))
    journal.close()
    return set(exchange.state.ids)


def behind(dsn: str) -> int:
    """Count the events that the tables lack."""
    journal = PostgresJournal(dsn, "test", wait_s=30)
    tables = journal.tables()
    events = journal.last_seq() - tables.standing().seq
    tables.close()
    journal.close()
    return events


async def test_a_restarted_server_is_survived() -> None:
    server = Server()
    try:
        await asyncio.to_thread(server.create)
        host = await Host.start(PostgresJournal(server.dsn, "test"), parse_policy(PATIENT))
        load = await Load.on(host)
        for how in ("fast", "immediate"):
            await load.grows(200)
            await asyncio.to_thread(server.stop, how)
            await asyncio.to_thread(server.start)
            await load.grows(200)
        await load.end()
        await host.close()
        assert load.confirmed.keys() <= await asyncio.to_thread(stored, server.dsn)
        assert await asyncio.to_thread(behind, server.dsn) == 0
    finally:
        server.remove()


def test_tokens_history_and_readiness_follow_the_server_down_and_up_again(tmp_path: Path) -> None:
    """Nothing is sent meanwhile: the hub finds out by itself, both times."""
    server, data = Server(), tmp_path / "data"
    data.mkdir()
    (data / "tocsin.yaml").write_text("storage: {recovery_attempts_max: 100000, recovery_backoff_s: 0.05}")
    try:
        server.create()
        with RunningHub(data, "--store", f"postgresql://tocsin@/postgres?host={server.folder}") as hub:
            admin = Remote(hub.url, (data / "admin.token").read_text().strip())
            tokens = [admin.post("v1", "admin", "tokens", body={"agent": name}) for name in ("ada", "bob")]
            ada, bob = (Remote(hub.url, token["token"]) for token in tokens)
            ada.post("v1", "messages", body=envelope(1, payload={"text": "swordfish"}))
            assert ada.get("v1", "messages", "msg_1_x")

            server.stop()
            status, ready = ready_at(hub.url, 503)
            assert (status, ready["condition"]) == (503, "recovering")
            assert "connection_lost" in ready["reason"]
            questions: list[Callable[[], Any]] = [
                lambda: admin.post("v1", "admin", "tokens", body={"agent": "eve", "type": None}),
                lambda: admin.post("v1", "admin", "tokens", "bob", "revoke"),
                lambda: ada.get("v1", "search", q="swordfish", fresh="false"),
                lambda: ada.get("v1", "messages", "msg_1_x", "history"),
            ]
            for ask in questions:
                with pytest.raises(Refused) as refused:
                    ask()
                problem = refused.value.problem
                assert (refused.value.status, problem["code"], problem["retryable"]) == (503, "E_HUB_007", True)
            with pytest.raises(Refused, match="revoked"):
                bob.get("v1", "me")

            server.start()
            assert ready_at(hub.url, 200)[1]["condition"] == "serving"
            assert len(admin.post("v1", "admin", "tokens", "bob", "revoke")) == 1
            while not (found := ada.get("v1", "search", q="swordfish")["items"]):
                pass  # the index follows
            assert [item["message_id"] for item in found] == ["msg_1_x"]
            assert ada.get("v1", "messages", "msg_1_x", "history")
            rows = server.execute("SELECT agent FROM tocsin.grants WHERE revoked_at IS NOT NULL")
            assert rows == [("bob",)]
    finally:
        server.remove()


def ready_at(url: str, wanted: int) -> tuple[int, Any]:
    """Wait until `/ready` answers with a status."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=PATIENCE_S) as reply:  # noqa: S310
                status, body = reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                status, body = error.code, json.loads(error.read())
        if status == wanted:
            return status, body
    raise AssertionError(f"still {status}: {body}")


async def test_a_promoted_standby_has_everything_that_was_confirmed(replicated: tuple[Server, Server]) -> None:
    primary, standby = replicated
    dsn = f"host={primary.folder},{standby.folder} dbname=postgres user=tocsin target_session_attrs=read-write"
    host = await Host.start(PostgresJournal(dsn, "test"), parse_policy(PATIENT))
    load = await Load.on(host)
    await load.grows(300)
    assert {(r.durability, r.copies) for r in load.confirmed.values()} == {("replicated", 2)}
    await asyncio.to_thread(primary.kill)
    before = set(load.confirmed)
    await asyncio.to_thread(standby.promote)
    assert before <= await asyncio.to_thread(looked_up, standby)
    await load.grows(300)
    await load.end()
    await host.close()
    assert load.confirmed.keys() <= await asyncio.to_thread(stored, standby.dsn)
    assert list(load.confirmed.values())[-1].copies == 1


def looked_up(server: Server) -> set[str]:
    """Return what a server has, without taking the project over."""
    rows = server.execute("SELECT events FROM tocsin_test.journal WHERE project = 'test'")
    return {event.message_id for row in rows for event in decode_events(row[0]) if isinstance(event, MessageAccepted)}


def test_hubs_that_are_killed_with_a_standby_attached_keep_their_promises(
    replicated: tuple[Server, Server], tmp_path: Path
) -> None:
    primary, standby = replicated
    witness = Witness("postgres", primary.dsn, tmp_path / "segments", seed=3)
    for _ in range(2):
        witness.kill_one()
    primary.kill()
    standby.promote()
    journal = PostgresJournal(standby.dsn, "test", wait_s=30)
    witness.hold_to_account(journal)
    journal.close()
    assert witness.sent


def test_a_commit_that_no_standby_has_confirmed_is_not_spoken_of(replicated: tuple[Server, Server]) -> None:
    primary, standby = replicated
    journal = PostgresJournal(primary.dsn, "test")
    assert journal.probe() == Commit("replicated", 2)
    standby.stop()
    cancelled = threading.Thread(target=cancel_the_wait, args=(primary,))
    cancelled.start()
    with pytest.raises(CommitFailed, match="not_replicated"):
        journal.probe()
    cancelled.join()
    standby.start()
    journal.recover()
    assert journal.probe() == Commit("replicated", 2)
    journal.close()


def cancel_the_wait(server: Server) -> None:
    """Cancel a commit that waits for a standby, as an impatient administrator would."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        while True:
            row = connection.execute(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchone()
            if row is not None:
                return
            connection.execute("SELECT pg_sleep(0.01)")


@pytest.mark.parametrize(
    ("names", "setting", "commit"),
    [
        ("", "remote_apply", Commit("flushed", 1)),
        ("", "off", Commit("buffered", 1)),
        ("*", "remote_apply", Commit("replicated", 2)),
        ("one, two", "remote_apply", Commit("replicated", 2)),
        ("FIRST 2 (one, two, three)", "remote_apply", Commit("replicated", 3)),
        ("any 3 (one, two, three)", "remote_apply", Commit("replicated", 4)),
        ("2 (one, two)", "on", Commit("flushed", 3)),
        ("one", "local", Commit("flushed", 1)),
        ("one", "off", Commit("buffered", 1)),
    ],
)
def test_the_number_of_copies_follows_from_the_servers_settings(names: str, setting: str, commit: Commit) -> None:
    assert commit_of(names, setting) == commit


def test_a_standby_whose_name_begins_with_a_number_word_is_one() -> None:
    assert standbys_awaited('"first"') == 1
    assert standbys_awaited("any_standby") == 1


def test_the_lazier_setting_is_named(postgres: Server) -> None:
    dsn = postgres.database(f"lazy_{secrets.token_hex(6)}")
    journal = PostgresJournal(dsn, "test", synchronous_commit="off")
    assert journal.probe() == Commit("buffered", 1)
    journal.close()


def test_a_commit_that_waits_for_a_lost_standby_is_given_up_and_the_project_recovers(
    replicated: tuple[Server, Server],
) -> None:
    primary, standby = replicated
    timeouts = StoreTimeouts(commit_timeout_s=0.5, query_timeout_s=5, batch_timeout_s=5)
    journal = PostgresJournal(primary.dsn, "test", timeouts=timeouts)
    assert journal.probe() == Commit("replicated", 2)
    standby.stop()
    for _ in range(2):
        with pytest.raises(CommitFailed, match="did not answer within"):
            journal.probe()
        journal.recover()  # the session that waits for the standby holds the lock until it is ended
    standby.start()
    assert probed(journal) == Commit("replicated", 2)
    journal.close()


def probed(journal: PostgresJournal) -> Commit:
    """Commit as soon as that is possible again."""
    while True:
        try:
            return journal.probe()
        except CommitFailed:
            journal.recover()
