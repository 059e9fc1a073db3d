"""Write the generated modules of the SDK, or with --check fail when they are stale.

`tocsin.client.operations` has one method per operation of the table that an agent may call and that has no richer verb.
`tocsin.client.sync` is the synchronous SDK (`generate_sync`).
"""

import argparse
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from generate_sync import synchronous
from tocsin.wire.operation import Access, NamedPage, Operation, Where
from tocsin.wire.table import OPERATIONS

__all__ = ["RICHER", "generated", "operations"]

CLIENT = Path(__file__).resolve().parent.parent / "src" / "tocsin" / "client"
WIDTH = 120

#: Operations without a generated method, and the verbs of the SDK that use them.
RICHER = {
    "send_message": "Agent.send",
    "send_messages": "Agent.send_many",
    "fetch_inbox": "Agent.inbox",
    "confirm_messages": "Message.confirm",
    "acknowledge_message": "Message.acknowledge",
    "reject_message": "Message.reject",
    "mark_processed": "Message.mark_processed",
    "register_agent": "Agent.connect",
    "acquire_lease": "Agent.acquire",
    "begin_work": "Agent.working_on",
    "reach_pause_point": "Agent.pause_point",
    "put_aside": "Agent.pause_point",
    "resume_work": "Agent.resuming",
    "finish_work": "Agent.working_on",
    "send_request": "Agent.request",
    "publish_topic": "Agent.publish_topic",
}

_HEAD = '''"""Operations of the table as methods of an agent; written by `make generate`, do not edit."""

# `type` is the name of a message's type, and of an agent's, on every interface.
# ruff: noqa: A002

{imports}
from tocsin.client.operation_caller import OperationCaller

__all__ = ["Operations"]

{decoders}


class Operations:
    """Operations that are one call each."""

    _caller: OperationCaller
'''

_METHOD = '''
    async def {name}({parameters}) -> {reply}:
        """{doc}"""
        return await self._caller.call("{name}", {arguments}, _{constant})
'''

#: A method that reads all pages of a list.
_LIST_METHOD = '''
    async def {name}({parameters}) -> {reply}:
        """{doc}"""
        return await self._caller.call_pages("{name}", {arguments}, _{constant}, limit)
'''
_PAGE_FIELDS = ("after", "limit")

_ACCESS = {
    Access.AGENT: "",
    Access.DIRECTOR: "Only directors and humans may call it.",
    Access.OVERSEER: "Only directors, humans and administrators may call it.",
}


class _Names:
    """Types that the generated module mentions, and where to import them from."""

    def __init__(self) -> None:
        self._found = {("msgspec", "")}

    def parameter(self, hint: Any) -> str:
        """Return the annotation of a parameter; any sequence is accepted as an array."""
        return self._named(hint, sequences=True)

    def reply(self, hint: Any) -> str:
        """Return the annotation of a reply."""
        return self._named(hint, sequences=False)

    def imports(self) -> str:
        """Return the import statements."""
        lines = [f"from {module} import {name}" if name else f"import {module}" for module, name in self._found]
        return "\n".join(sorted(lines))

    def _named(self, hint: Any, *, sequences: bool) -> str:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._named(arguments[0], sequences=sequences)
        if origin in (Union, UnionType):
            return " | ".join(self._named(one, sequences=sequences) for one in arguments)
        if origin is Literal:
            self._found.add(("typing", "Literal"))
            return "Literal[" + ", ".join(f'"{value}"' for value in arguments) + "]"
        if hint is Any:
            self._found.add(("typing", "Any"))
            return "Any"
        if hint is NoneType:
            return "None"
        if sequences and origin in (list, tuple):
            self._found.add(("collections.abc", "Sequence"))
            return f"Sequence[{self._named(arguments[0], sequences=sequences)}]"
        kind = origin or hint
        if kind is msgspec.UnsetType:
            self._found.add(("msgspec", "UNSET"))  # The default.
        if kind.__module__ != "builtins":
            self._found.add((_public(kind), kind.__name__))
        if not arguments:
            return str(kind.__name__)
        inner = ["..." if one is Ellipsis else self._named(one, sequences=sequences) for one in arguments]
        return f"{kind.__name__}[{', '.join(inner)}]"


def _public(kind: type) -> str:
    """Return the module to import a type from."""
    return "tocsin.core.commands" if kind.__module__.startswith("tocsin.core.commands.") else kind.__module__


def has_method(operation: Operation) -> bool:
    """Tell whether an operation gets a generated method."""
    return operation.access is not Access.ADMIN and operation.name not in RICHER


def operations() -> str:
    """Return the source of `tocsin.client.operations`."""
    names, decoders, methods = _Names(), [], []
    for operation in OPERATIONS.values():
        if not has_method(operation):
            continue
        fields = msgspec.structs.fields(operation.request)
        listed = get_origin(operation.reply) is NamedPage
        if listed:
            fields = tuple(field for field in fields if field.name not in _PAGE_FIELDS)
        required = [field for field in fields if field.required]
        optional = [field for field in fields if not field.required]
        parameters = ["self", *(f"{field.name}: {names.parameter(field.type)}" for field in required)]
        if optional or listed:
            parameters.append("*")
        parameters += [f"{field.name}: {names.parameter(field.type)} = {field.default!r}" for field in optional]
        parameters += ["limit: int | None = None"] if listed else []
        reply = names.reply(operation.reply)
        constant = operation.name.upper()
        decoders.append(f"_{constant} = msgspec.json.Decoder({reply})")
        arguments = "{" + ", ".join(f'"{field.name}": {field.name}' for field in fields) + "}"
        methods.append(
            (_LIST_METHOD if listed else _METHOD).format(
                name=operation.name,
                parameters=", ".join(parameters) + ("," if len(parameters) > 1 else ""),
                reply=f"list[{names.reply(get_args(operation.reply)[0])}]" if listed else reply,
                doc=_doc(operation, fields, "limit: Maximum number of items; all by default." if listed else ""),
                arguments=arguments,
                constant=constant,
            )
        )
    head = _HEAD.format(imports=names.imports(), decoders="\n".join(decoders))
    return tidy(head + "".join(methods), CLIENT / "operations.py")


def _doc(operation: Operation, fields: Sequence[msgspec.structs.FieldInfo], more: str = "") -> str:
    notes = [_ACCESS[operation.access], "Only a hub serves it." if operation.where is Where.HUB else ""]
    paragraphs = [operation.summary, " ".join(note for note in notes if note)]
    if fields or more:
        described = [_wrapped(f"{field.name}: {_description(field.type)}", 12, 16) for field in fields]
        described += [_wrapped(more, 12, 16)] if more else []
        paragraphs.append("Args:\n" + "\n".join(described))
    parts = [part for part in paragraphs if part]
    return parts[0] if len(parts) == 1 else "\n\n        ".join(parts) + "\n        "


def _wrapped(text: str, first: int, rest: int) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=" " * first, subsequent_indent=" " * rest)


def _description(hint: Any) -> str:
    """Return the description of a field's type, which may be inside a union."""
    if get_origin(hint) is Annotated:
        for meta in get_args(hint)[1:]:
            if isinstance(meta, msgspec.Meta) and meta.description:
                return meta.description
    for inner in get_args(hint):
        if found := _description(inner):
            return found
    return ""


def tidy(source: str, path: Path) -> str:
    """Return a module as the linter and the formatter of this repository would leave it."""
    for command in (("check", "--quiet", "--fix-only", "--select", "I,F401,UP037"), ("format", "--quiet")):
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        )
        source = done.stdout
    return source


def generated() -> dict[Path, str]:
    """Return the generated modules."""
    methods = operations()
    path = CLIENT / "sync.py"
    return {CLIENT / "operations.py": methods, path: tidy(synchronous(CLIENT, {"operations": methods}), path)}


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(prog="make generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a module is stale")
    check = parser.parse_args().check
    found = generated()
    stale = [path for path, text in found.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        print("stale: " + ", ".join(path.name for path in stale) + " of tocsin.client; write them with make generate")
        return 1
    for path in stale:
        path.write_text(found[path], encoding="utf-8")
        print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
