"""Histories for the lab's tests: a busy team's, and ones given command by command."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
from bench.traffic import Team

from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller, Command, Reply
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.policy import Policy, document_of
from tocsin.core.protocol.envelope import Envelope, iso, parse_envelope
from tocsin.lab.settings import Settings, load_settings
from tocsin.lab.traces.recorder import record
from tocsin.lab.traces.trace import Trace, decoded, encoded

SECOND = 1_000_000
START = 1_762_905_600 * SECOND
SETTINGS = load_settings()


def settings(**changed: Any) -> Settings:
    return msgspec.structs.replace(SETTINGS, **changed)


class _Ids:
    def __init__(self) -> None:
        self._count = count(1)

    def fresh(self, prefix: str, now: int) -> str:
        return f"{prefix}_{now}_{next(self._count)}"


class Past:
    """A hub in virtual time that turns commands into a history."""

    def __init__(self, policy: Policy) -> None:
        self.exchange = Exchange(_Ids())
        self.now = START
        self.events: list[Event] = []
        self._serial = 0
        self.ask(cmd.AdoptPolicy(document_of(policy), "start"), SYSTEM)

    def ask(self, command: Command, caller: Caller) -> Reply:
        outcome = self.exchange.handle(command, caller, self.now)
        self.events += outcome.events
        return outcome.reply

    def wait(self, seconds: float) -> None:
        """Advance the clock and run due timers."""
        until = self.now + round(seconds * SECOND)
        while (due := self.exchange.next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self.ask(cmd.Tick(), SYSTEM)
        self.now = until

    def join(
        self, name: str, role: str = "primary", *, kind: cmd.SessionKind | None = "push", agent_type: str = "AdHoc"
    ) -> Caller:
        caller = Caller(name, role)
        self.ask(cmd.RegisterAgent(agent_type, ("1.1.0",)), caller)
        if kind is not None:
            self.ask(cmd.OpenSession(kind), caller)
        return caller

    def session(self, caller: Caller) -> str:
        return next(iter(self.exchange.state.agents[caller.agent].sessions))

    def send(self, sender: Caller, receiver: str, message_type: str = "CUSTOM_NOTE", **said: Any) -> Reply:
        return self.ask(cmd.Send(self._envelope(sender, receiver, message_type, said)), sender)

    def publish(self, sender: Caller, topic: str, **said: Any) -> Reply:
        return self.ask(cmd.Publish(topic, self._envelope(sender, "*", "CUSTOM_NOTE", said)), sender)

    def request(self, sender: Caller, receiver: str, *, timeout_s: float, **said: Any) -> Reply:
        envelope = self._envelope(sender, receiver, "CUSTOM_NOTE", said)
        return self.ask(cmd.SendRequest(envelope, timeout_s), sender)

    def _envelope(self, sender: Caller, receiver: str, message_type: str, said: dict[str, Any]) -> Envelope:
        self._serial += 1
        document = {
            "version": "1.1.0",
            "messageId": f"msg_{self.now}_{self._serial}",
            "timestamp": iso(self.now),
            "sender": {"agentId": sender.agent, "type": "AdHoc"},
            "receiver": {"agentId": receiver, "type": "*"},
            "messageType": message_type,
            "payload": {},
        } | said
        return parse_envelope(json.dumps(document).encode(), 1 << 20)

    @property
    def last_id(self) -> str:
        return next(e.message_id for e in reversed(self.events) if isinstance(e, ev.MessageAccepted))


def bare(event: Event) -> Event:
    """Return an event without payload, as in segments."""
    if isinstance(event, ev.MessageAccepted | ev.BroadcastAccepted):
        metadata = event.metadata if event.sender == SYSTEM.agent else b"{}"
        return msgspec.structs.replace(event, payload=b"{}", metadata=metadata)
    if isinstance(event, ev.MessageReleased):
        return msgspec.structs.replace(event, payload=b"{}" if event.payload else b"")
    return event


def traces_of(events: Sequence[Event], *, window_s: float = 86_400, **changed: Any) -> list[Trace]:
    """Record a history without payloads, and return its traces after encoding and decoding."""
    numbered = [(seq, bare(event)) for seq, event in enumerate(events, 1)]
    made = record("p", numbered, settings(**changed), round(window_s * SECOND))
    return [decoded(encoded(trace)) for trace in made]


def busy(events: int, seed: int = 1, per_day: int = 500_000) -> list[Event]:
    """Return the history of a team of forty, with pushes, drains, retries, dead letters, refusals and sessions."""
    return [event for _, event in Team("p", seed, per_day).play(events)]
