"""`tocsin inbox`, `recall` and `trace`."""

import json
import sys
from typing import Annotated

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.output import refusals_told, say, show_json, table
from tocsin.cli.output.explain import say_history
from tocsin.cli.output.replies import preview_of, show
from tocsin.cli.remote import Exit, Remote

__all__ = ["inbox", "recall", "trace"]

MessageId = Annotated[str, typer.Argument(help="The message: the signal_id of its receipt, or its message_id.")]


def inbox(
    context: typer.Context,
    take: Annotated[
        bool, typer.Option("--take", help="Fetch them: they count as received, and no longer wait.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.")] = 50,
    as_json: Json = False,
) -> None:
    """List the messages that wait for an agent (--as NAME); --take fetches them."""
    with refusals_told(as_json):
        remote = remote_of(context)
        reply = remote.ask("fetch_inbox" if take else "list_inbox", {"limit": limit})
        if as_json or not take:
            show(reply, as_json)
            if take:
                _confirm(remote, reply.cursor)
            return
        envelopes = [(item.signal_id, json.loads(bytes(item.envelope))) for item in reply.deliveries]
        rows = [
            {"signal_id": signal_id, "from": envelope["sender"]["agentId"]}
            | {"type": envelope["messageType"], "priority": envelope.get("priority", "")}
            | {"text": preview_of(envelope["payload"])}
            for signal_id, envelope in envelopes
        ]
        table(rows, "signal_id", "from", "type", "priority", "text")
        _confirm(remote, reply.cursor)


def _confirm(remote: Remote, cursor: str) -> None:
    """Confirm the messages that have been printed; without it they would be handed out again."""
    sys.stdout.flush()
    if cursor:
        remote.ask("confirm_messages", {"receipt": cursor})


def recall(context: typer.Context, message_id: MessageId, as_json: Json = False) -> None:
    """Recall a message that has not been handed out yet."""
    with refusals_told(as_json):
        reply = remote_of(context).ask("recall_message", {"message_id": message_id})
        if as_json:
            show_json(reply)
        else:
            say(reply.outcome)
        if reply.outcome != "recalled":
            raise typer.Exit(Exit.NOT_FOUND if reply.outcome == "not_found" else Exit.REFUSED)


def trace(context: typer.Context, message_id: MessageId, as_json: Json = False) -> None:
    """Show the history of a message, with the reason of each step."""
    with refusals_told(as_json):
        copies = remote_of(context).ask("trace_message", {"message_id": message_id})
        if as_json:
            show_json(copies)
        else:
            for copy in copies:
                say_history(copy)
