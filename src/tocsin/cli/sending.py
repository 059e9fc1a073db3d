"""`tocsin send`: an envelope made out of what was said on the command line, and sent."""

import json
import secrets
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.output import fail, refusals_told, show_json, table
from tocsin.cli.remote import Exit, Remote

__all__ = ["PAYLOAD", "begun", "payload_from", "send"]

PAYLOAD = "JSON, an object; @FILE for what is in a file; - for what comes on standard input."


class DeliveryClass(StrEnum):
    """Whether the recipient has to be there."""

    SYNC = "sync"
    ASYNC = "async"


def send(
    context: typer.Context,
    receiver: Annotated[str, typer.Argument(help="An agent, or * for all.")],
    text: Annotated[str | None, typer.Argument(help="What to say: payload.text.")] = None,
    payload: Annotated[str | None, typer.Option(help=PAYLOAD, metavar="JSON|@FILE|-")] = None,
    message_type: Annotated[
        str, typer.Option("--type", help="The message type: one of APM's, a signal, CUSTOM_… or one of the policy.")
    ] = "StatusUpdate",
    priority: Annotated[
        str | None, typer.Option(help="Info, Coordinate, Blocking, Critical, …; the type's unless said otherwise.")
    ] = None,
    correlation_id: Annotated[str | None, typer.Option(help="The thread that it belongs to, or opens.")] = None,
    delivery_class: Annotated[
        DeliveryClass | None, typer.Option(help="sync: fail at once where the recipient is away; async: wait for it.")
    ] = None,
    importance: Annotated[
        int | None, typer.Option(help="1 to 10: what comes first among messages of one priority.")
    ] = None,
    ttl_s: Annotated[
        float | None, typer.Option("--ttl-s", "--ttl", help="Seconds to live; the type's unless said otherwise.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Send a message: a text, or a payload as its type asks for. It is signed with the token."""
    content = _content(text, payload)
    with refusals_told(as_json):
        remote = remote_of(context)
        envelope = begun(remote, receiver, message_type, content)
        qos = {"deliveryClass": delivery_class, "importance": importance}
        said = {
            "priority": priority,
            "correlationId": correlation_id,
            "metadata": None if ttl_s is None else {"ttl": ttl_s},
            "qos": {name: value for name, value in qos.items() if value is not None} or None,
        }
        envelope |= {name: value for name, value in said.items() if value is not None}
        answer = remote.call("POST", ("v1", "messages"), envelope, {}, signed=True)
        if as_json:
            show_json(answer)
        else:
            rows = answer.get("receipts") or [answer["receipt"]]
            table(rows, "signal_id", "recipient", "recipient_state", "publish_path", "priority", "durability")


def begun(remote: Remote, receiver: str, message_type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Begin an envelope of the one who asks, who is registered where it is not yet."""
    me, now = remote.get("v1", "me"), datetime.now(UTC)
    if me["registered"] is None:
        remote.call("PUT", ("v1", "me"), {}, {})
    return {
        "version": "1.1.0",
        "messageId": f"msg_{now:%Y%m%d}_{now:%H%M%S}_{secrets.token_hex(6)}",
        "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "sender": {"agentId": me["agent"], "type": (me["registered"] or {"type": "AdHoc"})["type"]},
        "receiver": {"agentId": receiver, "type": "*"},
        "messageType": message_type,
        "payload": payload,
    }


def _content(text: str | None, payload: str | None) -> dict[str, Any]:
    """Return the payload: what was given as one, and the text in it."""
    if text is None and payload is None:
        raise fail("say something: a text, or --payload", Exit.USAGE)
    content = {} if payload is None else payload_from(payload)
    if text is not None and "text" in content:
        raise fail("--payload has a text already: say it there, or as an argument", Exit.USAGE)
    return content if text is None else content | {"text": text}


def payload_from(given: str) -> dict[str, Any]:
    """Return a payload that was given as JSON, as a file or on standard input; what is none ends the command."""
    try:
        written = sys.stdin.read() if given == "-" else given
        written = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else written
    except (OSError, UnicodeDecodeError) as error:
        raise fail(f"--payload {given} cannot be read: {error}", Exit.USAGE) from None
    try:
        content = json.loads(written, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise fail(f"--payload is not JSON: {error}", Exit.USAGE) from None
    if not isinstance(content, dict):
        raise fail(f'--payload must be an object, such as {{"taskId": "1"}}, not {written.strip()[:40]}', Exit.USAGE)
    return content


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON knows")
