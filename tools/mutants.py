"""Mutation tests of the core: change it in small ways, run its tests against each change, and count who noticed.

mutmut makes the mutants, in a copy of the project in `build/mutants/project`, and runs the tests once to see which test
reaches which function; `tools/mutant_runs.py` runs each mutant against the tests that reach it. What has not changed
since the last time is not made again. The last line is one JSON object.
"""

import argparse
import filecmp
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
#: Modules with a class that the interpreted form replaces by another: mutmut looks for its mutants in that one.
REPLACED = ["src/tocsin/core/messages/message.py"]
#: How a run of the tests against a mutant ended, by mutmut's exit codes; anything else is `failed` (a crash).
OUTCOMES = {0: "survived", 1: "killed", 3: "killed", 5: "untested", 33: "untested", 36: "timeout", -24: "timeout"}
#: Name of no mutant: mutmut makes the mutants, runs the tests once, and finds nothing to do.
NOTHING = "none"


def copy_project(folder: str, tests: list[str]) -> None:
    """Copy what git knows of the project, with settings for mutmut; a file that has not changed is left alone.

    mutmut runs new tests only, to see what they reach; so a test that has changed is made a new one.
    """
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/tocsin/{folder}/*"],
        "do_not_mutate": REPLACED,
        "also_copy": list(COPIED),
        "pytest_add_cli_args": ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": tests,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    written = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + "\n[tool.mutmut]\n" + "\n".join(lines) + "\n"
    if not (PROJECT / "pyproject.toml").is_file() or (PROJECT / "pyproject.toml").read_text("utf-8") != written:
        shutil.rmtree(PROJECT, ignore_errors=True)
    known = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    names = {name for name in known.splitlines() if (ROOT / name).is_file()}
    before = {path.relative_to(PROJECT).as_posix() for path in PROJECT.rglob("*") if path.is_file()}
    gone = {name for name in before - names if not name.startswith("mutants/")}
    changed = {name for name in names if name not in before or not filecmp.cmp(ROOT / name, PROJECT / name, False)}
    for name in gone:
        (PROJECT / name).unlink()
        (PROJECT / "mutants" / name).unlink(missing_ok=True)
    for name in changed:
        (PROJECT / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, PROJECT / name)
    (PROJECT / "pyproject.toml").write_text(written, encoding="utf-8")
    forget_reach({name for name in gone | (changed & before) if name.startswith("tests/")})


def forget_reach(files: set[str]) -> None:
    """Remove the tests of some files from mutmut's statistics, or all if other tests may depend on a file."""
    statistics = PROJECT / "mutants" / "mutmut-stats.json"
    if not files or not statistics.is_file():
        return
    if not all(Path(name).name.startswith("test_") for name in files):
        statistics.unlink()
        return
    found = json.loads(statistics.read_text(encoding="utf-8"))
    took, reached = found["duration_by_test"], found["tests_by_mangled_function_name"]
    found["duration_by_test"] = {test: took[test] for test in took if test.split("::")[0] not in files}
    found["tests_by_mangled_function_name"] = {
        function: [test for test in tests if test.split("::")[0] not in files] for function, tests in reached.items()
    }
    statistics.write_text(json.dumps(found), encoding="utf-8")


def mutmut(*names: str) -> subprocess.CompletedProcess[str]:
    """Run mutmut over some mutants, in the copy."""
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(os.cpu_count() or 1), *names]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src"), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def run(mutants: list[str], tests: list[str]) -> dict[str, int]:
    """Run mutants against the tests that reach them; return their exit codes."""
    command = [sys.executable, str(Path(__file__).with_name("mutant_runs.py")), *tests]
    environment = {**os.environ, "NO_COLOR": "1"}
    with (PROJECT.parent / "runs.log").open("w", encoding="utf-8") as log:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=PROJECT / "mutants",
            env=environment,
            input="\n".join(mutants),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=True,
        )
    codes: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return codes


def mutants_of() -> dict[str, list[str]]:
    """Return the names of all mutants, by module."""
    found = {}
    for path in sorted((PROJECT / "mutants").rglob("*.py.meta")):
        module = path.relative_to(PROJECT / "mutants" / "src" / "tocsin").as_posix().removesuffix(".meta")
        names = list(json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"])
        if names:
            found[module] = names
    return found


def drawn(names: list[str], sample: int | None, seed: int) -> list[str]:
    """Draw a sample of mutants, or take them all."""
    return sorted(random.Random(seed).sample(names, sample)) if sample and sample < len(names) else names  # noqa: S311


def report(codes: dict[str, int]) -> tuple[str, dict[str, object]]:
    """Return a table of outcomes by module, with the survivors, and the figures."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for module, names in mutants_of().items():
        for name in names:
            if name in codes:
                outcome = OUTCOMES.get(codes[name], "failed")
                table[module][outcome] += 1
                survivors += [name] if outcome in ("survived", "untested") else []
    total: Counter[str] = sum(table.values(), Counter())
    lines = [f"{'module':44} {'killed':>8} {'survived':>9} {'untested':>9} {'other':>6}"]
    for module, counts in [*table.items(), ("total", total)]:
        other = counts.total() - counts["killed"] - counts["survived"] - counts["untested"]
        lines.append(f"{module:44} {counts['killed']:>8} {counts['survived']:>9} {counts['untested']:>9} {other:>6}")
    lines += ["", *(f"survived: {name}" for name in survivors)]
    noticed = total.total() - total["survived"] - total["untested"]
    share = round(noticed / max(1, total.total()), 3)
    return "\n".join(lines), {**total, "mutants": total.total(), "noticed_share": share}


def main() -> int:
    """Make mutants, run a sample of them, and print what happened."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="core", help="folder or module below src/tocsin (default: %(default)s)")
    parser.add_argument("--sample", type=int, help="number of mutants to draw (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: %(default)s)")
    parser.add_argument("--tests", nargs="+", default=["tests/core"], help="tests to run (default: %(default)s)")
    chosen = parser.parse_args()
    copy_project(chosen.only.split("/")[0], chosen.tests)
    first = mutmut(NOTHING)
    names = [name for module, found in mutants_of().items() if module.startswith(chosen.only) for name in found]
    if "nothing matches" not in first.stdout + first.stderr or not names:
        print(first.stdout[-3000:] + first.stderr[-3000:], file=sys.stderr)
        return 1
    sample = drawn(names, chosen.sample, chosen.seed)
    print(f"{len(sample)} of {len(names)} mutants of {chosen.only}, seed {chosen.seed}", flush=True)
    text, figures = report(run(sample, chosen.tests))
    print(text + "\n")
    print(json.dumps({"only": chosen.only, "seed": chosen.seed, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
