"""Generator of traffic for the pipeline: a team on the real exchange in virtual time, written as segments.

`python -m bench.traffic FOLDER --events N` fills a landing zone, with one process per project. The same seed and number
give the same files, so a complete folder is reused. A day has `EVENTS_PER_DAY` events, so more events give more days.
"""

import argparse
import json
import random
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from tocsin import zstd
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller, Command
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.policy import document_of
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.timestamps import iso
from tocsin.journal.records import record_of
from tocsin.policies import parse_policy

__all__ = ["POLICY", "Team", "landing_of"]

PROJECTS = ("apollo", "borealis")
AGENTS = 40
EVENTS_PER_DAY = 2_000_000
SEGMENT_BYTES = 64 << 20
#: Number of events after which progress is printed.
_TOLD_EVERY = 250_000
_SECOND = 1_000_000
_DAY_US = 86_400 * _SECOND
_START = 1_762_905_600 * _SECOND
_BOSS = Caller("boss", "director")
#: Policy of the projects.
POLICY = """
limits: {mailbox_depth_max: 10000000, mailbox_bytes_max: 1000000000000,
  sender_bytes_max: 1000000000000, project_bytes_max: 1000000000000}
bucket: {capacity: 20000, refill_per_s: 2000}
quotas: {critical: {cap: 50, refill_per_s: 2}, blocking: {cap: 200, refill_per_s: 20}}
retention: {settled_s: 600, settled_max: 20000, acknowledged_s: 600, acknowledged_max: 20000}
sessions: {heartbeat_record_s: 30}
contracts: {CUSTOM_WORK: {ack: required, timeout_s: 30, retries_max: 2, backoff_s: [1, 2], ttl_s: 3600}}
"""
_TYPES = (
    ("StatusUpdate", 34),
    ("CUSTOM_WORK", 26),
    ("TaskCompleted", 10),
    ("Question", 10),
    ("ReviewRequested", 6),
    ("TaskAssigned", 6),
    ("Acknowledgment", 5),
    ("Blocker", 3),
)
_NAMES = [name for name, _ in _TYPES]
_WEIGHTS = [weight for _, weight in _TYPES]
_JSON = msgspec.json.Encoder()


class Ids:
    """Source of sequential ids."""

    def __init__(self) -> None:
        self._count = count()

    def fresh(self, prefix: str, now: int) -> str:
        """Return a new id."""
        return f"{prefix}_{now}_{next(self._count)}"


class Team:
    """The agents of one project, with different sessions and behaviour."""

    def __init__(self, project: str, seed: int, per_day: int = EVENTS_PER_DAY) -> None:
        self.project = project
        self.exchange = Exchange(Ids())
        self.now = _START
        self._random = random.Random(f"{project}/{seed}")
        self._step_us = _DAY_US // per_day
        self._serial = 0
        self._callers = [Caller(f"agent-{number:03}", "primary") for number in range(AGENTS)]
        self._sessions: dict[str, str] = {}
        self._recent: deque[tuple[str, str]] = deque(maxlen=200)
        self._taken: deque[tuple[Caller, str]] = deque(maxlen=5000)
        self._receiver = ""
        self._seq = 0

    def play(self, events: int) -> Iterator[tuple[int, Event]]:
        """Yield about this many events, numbered; the last command is completed."""
        for command, caller in self._script():
            for event in self.exchange.handle(command, caller, self.now).events:
                self._seq += 1
                self.now += self._step_us
                yield self._seq, event
            if self._seq >= events:
                return

    def _script(self) -> Iterator[tuple[Command, Caller]]:
        yield cmd.AdoptPolicy(document_of(parse_policy(POLICY)), "bench"), SYSTEM
        for caller in (_BOSS, *self._callers):
            yield cmd.RegisterAgent("Manager", ("1.1.0",)), caller
        rng = self._random
        for turn in count():
            due = self.exchange.next_due()
            if due is not None and due <= self.now:
                yield cmd.Tick(), SYSTEM
            if turn % 120 == 0:
                yield from self._come_and_go()
            draw = rng.random()
            if draw < 0.55:
                yield self._send()
                yield from self._confirm_push()
            elif draw < 0.80:
                yield from self._take()
            elif draw < 0.985:
                yield from self._settle()
            elif draw < 0.995 and self._recent:
                sender, message_id = self._recent[-1]
                yield cmd.Recall(message_id), Caller(sender, "primary")
            elif self.exchange.state.dead:
                message = self.exchange.state.messages[next(iter(self.exchange.state.dead))]
                yield cmd.Redrive((message.message_id,)), _BOSS

    def _come_and_go(self) -> Iterator[tuple[Command, Caller]]:
        """Send heartbeats of all sessions, and sometimes close or open one."""
        state = self.exchange.state
        for number, caller in enumerate(self._callers):
            session = self._sessions.get(caller.agent)
            if session is not None and session not in state.sessions:
                session = self._sessions.pop(caller.agent, None) and None
            here = number % 5 != 0 or self._random.random() < 0.9
            if session is None and here:
                kinds: tuple[cmd.SessionKind, ...] = ("push", "piggyback", "daemon")
                yield cmd.OpenSession(kinds[number % 3], 256), caller
                self._sessions[caller.agent] = next(reversed(state.agents[caller.agent].sessions))
            elif session is not None and not here:
                del self._sessions[caller.agent]
                yield cmd.CloseSession(session), caller
            elif session is not None:
                yield cmd.Heartbeat(session), caller

    def _send(self) -> tuple[Command, Caller]:
        rng, self._serial = self._random, self._serial + 1
        sender = self._callers[int(rng.random() ** 2 * AGENTS)]
        receiver = self._callers[rng.randrange(AGENTS)].agent if rng.random() < 0.999 else "nobody"
        self._receiver = receiver
        kind = rng.choices(_NAMES, _WEIGHTS)[0]
        message_id = f"msg_{self.now}_{self._serial:x}"
        document: dict[str, Any] = {
            "version": "1.1.0",
            "messageId": message_id,
            "timestamp": iso(self.now),
            "sender": {"agentId": sender.agent, "type": "Manager"},
            "receiver": {"agentId": receiver, "type": "*"},
            "messageType": kind,
            "payload": {"text": "hello"},
        }
        if self._serial % 4 == 0:
            document["correlationId"] = f"thread-{self._serial // 40}"
        self._recent.append((sender.agent, message_id))
        return cmd.Send(parse_envelope(_JSON.encode(document), 1 << 20)), sender

    def _confirm_push(self) -> Iterator[tuple[Command, Caller]]:
        """Confirm a pushed message, as the SDK does."""
        recipient = self._receiver
        session = self.exchange.state.sessions.get(self._sessions.get(recipient, ""))
        if session is not None and session.pushes and session.in_flight:
            caller = Caller(recipient, "primary")
            arrived = [self.exchange.state.messages[seq].message_id for seq in session.in_flight]
            if self._random.random() < 0.95:
                yield cmd.Confirm(tuple(arrived)), caller
                self._taken.extend((caller, message_id) for message_id in arrived)

    def _take(self) -> Iterator[tuple[Command, Caller]]:
        """Drain the mailbox of an agent, and confirm the messages."""
        caller = self._callers[self._random.randrange(AGENTS)]
        session = self._sessions.get(caller.agent)
        state = self.exchange.state
        if session is None or session not in state.sessions:
            return
        yield cmd.Drain(session, 20), caller
        arrived = [state.messages[seq].message_id for seq in list(state.sessions[session].in_flight)[:50]]
        if arrived and self._random.random() < 0.97:
            yield cmd.Confirm(tuple(arrived)), caller
            self._taken.extend((caller, message_id) for message_id in arrived)

    def _settle(self) -> Iterator[tuple[Command, Caller]]:
        for _ in range(min(8, len(self._taken))):
            caller, message_id = self._taken.popleft()
            draw = self._random.random()
            if draw < 0.30:
                yield cmd.Acknowledge(message_id), caller
            elif draw < 0.55:
                yield cmd.Acknowledge(message_id, "processed"), caller
            elif draw < 0.62:
                yield cmd.MarkProcessed(message_id), caller
            elif draw < 0.66:
                yield cmd.Reject(message_id, "cannot", can_retry=draw < 0.65), caller


def write_segments(root: Path, project: str, events: Iterator[tuple[int, Event]], segment_bytes: int) -> int:
    """Write events as segments, as the hub does: one day each, with a maximum size, named by the first event."""
    day, size, last = -1, 0, 0
    out: Any = None
    for seq, event in events:
        if out is None or event.at // _DAY_US != day or size >= segment_bytes:
            if out is not None:
                out.close()
            day, size = event.at // _DAY_US, 0
            folder = root / f"project={project}" / f"date={datetime.fromtimestamp(event.at / 1e6, UTC):%Y-%m-%d}"
            folder.mkdir(parents=True, exist_ok=True)
            out = zstd.open(folder / f"{seq:020d}.ndjson.zst", "wb")
        if seq % _TOLD_EVERY == 0:
            print(f"  traffic of {project}: {seq:,} events", file=sys.stderr, flush=True)
        line = _JSON.encode(record_of(project, seq, event, payloads=False)) + b"\n"
        out.write(line)
        size += len(line)
        last = seq
    if out is not None:
        out.close()
    return last


def _generate(root: Path, events: int, seed: int, segment_bytes: int, project: str) -> int:
    """Write the segments of one project; return the number of its events."""
    team = Team(project, seed, EVENTS_PER_DAY // len(PROJECTS))
    return write_segments(root, project, team.play(events), segment_bytes)


def _version() -> str:
    """Return what tells traffic of other versions apart: it depends on the policy and on the fields of the events."""
    policy = document_of(parse_policy(POLICY))
    kinds = {kind.__name__: kind.__struct_fields__ for kind in vars(ev).values() if hasattr(kind, "__struct_fields__")}
    return blake2b(json.dumps([policy, kinds], sort_keys=True).encode(), digest_size=4).hexdigest()


def landing_of(folder: Path, events: int, seed: int = 1, segment_bytes: int = SEGMENT_BYTES) -> tuple[Path, int]:
    """Return a landing zone with about this many events and their number; generate it if it does not exist."""
    root = folder / f"traffic-{events}-{seed}-{segment_bytes}-{_version()}"
    done = root / "complete.json"
    if not done.exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        print(f"generating {events:,} events, once", file=sys.stderr, flush=True)
        # New interpreters, because a process that has started Spark or threads cannot be forked safely.
        with ProcessPoolExecutor(len(PROJECTS), mp_context=get_context("spawn")) as pool:
            share = events // len(PROJECTS)
            total = sum(pool.map(partial(_generate, root, share, seed, segment_bytes), PROJECTS))
        done.write_text(json.dumps({"events": total}), encoding="utf-8")
    return root, json.loads(done.read_text(encoding="utf-8"))["events"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    begin = time.perf_counter()
    root, events = landing_of(options.folder, options.events)
    print(f"{events:,} events in {root} after {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
