"""JSON schemas of the tools' arguments and results, derived from their rows."""

from functools import cache
from typing import Any

import msgspec

from tocsin.wire.operation import Operation

__all__ = ["RECEIPT_ARGUMENT", "input_schema", "listed_schema", "output_schema"]

#: Argument of every tool: the cursors of earlier answers.
RECEIPT_ARGUMENT = "receipt"
_RECEIPT: dict[str, Any] = {"type": "string", "description": "Cursor of the last answer, if it had one."}
_LIMITS = frozenset(
    {"pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems"}
)
_REF = "#/$defs/{name}"
#: Short, because it is part of every result; the instructions of the server describe it.
_INBOX: dict[str, Any] = {"type": "object", "description": "Waiting and urgent messages, if there are any."}
_NOTE: dict[str, Any] = {"type": "string", "description": "How to take the data of other agents that it has."}


@cache
def input_schema(row: Operation) -> dict[str, Any]:
    """Return the schema of a tool's arguments, the required ones first; optional ones are left out, never null."""
    schema = _schema(row.request)
    required = schema.get("required", [])
    properties = {name: _without_null(field) for name, field in schema["properties"].items()}
    properties[RECEIPT_ARGUMENT] = _RECEIPT
    schema["properties"] = dict(sorted(properties.items(), key=lambda item: item[0] not in required))
    schema.pop("description", None)
    return schema | {"additionalProperties": False}


@cache
def listed_schema(row: Operation, *, receipt: bool) -> dict[str, Any]:
    """Return the schema of a tool's arguments as it is listed: types, choices and meanings.

    Limits of lengths and numbers are left out, because a refusal names them; so is the receipt where it is not needed.
    """
    schema = input_schema(row)
    properties = {
        name: _shortened(field) for name, field in schema["properties"].items() if receipt or name != RECEIPT_ARGUMENT
    }
    # The server refuses unknown arguments with the nearest name.
    kept = {name: part for name, part in schema.items() if name != "additionalProperties"}
    return kept | {"properties": properties}


def _shortened(field: Any) -> Any:
    if isinstance(field, list):
        return [_shortened(part) for part in field]
    if not isinstance(field, dict):
        return field
    return {name: _shortened(part) for name, part in field.items() if name not in _LIMITS and part not in ([], "")}


@cache
def output_schema(row: Operation) -> dict[str, Any]:
    """Return the schema of a tool's structured result: the reply's fields, and the inbox."""
    schema = _schema(row.reply)
    if schema.get("type") != "object":
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        schema = {"type": "object", "properties": {"items": schema}, "required": ["items"]} | definitions
    schema["properties"] = {"inbox": _INBOX, "note": _NOTE} | schema["properties"]
    return schema


def _schema(shape: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([shape], ref_template=_REF)
    if "$ref" in schema:
        schema = components.pop(schema["$ref"].rpartition("/")[2])
    found: dict[str, Any] = _tidied(schema | ({"$defs": components} if components else {}))
    return found


def _tidied(schema: Any) -> Any:
    """Drop the names of structs, and write the end of a pattern as JSON Schema does."""
    if isinstance(schema, list):
        return [_tidied(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {name: _tidied(part) for name, part in schema.items() if name != "title" or not isinstance(part, str)}
    if isinstance(tidied.get("pattern"), str):
        tidied["pattern"] = tidied["pattern"].replace("\\Z", "$")
    return tidied


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
    if not kinds:
        return field
    rest = {name: part for name, part in field.items() if name != "anyOf" and (name, part) != ("default", None)}
    return rest | ({"anyOf": kinds} if len(kinds) > 1 else kinds[0] | rest)
