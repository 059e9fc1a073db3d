"""Commands made from the rows of the table of operations.

A command's group is the row's tag and its name is the verb of the row's name: `renew_lease` is `leases renew`. Fields
that a request must have are arguments, the others are options. `PLACES` has the commands that are named otherwise,
`ARGUMENTS` and `OPTIONS` the fields that are given otherwise.
"""

import inspect
from collections.abc import Callable
from typing import Any

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.operations.parameters import arguments_from, fields_of, parameter
from tocsin.cli.operations.sending import draft, write
from tocsin.cli.output import refusals_told
from tocsin.cli.output.replies import show
from tocsin.wire.operation import Operation
from tocsin.wire.table import OPERATIONS

__all__ = ["ARGUMENTS", "OPTIONS", "PLACES", "command_of", "group_of", "place_of"]

#: Commands whose place does not follow from tag and name.
PLACES = {
    "adopt_policy": "policy apply",
    "check_policy": "policy check",
    "decide_approval": "approvals approve",
    "fetch_inbox": "inbox",
    "get_policy": "policy show",
    "get_status": "status",
    "issue_token": "agents add",
    "list_alerts": "alerts",
    "list_inbox": "inbox",
    "list_policies": "policy history",
    "recall_message": "recall",
    "release_resources": "leases release",
    "revoke_tokens": "agents revoke",
    "rotate_tokens": "agents rotate",
    "search_messages": "search",
    "send_message": "send",
    "send_messages": "messages send-batch",
    "speak_in_discussion": "discussions speak",
    "trace_message": "trace",
}
#: Optional fields that are arguments.
ARGUMENTS = {"confirm_messages": "message_ids", "list_leases": "resource", "search_messages": "q"}
#: Required fields that are options.
OPTIONS = {"force_release": "reason"}
#: Groups that are not called like the tag.
_GROUPS = {"admin": "agents", "dead letters": "dlq", "history": "messages", "inbox": "messages"}


def place_of(operation: Operation) -> str:
    """Return the words of an operation's command."""
    if operation.name in PLACES:
        return PLACES[operation.name]
    group = _GROUPS.get(operation.tag, operation.tag)
    subject = {word for name in (group, operation.tag) for word in name.split()}
    verb, *others = operation.name.split("_")
    others = [word for word in others if word not in subject and f"{word}s" not in subject]
    if verb in ("get", "list") and others:
        return f"{group} {'-'.join(others)}"
    return f"{group} {'-'.join(['show' if verb == 'get' else verb, *others])}"


def group_of(name: str, **written: Callable[..., None]) -> typer.Typer:
    """Return a group with a command for each of its operations; those in `written` are written by hand."""
    group = typer.Typer(no_args_is_help=True)
    by_hand = {verb.replace("_", "-"): function for verb, function in written.items()}
    for verb, function in by_hand.items():
        group.command(verb)(function)
    for operation in OPERATIONS.values():
        place = place_of(operation).split()
        if place[0] == name and len(place) > 1 and place[1] not in by_hand:
            group.command(place[1])(command_of(operation))
    return group


def command_of(operation: Operation) -> Callable[..., None]:
    """Return the function of an operation's command, with the signature that typer reads."""
    fields = fields_of(operation)
    positional = {field.name for field in fields if field.required} - {OPTIONS.get(operation.name)}
    positional.add(ARGUMENTS.get(operation.name, ""))
    drafted = _draft_parameters(operation)

    def run(context: typer.Context, as_json: bool, **given: Any) -> None:
        arguments = arguments_from(fields, given)
        options = {name: given[name] for name in drafted}
        if operation.takes_envelope and "receiver" not in drafted:
            options["receiver"] = "*"
        message = draft(**options) if operation.takes_envelope else None
        with refusals_told(as_json):
            remote = remote_of(context)
            opens_thread = operation.name != "send_message"
            envelope = None if message is None else write(remote, message, opens_thread=opens_thread)
            reply = remote.ask(operation.name, arguments, envelope)
            show(reply, as_json, whole=operation.name.startswith("get_"))

    parameters = [parameter(field, positional=field.name in positional) for field in fields]
    _sign(run, [*sorted(parameters, key=lambda one: one.name not in positional), *drafted.values()])
    run.__doc__ = operation.summary
    return run


def _draft_parameters(operation: Operation) -> dict[str, inspect.Parameter]:
    """Return the parameters that describe a message; a message to a topic has no receiver."""
    if not operation.takes_envelope:
        return {}
    left_out = "receiver" if "topic" in operation.request.__struct_fields__ else ""
    found = inspect.signature(draft).parameters
    return {name: one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, one in found.items() if name != left_out}


def _sign(function: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Give a function the signature of a command with these parameters."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    as_json = inspect.Parameter("as_json", keyword, default=False, annotation=Json)
    parameters = [context, *parameters, as_json]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in parameters}


def found_at(name: str) -> typer.Typer | Callable[..., None]:
    """Return the command of an operation that is in no group, or else the group of that name."""
    for operation in OPERATIONS.values():
        if place_of(operation) == name:
            return command_of(operation)
    return group_of(name)
