"""What the command line prints: tables for people, JSON for scripts; and how it ends when a hub refuses."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.cli.remote import Exit, Refused, Unreachable

__all__ = ["console", "fail", "refusals_told", "show_json", "table"]

console = Console(highlight=False)
_errors = Console(stderr=True, highlight=False)


def show_json(value: Any) -> None:
    """Print a value for scripts."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def table(rows: list[dict[str, Any]], *columns: str) -> None:
    """Print rows for people."""
    grid = Table(box=None, header_style="bold")
    for column in columns:
        grid.add_column(column, overflow="fold", no_wrap=column.endswith("_id"))
    for row in rows:
        grid.add_row(*(escape("" if row.get(column) is None else str(row[column])) for column in columns))
    console.print(grid)


def fail(message: str, code: Exit) -> typer.Exit:
    """Say what is wrong; the caller raises what this returns."""
    _errors.print(escape(message), soft_wrap=True)
    return typer.Exit(code)


@contextmanager
def refusals_told(as_json: bool) -> Iterator[None]:
    """Turn what a hub refuses into a message and an exit code."""
    try:
        yield
    except Unreachable as error:
        raise fail(str(error), Exit.UNREACHABLE) from None
    except Refused as error:
        if as_json:
            show_json(error.problem)
        name, expected = error.problem.get("error_code", error.status), error.problem.get("expected")
        raise fail(f"{name}: {error}" + (f" (expected {expected})" if expected else ""), error.exit) from None
