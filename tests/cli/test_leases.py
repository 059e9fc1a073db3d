"""Leases from the command line, and the commit guard in a real repository with a real hub."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import RunningHub, run
from tests.patience import PATIENCE_S

TOCSIN = f"{sys.executable} -m tocsin"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("leases") / "data") as hub:
        for agent in ("ada", "bob"):
            hub.ask("agents", "add", agent, "--save")
        yield hub


def git(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git with an identity of its own and nothing of the machine's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TOCSIN_", "GIT_"))}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(  # noqa: S603
        ["git", *identity, *arguments],  # noqa: S607
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    assert git(tmp_path, "init", "repository").returncode == 0
    return tmp_path / "repository"


def stage(repository: Path, name: str, text: str = "hello\n") -> None:
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    assert git(repository, "add", "--all").returncode == 0


def install(hub: RunningHub, repository: Path, *options: str, url: str | None = None) -> None:
    whose = ["--url", url or hub.url, "--data", str(hub.data), "--as", "ada"]
    done = run(*whose, "hooks", "install", "git", "--command", TOCSIN, *options, "--json", cwd=repository)
    assert done.returncode == 0, done.stderr


def test_a_lease_is_acquired_listed_and_released(hub: RunningHub) -> None:
    held = hub.json("leases", "acquire", "db", "port", agent="ada")
    assert (held["state"], held["exclusive"]) == ("held", ["db", "port"])
    waiting = hub.json("leases", "acquire", "db", "--shared", agent="bob")
    assert (waiting["state"], waiting["place"]) == ("waiting", 1)
    listed = [line.split() for line in hub.run("leases", "list", "db").stdout.splitlines()]
    assert [line[:3] for line in listed[1:]] == [[held["lease"], "ada", "held"], [waiting["lease"], "bob", "waiting"]]
    assert hub.run("leases", "acquire", "db", "--wait-s", "0", agent="bob").returncode == 6
    assert hub.json("leases", "renew", held["lease"], agent="ada")["state"] == "held"
    assert hub.json("leases", "release", "port", agent="ada")["resources"] == ["port"]
    assert hub.json("leases", "release", held["lease"], agent="ada")["resources"] == ["db"]
    assert hub.run("leases", "release", "db", agent="ada").returncode == 3
    gone = hub.json("leases", "force-release", waiting["lease"], "--reason", "enough")
    assert gone["resources"] == ["db"]


def test_a_commit_that_touches_what_another_holds_is_refused(hub: RunningHub, repository: Path) -> None:
    install(hub, repository)
    lease = hub.ask("leases", "acquire", "src/api/**", agent="bob")["lease"]
    stage(repository, "src/api/users.py")
    refused = git(repository, "commit", "-m", "mine")
    assert refused.returncode == 1
    assert "src/api/users.py: bob holds src/api/**" in refused.stderr
    hub.ask("leases", "release", lease, agent="bob")
    assert git(repository, "commit", "-m", "mine").returncode == 0


def test_own_leases_deletions_and_renames_are_seen(hub: RunningHub, repository: Path) -> None:
    own = hub.ask("leases", "acquire", "own/**", agent="ada")["lease"]
    stage(repository, "own/a.txt", "a\n" * 50)
    stage(repository, "other/b.txt")
    install(hub, repository)
    assert git(repository, "commit", "-m", "mine").returncode == 0
    lease = hub.ask("leases", "acquire", "elsewhere/*", "other/b.txt", agent="bob")["lease"]
    (repository / "elsewhere").mkdir()
    assert git(repository, "mv", "own/a.txt", "elsewhere/a.txt").returncode == 0
    assert "elsewhere/a.txt: bob holds elsewhere/*" in git(repository, "commit", "-m", "moved").stderr
    git(repository, "reset", "--hard")
    assert git(repository, "rm", "other/b.txt").returncode == 0
    assert "other/b.txt: bob holds other/b.txt" in git(repository, "commit", "-m", "gone").stderr
    for name, agent in ((own, "ada"), (lease, "bob")):
        hub.ask("leases", "release", name, agent=agent)


def test_without_a_hub_the_guard_warns_and_a_strict_one_refuses(hub: RunningHub, repository: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    install(hub, repository, url=nowhere)
    stage(repository, "a.txt")
    passed = git(repository, "commit", "-m", "one")
    assert passed.returncode == 0
    assert "the commit was not checked" in passed.stderr
    install(hub, repository, "--strict", url=nowhere)
    stage(repository, "b.txt")
    refused = git(repository, "commit", "-m", "two")
    assert refused.returncode == 1
    assert "the guard is strict" in refused.stderr


def test_the_guard_starts_the_program_that_installed_it(hub: RunningHub, repository: Path) -> None:
    """It started whatever `tocsin` the path of git had, or none."""
    whose = ["--url", hub.url, "--data", str(hub.data), "--as", "ada"]
    assert run(*whose, "hooks", "install", "git", cwd=repository).returncode == 0
    script = (repository / ".git" / "hooks" / "pre-commit").read_text(encoding="utf-8")
    assert f"\n{sys.executable} -m tocsin --url" in script
    lease = hub.ask("leases", "acquire", "a.txt", agent="bob")["lease"]
    stage(repository, "a.txt")
    assert "a.txt: bob holds a.txt" in git(repository, "commit", "-m", "mine").stderr
    hub.ask("leases", "release", lease, agent="bob")


def test_a_guard_whose_program_is_gone_warns_and_a_strict_one_refuses(hub: RunningHub, repository: Path) -> None:
    broken = repository / "tocsin"
    broken.write_text("#!/nowhere/python\n", encoding="utf-8")
    broken.chmod(0o755)
    stage(repository, "a.txt")
    for command in (str(broken), str(repository / "missing")):
        run("hooks", "install", "git", "--command", command, cwd=repository)
        passed = git(repository, "commit", "--allow-empty", "-m", "one")
        assert (passed.returncode, "the commit was not checked" in passed.stderr) == (0, True)
        run("hooks", "install", "git", "--strict", "--command", command, cwd=repository)
        refused = git(repository, "commit", "--allow-empty", "-m", "two")
        assert (refused.returncode, "cannot be started" in refused.stderr) == (1, True)


def test_a_hook_that_was_there_is_kept_run_and_put_back(hub: RunningHub, repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho "ran before" >&2\n[ ! -e refuse ]\n', encoding="utf-8")
    hook.chmod(0o755)
    install(hub, repository)
    install(hub, repository)
    stage(repository, "a.txt")
    assert "ran before" in git(repository, "commit", "-m", "one").stderr
    stage(repository, "refuse")
    assert git(repository, "commit", "-m", "two").returncode == 1
    done = run("hooks", "uninstall", "git", "--json", cwd=repository)
    assert json.loads(done.stdout)["removed"]
    assert "ran before" in hook.read_text(encoding="utf-8")
    assert not json.loads(run("hooks", "uninstall", "git", "--json", cwd=repository).stdout)["removed"]


def test_outside_a_repository_nothing_is_installed(hub: RunningHub, tmp_path: Path) -> None:
    done = run("hooks", "install", "git", cwd=tmp_path)
    assert done.returncode == 1
    assert "not a git repository" in done.stderr
