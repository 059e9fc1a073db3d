"""Prometheus metrics of one project, counted from durable events.

Labels whose values senders choose are limited to a number of values, so that nobody can fill the memory. The names
are given by the requirements (SPEC-071 §12 C2, LIMINAL PriorityMetrics).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.state import ProjectState
from tocsin.hub.observability.counters import Counts, Latencies

__all__ = ["LATENCY_BUCKETS_S", "Metrics"]

#: From 50 microseconds to an hour.
LATENCY_BUCKETS_S = (
    *(50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
_NAMES = tuple(map(priority_name, Priority))
Fold = Callable[[Any, ProjectState], None]
_RATE_CODES = frozenset({"E_ADMISSION_001", "E_ADMISSION_002", "E_ADMISSION_003"})


class Metrics:
    """Counts of one project."""

    def __init__(self, label_values_max: int) -> None:
        registry = self._registry = CollectorRegistry()
        self._label_values_max = label_values_max
        self._seen: dict[str, set[str]] = {}

        def counts(name: str, what: str, *labels: str) -> Counts:
            return Counts(registry, name, what, *labels)

        def latencies(name: str, what: str, *labels: str) -> Latencies:
            return Latencies(registry, name, what, *labels, bounds_s=LATENCY_BUCKETS_S)

        self.signal_expired = counts(
            "signal_expired", "Messages that expired before delivery.", "signal_type", "reason"
        )
        self.signal_recalled = counts("signal_recalled", "Recalls by outcome.", "outcome")
        self.recipient_state = counts("recipient_state", "Accepted sends by the recipient's state.", "state")
        self.unknown_recipient = counts(
            "unknown_recipient_rejection", "Sends to unknown agents.", "signal_type", "sender"
        )
        self.time_to_drain = latencies(
            "signal_time_to_drain_seconds", "From enqueued to offered.", "signal_type", "path"
        )
        self.messages_sent = counts("messages_sent", "Messages accepted.", "priority")
        self.messages_delivered = counts("messages_delivered", "Messages delivered to their recipient.", "priority")
        self.queue_depth = Gauge("queue_depth", "Messages waiting in mailboxes.", ["priority"], registry=registry)
        self.message_bytes = Gauge(
            "message_bytes",
            "Bytes of payloads and metadata in the live state; the mailbox and the sender are those with the most.",
            ["kind"],
            registry=registry,
        )
        self.message_bytes_limit = Gauge(
            "message_bytes_limit", "Limit of `message_bytes`.", ["kind"], registry=registry
        )
        self.delivery_latency = latencies("delivery_latency", "From enqueued to offered, seconds.", "priority")
        self.priority_boosts = counts("priority_boosts", "Priority boosts of waiting messages.")
        self.priority_violations = counts("priority_violations", "Priorities lowered or refused.", "rule")
        self.rate_limit_hits = counts("rate_limit_hits", "Sends refused by a rate limit or quota.", "code")
        self.gaming_detections = counts("gaming_detections", "Detections of agents that inflate priorities.")
        self.escalations_triggered = counts("escalations_triggered", "Escalations by trigger.", "trigger")
        self.deadlocks_detected = counts("deadlocks_detected", "Deadlocks found and broken.")
        self.alerts_raised = counts("alerts_raised", "Alerts by metric.", "metric")
        self.alerts = Gauge("alerts", "Whether an alert is raised, 0 or 1.", ["metric"], registry=registry)
        self.wakes = counts("wakes", "Wakes of agents by outcome: requested, woken, or why one failed.", "outcome")
        self.wake_seconds = latencies("wake_seconds", "From the request of a wake to the agent taking the message.")
        self.dead_letters = counts("dead_letters", "Messages that could not be delivered.", "reason")
        self.requests = counts("http_requests", "Requests by operation and status.", "operation", "status")
        self.request_seconds = latencies("http_request_seconds", "Time to answer a request, seconds.", "operation")
        self.socket_connections = Gauge("socket_connections", "Open WebSockets.", registry=registry)
        self.socket_bytes_queued = Gauge(
            "socket_bytes_queued", "Bytes waiting to be written to WebSockets.", registry=registry
        )
        self.socket_frames = counts("socket_frames", "WebSocket frames.", "direction")
        self.socket_operations = counts("socket_operations", "Operations received over WebSocket.", "op")
        self.socket_problems = counts("socket_problems", "Operations refused over WebSocket.", "code")
        self.socket_pushes = counts("socket_pushes", "Messages pushed over WebSocket.")
        #: Events counted so far, by kind.
        self.totals: dict[str, int] = {}
        self._folds: dict[type, Fold] = {
            ev.MessageAccepted: self._accepted,
            ev.MessageOffered: self._offered,
            ev.MessageDelivered: self._delivered,
            ev.MessageExpired: self._expired,
            ev.MessageRecalled: lambda event, state: self.signal_recalled.add("recalled"),
            ev.RecallRefused: lambda event, state: self.signal_recalled.add(event.outcome),
            ev.MessageBoosted: lambda event, state: self.priority_boosts.add(),
            ev.GamingDetected: lambda event, state: self.gaming_detections.add(),
            ev.EscalationOpened: lambda event, state: self.escalations_triggered.add(event.trigger),
            ev.DeadlockFound: lambda event, state: self.deadlocks_detected.add(),
            ev.AlertRaised: lambda event, state: self.alerts_raised.add(event.metric),
            ev.MessageDied: lambda event, state: self.dead_letters.add(event.reason),
            ev.SendRefused: self._refused,
            ev.AgentWakeRequested: lambda event, state: self.wakes.add("requested"),
            ev.AgentWoken: self._woken,
            ev.AgentWakeFailed: lambda event, state: self.wakes.add(event.reason),
        }

    def fold(self, events: list[Event], state: ProjectState) -> None:
        """Count durable events."""
        folds, totals = self._folds, self.totals
        for kind, count in Counter(map(type, events)).items():
            totals[kind.__name__] = totals.get(kind.__name__, 0) + count
        for event in events:
            fold = folds.get(type(event))
            if fold is not None:
                fold(event, state)

    def expose(self, state: ProjectState) -> bytes:
        """Return all metrics in Prometheus's text format."""
        self._measure(state)
        return generate_latest(self._registry)

    def families(self, state: ProjectState, project: str) -> Iterable[Metric]:
        """Return all metrics, with the project as a label."""
        self._measure(state)
        for family in self._registry.collect():
            family.samples = [
                sample._replace(labels={**sample.labels, "project": project}) for sample in family.samples
            ]
            yield family

    def _measure(self, state: ProjectState) -> None:
        """Set the gauges to the present state."""
        for level, depth in enumerate(state.depths):
            self.queue_depth.labels(_NAMES[level]).set(depth)
        volume, limits = state.volume, state.policy.limits
        for kind, found, most in (
            ("unsettled", volume.unsettled, limits.project_bytes_max),
            ("mailbox", max(volume.by_recipient.values(), default=0), limits.mailbox_bytes_max),
            ("sender", max(volume.by_sender.values(), default=0), limits.sender_bytes_max),
            ("dead_letters", volume.dead, limits.dead_letters_bytes_max),
            ("ended", volume.kept_bytes, state.policy.retention.settled_bytes_max),
        ):
            self.message_bytes.labels(kind).set(found)
            self.message_bytes_limit.labels(kind).set(most)
        for metric in state.policy.health.limits:
            alert = state.alerts.get(metric)
            self.alerts.labels(metric).set(alert is not None and bool(alert.raised_at))

    def _accepted(self, event: ev.MessageAccepted, state: ProjectState) -> None:
        self.messages_sent.add(_NAMES[event.priority])
        self.recipient_state.add(event.recipient_state)
        if event.rule in ("role_cap", "gaming"):
            self.priority_violations.add(event.rule)

    def _offered(self, event: ev.MessageOffered, state: ProjectState) -> None:
        waited_s = event.waited_us / 1_000_000
        self.delivery_latency.add(waited_s, _NAMES[event.level])
        self.time_to_drain.add(waited_s, self._type_of(event.message, state), "push" if event.pushed else "drain")

    def _delivered(self, event: ev.MessageDelivered, state: ProjectState) -> None:
        message = state.messages.get(event.message)
        if message is not None:
            self.messages_delivered.add(_NAMES[message.priority])

    def _expired(self, event: ev.MessageExpired, state: ProjectState) -> None:
        self.signal_expired.add(self._type_of(event.message, state), event.reason)

    def _woken(self, event: ev.AgentWoken, state: ProjectState) -> None:
        self.wakes.add("woken")
        self.wake_seconds.add(event.took_us / 1_000_000)

    def _refused(self, event: ev.SendRefused, state: ProjectState) -> None:
        if event.code == "E_ROUTING_001":
            sender = self._bounded("sender", event.sender)
            self.unknown_recipient.add(self._bounded("signal_type", event.message_type), sender)
        elif event.code in _RATE_CODES:
            self.rate_limit_hits.add(event.code)
        elif event.code == "E_ADMISSION_004":
            self.priority_violations.add("refused")

    def _type_of(self, seq: int, state: ProjectState) -> str:
        message = state.messages.get(seq)
        return "forgotten" if message is None else self._bounded("signal_type", message.type)

    def _bounded(self, label: str, value: str) -> str:
        seen = self._seen.setdefault(label, set())
        if value in seen:
            return value
        if len(seen) >= self._label_values_max:
            return "other"
        seen.add(value)
        return value
