"""The AsyncAPI 3 document, generated from the structs that the gateway decodes and encodes."""

from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.gateways import feed
from tocsin.gateways.feed_items import ITEMS, record_shapes
from tocsin.gateways.websocket.operations import CALLABLE
from tocsin.wire import socket as wire
from tocsin.wire.messages import SendReply
from tocsin.wire.problems import ProblemDocument
from tocsin.wire.schemas import ENVELOPE

__all__ = ["document"]

_REF = "#/components/schemas/{name}"
#: Type of the answer to each operation.
_ANSWERS: dict[type, Any] = {
    wire.Hello: wire.Welcome,
    wire.Send: SendReply,
    wire.Confirm: cmd.Confirmed,
    wire.Acknowledge: cmd.Acknowledged,
    wire.Reject: cmd.Rejected,
    wire.MarkProcessed: cmd.Done,
    wire.Recall: cmd.RecallResult,
    wire.Credit: cmd.SessionReady,
    wire.Ping: wire.Waiting,
    wire.Call: Any,
    wire.Bye: cmd.Done,
}
_CLOSING = {
    "1000": "The client sent bye.",
    "1001": "The hub is shutting down.",
    "1007": "A text frame was not UTF-8.",
    "1009": "A frame was larger than frame_bytes_max.",
    "1011": "The client did not answer a WebSocket ping.",
    "1013": "The token cannot be checked for now, because the database does not answer.",
    "4400": "Too many operations could not be parsed.",
    "4401": "The token was revoked or has expired.",
    "4408": "The client did not send hello, was silent too long, or read too slowly.",
    "4409": "Another socket has resumed the session, or the session has ended.",
}
_FEED_CLOSING = {
    "1001": "The hub is shutting down.",
    "4401": "The token was revoked or has expired.",
}
_OUTGOING = (wire.Answer, wire.Refusal, wire.Push, wire.Goodbye)


def document(version: str) -> dict[str, Any]:
    """Return the document."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tocsin over WebSocket",
            "version": version,
            "description": "Frames are JSON arrays: of operations to the hub, of items from it.",
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "hub": {
                "host": "127.0.0.1:7077",
                "protocol": "ws",
                "security": [{"$ref": "#/components/securitySchemes/token"}],
            }
        },
        "channels": {"socket": _socket(), "feed": _feed()},
        "operations": {
            "ask": _operation(
                "receive", "socket", "operations", "Receive operations; each is answered once it is durable."
            ),
            "tell": _operation("send", "socket", "items", "Send answers, pushed messages and the reason for closing."),
            "show": _operation(
                "send", "feed", "feed", "Send events as they become durable, and which events were missed."
            ),
        },
        "components": {
            "messages": {
                "operations": {"title": "Operations", "payload": _ref("Operations")},
                "items": {"title": "Items", "payload": _ref("Items")},
                "feed": {"title": "Feed", "payload": _ref("Feed")},
            },
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _socket() -> dict[str, Any]:
    return {
        "address": "/v1/socket",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in ("operations", "items")},
        "bindings": {"ws": {"method": "GET", "headers": _headers(wire.SUBPROTOCOL, required=True)}},
        "x-close-codes": _CLOSING,
    }


def _feed() -> dict[str, Any]:
    kinds = {"type": "string", "description": "Kinds of events to send, separated by commas; all if absent."}
    query = {"type": "object", "properties": {"kinds": kinds}}
    headers = _headers(feed.SUBPROTOCOL, required=False)
    return {
        "address": feed.PATH,
        "description": "The live feed, for directors, humans and admin tokens. The hub ignores frames from the client.",
        "messages": {"feed": {"$ref": "#/components/messages/feed"}},
        "bindings": {"ws": {"method": "GET", "headers": headers, "query": query}},
        "x-close-codes": _FEED_CLOSING,
    }


def _schemas() -> dict[str, Any]:
    answers = [shape for shape in dict.fromkeys(_ANSWERS.values()) if shape is not Any]
    records = record_shapes()
    shapes = [*wire.OPERATION_TYPES, *_OUTGOING, *answers, ENVELOPE, ProblemDocument, *ITEMS, *records]
    _, schemas = msgspec.json.schema_components(shapes, ref_template=_REF)
    for name in ("Send", "Call", "Deliver"):
        schemas[name]["properties"]["envelope"] = _ref("Envelope")
    schemas["Call"]["properties"]["operation"]["enum"] = list(CALLABLE)
    for shape, answer in _ANSWERS.items():
        schemas[shape.__name__]["x-answer"] = {} if answer is Any else _ref(answer.__name__)
    schemas["Operations"] = _frame(wire.OPERATION_TYPES)
    schemas["Items"] = _frame(_OUTGOING)
    schemas["FeedEvent"]["properties"]["event"] = {"oneOf": [_ref(shape.__name__) for shape in records]}
    schemas["Feed"] = _frame(ITEMS)
    return schemas


def _frame(shapes: tuple[type, ...]) -> dict[str, Any]:
    return {"type": "array", "items": {"oneOf": [_ref(shape.__name__) for shape in shapes]}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _operation(action: str, channel: str, message: str, summary: str) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
        "summary": summary,
    }


def _headers(subprotocol: str, *, required: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "Authorization": {"type": "string", "description": "`Bearer`, a space and a token."},
            "Sec-WebSocket-Protocol": {"type": "string", "const": subprotocol},
        },
        "required": ["Authorization", *(["Sec-WebSocket-Protocol"] if required else [])],
    }
