"""The OpenAPI 3.1 document, made out of the table of operations and the structs that they take and answer with."""

import re
from typing import Any

import msgspec

from tocsin.core.envelope import Envelope
from tocsin.gateways.http.operation import Access, Operation
from tocsin.gateways.http.problems import MEDIA_TYPE, ProblemDocument

__all__ = ["ENVELOPE", "document"]

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")


def _envelope_shape() -> type:
    """Describe the envelope with objects in place of the bytes that the core keeps them as."""
    hints = {"payload": dict[str, Any], "metadata": dict[str, Any]}
    fields: list[Any] = []
    for field in msgspec.structs.fields(Envelope):
        shape = hints.get(field.name, field.type)
        if field.required:
            fields.append((field.name, shape))
        else:
            fields.append((field.name, shape, {} if field.name == "metadata" else None))
    return msgspec.defstruct("Envelope", fields, rename="camel", frozen=True)


#: An envelope with objects in place of the bytes that the core keeps.
ENVELOPE = _envelope_shape()
_ENVELOPES: Any = list[ENVELOPE]  # type: ignore[valid-type]
_BODIES: dict[str, Any] = {"Envelope": ENVELOPE, "Envelopes": _ENVELOPES}


def document(operations: tuple[Operation, ...], version: str) -> dict[str, Any]:
    """Write the document."""
    shapes: list[Any] = [ProblemDocument]
    for operation in operations:
        shapes += [shape for shape in (_body(operation), operation.query) if shape is not None]
        if operation.reply is not bytes:
            shapes.append(operation.reply)
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    by_shape = {id(shape): schema for shape, schema in zip(shapes, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        entry = _entry(operation, by_shape, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "version": version, "license": {"name": "MIT", "identifier": "MIT"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _body(operation: Operation) -> Any:
    return _BODIES[operation.body] if isinstance(operation.body, str) else operation.body


def _entry(operation: Operation, by_shape: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    text = operation.reply is bytes
    schema = {"type": "string"} if text else by_shape[id(operation.reply)]
    answer = {"description": "Done.", "content": {operation.media: {"schema": schema}}}
    problem = {"description": "Refused.", "content": {MEDIA_TYPE: {"schema": by_shape[id(ProblemDocument)]}}}
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {"200": answer, **{str(status): answer for status in operation.also}, "default": problem},
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(operation.path)
    ]
    if operation.query is not None:
        described = components[operation.query.__name__]
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in described["properties"].items()
        ]
    if operation.envelope:
        parameters.append({"name": "Tocsin-Signature", "in": "header", "required": False, "schema": {"type": "string"}})
    if parameters:
        entry["parameters"] = parameters
    body = _body(operation)
    if body is not None:
        content = {"application/json": {"schema": by_shape[id(body)]}}
        entry["requestBody"] = {"required": operation.envelope or _asks_for_something(body), "content": content}
    if operation.access is Access.OPEN:
        entry["security"] = []
    return entry


def _asks_for_something(body: Any) -> bool:
    """Tell whether a body has to be there: one of defaults alone may be left out."""
    return any(field.required for field in msgspec.structs.fields(body))
