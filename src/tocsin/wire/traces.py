"""Propagation of a caller's trace: its `traceparent` becomes metadata of the message (W3C Trace Context).

Metadata reaches the recipient unchanged, so the recipient's spans can join the sender's trace. An envelope that has a
`traceparent` keeps it. An HTTP request has the trace in its headers, an MCP request in its `_meta`.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.core.protocol.envelope import TRACEPARENT, Envelope
from tocsin.core.protocol.parsing import body

__all__ = ["carry", "trace_in"]

#: A tracestate of the length that the recommendation requires everyone to propagate; all characters fit a header.
_TRACESTATE = re.compile(r"[ -~]{1,512}\Z")


def trace_in(carrier: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace of a carrier, as headers; empty if it has no valid one."""
    parent, state = carrier.get("traceparent"), carrier.get("tracestate")
    if not isinstance(parent, str) or not TRACEPARENT.match(parent):
        return {}
    if not isinstance(state, str) or not _TRACESTATE.match(state):
        return {"traceparent": parent}
    return {"traceparent": parent, "tracestate": state}


def carry(envelope: Envelope, headers: Mapping[str, str]) -> Envelope:
    """Return the envelope with the trace of its request."""
    trace = trace_in(headers)
    if not trace:
        return envelope
    metadata: dict[str, Any] = msgspec.json.decode(body(envelope.metadata))
    if "traceparent" in metadata:
        return envelope
    return msgspec.structs.replace(envelope, metadata=msgspec.Raw(msgspec.json.encode(metadata | trace)))
