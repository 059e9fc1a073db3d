"""Telemetry: spans and metrics by OpenTelemetry's messaging conventions, if an exporter is configured.

It follows the journal as the metrics do: spans are made of durable events. A message's spans are children of its send.
The send is a child of the sender's span if the envelope's metadata has a `traceparent`, which is passed on to the
recipient unchanged. `exporters` chooses the exporters; without one nothing of OpenTelemetry is loaded. Exporting has
its own threads and drops what it cannot export in time: the bus never waits for it.
"""

import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.protocol.priority import Priority, priority_name

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Telemetry"]

_log = logging.getLogger(__name__)

_SCOPE = "tocsin"
_FLUSH_MS = 2000


class _Metadata(msgspec.Struct):
    """Trace context in an envelope's metadata."""

    traceparent: str | None = None
    tracestate: str | None = None


_METADATA = msgspec.json.Decoder(_Metadata)


class _OpenMessage(msgspec.Struct):
    """A message that may get further spans."""

    #: Context of its send, the parent of later spans.
    context: Any
    attributes: dict[str, Any]
    offered_at: int = 0
    delivered_at: int = 0


class Telemetry:
    """Reports the messages of one project to an OpenTelemetry SDK."""

    def __init__(self, tracers: "TracerProvider", meters: "MeterProvider", project: str, *, messages_max: int) -> None:
        self._providers = (tracers, meters)
        self._tracer = tracers.get_tracer(_SCOPE)
        self._project = project
        self._messages_max = messages_max
        self._open: dict[int, _OpenMessage] = {}
        self._broadcasts: dict[str, bytes] = {}
        meter = meters.get_meter(_SCOPE)
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Messages sent.")
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that reached their recipient."
        )
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration", "s", "From decided to durable, and from offer to receipt."
        )
        self._process = meter.create_histogram("messaging.process.duration", "s", "From receipt to processed.")

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Report a group of durable events."""
        now = time.time_ns() // 1000
        self._broadcasts.clear()
        for seq, event in enumerate(events, first_seq):
            self._report(seq, event, now)

    def close(self) -> None:
        """Export the rest, within a short time limit."""
        for provider in self._providers:
            for step in ("force_flush", "shutdown"):
                method = getattr(provider, step, None)
                if method is not None:
                    try:
                        method(_FLUSH_MS) if step == "force_flush" else method()
                    except Exception:
                        _log.warning("the last telemetry could not be exported", exc_info=True)

    def _report(self, seq: int, event: Event, now: int) -> None:
        match event:
            case ev.BroadcastAccepted():
                self._broadcasts[event.broadcast] = event.metadata
            case ev.MessageAccepted():
                self._accepted(seq, event, max(now, event.at))
            case ev.SendRefused():
                self._refused(event, max(now, event.at))
            case ev.MessageOffered():
                if (message := self._open.get(event.message)) is not None:
                    message.offered_at = event.at
            case ev.MessageDelivered():
                self._delivered(event)
            case ev.MessageProcessed():
                self._processed(event)
            case ev.MessageAcknowledged():
                self._settled(event.message, event.at, "ack")
            case ev.MessageRejected():
                self._settled(event.message, event.at, "nack", event.code or "rejected")
            case ev.MessageExpired():
                self._settled(event.message, event.at, "expire", event.reason, last=True)
            case ev.MessageRecalled():
                self._settled(event.message, event.at, "recall", last=True)
            case ev.MessageDied():
                self._settled(event.message, event.at, "dead_letter", event.code, last=True)

    def _accepted(self, seq: int, event: ev.MessageAccepted, now: int) -> None:
        metadata = event.metadata or self._broadcasts.get(event.broadcast or "", b"")
        attributes: dict[str, Any] = {
            "messaging.system": "tocsin",
            "messaging.destination.name": event.recipient,
            "messaging.message.id": event.message_id,
            "messaging.message.body.size": len(event.payload),
            "messaging.client.id": event.sender,
            "tocsin.project": self._project,
            "tocsin.message.type": event.message_type,
            "tocsin.message.priority": priority_name(Priority(event.priority)),
            "tocsin.publish_path": event.publish_path,
        }
        if event.correlation_id is not None:
            attributes["messaging.message.conversation_id"] = event.correlation_id
        context = self._span("send", "send", attributes, _parent(metadata), event.at, now)
        if len(self._open) >= self._messages_max:
            # The oldest is the one least likely to get another span.
            del self._open[next(iter(self._open))]
        self._open[seq] = _OpenMessage(context, attributes)
        labels = _labels("send", "send", attributes)
        self._sent.add(1, labels)
        self._operation.record((now - event.at) / 1_000_000, labels)

    def _refused(self, event: ev.SendRefused, now: int) -> None:
        attributes: dict[str, Any] = {
            "messaging.system": "tocsin",
            "messaging.destination.name": event.recipient,
            "messaging.message.id": event.message_id,
            "messaging.client.id": event.sender,
            "tocsin.project": self._project,
            "tocsin.message.type": event.message_type,
            "tocsin.message.priority": priority_name(Priority(event.requested)),
        }
        parent = _context({"traceparent": event.traceparent}) if event.traceparent else None
        self._span("send", "send", attributes, parent, event.at, now, event.code)
        self._sent.add(1, _labels("send", "send", attributes, event.code))

    def _delivered(self, event: ev.MessageDelivered) -> None:
        message = self._open.get(event.message)
        if message is None:
            return
        message.delivered_at = event.at
        start = message.offered_at or event.at
        self._span("receive", "receive", message.attributes, message.context, start, event.at)
        labels = _labels("receive", "receive", message.attributes)
        self._consumed.add(1, labels)
        self._operation.record((event.at - start) / 1_000_000, labels)

    def _processed(self, event: ev.MessageProcessed) -> None:
        message = self._open.pop(event.message, None)
        if message is None:
            return
        start = message.delivered_at or event.at
        self._span("process", "process", message.attributes, message.context, start, event.at)
        self._process.record((event.at - start) / 1_000_000, _labels("process", "process", message.attributes))

    def _settled(self, seq: int, at: int, name: str, error: str = "", *, last: bool = False) -> None:
        message = self._open.pop(seq, None) if last else self._open.get(seq)
        if message is not None:
            self._span(name, "settle", message.attributes, message.context, at, at, error)

    def _span(
        self,
        name: str,
        kind: str,
        attributes: dict[str, Any],
        parent: "Context | None",
        start: int,
        end: int,
        error: str = "",
    ) -> "Context":
        from opentelemetry import trace

        own = {**attributes, "messaging.operation.name": name, "messaging.operation.type": kind}
        if error:
            own["error.type"] = error
        span = self._tracer.start_span(
            f"{name} {attributes['messaging.destination.name']}",
            context=parent,
            kind=_kind(kind),
            attributes=own,
            start_time=start * 1000,
        )
        if error:
            span.set_status(trace.Status(trace.StatusCode.ERROR, error))
        span.end(end * 1000)
        return trace.set_span_in_context(span)


def _kind(operation: str) -> Any:
    from opentelemetry.trace import SpanKind

    return {"send": SpanKind.PRODUCER, "process": SpanKind.CONSUMER}.get(operation, SpanKind.CLIENT)


def _labels(name: str, kind: str, attributes: dict[str, Any], error: str = "") -> dict[str, Any]:
    """Return a metric's attributes: only those whose values senders cannot choose."""
    labels = {
        "messaging.system": "tocsin",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "tocsin.project": attributes["tocsin.project"],
        "tocsin.message.priority": attributes["tocsin.message.priority"],
    }
    return labels | {"error.type": error} if error else labels


def _parent(metadata: bytes) -> "Context | None":
    """Return the sender's trace context, if the metadata has one."""
    if b"traceparent" not in metadata:
        return None
    try:
        known = _METADATA.decode(metadata)
    except msgspec.DecodeError:
        return None
    return _context(
        {name: value for name in ("traceparent", "tracestate") if (value := getattr(known, name)) is not None}
    )


def _context(carrier: dict[str, str]) -> "Context":
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(carrier)
