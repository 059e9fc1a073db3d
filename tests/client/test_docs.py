"""The examples that need a hub run against one, set up as the page says."""

import re
from pathlib import Path

import pytest

from tests.cli.processes import RunningHub

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(r"^```python hub\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_examples_that_need_a_hub_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = [
        (page.name, match[1])
        for page in sorted(DOCS.rglob("*.md"))
        for match in _FENCE.finditer(page.read_text(encoding="utf-8"))
    ]
    assert len(examples) == 2
    monkeypatch.chdir(tmp_path)
    with RunningHub(tmp_path / ".tocsin") as hub:
        hub.json("agents", "add", "ada", "--type", "Manager", "--save")
        hub.json("agents", "add", "bob", "--type", "Implementation", "--save")
        for where, code in examples:
            here = code.replace("http://127.0.0.1:7077", hub.url)
            exec(compile(here, where, "exec"), {"__name__": "__example__"})  # noqa: S102
    assert "ada StatusUpdate the build is red" in capsys.readouterr().out
