"""The OpenAPI 3.1 document, made out of the table of operations and the structs that they take and answer with.

What other gateways serve beside the table is in it, too, as far as they are there: each such door describes itself.
"""

import re
from typing import Any

import msgspec

from tocsin.core.protocol.envelope import Envelope
from tocsin.gateways.http.operation import Access, Operation
from tocsin.gateways.http.problems import MEDIA_TYPE, ProblemDocument

__all__ = ["ENVELOPE", "Door", "document"]

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


class Door(msgspec.Struct, frozen=True):
    """What another gateway serves beside the operations."""

    method: str
    path: str
    name: str
    summary: str
    tag: str
    #: What it answers with, by status: media types, or nothing.
    answers: dict[int, tuple[str, ...]]
    access: Access = Access.AGENT
    #: What its body must be; nothing where it takes none.
    body: Any = None
    #: What it answers with as JSON; nothing is any object.
    reply: Any = None
    #: Headers that it needs, and what they are for.
    headers: dict[str, str] = {}
    #: The protocol that is spoken there, where it is one of its own.
    protocol: str | None = None


def document(
    operations: tuple[Operation, ...], version: str, doors: tuple[Door, ...] = (), *, trusting: bool = False
) -> dict[str, Any]:
    """Write the document; that of a hub that takes callers at their word says how they give it."""
    shapes: list[Any] = [ProblemDocument]
    for operation in operations:
        shapes += [shape for shape in (_body(operation), operation.query) if shape is not None]
        if operation.reply is not bytes:
            shapes.append(operation.reply)
    shapes += [shape for door in doors for shape in (door.body, door.reply) if shape is not None]
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    by_shape = {id(shape): schema for shape, schema in zip(shapes, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        entry = _entry(operation, by_shape, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = entry
    for door in doors:
        paths.setdefault(door.path, {})[door.method.lower()] = _door_entry(door, by_shape)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "version": version, "license": {"name": "MIT", "identifier": "MIT"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "parameters": _HEADERS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}} | (_AT_THEIR_WORD if trusting else {}),
        },
        "security": [{"token": []}, *({name: []} for name in _AT_THEIR_WORD if trusting)],
    }


def _header(name: str, text: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "description": text, "schema": {"type": "string"}}


#: Headers that several operations know.
_HEADERS = {
    "Receipts": _header("Tocsin-Receipts", "`explicit`: this call is no receipt of what was handed out before."),
    "Signature": _header("Tocsin-Signature", "`v1=` and the HMAC-SHA256 of the body, in hex."),
    "Traceparent": _header("traceparent", "Where the caller's trace goes on (W3C); becomes metadata of the message."),
    "Tracestate": _header("tracestate", "Comes along with `traceparent`."),
}
_AT_THEIR_WORD = {
    "word": {
        "type": "apiKey",
        "in": "header",
        "name": "Tocsin-Agent",
        "description": "Who calls, on loopback and without a token; `Tocsin-Role` says in which role.",
    }
}


def _known_header(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/parameters/{name}"}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(path)
    ]


def _door_entry(door: Door, by_shape: dict[int, Any]) -> dict[str, Any]:
    reply = {"type": "object"} if door.reply is None else by_shape[id(door.reply)]
    problem: dict[str, Any] = {MEDIA_TYPE: {"schema": by_shape[id(ProblemDocument)]}}
    if door.protocol is not None:
        problem["application/json"] = {"schema": {"type": "object"}}
    responses: dict[str, Any] = {}
    for status, media in door.answers.items():
        content = {one: {"schema": reply} if one == "application/json" else {} for one in media}
        responses[str(status)] = {"description": "Done.", **({"content": content} if content else {})}
    entry: dict[str, Any] = {
        "operationId": door.name,
        "summary": door.summary,
        "tags": [door.tag],
        "responses": {**responses, "default": {"description": "Refused.", "content": problem}},
    }
    parameters = _path_parameters(door.path)
    parameters += [_header(name, text, required=True) for name, text in door.headers.items()]
    if parameters:
        entry["parameters"] = parameters
    if door.body is not None:
        entry["requestBody"] = {"required": True, "content": {"application/json": {"schema": by_shape[id(door.body)]}}}
    if door.access is Access.OPEN:
        entry["security"] = []
    if door.protocol is not None:
        entry["x-protocol"] = door.protocol
    return entry


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
    parameters = _path_parameters(operation.path)
    if operation.query is not None:
        described = components[operation.query.__name__]
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in described["properties"].items()
        ]
    if operation.access is not Access.OPEN:
        parameters.append(_known_header("Receipts"))
    if operation.envelope:
        parameters.append(_known_header("Signature"))
    if operation.traced:
        parameters += [_known_header("Traceparent"), _known_header("Tracestate")]
    if parameters:
        entry["parameters"] = parameters
    body = _body(operation)
    if body is not None:
        wanted = by_shape[id(body)]
        if body is _ENVELOPES:
            # What is wrong in a batch does not make the batch wrong.
            note = "Each an envelope; what is none has its refusal in its place."
            wanted = {"type": "array", "description": note, "items": {"anyOf": [wanted["items"], {}]}}
        content = {"application/json": {"schema": wanted}}
        entry["requestBody"] = {"required": operation.envelope or _asks_for_something(body), "content": content}
    if operation.access is Access.OPEN:
        entry["security"] = []
    return entry


def _asks_for_something(body: Any) -> bool:
    """Tell whether a body has to be there: one of defaults alone may be left out."""
    return any(field.required for field in msgspec.structs.fields(body))
