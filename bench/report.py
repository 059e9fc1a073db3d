"""Report of a benchmark: its conditions, tables, aims, the last line of JSON, and its part of the performance page.

Every benchmark opens a `Run`. It prints the form of the package, the commit, and the load of the machine before and
during the run, and writes its figures into `docs/performance.md` only if asked (`--write-docs`) and if the conditions
allow it: the load at most `LOAD_MAX`, a commit without local changes, full size, and enough rounds.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from bench.machine import LOAD_MAX, LoadWatch, cpu_model, measure_load
from tocsin.form import package_form

__all__ = ["ROUNDS_MIN", "Aim", "Run", "median_of", "options", "percentile", "ratio", "rss_bytes", "table"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
#: Folders that determine what is measured.
MEASURED = ("src", "bench", "tools", "pyproject.toml")
#: Fewest rounds of which a median is published.
ROUNDS_MIN = 5


def commit() -> str:
    """Return the commit that is measured, with `+` if there are local changes; empty outside of a repository."""
    found = _git("rev-parse", "--short", "HEAD")
    if not found:
        return ""
    return found + ("+" if _git("status", "--porcelain", "--", *MEASURED) else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def percentile(values: list[float], percent: float) -> float:
    """Return a percentile of values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def median_of(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure over the rounds."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def ratio(above: Iterable[float], below: Iterable[float]) -> float:
    """Return the ratio of two medians."""
    return statistics.median(above) / statistics.median(below)


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
        ).rstrip()
        for line in lines
    )


class Aim(NamedTuple):
    """A figure and the limit that it should keep."""

    name: str
    #: `>=`, `<=` or `<`.
    relation: str
    limit: float
    about: str
    #: It applies only where this other figure is below this limit.
    where: tuple[str, float] | None = None

    def kept(self, value: float) -> bool:
        """Tell whether a value keeps the limit."""
        return {">=": value >= self.limit, "<=": value <= self.limit, "<": value < self.limit}[self.relation]

    def judged(self, figures: Mapping[str, Any]) -> tuple[float | None, str]:
        """Return the measured value and the verdict on it."""
        value: float | None = figures.get(self.name)
        if value is None:
            return None, "not measured"
        if self.where is not None and not figures.get(self.where[0], 0.0) < self.where[1]:
            return value, "does not apply"
        return value, "met" if self.kept(value) else "missed"


def options(name: str, about: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(prog=f"make {name}", description=about)
    parser.add_argument("--rounds", type=int, default=None, help=f"rounds of each measurement (default: {rounds})")
    parser.add_argument("--quick", action="store_true", help="one round of a small size, to try it: not for the docs")
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help=f"write the figures into docs/performance.md; refused if other programs used more than {LOAD_MAX} cores",
    )
    return parser


class Run:
    """One run of a benchmark; measuring belongs into its `with` block."""

    def __init__(self, name: str, chosen: argparse.Namespace, *, rounds: int, rounds_min: int = ROUNDS_MIN) -> None:
        self.name = name
        self.quick: bool = chosen.quick
        #: Number of rounds to measure.
        self.rounds: int = chosen.rounds or (1 if chosen.quick else rounds)
        self._rounds_min = rounds_min
        self._write_docs: bool = chosen.write_docs
        self.form = package_form()
        self.commit = commit()
        self._before = measure_load(0.5 if chosen.quick else 3.0)
        self._watch = LoadWatch()
        self._stack = ExitStack()

    def __enter__(self) -> "Run":
        """Start to watch the load."""
        print(f"{self.name}: {self._conditions()}; load before {self._before:.2f}", file=sys.stderr, flush=True)
        self._stack.enter_context(self._watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to watch the load."""
        self._stack.__exit__(kind, error, trace)

    def _conditions(self) -> str:
        return f"{self.form} form, commit {self.commit or 'unknown'}, {cpu_model()}"

    @property
    def line(self) -> str:
        """Return the conditions of the run in one line."""
        during = self._watch.load
        return (
            f"{self._conditions()}; cores used by other programs: {self._before:.2f} before, {during.mean:.2f} during"
            f" (most in 5 s {during.most:.2f}); {datetime.now(UTC):%Y-%m-%d}"
        )

    def trouble(self) -> list[str]:
        """Return why the figures may not be published."""
        during, found = self._watch.load.mean, []
        if max(self._before, during) > LOAD_MAX:
            used = f"{self._before:.2f} cores before and {during:.2f} during the run"
            found.append(f"other programs used {used}: at most {LOAD_MAX} are allowed; wait until the machine is idle")
        if self.quick:
            found.append("it was a quick run: run it without QUICK")
        elif self.rounds < self._rounds_min:
            found.append(f"{self.rounds} rounds are too few: at least {self._rounds_min} are needed")
        if not self.commit or self.commit.endswith("+"):
            found.append(f"there are local changes in {', '.join(MEASURED)}: commit them first")
        return found

    def finish(
        self, text: str, figures: Mapping[str, Any], aims: Sequence[Aim] = (), *, details: Sequence[str] = ()
    ) -> None:
        """Print the tables, the aims, the conditions and, as the last line, the figures; write the docs if asked.

        `text` goes into the docs too, `details` are only printed.
        """
        judged = _judged(aims, figures)
        for part in (text, *details, judged, self.line):
            if part:
                print(part, end="\n\n")
        trouble = self.trouble() if self._write_docs else []
        if self._write_docs and not trouble:
            write_part(PAGE, self.name, self._markdown(text, figures, aims))
        during = self._watch.load
        conditions = {
            "form": self.form,
            "commit": self.commit,
            "rounds": self.rounds,
            "load_before": round(self._before, 3),
            "load_during": round(during.mean, 3),
            "load_during_most": round(during.most, 3),
        }
        print(json.dumps({**conditions, **figures}), flush=True)
        if trouble:
            sys.exit("\n".join(f"docs/performance.md was not written: {reason}" for reason in trouble))

    def _markdown(self, text: str, figures: Mapping[str, Any], aims: Sequence[Aim]) -> str:
        parts = [f"Measured in the {self.line}; medians of {self.rounds} rounds.", f"```\n{text}\n```"]
        if aims:
            rows = ["| figure | aim | measured |  |", "| --- | --- | --- | --- |"]
            for aim in aims:
                value, verdict = aim.judged(figures)
                shown = "" if value is None else f"{value:g}"
                sign = aim.relation.replace(">=", "≥").replace("<=", "≤")
                verdict = f"**{verdict}**" if verdict == "missed" else verdict
                rows.append(f"| `{aim.name}`: {aim.about} | {sign} {aim.limit:g} | {shown} | {verdict} |")
            parts.append("\n".join(rows))
        return "\n\n".join(parts)


def _judged(aims: Sequence[Aim], figures: Mapping[str, Any]) -> str:
    """Return a table of the aims with their figures."""
    if not aims:
        return ""
    rows = []
    for aim in aims:
        value, verdict = aim.judged(figures)
        shown = "" if value is None else f"{value:,.3f}"
        rows.append([aim.name, f"{aim.relation} {aim.limit:g}", shown, verdict])
    return table(["figure", "aim", "measured", ""], rows)


def write_part(page: Path, name: str, content: str) -> None:
    """Replace the part of a page that a benchmark writes."""
    begin, end = f"<!-- written by make {name} WRITE_DOCS=1: do not edit -->", f"<!-- end of {name} -->"
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(before)) != 1:
        raise SystemExit(f"{page.name} has no part for {name}: it must have one between {begin!r} and {end!r}")
    page.write_text(pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", before), encoding="utf-8")
