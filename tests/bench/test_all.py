"""Every bench is honest: it opens a `Run`, which prints form, commit and load and refuses figures of a busy machine."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_TARGET = re.compile(r"^(bench-[a-z]+):.*\n\t@[^\n]* -m (bench\.\w+)", re.MULTILINE)
TARGETS = dict(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
#: The only module that writes the figures of the docs.
WRITER = ROOT / "bench" / "report.py"


def source_of(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def calls(path: Path) -> list[tuple[str, list[object]]]:
    """List the names that a module calls, with their constant arguments."""
    found: list[tuple[str, list[object]]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found.append((name, [item.value for item in node.args if isinstance(item, ast.Constant)]))
    return found


def problems(target: str, path: Path) -> list[str]:
    """List what a bench lacks."""
    made = calls(path)
    wanted = {
        "takes the options that all benches have": any(name == "options" and target in given for name, given in made),
        "opens a run of its own name": any(name == "Run" and target in given for name, given in made),
        "finishes its run": any(name == "finish" for name, _ in made),
    }
    return [f"{target} does not do this: {what}" for what, done in wanted.items() if not done]


def test_every_target_of_the_makefile_is_a_bench() -> None:
    named = re.findall(r"^(bench-[a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(TARGETS) == sorted(named)
    assert len(TARGETS) >= 14


@pytest.mark.parametrize("target", TARGETS)
def test_a_bench_prints_its_conditions(target: str) -> None:
    assert problems(target, source_of(TARGETS[target])) == []


def test_a_bench_without_conditions_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text('print("10,000 messages/s")\n')
    assert len(problems("bench-some", tmp_path / "some.py")) == 3


def test_figures_of_the_docs_are_written_in_one_place() -> None:
    writers = [path for path in (ROOT / "bench").rglob("*.py") if "performance.md" in path.read_text(encoding="utf-8")]
    assert [path for path in writers if any(name == "write_text" for name, _ in calls(path))] == [WRITER]
