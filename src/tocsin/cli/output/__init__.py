"""Tables, JSON and errors on the terminal.

Rich is imported only for a table that does not fit into the terminal, because that import takes longer than a request.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import typer

from tocsin.cli.remote import Exit, Refused, Unreachable, Unusable
from tocsin.cli.style import heading, is_terminal, painted, style_of, width
from tocsin.core.errors import CATALOGUE, TocsinError

__all__ = ["UNREADABLE", "fail", "missing", "record", "refusals_told", "say", "show_json", "table", "terminal_columns"]

#: Errors that a reply of an unexpected shape causes.
UNREADABLE = (LookupError, TypeError, AttributeError, ValueError)
#: Control characters, which could change what a terminal shows; tabs and line breaks stay.
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])


def say(text: str, *styles: str, end: str = "\n") -> None:
    """Print a text in styles, at once: whoever started a hub reads its address from a pipe.

    Control characters are left out, so a text cannot bring styles of its own.
    """
    sys.stdout.write(painted(text.translate(_CONTROLS), *styles) + end)
    sys.stdout.flush()


def show_json(value: Any) -> None:
    """Print a value as JSON; it may contain structs."""
    sys.stdout.write(json.dumps(value, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def table(rows: Iterable[dict[str, Any]], *columns: str) -> None:
    """Print rows as a table; every row is one line where the output is not a terminal."""
    texts = [["" if row.get(column) is None else str(row[column]) for column in columns] for row in rows]
    heads = [heading(column) for column in columns]
    lines = _lines([heads, *texts])
    if lines is None:
        from tocsin.cli.output.terminal import print_folded

        print_folded(heads, texts)
        return
    lines[0] = painted(lines[0], "bold")
    sys.stdout.write("\n".join(lines) + "\n")


def record(facts: dict[str, Any]) -> None:
    """Print named values, one per line."""
    texts = [[heading(name), str(value)] for name, value in facts.items()]
    lines = _lines(texts)
    if lines is None:
        from tocsin.cli.output.terminal import print_folded

        print_folded((), texts, bold_names=True)
        return
    names = max((len(name) for name, _ in texts), default=0) + 2
    sys.stdout.write("".join(f"{painted(line[:names], 'bold')}{line[names:]}\n" for line in lines))


def _lines(rows: Sequence[list[str]]) -> list[str] | None:
    """Return the lines of a table, or None if they must be folded to the width of the terminal."""
    if not all(text.isprintable() for row in rows for text in row):
        rows = [["".join(_printable(text)) for text in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    if is_terminal() and sum(one + 2 for one in widths) > terminal_columns():
        return None
    return ["".join(map(_cell, row, widths)) for row in rows]


def _cell(text: str, columns: int) -> str:
    return f" {painted(text, *style_of(text))}{' ' * (columns - width(text))} "


def _printable(text: str) -> Iterator[str]:
    """Yield the characters of a text; those that would change what a terminal shows are left out."""
    for character in text.translate(_CONTROLS):
        yield character if character.isprintable() else " "


def terminal_columns() -> int:
    """Return the width of the terminal; 0 if the output is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def fail(message: str, code: Exit) -> typer.Exit:
    """Print an error and return the exception that ends the command."""
    sys.stderr.write(painted(message.translate(_CONTROLS), "red", stream=sys.stderr) + "\n")
    return typer.Exit(code)


@contextmanager
def refusals_told(as_json: bool) -> Iterator[None]:
    """Turn the refusals of a hub, and the lack of one, into an error message and an exit code.

    The code that reads a reply belongs inside: a reply that it cannot read does not come from a hub.
    """
    try:
        yield
    except Unreachable as error:
        raise _unreachable(str(error), as_json) from None
    except Unusable as error:
        raise fail(str(error), Exit.USAGE) from None
    except Refused as error:
        if as_json:
            show_json(error.problem)
        name, expected = error.problem.get("error_code", error.status), error.problem.get("expected")
        # Most details name what was expected already.
        more = f" (expected {expected})" if expected and str(expected) not in str(error) else ""
        raise fail(f"{name}: {error}{more}", error.exit) from None
    except TocsinError as error:
        raise _problem(error.code, error.problem.detail, Exit.USAGE, as_json) from None
    except UNREADABLE as error:
        what = f"its reply lacks {error}" if isinstance(error, KeyError) else f"its reply has another shape ({error})"
        raise _unreachable(f"the server is not a hub, or a hub of another version: {what}", as_json) from None


def missing(detail: str, as_json: bool) -> typer.Exit:
    """Print that something was not found and return the exception that ends the command."""
    return _problem("E_STATE_001", detail, Exit.NOT_FOUND, as_json)


def _unreachable(detail: str, as_json: bool) -> typer.Exit:
    return _problem("E_HUB_004", detail, Exit.UNREACHABLE, as_json)


def _problem(code: str, detail: str, end: Exit, as_json: bool) -> typer.Exit:
    row = CATALOGUE[code]
    if as_json:
        kind = {"type": f"urn:tocsin:error:{row.name}", "title": row.title, "status": row.status}
        show_json(kind | {"detail": detail, "error_code": row.name, "code": row.code, "retryable": row.retryable})
    return fail(detail, end)
