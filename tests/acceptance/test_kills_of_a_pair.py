"""A PostgreSQL pair whose primary is killed and whose standby is promoted under load, time and again."""

import threading
import time
from pathlib import Path

from tests.acceptance.test_failover_postgres import accepted, until
from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.postgres import Server
from tests.soak import scaled, tally
from tocsin.cli.remote import Refused, Remote, Unreachable

KILLS = scaled(2, 12)
SENDERS = 4
#: Time between two attempts of a sender: the load goes on during the test, and leaves the processors to the servers.
PAUSE_S = 0.01


class Senders:
    """Agents that send over HTTP, try again with the same id, and note what was confirmed."""

    def __init__(self, url: str, token: str) -> None:
        self._remote = Remote(url, token)
        self._grown = threading.Condition()
        self._ending = False
        #: Durability and copies by the id of each confirmed message.
        self.confirmed: dict[str, tuple[str, int]] = {}
        #: Refusals that asked to try again, by code.
        self.refusals: set[str] = set()
        self._threads = [threading.Thread(target=self._send, args=(number,), daemon=True) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send(self, sender: int) -> None:
        number = sender * 1_000_000
        while not self._ending:
            time.sleep(PAUSE_S)
            try:
                reply = self._remote.post("v1", "messages", body=envelope(number))["receipt"]
            except Refused as refused:
                self._note_refusal(refused)
            except Unreachable:
                self.refusals.add("unreachable")
            else:
                with self._grown:
                    self.confirmed[reply["message_id"]] = (reply["durability"], reply["copies"])
                    self._grown.notify_all()
                number += 1

    def _note_refusal(self, refused: Refused) -> None:
        code = refused.problem["code"]
        self.refusals.add(code if refused.problem["retryable"] else f"{code} for good")

    def grow(self, by: int, durability: tuple[str, int] | None = None) -> None:
        """Wait until some more messages have been confirmed, with some durability."""

        def count() -> int:
            return sum(durability in (None, found) for found in self.confirmed.values())

        with self._grown:
            wanted = count() + by
            assert self._grown.wait_for(lambda: count() >= wanted, 300), self.refusals

    def end(self) -> None:
        self._ending = True
        for thread in self._threads:
            thread.join()


def test_a_killed_primary_costs_no_confirmed_message(replicated: tuple[Server, Server], tmp_path: Path) -> None:
    primary, standby = replicated
    folders = f"{primary.folder},{standby.folder}"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tocsin.yaml").write_text("bucket: {capacity: 1000000, refill_per_s: 1000000}")
    store = f"postgresql://tocsin@/postgres?host={folders}&target_session_attrs=read-write"
    made: list[Server] = []
    try:
        with RunningHub(tmp_path / "data", "--store", store, "--log-level", "warning") as hub:
            admin = Remote(hub.url, (tmp_path / "data" / "admin.token").read_text().strip())
            tokens = [admin.post("v1", "admin", "tokens", body={"agent": name})["token"] for name in ("ada", "bob")]
            senders = Senders(hub.url, tokens[0])
            for kill in range(KILLS):
                senders.grow(50, ("replicated", 2))
                tally("kills")
                primary.kill()
                standby.promote()
                before = set(senders.confirmed)
                tally("operations_checked", len(before))
                assert before <= {name for _, name in accepted(standby, "postgres")}
                senders.grow(50)
                until(hub.url, 200)
                if kill + 1 < KILLS:
                    primary, standby = standby, standby.standby(f"again{kill}", primary.folder)
                    made.append(standby)
            senders.end()
            found = [name for _, name in accepted(standby, "postgres")]
            assert senders.confirmed.keys() <= set(found)
            assert len(found) == len(set(found))
            assert senders.refusals <= {"E_HUB_001", "E_HUB_007"}, senders.refusals
    finally:
        # Each has the folder of the one that was killed before it: only the last one in a folder may still run there.
        for server in reversed(made):
            server.remove()
