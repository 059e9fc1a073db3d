"""One version everywhere, and a changelog that a release is made of."""

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

import tocsin
from tests.cli.processes import run

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import release  # noqa: E402

sys.path.pop(0)

LOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- a bell\n\n## 0.1.0 (2026-01-01)\n\n- a bus\n"


def test_the_version_is_the_same_everywhere() -> None:
    assert {release.version_of(path) for path in release.PLACES} == {tocsin.__version__}


def test_the_command_line_says_it(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"tocsin {tocsin.__version__}\n"


def test_what_is_unreleased_becomes_the_versions_part() -> None:
    text = release.with_release(LOG, "0.2.0", date(2026, 2, 3))
    assert text == LOG.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 (2026-02-03)\n")


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("# Changelog\n\n## Unreleased\n\n## 0.1.0 (2026-01-01)\n\n- a bus\n", "nothing to release"),
        (LOG.replace("0.1.0", "0.2.0"), "already has 0.2.0"),
    ],
)
def test_nothing_is_released_twice_nor_without_a_change(log: str, why: str) -> None:
    with pytest.raises(SystemExit, match=why):
        release.with_release(log, "0.2.0", date(2026, 2, 3))


def test_a_new_version_is_written_where_the_old_one_was() -> None:
    for path in release.PLACES:
        old, new = path.read_text(encoding="utf-8"), release.renumbered(path, "9.8.7")
        changed = [pair for pair in zip(old.splitlines(), new.splitlines(), strict=True) if pair[0] != pair[1]]
        assert len(changed) == 1
        assert '"9.8.7"' in changed[0][1]


@pytest.mark.parametrize("version", ["", "1.0", "0.0.1", "v9.9.9"])
def test_a_version_that_is_none_or_older_is_refused_and_nothing_is_written(version: str) -> None:
    before = {path: path.read_bytes() for path in (*release.PLACES, ROOT / "CHANGELOG.md")}
    command = [sys.executable, str(ROOT / "tools" / "release.py"), *([version] if version else [])]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1  # noqa: S603
    assert {path: path.read_bytes() for path in before} == before
