"""What all open dashboards are told, found out once for all of them.

Theory of operation. Two clocks. The slow one always runs: every `sample_s` it takes one point of each time series, out
of counts that the metrics keep anyway, so that whoever opens a dashboard sees the last half hour. The quick one runs
while somebody watches: every `tick_s` it looks at the state and writes down what is, once; every viewer is handed the
same text. What happened comes from the live feed, of which the pulse is one best-effort subscriber however many watch:
it is taken off in batches and becomes counters by area (so that a page knows that it should ask again), and a few
notices. No event is ever sent by itself. Counters only grow: a viewer that misses a tick misses nothing.
"""

import asyncio
import time
from collections import deque
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import EVENT_TYPES, Event
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.frames import Channel
from tocsin.frames.errors import ChannelClosedError, ChannelEmptyError
from tocsin.gateways.dashboard.summary import Summary, summary
from tocsin.hub.feed import FeedFrame
from tocsin.hub.service import Hub

__all__ = ["SERIES", "LiveUpdates", "Viewer"]

_ENCODER = msgspec.json.Encoder()
_WATCHER = "dashboard"
_LEVELS = tuple(map(liminal_name, Priority))
#: By kind of event, the area whose pages it concerns: the module that it is declared in.
_AREAS = {kind: kind.__module__.rpartition(".")[2] for kind in EVENT_TYPES}
_LETTERS = (ev.MessageDied, ev.DeadLetterRedriven, ev.DeadLetterPurged)
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
#: What a recall can come to, beside `recalled`.
_RECALLS = ("already_delivered", "already_expired", "not_found")
_DEPTHS = tuple(f"depth_{name}" for name in _LEVELS)
_LATENCIES = ("critical_delivery_s", "blocking_delivery_s", "message_routing_p99_s")
#: The columns of the time series, in order.
SERIES = ("at", *_COUNTED, "undeliverable", *_RECALLS, "pending_pickup", *_DEPTHS, *_LATENCIES)


class Viewer:
    """One open dashboard: it is handed the latest text, and whatever it was too slow for is replaced by it."""

    def __init__(self) -> None:
        self._latest = ""
        self._news = asyncio.Event()

    def hand(self, text: str) -> None:
        """Put a text in the place of the one before."""
        self._latest = text
        self._news.set()

    async def next(self) -> str:
        """Wait for a text that was not taken yet."""
        await self._news.wait()
        self._news.clear()
        return self._latest


class LiveUpdates:
    """Finds out, writes down, hands out."""

    def __init__(self, hub: Hub, version: str) -> None:
        self._hub = hub
        self._config = hub.config.dashboard
        self._version = version
        self._viewers: set[Viewer] = set()
        self._samples: deque[tuple[float, ...]] = deque(maxlen=self._config.samples_max)
        self._notices: deque[dict[str, Any]] = deque(maxlen=self._config.notices_max)
        self._changes = dict.fromkeys(sorted({*_AREAS.values(), "letters"}), 0)
        self._channel: Channel[FeedFrame] | None = None
        self._expected_seq = 0
        self._survey: Summary | None = None
        self._survey_due = 0.0
        self._tick_due = 0.0
        self._listening: asyncio.TimerHandle | None = None
        self._sampling: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to take points of the time series."""
        self._sample()

    async def close(self) -> None:
        """Stop everything."""
        if self._sampling is not None:
            self._sampling.cancel()
        self._rest()

    @property
    def viewers(self) -> int:
        """Return how many watch."""
        return len(self._viewers)

    def join(self) -> Viewer:
        """Let somebody watch, beginning with all that there is to know."""
        if not self._viewers:
            self._wake()
        viewer = Viewer()
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Let somebody go; the last one turns off the light."""
        self._viewers.discard(viewer)
        if not self._viewers:
            self._rest()

    def hello(self, who: dict[str, Any]) -> str:
        """Write down what a newly opened dashboard has to know."""
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
            "limits": policy.health.limits,
            "hot": {"pending_pickup": config.pending_hot, "undeliverable_per_min": config.undeliverable_hot},
            "notices": list(self._notices),
        }
        return _ENCODER.encode({"hello": hello, "tick": self._facts()}).decode()

    def _wake(self) -> None:
        self._channel = self._hub.feed.watch(_WATCHER)
        self._expected_seq = self._hub.host.committed_seq + 1
        self._tick_due = 0.0
        self._listen()

    def _rest(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        if self._channel is not None:
            self._channel = None
            self._hub.feed.leave(_WATCHER)

    def _listen(self) -> None:
        """Take what happened off the feed; at every tick, tell."""
        if not self._take():
            return
        # Whatever goes wrong with one tick, the next one is due.
        self._listening = asyncio.get_running_loop().call_later(self._config.listen_s, self._listen)
        now = time.monotonic()
        if now >= self._tick_due:
            self._tick_due = now + self._config.tick_s
            text = _ENCODER.encode({"tick": self._facts()}).decode()
            for viewer in self._viewers:
                viewer.hand(text)

    def _take(self) -> bool:
        """Count what happened, by area; where frames were missed, anything may have happened."""
        channel = self._channel
        try:
            while channel is not None:
                frame = channel.get_nowait()
                if frame.first_seq > self._expected_seq:
                    for area in self._changes:
                        self._changes[area] += 1
                self._expected_seq = frame.first_seq + len(frame.events)
                for event in frame.events:
                    self._changes[_AREAS[type(event)]] += 1
                    if type(event) in _NOTICED:
                        self._notice(event)
        except ChannelEmptyError:
            return True
        except ChannelClosedError:
            pass
        return False

    def _notice(self, event: Event) -> None:
        if isinstance(event, _LETTERS):
            self._changes["letters"] += 1
        if (words := _NOTICED[type(event)]) is not None:
            facts = {name: getattr(event, name) for name in words}
            self._notices.append({"kind": type(event).__name__, "at": event.at, "facts": facts})

    def _facts(self) -> dict[str, Any]:
        """Write down what is."""
        host, state = self._hub.host, self._hub.host.exchange.state
        seen = self._seen()
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
            "escalations": len(state.open_escalations),
            "leases": len(state.leases.leases),
            "alerts": [
                {
                    "metric": alert.metric,
                    "value": alert.value,
                    "limit": alert.limit,
                    "state": "breached" if not alert.raised_at else "easing" if alert.easing else "raised",
                    "since": alert.since,
                }
                for alert in state.alerts.values()
            ],
            "feed": {"watchers": self._hub.feed.watchers, "dashboards": len(self._viewers)},
            "changes": self._changes,
            "notices": list(self._notices)[-10:],
        }

    def _totals(self) -> dict[str, int]:
        metrics = self._hub.metrics
        totals = {name: metrics.totals.get(kind, 0) for name, kind in _COUNTED.items()}
        totals["undeliverable"] = metrics.undeliverable
        return totals | {outcome: metrics.recalls_refused.get(outcome, 0) for outcome in _RECALLS}

    def _seen(self) -> Summary:
        """Look at the state, unless the last look was so long that it is too early for another."""
        started = time.monotonic()
        if self._survey is None or started >= self._survey_due:
            self._survey = summary(self._hub.host.exchange.state, self._hub.now())
            took_s = time.monotonic() - started
            self._survey_due = started + took_s / self._config.survey_share
        return self._survey

    def _sample(self) -> None:
        """Take one point of every series."""
        self._sampling = asyncio.get_running_loop().call_later(self._config.sample_s, self._sample)
        seen, totals = self._seen(), self._totals()
        latencies = self._hub.health.latest
        at_s = self._hub.now() / 1_000_000
        self._samples.append(
            (
                round(at_s, 3),
                *(totals[name] for name in (*_COUNTED, "undeliverable", *_RECALLS)),
                seen.pending_pickup,
                *seen.depths,
                *(latencies.get(name, 0.0) for name in _LATENCIES),
            )
        )


#: What is worth a line in the notices, with the facts that it shows; nothing where it only counts.
_NOTICED: dict[type, tuple[str, ...] | None] = {
    ev.MessageDied: ("message", "reason", "detail"),
    ev.DeadLetterRedriven: None,
    ev.DeadLetterPurged: None,
    ev.SendRefused: ("message_id", "sender", "recipient", "message_type", "code", "detail"),
    ev.GamingDetected: ("agent", "messages", "high", "threshold"),
    ev.GamingCleared: ("agent",),
    ev.AgentRegistered: ("agent", "role"),
    ev.AgentRetired: ("agent", "by", "reason"),
    ev.SessionWentStale: ("agent", "threshold_s"),
    ev.EscalationOpened: ("escalation", "trigger", "subject", "detail"),
    ev.DeadlockFound: None,
    ev.AlertRaised: ("metric", "value", "limit"),
    ev.AlertCleared: ("metric", "value"),
    ev.ApprovalRequested: None,
    ev.MessageRecalled: ("message", "by"),
    ev.RecallRefused: ("message_id", "by", "outcome"),
}
