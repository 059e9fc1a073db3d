"""What the command line prints: tables for people, JSON for scripts; and how it ends when it cannot be done."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.cli.remote import Exit, Refused, Unreachable, Unusable
from tocsin.core.errors import CATALOGUE

__all__ = ["UNREADABLE", "console", "fail", "missing", "refusals_told", "show_json", "table"]

console = Console(highlight=False)
#: What an answer of another shape than a hub's ends in.
UNREADABLE = (LookupError, TypeError, AttributeError, ValueError)
#: Where no terminal is, such as in a pipe.
_paper = Console(highlight=False, width=100_000)
_errors = Console(stderr=True, highlight=False)


def show_json(value: Any) -> None:
    """Print a value for scripts."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def table(rows: list[dict[str, Any]], *columns: str) -> None:
    """Print rows for people; where no terminal says how wide it may be, every row is one line."""
    grid = Table(box=None, header_style="bold")
    for column in columns:
        grid.add_column(column, overflow="fold", no_wrap=column.endswith("_id"))
    for row in rows:
        grid.add_row(*(escape("" if row.get(column) is None else str(row[column])) for column in columns))
    (console if console.is_terminal else _paper).print(grid)


def fail(message: str, code: Exit) -> typer.Exit:
    """Say what is wrong; the caller raises what this returns."""
    _errors.print(escape(message), soft_wrap=True)
    return typer.Exit(code)


@contextmanager
def refusals_told(as_json: bool) -> Iterator[None]:
    """Turn what a hub refuses, or that there is none, into a message and an exit code.

    What a command makes of an answer belongs in here too: an answer that it can make nothing of is no hub's.
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
    except UNREADABLE as error:
        what = (
            f"the answer has no {error}" if isinstance(error, KeyError) else f"the answer is something else ({error})"
        )
        raise _unreachable(f"what answers is no hub, or one of another version: {what}", as_json) from None


def missing(detail: str, as_json: bool) -> typer.Exit:
    """Say that what was asked for is not among what a hub has told; the caller raises what this returns."""
    return _told("E_STATE_001", detail, Exit.NOT_FOUND, as_json)


def _unreachable(detail: str, as_json: bool) -> typer.Exit:
    return _told("E_HUB_004", detail, Exit.UNREACHABLE, as_json)


def _told(code: str, detail: str, end: Exit, as_json: bool) -> typer.Exit:
    row = CATALOGUE[code]
    if as_json:
        kind = {"type": f"urn:tocsin:error:{row.name}", "title": row.title, "status": row.status}
        show_json(kind | {"detail": detail, "error_code": row.name, "code": row.code, "retryable": row.retryable})
    return fail(detail, end)
