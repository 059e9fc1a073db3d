"""Kills hubs and holds them to what they had confirmed."""

import random
import signal
import tempfile
from pathlib import Path

import msgspec

from tests.acceptance.victim import POLICY
from tests.forks import Forked
from tests.ids import SeededIds
from tests.soak import tally
from tests.stores.test_recovery import assert_same
from tocsin.core.exchange import Exchange
from tocsin.core.messages.model import State
from tocsin.journal.base import Journal
from tocsin.journal.log import tail
from tocsin.journal.recovery import reopen
from tocsin.journal.segments import Exporter, read_segment
from tocsin.policies import parse_policy

_TERMINAL = {"MessageProcessed", "MessageExpired", "MessageRecalled", "DeadLetterPurged"}


class Witness:
    """Remembers every promise over all the lives of a project."""

    def __init__(self, store: str, where: str, segments: Path, seed: int) -> None:
        self._store = store
        self._where = where
        self._segments = segments
        self._random = random.Random(seed)
        self._runs = 0
        self.sent: set[str] = set()
        self.acked: set[str] = set()

    def kill_one(self) -> None:
        """Start a hub, let it work for a random while, and kill it without warning."""
        self._runs += 1
        tally("kills")
        words = ["tests.acceptance.victim", self._store, self._where, str(self._segments), str(self._runs)]
        with tempfile.TemporaryFile() as errors:
            victim = Forked(words, stderr=errors)
            try:
                out = victim.stdout
                if out is None:
                    raise RuntimeError("no output to read")
                promises = self._random.choice((1, 20, 100, 300, 800))
                for number, line in enumerate(out):
                    self._note(line.strip())
                    if number >= promises:
                        break
                victim.kill()
                for line in out:
                    self._note(line.strip())
                if victim.wait() != -signal.SIGKILL:
                    errors.seek(0)
                    raise AssertionError(f"the hub ended by itself:\n{errors.read().decode()}")
            finally:
                victim.kill()
                victim.communicate()

    def _note(self, line: str) -> None:
        what, _, message_id = line.partition(" ")
        if what == "sent":
            assert message_id not in self.sent
            self.sent.add(message_id)
        elif what == "acked":
            self.acked.add(message_id)
        elif what == "got":
            assert message_id not in self.acked, f"{message_id} was acknowledged and came back"

    def hold_to_account(self, journal: Journal) -> None:
        """Check everything that was promised against everything that is stored."""
        tally("operations_checked", len(self.sent) + len(self.acked))
        tables = journal.tables()
        try:
            exporter = Exporter(journal, tables, self._segments)
            storage = parse_policy(POLICY).storage
            while exporter.step(storage, now=1 << 60):
                pass
            exchange = reopen(journal, tables, SeededIds(0))
            self._check_segments(journal)
            for message in exchange.state.messages.values():
                if message.message_id in self.acked:
                    assert message.state in (State.ACKNOWLEDGED, State.PROCESSED), message.message_id
            if journal.pruned_seq() == 0:
                replayed = Exchange(SeededIds(0))
                replayed.replay(event for _, event in tail(journal, 0))
                assert_same(exchange.state, replayed.state)
        finally:
            tables.close()

    def _check_segments(self, journal: Journal) -> None:
        """Every event once, without a gap, and in them every promise kept."""
        files = sorted(self._segments.glob("project=test/date=*/*.ndjson.zst"), key=lambda path: path.name)
        records = [msgspec.json.decode(line) for path in files for line in read_segment(path)]
        assert [record["seq"] for record in records] == list(range(1, journal.last_seq() + 1))
        accepted: dict[str, int] = {}
        ended: dict[int, str] = {}
        acknowledged: set[int] = set()
        for record in records:
            kind = record["kind"]
            if kind == "MessageAccepted":
                assert record["message_id"] not in accepted, f"{record['message_id']} was accepted twice"
                accepted[record["message_id"]] = record["seq"]
            elif "message" in record:
                number = record["message"]
                assert number not in ended, f"message {number} was {ended.get(number)} and then {kind}"
                if kind in _TERMINAL:
                    ended[number] = kind
                elif kind == "MessageAcknowledged":
                    acknowledged.add(number)
                elif kind == "MessageOffered":
                    assert number not in acknowledged, f"message {number} was offered after its acknowledgement"
        assert self.sent <= accepted.keys(), f"confirmed and not there: {sorted(self.sent - accepted.keys())[:5]}"
        missing = {name for name in self.acked if accepted[name] not in acknowledged}
        assert not missing, f"acknowledged and forgotten: {sorted(missing)[:5]}"
