"""Mutation tests of the core: change it in small ways, run its tests against each change, and count who noticed.

The work is done by mutmut, in a copy of the project in `build/mutants/project`. It first runs the tests once to see
which test reaches which function, then each mutant against the tests that reach it. The last line is one JSON object.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "build" / "mutants" / "project"
#: Folders and files that the tests need beside `src`.
COPIED = ("tests", "bench", "demo", "tools", "docs", "packaging", "README.md", "CHANGELOG.md", "Makefile")
#: How a run of the tests against a mutant ended, by mutmut's exit codes; anything else is `failed` (a crash).
OUTCOMES = {0: "survived", 1: "killed", 3: "killed", 5: "untested", 33: "untested", 36: "timeout", -24: "timeout"}
#: Name of no mutant: mutmut makes the mutants, runs the tests once, and finds nothing to do.
NOTHING = "none"


def copy_project(only: str, tests: list[str]) -> None:
    """Copy what git knows of the project, with settings for mutmut."""
    known = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    shutil.rmtree(PROJECT, ignore_errors=True)
    for name in known.splitlines():
        if (ROOT / name).is_file():
            (PROJECT / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, PROJECT / name)
    place = f"src/tocsin/{only}"
    pattern = place if only.endswith(".py") else f"{place.rstrip('/')}/*"
    settings = {
        "source_paths": ["src"],
        "only_mutate": [pattern],
        "also_copy": list(COPIED),
        "pytest_add_cli_args": ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": tests,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    with (PROJECT / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")


def mutmut(*names: str) -> subprocess.CompletedProcess[str]:
    """Run mutmut over some mutants."""
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(os.cpu_count() or 1), *names]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src"), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def outcomes() -> dict[str, dict[str, int | None]]:
    """Return the exit codes of all mutants, by module and mutant."""
    found = {}
    for path in sorted((PROJECT / "mutants").rglob("*.py.meta")):
        module = path.relative_to(PROJECT / "mutants" / "src" / "tocsin").as_posix().removesuffix(".meta")
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        if codes:
            found[module] = codes
    return found


def drawn(names: list[str], sample: int | None, seed: int) -> list[str]:
    """Draw a sample of mutants, or take them all."""
    return sorted(random.Random(seed).sample(names, sample)) if sample and sample < len(names) else names  # noqa: S311


def report(chosen: set[str]) -> tuple[str, dict[str, object]]:
    """Return a table of outcomes by module, with the survivors, and the figures."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for module, codes in outcomes().items():
        for name, code in codes.items():
            if name in chosen:
                outcome = "not run" if code is None else OUTCOMES.get(code, "failed")
                table[module][outcome] += 1
                survivors += [name] if outcome in ("survived", "untested") else []
    total: Counter[str] = sum(table.values(), Counter())
    lines = [f"{'module':44} {'killed':>8} {'survived':>9} {'untested':>9} {'other':>6}"]
    for module, counts in [*table.items(), ("total", total)]:
        other = counts.total() - counts["killed"] - counts["survived"] - counts["untested"]
        lines.append(f"{module:44} {counts['killed']:>8} {counts['survived']:>9} {counts['untested']:>9} {other:>6}")
    lines += ["", *(f"survived: {name}" for name in survivors)]
    noticed = total.total() - total["survived"] - total["untested"] - total["not run"]
    share = round(noticed / max(1, total.total() - total["not run"]), 3)
    return "\n".join(lines), {**total, "mutants": total.total(), "noticed_share": share}


def main() -> int:
    """Make mutants, run a sample of them, and print what happened."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="core", help="folder or module below src/tocsin (default: %(default)s)")
    parser.add_argument("--sample", type=int, help="number of mutants to draw (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: %(default)s)")
    parser.add_argument("--tests", nargs="+", default=["tests/core"], help="tests to run (default: %(default)s)")
    chosen = parser.parse_args()
    copy_project(chosen.only, chosen.tests)
    first = mutmut(NOTHING)
    names = [name for codes in outcomes().values() for name in codes]
    if "nothing matches" not in first.stdout + first.stderr or not names:
        print(first.stdout[-3000:] + first.stderr[-3000:], file=sys.stderr)
        return 1
    sample = drawn(names, chosen.sample, chosen.seed)
    print(f"{len(sample)} of {len(names)} mutants of {chosen.only}, seed {chosen.seed}", flush=True)
    mutmut(*sample)
    text, figures = report(set(sample))
    print(text + "\n")
    print(json.dumps({"only": chosen.only, "seed": chosen.seed, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
