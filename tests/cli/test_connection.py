"""`tocsin doctor --agent` and `tocsin hooks show`: what is connected, and what has really run, in a folder."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import COMMAND, RunningHub
from tests.patience import PATIENCE_S
from tocsin.cli.hooks.firings import firings_of, noted, noted_server, servers_of
from tocsin.cli.identity import Identity


class Shop:
    """A folder of an agent, with a home directory, a `claude` on the PATH, and a hub."""

    def __init__(self, root: Path, hub: RunningHub) -> None:
        self.hub = hub
        self.folder, self.home = root / "shop", root / "home"
        self.folder.mkdir()
        (self.home / "bin").mkdir(parents=True)
        program = self.home / "bin" / "claude"
        program.write_text("#!/bin/sh\necho 9.9.9\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        subprocess.run(["git", "init", "-q", str(self.folder)], check=True)  # noqa: S603, S607

    def run(
        self, *words: str, within: str = ".", said: str = "", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
        environment |= {"HOME": str(self.home), "TOCSIN_URL": self.hub.url, "CODEX_HOME": ""}
        environment["PATH"] = f"{self.home / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
        folder = self.folder / within
        folder.mkdir(exist_ok=True)
        return subprocess.run(  # noqa: S603
            [*COMMAND, *words],
            cwd=folder,
            env=environment | variables,
            input=said,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def doctor(self, **more: Any) -> dict[str, dict[str, Any]]:
        done = self.run("doctor", "--agent", "ada", "--json", **more)
        return {finding["check"]: finding for finding in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("connection") / "data") as hub:
        hub.json("agents", "add", "ada", "--save")
        hub.json("agents", "add", "bob", "--save")
        yield hub


@pytest.fixture
def shop(hub: RunningHub, tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, hub)
    done = shop.run("--data", str(hub.data), "--as", "ada", "hooks", "install", "claude")
    assert done.returncode == 0, done.stderr
    return shop


_EVENT = json.dumps(
    {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s-1",
        "transcript_path": "/home/ada/.claude/projects/x.jsonl",
    }
)
_RAN = "Claude Code: checks that ran last"


def test_a_check_that_ran_is_proved_and_one_that_did_not_is_told(shop: Shop) -> None:
    found = shop.doctor()
    assert (found["token"]["good"], "of ada" in found["token"]["detail"]) == (True, True)
    assert found["this folder's agent"]["good"] is True
    assert found["Claude Code"]["detail"].startswith("9.9.9 (")
    assert (found["Claude Code: MCP entry"]["good"], found["Claude Code: checks"]["good"]) == (True, True)
    assert (found[_RAN]["good"], found[_RAN]["detail"]) == (False, "none, ever")
    assert shop.run("hooks", "check", said=_EVENT).returncode == 0
    ran = shop.doctor()[_RAN]
    assert (ran["good"], "UserPromptSubmit" in ran["detail"], "session s-1" in ran["detail"]) == (True, True, True)
    shown = shop.run("hooks", "show").stdout
    assert "this folder: ada (" in shown
    assert "UserPromptSubmit" in shown
    assert str(shop.folder / ".git" / "hooks" / "pre-commit") in shown


def test_what_the_person_must_accept_is_told_until_it_is_accepted(shop: Shop) -> None:
    trust, approval = "Claude Code: trust", "Claude Code: approval"
    found = shop.doctor()
    assert [found[name]["good"] for name in (trust, approval)] == [False, False]
    assert "--allow" in found[approval]["next"]
    known = {"projects": {str(shop.folder): {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["tocsin"]}}}
    (shop.home / ".claude.json").write_text(json.dumps(known))
    found = shop.doctor()
    assert [found[name]["good"] for name in (trust, approval)] == [True, True]


def test_checks_that_a_sub_folder_does_not_have_are_told(shop: Shop) -> None:
    found = shop.doctor(within="src")
    assert (found["this folder's agent"]["good"], found["Claude Code: MCP entry"]["good"]) == (True, True)
    assert found["Claude Code: checks"]["good"] is False
    assert str(shop.folder) in found["Claude Code: checks"]["next"]
    shop.run("--data", str(shop.hub.data), "--as", "ada", "hooks", "install", "claude", "--scope", "user")
    assert shop.doctor(within="src")["Claude Code: checks"]["good"] is True


def test_a_check_in_a_sub_folder_is_the_agents(shop: Shop) -> None:
    shop.hub.json("send", "ada", "fire", "--priority", "Critical", agent="bob")
    assert "fire" in shop.run("hooks", "check", within="src", said=_EVENT).stdout
    assert not (shop.folder / "src" / ".tocsin").exists()


def test_a_check_is_of_the_process_that_has_a_token_and_not_of_its_folder(shop: Shop) -> None:
    bob = str(shop.hub.data / "tokens" / "bob.token")
    shop.hub.json("send", "ada", "for ada alone", "--priority", "Critical", agent="bob")
    assert "for ada alone" not in shop.run("hooks", "check", said=_EVENT, TOCSIN_TOKEN_FILE=bob).stdout
    assert [note["event"] for note in firings_of(shop.hub.data, "bob")] == ["UserPromptSubmit"]


def test_a_check_that_shows_something_makes_no_data_directory(shop: Shop) -> None:
    (shop.folder / ".tocsin" / "agent.json").unlink()
    (shop.folder / ".tocsin").rmdir()
    shop.hub.json("send", "bob", "fire", "--priority", "Critical", agent="ada")
    bob = str(shop.hub.data / "tokens" / "bob.token")
    assert "fire" in shop.run("hooks", "check", said=_EVENT, TOCSIN_TOKEN_FILE=bob).stdout
    assert not (shop.folder / ".tocsin").exists()


def test_a_check_that_cannot_ask_says_why_in_its_note(shop: Shop) -> None:
    data = shop.folder / "other"
    data.mkdir()
    shop.run("--data", str(data), "--as", "cy", "hooks", "check", said=_EVENT)
    (note,) = firings_of(data, "cy")
    assert f"no token is saved for cy in {data / 'tokens'}" in note["outcome"]
    done = shop.run("--data", str(data), "doctor", "--agent", "cy")
    assert done.returncode == 1
    assert "agents add cy --save" in done.stdout


def test_a_second_server_of_an_agent_is_told_of_the_first(tmp_path: Path) -> None:
    ada = Identity("ada", "--as", tmp_path, file=tmp_path / "ada.token")
    left = tmp_path / "hooks" / "ada" / "server-0.json"
    with noted_server(ada) as others:
        assert others == []
        left.write_text(json.dumps({"process": 2**22 + 1, "at": 0.0}))
        with noted_server(ada) as others:
            assert others == [os.getpid()]
        assert not left.exists() or servers_of(tmp_path, "ada") == []
    assert servers_of(tmp_path, "ada") == []


def test_a_note_never_disturbs_a_check(tmp_path: Path) -> None:
    def fails(data: Path) -> None:
        with noted(Identity("ada", "--as", data, file=tmp_path / "ada.token"), "Stop", {}):
            raise OSError

    fails(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "hooks").write_text("not a directory")
    fails(tmp_path)
    assert firings_of(tmp_path, "../x") == []


def test_what_codex_has_not_reviewed_and_does_not_reach_is_told(shop: Shop) -> None:
    trust, review, sandbox = "Codex: trust", "Codex: trust of the checks", "Codex: sandbox"
    assert "Codex" in shop.doctor(), "it is not connected, and that is all"
    shop.run("--data", str(shop.hub.data), "--as", "ada", "hooks", "install", "codex")
    found = shop.doctor(within="src")
    assert [found[name]["good"] for name in (trust, review, sandbox)] == [False, False, None]
    assert "network_access = true" in found[sandbox]["next"]
    checks = shop.folder / ".codex" / "hooks.json"
    (shop.home / ".codex").mkdir()
    (shop.home / ".codex" / "config.toml").write_text(
        f'[projects."{shop.folder}"]\ntrust_level = "trusted"\n[hooks.state."{checks}:stop:0:0"]\ntrusted_hash = "x"\n'
        "[sandbox_workspace_write]\nnetwork_access = true\n"
    )
    found = shop.doctor(within="src")
    assert [found[name]["good"] for name in (trust, review, sandbox)] == [True, True, True]


def test_an_agent_that_is_not_the_folders_is_told_how_to_start(shop: Shop) -> None:
    done = shop.run("--data", str(shop.hub.data), "doctor", "--agent", "bob")
    assert done.returncode == 1
    assert "✗ this folder's agent: ada (" in done.stdout
    assert f"TOCSIN_TOKEN_FILE={shop.hub.data / 'tokens' / 'bob.token'}" in done.stdout
