"""Histories for the lab's tests: a busy team's, and ones given command by command."""

from collections.abc import Sequence
from typing import Any

import msgspec

from bench import traffic
from tests.core.driver import SECOND, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Reply
from tocsin.core.events import Event
from tocsin.core.policy import Policy
from tocsin.lab.settings import Settings, load_settings
from tocsin.lab.traces.recorder import record
from tocsin.lab.traces.trace import Trace, decoded, encoded

#: Midnight, where a window begins.
START = 1_762_905_600 * SECOND
SETTINGS = load_settings()


def settings(**changed: Any) -> Settings:
    return msgspec.structs.replace(SETTINGS, **changed)


class Past(Team):
    """A team whose agents say what they like: nothing that they are answered is looked at."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy, START)

    def join(
        self, name: str, role: str = "primary", *, kind: cmd.SessionKind | None = "push", agent_type: str = "AdHoc"
    ) -> str:
        """Register an agent, attach it, and return its name."""
        self.register(name, agent_type, role, supported=("1.1.0",))
        if kind is not None:
            self.attach(name, kind)
        return name

    def session(self, agent: str) -> str:
        return next(iter(self.exchange.state.agents[agent].sessions))

    def note(self, sender: str, receiver: str, message_type: str = "CUSTOM_NOTE", **parts: Any) -> Reply:
        """Send, and take any reply."""
        return self.tell(cmd.Send(self.envelope(sender, receiver, message_type, **parts)), sender)

    @property
    def last_id(self) -> str:
        return self.happened(ev.MessageAccepted)[-1].message_id


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
    return [event for _, event in traffic.Team("p", seed, per_day).play(events)]
