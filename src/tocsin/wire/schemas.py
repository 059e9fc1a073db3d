"""Shapes for JSON schemas that differ from the structs that are decoded."""

from typing import Any

import msgspec

from tocsin.core.protocol.envelope import Envelope

__all__ = ["ENVELOPE"]


def _envelope_shape() -> type[msgspec.Struct]:
    """Describe the envelope with objects in place of the bytes that the core keeps."""
    hints = {"payload": dict[str, Any], "metadata": dict[str, Any]}
    fields: list[Any] = []
    for field in msgspec.structs.fields(Envelope):
        shape = hints.get(field.name, field.type)
        if field.required:
            fields.append((field.name, shape))
        else:
            fields.append((field.name, shape, {} if field.name == "metadata" else None))
    return msgspec.defstruct("Envelope", fields, rename="camel", frozen=True)


#: An envelope, with objects in place of bytes.
ENVELOPE = _envelope_shape()
