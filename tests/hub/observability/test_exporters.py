"""Where telemetry goes: what the environment asks for, what of it can be had, and that real exporters get it."""

import http.server
import logging
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.gateways.hubs import team_at
from tests.hub.observability.test_telemetry import TRACE, TRACEPARENT
from tocsin.cli.remote import Remote
from tocsin.hub.observability.exporters import asked_for, configured

CREDENTIALS = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER"
HERE = "http://127.0.0.1:1"
ALL, TRACES, METRICS = (f"OTEL_EXPORTER_OTLP_{part}ENDPOINT" for part in ("", "TRACES_", "METRICS_"))


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine exports, these tests say for themselves."""
    for signal in ("", "TRACES_", "METRICS_"):
        for what in ("ENDPOINT", "PROTOCOL"):
            monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{signal}{what}", raising=False)
        monkeypatch.delenv(f"OTEL_{signal}EXPORTER", raising=False)
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)


@pytest.mark.parametrize(
    ("environment", "traces", "metrics"),
    [
        ({}, [], []),
        ({ALL: HERE}, ["otlp"], ["otlp"]),
        ({TRACES: HERE}, ["otlp"], []),
        ({METRICS: HERE}, [], ["otlp"]),
        ({ALL: ""}, [], []),
        ({ALL: HERE, "OTEL_SDK_DISABLED": "true"}, [], []),
        ({ALL: HERE, "OTEL_METRICS_EXPORTER": "none"}, ["otlp"], []),
        ({ALL: HERE, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": ""}, [], ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp"], []),
        ({"OTEL_TRACES_EXPORTER": "console, otlp,console"}, ["console", "otlp"], []),
    ],
)
def test_nothing_is_exported_unless_the_environment_asks_for_it(
    environment: dict[str, str], traces: list[str], metrics: list[str]
) -> None:
    assert (asked_for("traces", environment), asked_for("metrics", environment)) == (traces, metrics)


def test_without_an_exporter_nothing_is_loaded() -> None:
    assert configured("team", messages_max=1) is None


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({ALL: HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "opentelemetry-exporter-otlp-proto-grpc"),
        (
            {ALL: HERE, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_METRICS_EXPORTER": "none"},
            "OTLP by grpc needs the package",
        ),
        ({ALL: HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER names 'zipkin', which is not installed"),
        ({TRACES: HERE, CREDENTIALS: "nobody"}, "the exporter 'otlp' does not start"),
    ],
)
def test_what_cannot_be_had_is_said_and_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, environment: dict[str, str], sentence: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING):
        assert configured("team", messages_max=1) is None
    assert sentence in caplog.text


@pytest.mark.parametrize(
    ("environment", "entries"),
    [
        ({ALL: HERE}, {"otlp_proto_http"}),
        ({ALL: HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"otlp_proto_grpc"}),
        (
            {ALL: HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"},
            {"otlp_proto_grpc", "otlp_proto_http"},
        ),
    ],
)
def test_the_protocol_decides_which_exporter_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], entries: set[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    looked_for: set[tuple[str, str]] = set()

    def nothing(*, group: str, name: str) -> list[EntryPoint]:
        looked_for.add((group, name))
        return []

    monkeypatch.setattr("tocsin.hub.observability.exporters.entry_points", nothing)
    assert configured("team", messages_max=1) is None
    assert {name for _, name in looked_for} == entries
    assert {group for group, _ in looked_for} == {"opentelemetry_traces_exporter", "opentelemetry_metrics_exporter"}


class Collector:
    """A collector that keeps what it is sent."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.bodies.append((self.path, body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


async def test_a_hub_exports_to_a_real_collector_and_carries_the_trace_to_the_recipient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    async with team_at(tmp_path) as team:
        await team.register("ada")
        await team.register("bob")
        headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
        own = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
        await team.post("ada", "/v1/messages", envelope(1), headers=headers)
        await team.post("ada", "/v1/messages/batch", [envelope(2), envelope(3, metadata=own)], headers=headers)
        await team.post("ada", "/v1/messages", envelope(4), headers={"traceparent": "nonsense"})
        drained = (await team.post("bob", "/v1/inbox/drain")).json()["deliveries"]
        carried = {item["envelope"]["messageId"]: item["envelope"]["metadata"] for item in drained}
        assert {name: found.get("traceparent") for name, found in carried.items()} == {
            "msg_1_x": TRACEPARENT,
            "msg_2_x": TRACEPARENT,
            "msg_3_x": own["traceparent"],
            "msg_4_x": None,
        }
        assert carried["msg_1_x"]["tracestate"] == "vendor=1"
    spans = [
        span
        for path, body in collector.bodies
        if path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert [span.name for span in spans] == ["send bob"] * 4
    assert [span.trace_id.hex() for span in spans[:3]] == [TRACE, TRACE, "1" * 32]
    names = {
        metric.name
        for path, body in collector.bodies
        if path == "/v1/metrics"
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert "messaging.client.sent.messages" in names


async def test_only_what_has_an_endpoint_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    """With an endpoint for spans alone, nobody goes looking for a place to put metrics."""
    monkeypatch.setenv(TRACES, f"http://127.0.0.1:{collector.server.server_port}/v1/traces")
    async with team_at(tmp_path) as team:
        assert not [thread.name for thread in threading.enumerate() if "MetricReader" in thread.name]
        await team.register("ada")
        await team.post("ada", "/v1/messages", envelope(1, receiver="nobody"))
    assert {path for path, _ in collector.bodies} == {"/v1/traces"}


def test_a_hub_says_at_its_start_what_it_cannot_export_and_exports_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin,console")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with RunningHub(tmp_path / "data") as hub:
        log = hub.log.read_text()
        assert "OTEL_TRACES_EXPORTER names 'zipkin', which is not installed: no traces are exported there" in log
        assert "OTLP by grpc needs the package opentelemetry-exporter-otlp-proto-grpc" in log
        admin = Remote(hub.url, (hub.data / "admin.token").read_text().strip())
        body = {"agent": "ada", "role": "primary", "type": "Manager"}
        ada = Remote(hub.url, admin.post("v1", "admin", "tokens", body=body)["token"])
        traced = envelope(1, receiver="ada", metadata={"traceparent": TRACEPARENT})
        ada.post("v1", "messages", body=traced)
        assert hub.stop() == 0
        assert TRACE in "".join(hub.said)
