"""The OpenAPI 3.1 document, generated from the table of operations and the described endpoints."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.http.serving import PARTIAL_STATUSES
from tocsin.gateways.problems import MEDIA_TYPE
from tocsin.wire.messages import InboxMessage, SendMessages
from tocsin.wire.operation import Access, Operation
from tocsin.wire.problems import ProblemDocument
from tocsin.wire.schemas import ENVELOPE

__all__ = ["document"]

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_ACCESS = {
    Access.AGENT: "",
    Access.DIRECTOR: "For directors and humans.",
    Access.OVERSEER: "For directors, humans and administrators.",
    Access.ADMIN: "Needs an admin token.",
}


def document(
    operations: Mapping[str, Operation], version: str, endpoints: Sequence[Endpoint] = (), *, trusting: bool = False
) -> dict[str, Any]:
    """Write the document; a hub without tokens describes the header that names the caller."""
    requests = {name: _described(operation) for name, operation in operations.items()}
    shapes: list[Any] = [ProblemDocument, ENVELOPE, *(operation.reply for operation in operations.values())]
    shapes += requests.values()
    shapes += [shape for endpoint in endpoints for shape in (endpoint.body, endpoint.reply) if shape is not None]
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    by_shape = {id(shape): schema for shape, schema in zip(shapes, schemas, strict=True)}
    fields = {name: components.pop(shape.__name__)["properties"] for name, shape in requests.items()}
    components[InboxMessage.__name__]["properties"]["envelope"] = by_shape[id(ENVELOPE)]
    paths: dict[str, dict[str, Any]] = {}
    for name, operation in operations.items():
        required = {field.name for field in msgspec.structs.fields(requests[name]) if field.required}
        entry = _entry(operation, fields[name], required, by_shape)
        paths.setdefault(operation.path, {})[operation.method.lower()] = entry
    for endpoint in endpoints:
        method, path = endpoint.http.split(" ")
        paths.setdefault(path, {})[method.lower()] = _endpoint_entry(endpoint, path, by_shape)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "version": version, "license": {"name": "MIT", "identifier": "MIT"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "parameters": _HEADERS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}} | (_UNAUTHENTICATED if trusting else {}),
        },
        "security": [{"token": []}, *({name: []} for name in _UNAUTHENTICATED if trusting)],
    }


def _described(operation: Operation) -> type[msgspec.Struct]:
    """Return the request without its envelope, under a name of its own."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(operation.request):
        if field.name in ("envelope", "envelopes"):
            continue
        if field.required:
            fields.append((field.name, field.type))
        elif field.default is msgspec.NODEFAULT:
            fields.append((field.name, field.type, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, field.type, field.default))
    return msgspec.defstruct(f"_{operation.name}", fields, frozen=True, kw_only=True)


def _header(name: str, text: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "description": text, "schema": {"type": "string"}}


#: Headers that several operations have.
_HEADERS = {
    "Signature": _header("Tocsin-Signature", "`v1=` and the HMAC-SHA256 of the body, in hex."),
    "Traceparent": _header("traceparent", "Trace of the caller (W3C); it becomes metadata of the message."),
    "Tracestate": _header("tracestate", "Goes with `traceparent`."),
}
_UNAUTHENTICATED = {
    "name": {
        "type": "apiKey",
        "in": "header",
        "name": "Tocsin-Agent",
        "description": "Name of the caller, on loopback and without a token; `Tocsin-Role` names its role.",
    }
}


def _known_header(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/parameters/{name}"}


def _parameter(name: str, place: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    schema = dict(schema)
    described = {"description": schema.pop("description")} if "description" in schema else {}
    if place == "path":
        schema = {key: value for key, value in schema.items() if key not in ("anyOf", "default")} or {}
        schema = {"type": "string", "minLength": 1} | schema
    return {"name": name, "in": place, "required": required, **described, "schema": schema}


def _entry(
    operation: Operation, fields: dict[str, Any], required: set[str], by_shape: dict[int, Any]
) -> dict[str, Any]:
    answer = {
        "description": "Success.",
        "content": {"application/json": {"schema": by_shape[id(operation.reply)]}},
    }
    problem = {"description": "Refused.", "content": {MEDIA_TYPE: {"schema": by_shape[id(ProblemDocument)]}}}
    partial = {str(status): answer for status in PARTIAL_STATUSES.get(operation.name, ())}
    in_path = _PARAMETER.findall(operation.path)
    parameters = [_parameter(name, "path", fields[name], required=True) for name in in_path]
    others = {name: schema for name, schema in fields.items() if name not in in_path}
    in_query = operation.takes_envelope or operation.method in ("GET", "DELETE")
    if in_query:
        parameters += [_parameter(name, "query", schema, required=name in required) for name, schema in others.items()]
    if operation.takes_envelope or operation.request is SendMessages:
        parameters += [_known_header(name) for name in ("Signature", "Traceparent", "Tracestate")]
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": parameters,
        "responses": {"200": answer, **partial, "default": problem},
    }
    if _ACCESS[operation.access]:
        entry["description"] = _ACCESS[operation.access]
    if operation.takes_envelope:
        entry["requestBody"] = _body(by_shape[id(ENVELOPE)], required=True)
    elif operation.request is SendMessages:
        # An invalid item does not make the batch invalid.
        items = {"anyOf": [by_shape[id(ENVELOPE)], {}]}
        note = "Envelopes; an invalid one has its refusal in its place."
        entry["requestBody"] = _body({"type": "array", "description": note, "items": items}, required=True)
    elif not in_query:
        wanted = [name for name in others if name in required]
        schema: dict[str, Any] = {"type": "object", "properties": others, "additionalProperties": False}
        entry["requestBody"] = _body(schema | ({"required": wanted} if wanted else {}), required=bool(wanted))
    return entry


def _body(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _endpoint_entry(endpoint: Endpoint, path: str, by_shape: dict[int, Any]) -> dict[str, Any]:
    reply = {"type": "object"} if endpoint.reply is None else by_shape[id(endpoint.reply)]
    problem: dict[str, Any] = {MEDIA_TYPE: {"schema": by_shape[id(ProblemDocument)]}}
    if endpoint.protocol is not None:
        problem["application/json"] = {"schema": {"type": "object"}}
    responses: dict[str, Any] = {}
    for status, media in endpoint.answers.items():
        content = {one: {"schema": reply} if one == "application/json" else {} for one in media}
        responses[str(status)] = {"description": "Success.", **({"content": content} if content else {})}
    entry: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "responses": {**responses, "default": {"description": "Refused.", "content": problem}},
    }
    parameters = [_parameter(name, "path", {}, required=True) for name in _PARAMETER.findall(path)]
    parameters += [_header(name, text, required=True) for name, text in endpoint.headers.items()]
    if parameters:
        entry["parameters"] = parameters
    if endpoint.body is not None:
        entry["requestBody"] = _body(by_shape[id(endpoint.body)], required=True)
    if endpoint.public:
        entry["security"] = []
    if endpoint.protocol is not None:
        entry["x-protocol"] = endpoint.protocol
    return entry
