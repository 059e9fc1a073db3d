"""Tables, JSON and errors on the terminal."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.cli.remote import Exit, Refused, Unreachable, Unusable
from tocsin.core.errors import CATALOGUE, TocsinError

__all__ = ["UNREADABLE", "console", "fail", "missing", "record", "refusals_told", "say", "show_json", "table"]

console = Console(highlight=False)
#: Errors that a reply of an unexpected shape causes.
UNREADABLE = (LookupError, TypeError, AttributeError, ValueError)
#: Console without a line width, for pipes and files.
_unlimited = Console(highlight=False, width=100_000)
_errors = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Print a text as it is."""
    console.print(text, soft_wrap=True, markup=False)


def show_json(value: Any) -> None:
    """Print a value as JSON; it may contain structs."""
    sys.stdout.write(json.dumps(value, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def table(rows: Iterable[dict[str, Any]], *columns: str) -> None:
    """Print rows as a table; every row is one line where the output is not a terminal."""
    grid = Table(box=None, header_style="bold")
    for column in columns:
        grid.add_column(column, overflow="fold", no_wrap=column.endswith("_id"))
    for row in rows:
        grid.add_row(*(escape("" if row.get(column) is None else str(row[column])) for column in columns))
    (console if console.is_terminal else _unlimited).print(grid)


def record(facts: dict[str, Any]) -> None:
    """Print named values, one per line."""
    grid = Table(box=None, show_header=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(escape(name), escape(str(value)))
    (console if console.is_terminal else _unlimited).print(grid)


def fail(message: str, code: Exit) -> typer.Exit:
    """Print an error and return the exception that ends the command."""
    _errors.print(escape(message), soft_wrap=True)
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
        raise fail(f"{name}: {error}" + (f" (expected {expected})" if expected else ""), error.exit) from None
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
