"""Two projects for looking at every page: one with a busy team, and one that has just been created."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.dashboard.extracts import write_extract
from tests.dashboard.stage import Stage

__all__ = ["BusyProject", "busy_project", "empty_project"]

#: Low limits, so that alerts, escalations and expiry are seen within seconds.
POLICY = """
storage: {projection_interval_s: 0.02}
sweeper: {interval_s: 0.2}
health: {sustained_s: 0.2, limits: {critical_queue_depth: 1}}
escalation: {rules: {contention: {count: 1}}}
"""
SERVER = """
health_interval_s: 0.1
dashboard: {tick_s: 0.1, shared_s: 0, sample_s: 0.2, pending_hot: 12, undeliverable_hot: 3}
"""
TALK = (
    ("ada", "bob", "TaskAssigned", "Coordinate", "Split the tokenizer out of parser.py and keep its tests green."),
    ("bob", "ada", "StatusUpdate", "Info", "Tokenizer moved; 41 of 44 tests pass, the rest are about comments."),
    ("carol", "bob", "Question", "Blocking", "Does parse() still return None for an empty file?"),
    ("dan", "ada", "TaskCompleted", "Coordinate", "Load test done: 12,000 requests, no errors, p99 is 38 ms."),
    ("ada", "erin", "ReviewRequested", "Coordinate", "Please review the change to the retry policy before 15:00."),
    ("erin", "ada", "StatusUpdate", "Info", "Two remarks on the retry policy, both about the jitter."),
    ("bob", "carol", "CUSTOM_NOTE", "Info", "parse() raises EmptyInput now. I will tell the callers."),
)


class BusyProject:
    """A team of nine that has sent messages of every kind, and the addresses of its pages."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._rounds = itertools.count(1)
        for agent, kind in (("carol", "Implementation"), ("dan", "Testing"), ("erin", "Reviewer"), ("gus", "AdHoc")):
            stage.join(agent, kind=kind)
        stage.join("finn", "clone", kind="Implementation")
        self._wait_for_leases()
        self._ask_for_approval()
        self.dead = self._die()
        self.message = self._discuss()
        self._end_otherwise()
        self.talk()
        write_extract(stage.data / "warehouse" / "_extract", project="default")
        reports = stage.data / "lab" / "reports"
        reports.mkdir(parents=True)
        (reports / "study.html").write_text("<h1>Longer time to live for questions</h1><p>Replay of two days.</p>")
        (reports / "study.json").write_text(json.dumps({"title": "Longer time to live", "kind": "replay"}))

    @property
    def pages(self) -> dict[str, str]:
        """Return the address of every page, by the name of its picture."""
        return {
            "overview": "overview",
            "messages": "messages",
            "message": f"messages/{self.message}",
            "message-dead": f"messages/{self.dead}",
            "agents": "agents",
            "agent": "agents/bob",
            "leases": "leases",
            "inbox": "inbox",
            "dead-letters": "dead-letters",
            "history": "history",
            "history-advice": "history/advice",
            "history-reports": "history/reports",
        }

    def talk(self) -> None:
        """Send a round of ordinary messages, some of which are read."""
        number = next(self._rounds)
        for sender, receiver, kind, priority, text in TALK:
            self._say(sender, receiver, kind, priority, text, correlationId=f"parser-{number}")
        for reader in ("ada", "bob", "carol"):
            self.stage.drain(reader)
        self._say("ada", "nobody", "StatusUpdate", "Info", "Is anyone there?")
        self._say("dan", "erin", "StatusUpdate", "Info", "Short news.", metadata={"ttl": 1})
        late = self._say("ada", "dan", "StatusUpdate", "Info", "Never mind.")
        self.stage.ok("POST", "ada", f"/v1/messages/{late}/recall", {})

    def _say(self, sender: str, receiver: str, kind: str, priority: str, text: str, **more: object) -> str:
        return self.stage.send(sender, receiver, messageType=kind, priority=priority, payload={"text": text}, **more)

    def _wait_for_leases(self) -> None:
        stage = self.stage
        stage.ok("POST", "ada", "/v1/leases", {"exclusive": ["src/parser.py", "src/tokens.py"]})
        stage.ok("POST", "bob", "/v1/leases", {"exclusive": ["src/parser.py"], "priority": "Critical"})
        stage.ok("POST", "carol", "/v1/leases", {"exclusive": ["src/parser.py"], "priority": "Blocking"})
        stage.ok("POST", "dan", "/v1/leases", {"exclusive": ["staging"], "shared": ["docs/**"]})
        stage.ok("POST", "erin", "/v1/leases", {"exclusive": ["staging"], "priority": "Coordinate"})

    def _ask_for_approval(self) -> None:
        plan = "Delete the old importer: nothing has called it since March."
        self.stage.send("ada", "bob", messageType="CUSTOM_PLAN", payload={"text": plan})
        asked = {"handoff": "plan_approval", "subject": "Release 2.0 on Friday?", "details": "All checks have passed."}
        self.stage.ok("POST", "ada", "/v1/approvals", asked)

    def _die(self) -> str:
        stage = self.stage
        dead = self._say("ada", "bob", "TaskAssigned", "Coordinate", "Merge feature/tokens into main.")
        other = self._say("dan", "bob", "TaskAssigned", "Blocking", "Raise the limit of the staging pool.")
        stage.drain("bob")
        said = {"reason": "There is no branch feature/tokens.", "code": "E_TASK_001", "can_retry": False}
        stage.ok("POST", "bob", f"/v1/messages/{dead}/nack", said)
        said = {"reason": "Not my task.", "code": "E_TASK_002", "can_retry": False}
        stage.ok("POST", "bob", f"/v1/messages/{other}/nack", said)
        return dead

    def _discuss(self) -> str:
        """Send a question that is answered in its thread, and return it."""
        thread = {"correlationId": "empty-input"}
        asked = self._say(
            "carol", "bob", "Question", "Blocking", "Does parse() return None for an empty file?", **thread
        )
        self.stage.drain("bob")
        self._say("bob", "carol", "StatusUpdate", "Info", "No: it raises EmptyInput.", **thread)
        self.stage.ok("POST", "bob", f"/v1/messages/{asked}/processed", {})
        return asked

    def _end_otherwise(self) -> None:
        for number in range(6):  # the last ones are taken for inflated priorities
            self._say("gus", "dan", "ReviewRequested", "Blocking", f"Look at my change {number} now.")
        for number in range(3):
            self._say("boss", "erin", "CUSTOM_ALARM", "Critical", f"Production is down: region {number + 1}.")
        self._say("ada", "hanna", "Question", "Coordinate", "May I use the paid tier of the map service?")
        self._say("finn", "hanna", "CUSTOM_NOTE", "Info", "The nightly build is green again.")


@contextmanager
def busy_project(folder: Path) -> Iterator[BusyProject]:
    """Open a hub with a busy team."""
    with Stage(folder, POLICY, SERVER) as stage:
        yield BusyProject(stage)


@contextmanager
def empty_project(folder: Path) -> Iterator[Stage]:
    """Open a hub that nobody has used yet: there is only its administrator."""
    with Stage(folder, POLICY, SERVER, agents=False) as stage:
        yield stage
