"""`tocsin call`: any operation by its name."""

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
        text = name in fields and fields[name].kind is Kind.TEXT
        found[name] = value if text else json_from(value, name)
    required = [name for name in known if name == "envelope" or fields[name].required]
    if absent := [name for name in required if name not in found]:
        raise fail(f"{operation.name} needs {', '.join(f'{name}=…' for name in absent)}", Exit.USAGE)
    return found


def _envelope(remote: Remote, value: Any) -> Written:
    import msgspec

    body = msgspec.json.encode(value)
    signature = None if remote.token is None else Signer(remote.token).sign(body)
    return Written(str(value.get("messageId", "")), Raw(body), signature)
