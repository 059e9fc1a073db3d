"""The units and the container file: what they name exists, and they ask for no more than they need."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from tocsin.cli.commands import app
from tocsin.cli.serve import CLOSE_S
from tocsin.hub.config import load_config

ROOT = Path(__file__).resolve().parents[2]
#: A hub per project, and a hub with many.
UNITS = [ROOT / "packaging" / "systemd" / name for name in ("tocsin@.service", "tocsin.service")]
CONTAINER = ROOT / "packaging" / "Containerfile"


def serve_options() -> set[str]:
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts}


@pytest.fixture(params=UNITS, ids=lambda path: path.name)
def file(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def unit(file: Path) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(name, []).append(value)
    return settings


def test_the_unit_starts_a_hub_with_options_that_there_are(file: Path) -> None:
    (command,) = unit(file)["ExecStart"]
    program, *arguments = command.split()
    assert program.endswith("/tocsin")
    assert arguments[0] == "serve"
    assert {argument for argument in arguments if argument.startswith("--")} <= serve_options()


def test_the_unit_gives_the_hub_time_to_stop(file: Path) -> None:
    # A supervisor waits longer than its workers do.
    assert int(unit(file)["TimeoutStopSec"][0]) > 2 * load_config().shutdown_timeout_s + CLOSE_S
    assert int(unit(file)["LimitNOFILE"][0]) > load_config().socket.connections_max


def test_the_unit_takes_every_privilege_away(file: Path) -> None:
    settings = unit(file)
    assert settings["CapabilityBoundingSet"] == [""]
    assert settings["NoNewPrivileges"] == ["yes"]
    assert settings["ProtectSystem"] == ["strict"]
    assert settings["StateDirectoryMode"] == ["0700"]
    assert settings["User"] != ["root"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed on every machine")
def test_systemd_understands_the_unit(tmp_path: Path, file: Path) -> None:
    program = Path(sys.executable).parent / "tocsin"
    copy = tmp_path / file.name.replace("@", "@apollo")
    copy.write_text(file.read_text(encoding="utf-8").replace("/opt/tocsin/bin/tocsin", str(program)), encoding="utf-8")
    done = subprocess.run(  # noqa: S603
        ["systemd-analyze", "verify", "--recursive-errors=no", str(copy)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_container_file_copies_what_there_is_and_runs_as_nobody_special() -> None:
    text = CONTAINER.read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert source.startswith("dist/") or (ROOT / source).exists(), source
    assert re.search(r"^USER tocsin$", text, re.MULTILINE)
    assert not re.search(r":latest\b", text)
    (command,) = re.findall(r"^CMD \[(.*)\]$", text, re.MULTILINE)
    options = set(re.findall(r'"(--[a-z-]+)"', command))
    assert options <= serve_options()


def test_the_lock_becomes_constraints() -> None:
    """The container file's sed leaves one pinned requirement per line: pip and uv take no hashes as constraints."""
    (expression,) = re.findall(r"sed -E '([^']+)'", CONTAINER.read_text(encoding="utf-8"))
    lock = ROOT / "requirements" / "all.lock"
    done = subprocess.run(["sed", "-E", expression, str(lock)], capture_output=True, text=True, check=True)  # noqa: S603, S607
    lines = done.stdout.splitlines()
    assert len(lines) == lock.read_text(encoding="utf-8").count("==") - lock.read_text(encoding="utf-8").count(" == '")
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[^ ;]+( ; .+)?", line), line
