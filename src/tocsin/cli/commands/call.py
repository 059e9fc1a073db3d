"""`tocsin call`: any operation by its name."""

import json
from typing import Annotated, Any

import typer
from msgspec import Raw

from tocsin.cli.context import Json, remote_of
from tocsin.cli.operations.parameters import Kind, fields_of, json_from
from tocsin.cli.output import fail, refusals_told
from tocsin.cli.output.replies import show
from tocsin.cli.remote import Exit, Remote
from tocsin.wire.arguments import unknown_argument
from tocsin.wire.drafts import Written
from tocsin.wire.operation import Operation
from tocsin.wire.signatures import Signer
from tocsin.wire.table import OPERATIONS, unknown_operation

__all__ = ["call"]

#: Values of the kinds that are not given as JSON in other forms.
_EXPECTED = {Kind.INTEGER: "a whole number", Kind.NUMBER: "a number", Kind.FLAG: "true or false"}


def _names(incomplete: str) -> list[str]:
    return [name for name in OPERATIONS if name.startswith(incomplete)]


def call(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the operation, such as list_leases.", autocompletion=_names)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="KEY=VALUE for each field of the request; lists and objects are JSON, @FILE or -.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Perform any operation by its name."""
    with refusals_told(as_json):
        operation = OPERATIONS.get(name)
        if operation is None:
            raise unknown_operation(name)
        given = _arguments(operation, arguments or [])
        remote = remote_of(context)
        envelope = _envelope(remote, given.pop("envelope")) if operation.takes_envelope else None
        show(remote.ask(name, given, envelope), as_json)


def _arguments(operation: Operation, words: list[str]) -> dict[str, Any]:
    fields = {field.name: field for field in fields_of(operation)}
    known = [*fields, *(["envelope"] if operation.takes_envelope else [])]
    found: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise fail(f"{word} is not an argument: write {name}=VALUE", Exit.USAGE)
        if name not in known:
            raise unknown_argument(operation.name, name, known)
        kind = fields[name].kind if name in fields else Kind.JSON
        found[name] = value if kind is Kind.TEXT else _plain(name, kind, value)
    required = [name for name in known if name == "envelope" or fields[name].required]
    if absent := [name for name in required if name not in found]:
        raise fail(f"{operation.name} needs {', '.join(f'{name}=…' for name in absent)}", Exit.USAGE)
    return found


def _plain(name: str, kind: Kind, value: str) -> Any:
    """Return a value that is not a text; end the command if a number or a truth value is something else."""
    if kind not in _EXPECTED:
        return json_from(value, name)
    try:
        return json.loads(value)
    except ValueError:
        raise fail(f"{name} must be {_EXPECTED[kind]}, not {value}", Exit.USAGE) from None


def _envelope(remote: Remote, value: Any) -> Written:
    import msgspec

    body = msgspec.json.encode(value)
    signature = None if remote.token is None else Signer(remote.token).sign(body)
    return Written(str(value.get("messageId", "")), Raw(body), signature)
