"""What the README prints, typed into an empty clone in an empty folder with an empty environment and no cache.

The commands are read off the README. `make test` would run this test again, so it is given a part of the tests; all of
them run in the clone that this one is run from. `pip install tocsin` installs the clone. The way to the package
registries is the machine's own. The commands for a hub by hand are also tried in every run, with this environment.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.processes import COMMAND, RunningHub
from tocsin.hub.config import load_config

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
#: A part of `make test` that has something of everything: the core, a store, a hub, the SDK and the pages.
PART = (
    "tests/core/messages/endings/test_recall.py tests/stores/test_journal.py tests/cli/test_serve.py "
    "tests/test_promises.py"
)
#: How a machine reaches its registries; nothing else of the environment comes along.
_REGISTRIES = re.compile(
    r"(PIP_|UV_|NPM_CONFIG_|SSL_CERT_|REQUESTS_CA|NODE_EXTRA_CA|(HTTPS?|NO)_PROXY$)", re.IGNORECASE
)
#: Longest time for one command: less than `make soak` gives the whole test, so that a failure names the command.
_LIMIT_S = 1500


def blocks(language: str) -> list[str]:
    """The README's blocks of a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert found
    return found


def printed() -> list[str]:
    """The commands that stand alone: those of all blocks but the one for a hub by hand."""
    lines = [line.split("#")[0].strip() for block in blocks("sh") if block != by_hand() for line in block.splitlines()]
    return [line for line in lines if line]


def by_hand() -> str:
    """The block of commands to a running hub, which begins with an alias."""
    (block,) = [block for block in blocks("sh") if block.startswith("alias tocsin=")]
    return block


def type_by_hand(block: str, cwd: Path, environment: dict[str, str]) -> str:
    """Type a block into a shell that stops at the first command which fails; return what it printed."""
    done = subprocess.run(
        ["bash", "-e"],  # noqa: S607
        input=f"shopt -s expand_aliases\n{block}",
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def try_install(clone: Path, environment: dict[str, str]) -> None:
    """`pip install tocsin`, and the program below it."""
    place = clone.parent / "installed"
    for command in (
        [sys.executable, "-m", "venv", str(place)],
        [str(place / "bin" / "pip"), "install", "--quiet", str(clone)],
    ):
        subprocess.run(command, cwd=clone.parent, env=environment, check=True, timeout=_LIMIT_S)  # noqa: S603
    done = subprocess.run(  # noqa: S603
        [str(place / "bin" / "python"), "-c", blocks("python")[0]],
        cwd=clone.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=_LIMIT_S,
    )
    assert done.stdout.startswith("Critical production is down\n")


def empty_environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if _REGISTRIES.match(name)}
    kept = {name: value for name, value in kept.items() if "CACHE" not in name}
    return {**kept, "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PIP_NO_CACHE_DIR": "1"}


def try_test(clone: Path, environment: dict[str, str]) -> None:
    """`make test`, with a part of the tests."""
    done = subprocess.run(  # noqa: S603
        ["make", "test", f"TEST_ARGS={PART}"],  # noqa: S607
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert re.search(r"\d+ passed", done.stdout)


def try_run(clone: Path, environment: dict[str, str]) -> None:
    """`make run` and the commands by hand, until Ctrl-C."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", load_config().port)) == 0:  # somebody's own hub: this one takes another port
            (clone / ".tocsin").mkdir()
            (clone / ".tocsin" / "server.yaml").write_text("port: 0\n", encoding="utf-8")
    with subprocess.Popen(
        ["make", "run"],  # noqa: S607
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as hub:
        assert hub.stdout is not None
        try:
            serving = next(line for line in hub.stdout if "serving project default at http://127.0.0.1:" in line)
            told = type_by_hand(by_hand(), clone, environment | {"TOCSIN_URL": serving.split()[-1]})
            assert "the build is red" in told
        finally:
            os.killpg(hub.pid, signal.SIGINT)
        hub.stdout.read()
    assert (clone / ".tocsin" / "admin.token").exists()


def try_demo(clone: Path, environment: dict[str, str]) -> None:
    """`make demo`, until everything is told: with Ctrl-C as its last word it would not end by itself."""
    done = subprocess.run(
        ["make", "demo", "DEMO_ARGS=--leave --port 0"],  # noqa: S607
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert re.search(r"The report is ready, \d+ s after the story: Spark made tables of [\d,]+ events\.", done.stdout)


#: How each command of the README is tried.
TRIED: dict[str, Callable[[Path, dict[str, str]], None]] = {
    "pip install tocsin": try_install,
    "make test": try_test,
    "make demo": try_demo,
}


def test_each_of_the_readmes_commands_is_tried() -> None:
    assert sorted(printed()) == sorted(TRIED)


def test_the_part_of_the_tests_is_there() -> None:
    assert [name for name in PART.split() if not (ROOT / name).is_file()] == []


def test_the_commands_by_hand_work_with_a_hub(tmp_path: Path) -> None:
    alias, _, rest = by_hand().partition("\n")
    assert alias == "alias tocsin=.venv/bin/tocsin"
    with RunningHub(tmp_path / ".tocsin") as hub:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
        here = f"alias tocsin={shlex.quote(shlex.join(COMMAND))}\n{rest}"
        told = type_by_hand(here, tmp_path, environment | {"TOCSIN_URL": hub.url})
    assert "the build is red" in told
    assert "default: serving" in told, "the last command shows the hub"


@pytest.mark.skipif(not os.environ.get("TOCSIN_SOAK"), reason="installs everything anew, with no cache: make soak")
def test_the_commands_work_from_an_empty_clone(tmp_path: Path) -> None:
    git = shutil.which("git")
    assert git is not None
    clone, home = tmp_path / "clone", tmp_path / "home"
    home.mkdir()
    subprocess.run([git, "clone", "--quiet", f"file://{ROOT}", str(clone)], check=True)  # noqa: S603
    environment = empty_environment(home)
    for command in printed():
        TRIED[command](clone, environment)
    try_run(clone, environment)
