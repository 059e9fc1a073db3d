"""Arguments and options of a command, made from the fields of a request."""

import inspect
import json
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, get_args, get_origin

import msgspec
import msgspec.inspect as shapes
import typer

from tocsin.cli.output import fail
from tocsin.cli.remote import Exit
from tocsin.wire.operation import Operation

__all__ = ["JSON_METAVAR", "Field", "Kind", "arguments_from", "fields_of", "json_from", "object_from", "parameter"]

#: Forms in which JSON can be given.
JSON_METAVAR = "JSON|@FILE|-"


class Kind(StrEnum):
    """Ways to write a value on the command line."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    LIST = "list"
    JSON = "json"


_PYTHON: dict[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INTEGER: int,
    Kind.NUMBER: float,
    Kind.FLAG: bool,
    Kind.LIST: list[str],
    Kind.JSON: str,
}


#: Names of arguments whose field's name says too little.
_METAVARS = {"q": "words"}
#: Descriptions of flags, where the field's own is about both values, or about the one that the flag turns off.
_FLAGS = {
    "can_retry": "Deliver it again later; without this option it becomes a dead letter.",
    "escalate": "Do not escalate when no answer came; only notify the requester.",
    "fresh": "Answer at once, although the history may not contain everything that is durable yet.",
    "interruptible": "Do not let messages interrupt it between pause points.",
    "processed": "Do not mark the message as processed.",
}


class Field(NamedTuple):
    """A field of a request, as the command line takes it."""

    name: str
    kind: Kind
    #: Values that it can have; empty if there are too many to list.
    choices: tuple[str, ...]
    required: bool
    default: Any
    #: Description.
    about: str


def fields_of(operation: Operation) -> list[Field]:
    """Return the fields of an operation's request, without the envelope."""
    found = []
    for field in msgspec.structs.fields(operation.request):
        if field.name == "envelope":
            continue
        about, shape = _described(shapes.type_info(field.type))
        choices = _choices(field.type) if isinstance(shape, shapes.LiteralType) else ()
        default = None if field.default in (msgspec.NODEFAULT, msgspec.UNSET) else field.default
        required = field.required or f"{{{field.name}}}" in operation.path
        about = about or f"The request's {field.name}."
        found.append(Field(field.encode_name, _kind(shape), choices, required, default, about))
    return found


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the values of a literal in a type, in the order in which they are defined."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    return next(filter(None, map(_choices, get_args(annotation))), ())


def _described(shape: shapes.Type) -> tuple[str, shapes.Type]:
    """Return the description of a type, and the type without metadata and null."""
    about = ""
    while True:
        if isinstance(shape, shapes.Metadata):
            about = about or (shape.extra_json_schema or {}).get("description", "")
            shape = shape.type
        elif isinstance(shape, shapes.UnionType):
            shape = next(one for one in shape.types if not isinstance(one, shapes.NoneType))
        else:
            return about, shape


def _kind(shape: shapes.Type) -> Kind:
    match shape:
        case shapes.IntType():
            return Kind.INTEGER
        case shapes.FloatType():
            return Kind.NUMBER
        case shapes.BoolType():
            return Kind.FLAG
        case shapes.ListType(item_type=shapes.RawType()):
            return Kind.JSON
        case shapes.ListType() | shapes.VarTupleType():
            return Kind.LIST
        case shapes.StrType() | shapes.LiteralType() | shapes.DateTimeType():
            return Kind.TEXT
    return Kind.JSON


def parameter(field: Field, *, positional: bool) -> inspect.Parameter:
    """Return the argument or option for a field; an option that is not given is None."""
    kind = _PYTHON[field.kind]
    about: dict[str, Any] = {"help": field.about}
    if field.choices:
        about |= {"metavar": "|".join(field.choices), "autocompletion": _completing(field.choices)}
    elif field.kind is Kind.JSON:
        about["metavar"] = JSON_METAVAR
    if positional:
        if field.choices:  # In the usage line they would be folded in the middle of a word.
            about |= {"metavar": field.name, "help": f"{field.about}  [one of: {', '.join(field.choices)}]"}
        about.setdefault("metavar", _METAVARS.get(field.name))
        annotation = kind if field.required else kind | None
        return _parameter(
            field,
            annotation,
            typer.Argument(show_default=False, **about),
            inspect.Parameter.empty if field.required else None,
        )
    name = field.name.replace("_", "-")
    if field.kind is Kind.FLAG:
        option = f"--no-{name}" if field.default else f"--{name}"
        about["help"] = _FLAGS[field.name] if field.default else _FLAGS.get(field.name, field.about)
        return _parameter(field, bool, typer.Option(option, **about), default=False)
    shown = ", ".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    about["show_default"] = False
    if not field.required and shown not in (None, "", 0):
        about["help"] += f"  [default: {shown}]"
    if field.required:
        return _parameter(field, kind, typer.Option(f"--{name}", **about), inspect.Parameter.empty)
    name = _singular(name) if field.kind is Kind.LIST else name
    return _parameter(field, kind | None, typer.Option(f"--{name}", **about), None)


def _parameter(field: Field, kind: Any, info: Any, default: Any) -> inspect.Parameter:
    annotation = Annotated[kind, info]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _completing(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def _singular(name: str) -> str:
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def arguments_from(fields: Iterable[Field], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation from the values on the command line, without those that are absent."""
    arguments: dict[str, Any] = {}
    for field in fields:
        value = given[field.name]
        if value is None or (field.kind is Kind.FLAG and not value) or value == []:
            continue
        if field.kind is Kind.FLAG:
            value = not field.default
        elif field.kind is Kind.JSON:
            value = json_from(value, field.name.replace("_", "-") if field.required else f"--{field.name}")
        arguments[field.name] = value
    return arguments


def json_from(given: str, label: str) -> Any:
    """Return JSON that is given as text, as `@FILE`, or as `-` for standard input; end the command if it is invalid."""
    try:
        written = sys.stdin.read() if given == "-" else given
        written = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else written
    except (OSError, UnicodeDecodeError) as error:
        raise fail(f"{label} {given} cannot be read: {error}", Exit.USAGE) from None
    try:
        return json.loads(written, parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise fail(f"{label} is not JSON: {error}", Exit.USAGE) from None


def object_from(given: str, label: str) -> dict[str, Any]:
    """Return a JSON object, given in the same ways; end the command if it is another value."""
    value = json_from(given, label)
    if not isinstance(value, dict):
        found = json.dumps(value)[:40]
        raise fail(f'{label} must be an object, such as {{"taskId": "1"}}, not {found}', Exit.USAGE)
    return value


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
