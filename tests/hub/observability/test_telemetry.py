"""Telemetry: what an OpenTelemetry SDK is told."""

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.core.driver import Team
from tocsin.hub.observability.telemetry import Telemetry

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


class Watched:
    """Telemetry into memory."""

    def __init__(self, messages_max: int = 100) -> None:
        self._spans = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        meters = MeterProvider(metric_readers=[self._reader])
        self.telemetry = Telemetry(tracers, meters, "team", messages_max=messages_max)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def counted(self, name: str) -> dict[tuple[Any, Any], float]:
        """Return a metric's values by operation and error."""
        found: dict[tuple[Any, Any], float] = {}
        data = self._reader.get_metrics_data()
        assert data is not None
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points if metric.name == name else ():
                        labels = point.attributes or {}
                        value = point.count if hasattr(point, "count") else point.value
                        found[labels.get("messaging.operation.name"), labels.get("error.type")] = value
        return found


def told(team: Team, messages_max: int = 100) -> Watched:
    """Tell telemetry everything that happened to a team."""
    watched = Watched(messages_max)
    watched.telemetry.follow(1, team.events)
    return watched


def pair() -> tuple[Team, str]:
    team = Team()
    team.register("ada", "Manager")
    team.register("bob")
    return team, team.attach("bob", "piggyback")


def test_a_messages_spans_follow_its_life_and_its_senders_trace() -> None:
    team, session = pair()
    team.send("ada", "bob", message_id="msg_1_x", correlation_id="c-1", metadata={"traceparent": TRACEPARENT})
    team.advance(2)
    team.drain(session)
    team.advance(1)
    team.confirm("bob", "msg_1_x")
    team.ack("bob", "msg_1_x")
    team.advance(4)
    team.done("bob", "msg_1_x")
    watched = told(team)
    send, receive, ack, process = watched.spans
    assert [span.name for span in watched.spans] == ["send bob", "receive bob", "ack bob", "process bob"]
    assert [span.kind for span in watched.spans] == [
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
    ]
    assert {f"{span.context.trace_id:032x}" for span in watched.spans if span.context} == {TRACE}
    assert send.parent is not None
    assert f"{send.parent.span_id:016x}" == PARENT
    assert {span.parent.span_id for span in (receive, ack, process) if span.parent} == {
        send.context.span_id if send.context else 0
    }
    assert [seconds(span) for span in (receive, ack, process)] == [1.0, 0.0, 4.0]
    assert send.attributes is not None
    known = {name: value for name, value in send.attributes.items() if name != "messaging.message.body.size"}
    assert known == {
        "messaging.system": "tocsin",
        "messaging.destination.name": "bob",
        "messaging.message.id": "msg_1_x",
        "messaging.message.conversation_id": "c-1",
        "messaging.client.id": "ada",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "tocsin.project": "team",
        "tocsin.message.type": "StatusUpdate",
        "tocsin.message.priority": "Info",
        "tocsin.publish_path": "buffered_for_piggyback",
    }


def seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


@pytest.mark.parametrize(
    ("end", "name", "error"),
    [
        (lambda team, session: team.recall("ada", "msg_1_x"), "recall bob", None),
        (lambda team, session: team.advance(10**6), "expire bob", "ttl"),
        (
            lambda team, session: (team.drain(session), team.nack("bob", "msg_1_x", can_retry=False, code="E_X")),
            "nack bob",
            "E_X",
        ),
    ],
)
def test_however_a_message_ends_there_is_a_span_that_says_so(end: Any, name: str, error: str | None) -> None:
    team, session = pair()
    team.send("ada", "bob", message_id="msg_1_x")
    end(team, session)
    (span,) = [span for span in told(team).spans if span.name == name]
    assert (span.attributes or {}).get("error.type") == error
    assert span.status.is_ok is (error is None)


def test_a_refusal_is_a_failed_send() -> None:
    team, _ = pair()
    team.refused_send("ada", "nobody")
    watched = told(team)
    (span,) = watched.spans
    assert (span.name, span.status.is_ok) == ("send nobody", False)
    assert span.parent is None
    assert watched.counted("messaging.client.sent.messages") == {("send", "E_ROUTING_001"): 1}


def test_a_refusal_is_in_its_senders_trace_too() -> None:
    team, _ = pair()
    team.refused_send("ada", "nobody", metadata={"traceparent": TRACEPARENT})
    (span,) = told(team).spans
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)


def test_metrics_count_what_was_sent_received_and_processed() -> None:
    team, session = pair()
    for number in range(3):
        team.send("ada", "bob", message_id=f"msg_{number}_x")
    team.drain(session, 2)
    team.confirm("bob", "msg_0_x", "msg_1_x")
    team.done("bob", "msg_0_x")
    watched = told(team)
    assert watched.counted("messaging.client.sent.messages") == {("send", None): 3}
    assert watched.counted("messaging.client.consumed.messages") == {("receive", None): 2}
    assert watched.counted("messaging.client.operation.duration") == {("send", None): 3, ("receive", None): 2}
    assert watched.counted("messaging.process.duration") == {("process", None): 1}


def test_the_copies_of_a_broadcast_are_in_its_senders_trace() -> None:
    team, _ = pair()
    team.register("cyd")
    team.broadcast("ada", metadata={"traceparent": TRACEPARENT})
    spans = told(team).spans
    assert sorted(span.name for span in spans) == ["send bob", "send cyd"]
    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {TRACE}


@pytest.mark.parametrize("garbage", ["", "00-zz-1-01", 7, None])
def test_a_traceparent_that_is_none_is_nobodys_parent(garbage: object) -> None:
    team, _ = pair()
    team.send("ada", "bob", metadata={"traceparent": garbage})
    (span,) = told(team).spans
    assert span.parent is None


def test_telemetry_forgets_the_oldest_message_when_there_are_too_many() -> None:
    team, session = pair()
    for number in range(3):
        team.send("ada", "bob", message_id=f"msg_{number}_x")
    team.drain(session)
    team.confirm("bob", *(f"msg_{number}_x" for number in range(3)))
    received = [span for span in told(team, messages_max=2).spans if span.name == "receive bob"]
    assert [(span.attributes or {})["messaging.message.id"] for span in received] == ["msg_1_x", "msg_2_x"]
