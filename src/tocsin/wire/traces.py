"""Where a caller's trace goes on: its `traceparent` becomes metadata of what it sends (W3C Trace Context).

Metadata travels to the recipient as it came, so the recipient's work can join the sender's trace. An envelope that
carries a traceparent of its own keeps it. Where the trace stands differs: an HTTP request has it in its headers, an MCP
request in its `_meta`.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.core.protocol.envelope import TRACEPARENT, Envelope, body

__all__ = ["carry", "trace_in"]

#: What the recommendation asks everyone to be able to carry, characters; all of them fit a header.
_TRACESTATE = re.compile(r"[ -~]{1,512}\Z")


def trace_in(carrier: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace that a carrier names, as headers; nothing where it names none that is well-formed."""
    parent, state = carrier.get("traceparent"), carrier.get("tracestate")
    if not isinstance(parent, str) or not TRACEPARENT.match(parent):
        return {}
    if not isinstance(state, str) or not _TRACESTATE.match(state):
        return {"traceparent": parent}
    return {"traceparent": parent, "tracestate": state}


def carry(envelope: Envelope, headers: Mapping[str, str]) -> Envelope:
    """Return the envelope with the trace that its request belongs to."""
    trace = trace_in(headers)
    if not trace:
        return envelope
    metadata: dict[str, Any] = msgspec.json.decode(body(envelope.metadata))
    if "traceparent" in metadata:
        return envelope
    return msgspec.structs.replace(envelope, metadata=msgspec.Raw(msgspec.json.encode(metadata | trace)))
