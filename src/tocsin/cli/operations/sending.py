"""Envelopes made from the command line."""

from typing import Annotated, Any

import msgspec
import typer

from tocsin.cli.operations.parameters import JSON_METAVAR, object_from
from tocsin.cli.output import fail
from tocsin.cli.remote import Exit, Remote
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.wire.drafts import Draft, Written
from tocsin.wire.envelope_writer import EnvelopeWriter
from tocsin.wire.signatures import Signer

__all__ = ["draft", "write"]


def draft(
    receiver: Annotated[str, typer.Argument(help="An agent, or * for all.")],
    text: Annotated[
        str | None, typer.Argument(help="Text of the message; it becomes the field text of the payload.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            help="The payload, a JSON object; @FILE reads a file, - reads standard input.", metavar=JSON_METAVAR
        ),
    ] = None,
    type: Annotated[str, typer.Option(help="Message type: a built-in one, CUSTOM_…, or one of the policy.")] = (  # noqa: A002
        "StatusUpdate"
    ),
    priority: Annotated[
        str | None,
        typer.Option(help="Info, Coordinate, Blocking or Critical, from low to high; by default the type's."),
    ] = None,
    correlation_id: Annotated[str | None, typer.Option(help="The thread that it belongs to, or opens.")] = None,
    delivery_class: Annotated[
        DeliveryClass | None,
        typer.Option(help="sync fails at once if the recipient is not available; async waits for it."),
    ] = None,
    importance: Annotated[
        int | None, typer.Option(help="1 to 10; orders the messages of one priority, the highest first.")
    ] = None,
    decay_rate: Annotated[
        float | None, typer.Option(help="Share of the importance that is lost per decay interval.")
    ] = None,
    ttl_s: Annotated[
        float | None, typer.Option("--ttl-s", "--ttl", help="Time to live, seconds; by default the type's.")
    ] = None,
) -> Draft:
    """Return the draft that the options describe; end the command if they contradict each other."""
    return Draft(
        to=receiver,
        type=type,
        payload=_payload(text, payload),
        priority=priority,
        ttl_s=ttl_s,
        correlation_id=correlation_id,
        importance=importance,
        decay_rate=decay_rate,
        delivery_class=delivery_class,
    )


def _payload(text: str | None, payload: str | None) -> dict[str, Any]:
    if text is None and payload is None:
        raise fail("the message is empty: give a text, or --payload", Exit.USAGE)
    content = {} if payload is None else object_from(payload, "--payload")
    if text is not None and "text" in content:
        raise fail("--payload has a text already: give the text there, or as an argument", Exit.USAGE)
    return content if text is None else content | {"text": text}


def write(remote: Remote, message: Draft, *, opens_thread: bool = False) -> Written:
    """Write and sign an envelope of the caller, and register the caller if it is not registered.

    `opens_thread` sets the correlationId of a draft without one, for operations that need a thread.
    """
    me = remote.ask("get_me")
    if me.registered is None:
        remote.ask("register_agent")
    writer = EnvelopeWriter(None if remote.token is None else Signer(remote.token))
    writer.introduce(me.agent, "AdHoc" if me.registered is None else me.registered.type)
    if opens_thread and message.correlation_id is None:
        message_id = writer.fresh_id("msg")
        message = msgspec.structs.replace(message, message_id=message_id, correlation_id=message_id)
    return writer.write(message)
