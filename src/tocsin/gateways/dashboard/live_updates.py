"""Live updates of all open dashboards, computed once for all of them.

Theory of operation. There are two timers. The slow one always runs: every `sample_s` it takes one point of each time
series, from counts that the metrics keep anyway, so that a newly opened dashboard shows the last half hour. The latest
notable events are always kept as well, as notices. The quick timer runs while a dashboard is open: every `tick_s` it
summarises the state and encodes it once; every viewer gets the same text. Which areas have changed comes from the same
counts of the metrics, added up by area, so that a page can see that it should reload. No event is read or sent by
itself, so an open dashboard costs nothing per event. Counters only grow: a viewer that misses a tick misses nothing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.escalation.paths import Place
from tocsin.core.escalation.steps import FOR_DIRECTORS_ONLY
from tocsin.core.events import EVENT_TYPES, Event
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.health import known_values
from tocsin.gateways.dashboard.summary import Summary, summary
from tocsin.hub.service import Hub

__all__ = ["SERIES", "LiveUpdates", "Viewer"]

_ENCODER = msgspec.json.Encoder()
_LEVELS = tuple(map(priority_name, Priority))
#: Names of the events that concern the pages of an area, by area: the module that they are declared in.
_AREAS: dict[str, list[str]] = {
    area: [kind.__name__ for kind in EVENT_TYPES if kind.__module__.rpartition(".")[2] == area]
    for area in sorted({kind.__module__.rpartition(".")[2] for kind in EVENT_TYPES})
}
_AREAS["letters"] = [kind.__name__ for kind in (ev.MessageDied, ev.DeadLetterRedriven, ev.DeadLetterPurged)]
#: Counts since the hub started, by name of their series, and the event that they count.
_COUNTED = {
    "accepted": "MessageAccepted",
    "offered": "MessageOffered",
    "delivered": "MessageDelivered",
    "expired": "MessageExpired",
    "recalled": "MessageRecalled",
    "died": "MessageDied",
    "refused": "SendRefused",
    "boosted": "MessageBoosted",
}
#: Outcomes of a recall other than `recalled`.
_RECALLS = ("already_delivered", "already_expired", "not_found")
_DEPTHS = tuple(f"depth_{name}" for name in _LEVELS)
_LATENCIES = ("critical_delivery_s", "blocking_delivery_s", "message_routing_p99_s")
#: The columns of the time series, in order.
SERIES = ("at", *_COUNTED, "undeliverable", *_RECALLS, "recipient_away", *_DEPTHS, *_LATENCIES)


class Viewer:
    """One open dashboard: it gets the latest text; a text that it has not read yet is replaced."""

    def __init__(self) -> None:
        self._latest = ""
        self._available = asyncio.Event()

    def hand(self, text: str) -> None:
        """Replace the text."""
        self._latest = text
        self._available.set()

    async def next(self) -> str:
        """Wait for a text that has not been returned yet."""
        await self._available.wait()
        self._available.clear()
        return self._latest


class LiveUpdates:
    """Computes the updates, and hands them to the viewers."""

    def __init__(self, hub: Hub, version: str) -> None:
        self._hub = hub
        self._config = hub.config.dashboard
        self._version = version
        self._viewers: set[Viewer] = set()
        self._samples: deque[tuple[float, ...]] = deque(maxlen=self._config.samples_max)
        self._notices: deque[dict[str, Any]] = deque(maxlen=self._config.notices_max)
        #: The last summary of the state, and the one that is being made.
        self._summary = Summary([0] * len(Priority))
        self._summarising: Generator[None, None, Summary] | None = None
        self._summary_due = self._summary_took_s = 0.0
        self._ticking: asyncio.TimerHandle | None = None
        self._sampling: asyncio.TimerHandle | None = None
        self._stop_following: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Start taking points of the time series, and collecting notices."""
        self._stop_following = self._hub.host.follow(self._follow, frozenset(_NOTICED))
        self._sample()

    async def close(self) -> None:
        """Stop the timers."""
        if self._sampling is not None:
            self._sampling.cancel()
        self._stop_following()
        self._summarising = None
        self._rest()

    @property
    def viewers(self) -> int:
        """Return the number of open dashboards."""
        return len(self._viewers)

    def join(self) -> Viewer:
        """Add a viewer; the first one starts the updates."""
        viewer = Viewer()
        self._viewers.add(viewer)
        if self._ticking is None:
            self._tick()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer; the last one stops the updates."""
        self._viewers.discard(viewer)
        if not self._viewers:
            self._rest()

    def hello(self, who: dict[str, Any]) -> str:
        """Return the first message to a newly opened dashboard."""
        hub, config = self._hub, self._config
        policy = hub.host.exchange.state.policy
        hello = {
            "project": hub.host.project,
            "version": self._version,
            "who": who,
            "tick_s": config.tick_s,
            "sample_s": config.sample_s,
            "samples_max": config.samples_max,
            "series": {name: [row[place] for row in self._samples] for place, name in enumerate(SERIES)},
            "health": policy.health,
            "hot": {"recipient_away": config.pending_hot, "undeliverable_per_min": config.undeliverable_hot},
            "notices": list(self._notices),
        }
        return _ENCODER.encode({"hello": hello, "tick": self._facts()}).decode()

    def _rest(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    def _tick(self) -> None:
        """Update the viewers."""
        # The next tick is scheduled first, so that a failure of this one does not end the updates.
        self._ticking = asyncio.get_running_loop().call_later(self._config.tick_s, self._tick)
        text = _ENCODER.encode({"tick": self._facts()}).decode()
        for viewer in self._viewers:
            viewer.hand(text)

    def _changes(self) -> dict[str, int]:
        """Count the events of each area."""
        totals = self._hub.metrics.totals
        return {area: sum(totals.get(kind, 0) for kind in kinds) for area, kinds in _AREAS.items()}

    def _follow(self, first_seq: int, events: list[Event]) -> None:
        """Keep the latest events that become notices, also while no dashboard is open."""
        for event in events:
            if (fields := _NOTICED.get(type(event))) is not None:
                facts = {name: getattr(event, name) for name in fields}
                self._notices.append({"kind": type(event).__name__, "at": event.at, "facts": facts})

    def _facts(self) -> dict[str, Any]:
        """Return the content of a tick."""
        host, state = self._hub.host, self._hub.host.exchange.state
        seen = self._current_summary()
        return {
            "at": self._hub.now() // 1000,
            "condition": host.condition,
            "seq": host.committed_seq,
            "policy_version": state.policy_version,
            "totals": self._totals(),
            "summary": seen,
            "latencies": self._hub.health.latest,
            "agents": len(state.agents),
            "letters": len(state.dead),
            "approvals": len(state.approvals),
            "escalations": _escalations(state),
            "leases": len(state.leases.leases),
            "alerts": self._alerts(state),
            "feed": {"watchers": self._hub.feed.watchers, "dashboards": len(self._viewers)},
            "changes": self._changes(),
            "notices": list(self._notices)[-10:],
        }

    def _alerts(self, state: ProjectState) -> list[dict[str, Any]]:
        """Describe the alerts with the values as they are now; an alert itself has the value of its last change."""
        known = known_values(state, self._hub.now()) | self._hub.health.latest if state.alerts else {}
        return [
            {
                "metric": alert.metric,
                "value": known.get(alert.metric, alert.value),
                "limit": alert.limit,
                "state": "breached" if not alert.raised_at else "easing" if alert.easing else "raised",
                "since": alert.since,
            }
            for alert in state.alerts.values()
        ]

    def _totals(self) -> dict[str, int]:
        metrics = self._hub.metrics
        totals = {name: metrics.totals.get(kind, 0) for name, kind in _COUNTED.items()}
        totals["undeliverable"] = sum(count for _, count in metrics.unknown_recipient.rows())
        recalls = dict(metrics.signal_recalled.rows())
        return totals | {outcome: recalls.get((outcome,), 0) for outcome in _RECALLS}

    def _current_summary(self) -> Summary:
        """Return a summary of the state; a new one only if the last one took a small enough share of the time.

        A new one of many agents is made in several turns of the event loop; until then the last one is returned.
        """
        if self._summarising is None and time.monotonic() >= self._summary_due:
            turn = self._hub.config.rows_per_turn
            self._summarising = summary(self._hub.host.exchange.state, self._hub.now(), turn)
            self._summary_took_s = 0.0
            self._summarise()
        return self._summary

    def _summarise(self) -> None:
        """Continue with the new summary for one turn."""
        if self._summarising is None:
            return
        started = time.monotonic()
        try:
            next(self._summarising)
        except StopIteration as done:
            self._summary, self._summarising = done.value, None
        else:
            asyncio.get_running_loop().call_soon(self._summarise)
        ended = time.monotonic()
        self._summary_took_s += ended - started
        self._summary_due = ended + self._summary_took_s / self._config.survey_share

    def _sample(self) -> None:
        """Add one point to every time series."""
        self._sampling = asyncio.get_running_loop().call_later(self._config.sample_s, self._sample)
        seen, totals = self._current_summary(), self._totals()
        latencies = self._hub.health.latest
        at_s = self._hub.now() / 1_000_000
        self._samples.append(
            (
                round(at_s, 3),
                *(totals[name] for name in (*_COUNTED, "undeliverable", *_RECALLS)),
                seen.recipient_away,
                *seen.depths,
                *(latencies.get(name, 0.0) for name in _LATENCIES),
            )
        )


def _escalations(state: ProjectState) -> int:
    """Count the open escalations that need a person: health is among the alerts until it is brought to a human."""
    opened = (state.escalations[name] for name in state.open_escalations)
    return sum(each.trigger not in FOR_DIRECTORS_ONLY or each.state == Place.HUMAN for each in opened)


#: Events that become notices, with the fields that are shown.
_NOTICED: dict[type, tuple[str, ...]] = {
    ev.MessageDied: ("message", "reason", "detail"),
    ev.SendRefused: ("message_id", "sender", "recipient", "message_type", "code", "detail"),
    ev.GamingDetected: ("agent", "messages", "high", "threshold"),
    ev.GamingCleared: ("agent",),
    ev.AgentRegistered: ("agent", "role"),
    ev.AgentRetired: ("agent", "by", "reason"),
    ev.SessionWentStale: ("agent", "threshold_s"),
    ev.EscalationOpened: ("escalation", "trigger", "subject", "detail"),
    ev.AlertRaised: ("metric", "value", "limit"),
    ev.AlertCleared: ("metric", "value"),
    ev.MessageRecalled: ("message", "by"),
    ev.RecallRefused: ("message_id", "by", "outcome"),
}
