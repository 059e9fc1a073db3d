"""Output that needs rich: consoles, and tables that are folded to the width of the terminal.

Rich is slow to import. Commands that print short texts and tables which fit use `tocsin.cli.output` alone.
"""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.cli.style import style_of

__all__ = ["console", "print_folded", "styled"]

console = Console(highlight=False)
#: Console without a line width, for pipes and files.
_unlimited = Console(highlight=False, width=100_000)


def styled(text: str) -> str:
    """Return a text as markup, in the style of its value."""
    style = style_of(text)
    return f"[{style[0]}]{escape(text)}[/]" if style else escape(text)


def print_folded(head: Sequence[str], rows: Sequence[Sequence[str]], *, bold_names: bool = False) -> None:
    """Print a table; every row is one line where the output is not a terminal.

    With `bold_names` the table has no head, and its first column has the names of the values in the second.
    """
    if bold_names:
        grid = Table(box=None, show_header=False)
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
    else:
        grid = Table(box=None, header_style="bold")
        for column in head:
            grid.add_column(column, overflow="fold", no_wrap=column.endswith(" id"))
    for row in rows:
        grid.add_row(*map(styled, row))
    (console if console.is_terminal else _unlimited).print(grid)
