"""The command line with the packages of the `cli` extra only: a hub elsewhere is used as ever, and none is served."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import RunningHub
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
_CODE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from tocsin.cli import main
main()
"""


def packages(extra: str) -> set[str]:
    """Return the modules of an extra."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts = document["project"]["optional-dependencies"][extra]
    return {re.split(r"[<>=\[; ]", text)[0].replace("-", "_") for text in texts}


def absent() -> set[str]:
    """Return the modules that an installation of the `cli` extra does not have."""
    others = {name for extra in ("server", "mcp", "postgres", "pipeline", "otel") for name in packages(extra)}
    return others - packages("cli")


def typed(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process that lacks the other packages."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    code = _CODE.format(absent=absent())
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=cwd, env=environment
    )


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("elsewhere") / "data") as running:
        yield running


def test_the_help_needs_no_server(tmp_path: Path) -> None:
    assert {"uvicorn", "starlette", "prometheus_client", "mcp"} <= absent()
    told = typed("--help", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert "quickstart" in told.stdout


def test_a_hub_elsewhere_is_used_as_ever(hub: RunningHub, tmp_path: Path) -> None:
    here = ("--url", hub.url, "--data", str(tmp_path))
    (tmp_path / "admin.token").write_text((hub.data / "admin.token").read_text())
    for words in (
        ("agents", "add", "ada", "--save"),
        ("--as", "ada", "send", "ada", "hello"),
        ("--as", "ada", "inbox", "--take"),
        ("top", "--once"),
        ("doctor",),
        ("policy", "show"),
        ("completion", "show", "bash"),
    ):
        told = typed(*here, *words, cwd=tmp_path)
        assert told.returncode == 0, (words, told.stderr)
    assert json.loads(typed(*here, "status", "--json", cwd=tmp_path).stdout)["condition"] == "serving"


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("init",), ("quickstart", "--port", "0")])
def test_a_command_that_needs_the_server_says_so(words: tuple[str, ...], tmp_path: Path) -> None:
    told = typed(*words, cwd=tmp_path)
    assert told.returncode == 1
    assert told.stderr.startswith("this command needs ")
    assert told.stderr.endswith("pip install 'tocsin[server]'\n")
    assert list(tmp_path.iterdir()) == []
