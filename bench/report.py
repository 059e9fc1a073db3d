"""Common parts of the benchmarks: percentiles, memory and tables."""

from pathlib import Path

import tocsin.core.exchange

__all__ = ["form", "percentile", "rss_bytes", "table"]


def form() -> str:
    """Return the form of the package that is measured: `pure`, or `compiled` by mypyc."""
    return "pure" if str(tocsin.core.exchange.__file__).endswith(".py") else "compiled"


def percentile(values: list[float], percent: float) -> float:
    """Return a percentile of values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a text table; the first column is left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
