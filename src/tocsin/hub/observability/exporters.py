"""OpenTelemetry exporters, chosen by environment variables, and the telemetry that uses them.

The variables are OpenTelemetry's own, with their usual meaning. For spans `OTEL_TRACES_EXPORTER` and for metrics
`OTEL_METRICS_EXPORTER` name the exporters: `otlp`, `console`, `none`, or any other that is installed under
OpenTelemetry's entry points. If the variable is not set, `otlp` is used if an endpoint for the signal is set, and none
otherwise. An exporter that is not available is logged, and the hub runs without it.
"""

import logging
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from tocsin.hub.observability.telemetry import Telemetry

__all__ = ["asked_for", "configured"]

_log = logging.getLogger(__name__)
_SIGNALS = ("traces", "metrics")
_OTLP = "otlp"
_PROTOCOL = "http/protobuf"
#: OpenTelemetry's entry points for the protocols of OTLP, and the packages that contain them.
_PROTOCOLS = {
    _PROTOCOL: ("otlp_proto_http", "opentelemetry-exporter-otlp-proto-http"),
    "grpc": ("otlp_proto_grpc", "opentelemetry-exporter-otlp-proto-grpc"),
}


def asked_for(signal: str, environment: Mapping[str, str]) -> list[str]:
    """Return the names of the exporters for a signal, `traces` or `metrics`; none by default."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    names = [name.strip() for name in environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(",")]
    named = [name for name in dict.fromkeys(names) if name]
    if named:
        return [name for name in named if name != "none"]
    return [_OTLP] if _of_signal("ENDPOINT", signal, environment)[1] else []


def configured(project: str, *, messages_max: int) -> Telemetry | None:
    """Return telemetry for the configured exporters; null if none is configured or none is available."""
    asked = {signal: names for signal in _SIGNALS if (names := asked_for(signal, os.environ))}
    if not asked:
        return None
    try:
        from opentelemetry.metrics import NoOpMeterProvider
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import NoOpTracerProvider
    except ModuleNotFoundError as error:
        _log.warning("an OpenTelemetry exporter is configured and %s is missing: install tocsin[otel]", error.name)
        return None
    found = {signal: _made(signal, asked.get(signal, [])) for signal in _SIGNALS}
    if not any(found.values()):
        return None
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {"service.name": "tocsin"})
    tracers: Any = TracerProvider(resource=resource) if found["traces"] else NoOpTracerProvider()
    for exporter in found["traces"]:
        tracers.add_span_processor(BatchSpanProcessor(exporter))
    readers = [
        made if isinstance(made, MetricReader) else PeriodicExportingMetricReader(made) for made in found["metrics"]
    ]
    meters = MeterProvider(metric_readers=readers, resource=resource) if readers else NoOpMeterProvider()
    return Telemetry(tracers, meters, project, messages_max=messages_max)


def _made(signal: str, names: list[str]) -> list[Any]:
    """Return the exporters of a signal that are available, and log why others are not."""
    made = []
    for name in names:
        maker = _otlp(signal) if name == _OTLP else _installed(signal, name)
        if maker is None and name != _OTLP:
            variable = f"OTEL_{signal.upper()}_EXPORTER"
            _log.warning("%s names %r, which is not installed: no %s are exported there", variable, name, signal)
        if maker is not None:
            try:
                made.append(maker())
            except Exception as error:
                _log.warning("the exporter %r does not start, so no %s are exported there: %s", name, signal, error)
    return made


def _otlp(signal: str) -> Any:
    variable, protocol = _of_signal("PROTOCOL", signal, os.environ)
    if protocol and protocol not in _PROTOCOLS:
        known = " or ".join(_PROTOCOLS)
        _log.warning("%s is %r, not %s: no %s are exported", variable, protocol, known, signal)
        return None
    entry, package = _PROTOCOLS[protocol or _PROTOCOL]
    maker = _installed(signal, entry)
    if maker is None:
        spoken = protocol or _PROTOCOL
        _log.warning("OTLP by %s needs the package %s: install it, or no %s are exported", spoken, package, signal)
    return maker


def _installed(signal: str, name: str) -> Any:
    try:
        return next((entry.load() for entry in entry_points(group=f"opentelemetry_{signal}_exporter", name=name)), None)
    except ImportError as error:
        _log.warning("the exporter %r is installed and cannot be loaded: %s", name, error)
        return None


def _of_signal(what: str, signal: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable and value of an OTLP setting; the signal's own variable takes precedence."""
    own, general = f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}", f"OTEL_EXPORTER_OTLP_{what}"
    value = environment.get(own, "").strip()
    return (own, value) if value else (general, environment.get(general, "").strip())
