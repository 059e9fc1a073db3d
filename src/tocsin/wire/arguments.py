"""Conversion of named arguments to the request of an operation."""

import contextlib
from functools import cache
from typing import Any, get_args

import msgspec

from tocsin.core.errors import TocsinError, error_for, refusal
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.parsing import check_nesting
from tocsin.core.protocol.validation import explain, nearest
from tocsin.wire.operation import Operation

__all__ = ["RENAMED", "argument_names", "fields_of", "read_arguments", "unknown_argument"]

#: Names that fields had on some interface, and their one name now.
RENAMED = {
    "agent_type": "type",
    "message_type": "type",
    "supported": "versions",
    "own_id": "message_id",
    "query": "q",
    "words": "q",
}


def read_arguments(
    operation: Operation, arguments: dict[str, Any], envelope: Envelope | None = None, *, strict: bool = True
) -> Any:
    """Return the request of an operation, or raise what is wrong with the arguments.

    `strict` is off for text such as a query string, where numbers and booleans are words.
    """
    shape = fields_of(operation.request) if operation.takes_envelope else operation.request
    known = argument_names(shape)
    _check_nesting(arguments)
    for name in arguments:
        if name not in known:
            raise unknown_argument(operation.name, name, known)
    try:
        request = msgspec.convert(arguments, shape, strict=strict)
    except msgspec.ValidationError:
        raise error_for(explain(shape, arguments if strict else _values_of(shape, arguments))) from None
    if not operation.takes_envelope:
        return request
    if envelope is None:
        raise refusal("E_VALIDATION_001", "$.envelope is missing", field="$.envelope", expected="an envelope")
    return operation.request(envelope=envelope, **msgspec.structs.asdict(request))


def _check_nesting(arguments: dict[str, Any]) -> None:
    try:
        written = msgspec.json.encode(arguments)
    except RecursionError:
        raise refusal("E_PROTOCOL_002", "the arguments are nested too deeply") from None
    except (TypeError, ValueError, OverflowError):
        return  # Values that no JSON has do not fit the fields either.
    check_nesting(written)


def _values_of(shape: type[msgspec.Struct], words: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the words of a query string stand for, as far as they fit the types of their fields."""
    values = dict(words)
    for field in msgspec.structs.fields(shape):
        word = words.get(field.encode_name)
        if isinstance(word, str):
            for kind in (int, float, bool):
                if _admits(field.type, kind):
                    with contextlib.suppress(msgspec.ValidationError):
                        values[field.encode_name] = msgspec.convert(word, kind, strict=False)
                        break
    return values


def _admits(shape: Any, kind: type) -> bool:
    """Tell whether a type is, or is a union with, a plain type."""
    return shape is kind or any(_admits(part, kind) for part in get_args(shape) if not isinstance(part, msgspec.Meta))


@cache
def argument_names(shape: type[msgspec.Struct]) -> list[str]:
    """Return the names of a request's arguments."""
    return [field.encode_name for field in msgspec.structs.fields(shape)]


@cache
def fields_of(request: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the request's fields without its envelope, as a struct of their own."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(request):
        if field.name == "envelope":
            continue
        if field.required:
            fields.append((field.name, field.type))
        else:
            fields.append((field.name, field.type, field.default))
    return msgspec.defstruct(request.__name__, fields, frozen=True, forbid_unknown_fields=True, kw_only=True)


def unknown_argument(operation: str, name: str, known: list[str]) -> TocsinError:
    """Return the error for an argument that the operation does not have, with the nearest name that it has."""
    renamed = RENAMED.get(name)
    near = renamed if renamed in known else nearest(name, known)
    if near:
        hint = f"it is called {near!r}" if renamed in known else f"did you mean {near!r}?"
    else:
        hint = "known arguments: " + ", ".join(known) if known else "it takes no arguments"
    return refusal(
        "E_VALIDATION_004",
        f"{operation} has no argument {name[:64]!r}; {hint}",
        field=f"$.{name[:64]}",
        found=name[:64],
        expected=near or hint,
    )
