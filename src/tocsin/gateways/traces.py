"""Where a caller's trace goes on: its `traceparent` header becomes metadata of what it sends (W3C Trace Context).

Metadata travels to the recipient as it came, so the recipient's work can join the sender's trace. An envelope that
carries a traceparent of its own keeps it.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.core.envelope import Envelope, body

__all__ = ["carry"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")
#: What the recommendation asks everyone to be able to carry, characters.
_TRACESTATE_MAX = 512


def carry(envelope: Envelope, headers: Mapping[str, str]) -> Envelope:
    """Return the envelope with the trace that its request belongs to."""
    parent = headers.get("traceparent", "")
    if not _TRACEPARENT.match(parent):
        return envelope
    metadata: dict[str, Any] = msgspec.json.decode(body(envelope.metadata))
    if "traceparent" in metadata:
        return envelope
    metadata["traceparent"] = parent
    state = headers.get("tracestate", "")
    if state and len(state) <= _TRACESTATE_MAX:
        metadata["tracestate"] = state
    return msgspec.structs.replace(envelope, metadata=msgspec.Raw(msgspec.json.encode(metadata)))
