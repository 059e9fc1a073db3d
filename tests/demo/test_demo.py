"""`make demo`, as it is run: every act plays on a real hub, and what it found is what it should have found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def told(folder: Path, *options: str) -> str:
    """Run the demo to its end in a folder of its own, and return its page without line breaks."""
    command = [sys.executable, "-m", "demo", "--leave", "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", "TERM": "dumb"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def test_the_story(tmp_path: Path) -> None:
    page = told(tmp_path, "--without-pipeline")
    assert "70 tasks were assigned" in page
    assert "bob received it as number 1 of 201" in page
    accepted, refused = re.search(
        r"600 messages at once: (\d+) were accepted, refused were (\d+) with E_ADMISSION", page
    ).groups()  # type: ignore[union-attr]
    assert int(accepted) + int(refused) == 600
    assert "(recalled); one that ada had already read was not (already_delivered)" in page
    assert "it had expired, unread" in page
    assert "the clone inherited Blocking" in page
    assert re.search(r"bob was refused after \d+ ms \(.*bob → ada → bob.*\)", page)
    assert "erin was at step 2 of 4" in page
    assert "(4 steps in the end, none twice)" in page
    assert "in hugo's inbox at Critical, and hugo resolved it (normal)" in page
    assert "processed on attempt 2" in page
    shed = re.search(r"critical (\d+)%, normal (\d+)%, best effort (\d+)%", page)
    assert shed is not None
    assert int(shed[1]) == 0
    assert int(shed[2]) <= int(shed[3])
    token = tmp_path / ".demo" / "hub" / "hugo.token"
    assert token.stat().st_mode & 0o077 == 0
    assert token.read_text().strip() not in page


@pytest.mark.skipif(not os.environ.get("TOCSIN_SOAK"), reason="Spark takes a while: make soak")
def test_with_its_history(tmp_path: Path) -> None:
    page = told(tmp_path)
    assert re.search(r"\d+ messages were accepted: .*drained", page)
    assert (tmp_path / ".demo" / "report.html").stat().st_size > 10_000
