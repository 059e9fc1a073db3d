"""The commit guard in real repositories and worktrees, with a real hub."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import RunningHub, run
from tests.patience import PATIENCE_S

TOCSIN = f"{sys.executable} -m tocsin"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("guard") / "data") as hub:
        for agent in ("ada", "bob"):
            hub.ask("agents", "add", agent, "--save")
        yield hub


def git(repository: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run git with an identity of its own and nothing of the machine's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TOCSIN_", "GIT_"))}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(  # noqa: S603
        ["git", *identity, *arguments],  # noqa: S607
        cwd=repository,
        env=environment | variables,
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


def install(
    hub: RunningHub, repository: Path, *options: str, url: str | None = None, agent: str | None = "ada"
) -> dict[str, Any]:
    whose = ["--url", url or hub.url, *(["--data", str(hub.data), "--as", agent] if agent else [])]
    done = run(*whose, "hooks", "install", "git", "--command", TOCSIN, *options, "--json", cwd=repository)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def worktree(repository: Path) -> Path:
    """A second working tree, beside the first one."""
    git(repository, "commit", "--allow-empty", "-m", "begin")
    assert git(repository, "worktree", "add", "../tree").returncode == 0
    return repository.parent / "tree"


@pytest.fixture
def held(hub: RunningHub) -> Iterator[str]:
    """A file that bob holds."""
    lease = hub.ask("leases", "acquire", "src/price.py", agent="bob")["lease"]
    yield "src/price.py"
    hub.ask("leases", "release", lease, agent="bob")


_HOLDS = "src/price.py: bob holds src/price.py"


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


def test_in_each_working_tree_the_guard_is_of_its_agent(
    hub: RunningHub, repository: Path, worktree: Path, held: str
) -> None:
    """All working trees share one hook, which named the agent that was installed last."""
    install(hub, repository, agent="ada")
    assert install(hub, worktree, agent="bob")["agent"] == "bob"
    for tree in (repository, worktree):
        stage(tree, held)
    assert _HOLDS in git(repository, "commit", "-m", "ada's").stderr
    committed = git(worktree, "commit", "-m", "bob's")
    assert (committed.returncode, committed.stderr) == (0, "")
    script = (repository / ".git" / "hooks" / "pre-commit").read_text(encoding="utf-8")
    assert not [word for word in ("ada", "bob", "--as", "--data", str(hub.data)) if word in script]


def test_the_guard_works_from_every_folder(hub: RunningHub, repository: Path, worktree: Path, held: str) -> None:
    install(hub, repository, agent="bob")
    stage(worktree, held)
    below = worktree / "src"
    assert install(hub, below)["agent"] == "ada"
    assert (worktree / ".tocsin" / "agent.json").exists()
    elsewhere = repository / "other"
    elsewhere.mkdir()
    for folder, words in ((below, ()), (elsewhere, ("-C", str(worktree))), (elsewhere, ("-C", str(below)))):
        assert _HOLDS in git(folder, *words, "commit", "-m", "ada's").stderr
    install(hub, below, "--prefix", "shop/")
    lease = hub.ask("leases", "acquire", "shop/src/price.py", agent="bob")["lease"]
    assert "shop/src/price.py: bob holds shop/src/price.py" in git(below, "commit", "-m", "ada's").stderr
    hub.ask("leases", "release", lease, agent="bob")


def test_the_guard_works_in_the_worktrees_of_a_bare_repository(
    hub: RunningHub, repository: Path, worktree: Path, held: str
) -> None:
    project = repository.parent / "project"
    project.mkdir()
    assert git(project, "clone", "--bare", str(repository), ".bare").returncode == 0
    (project / ".git").write_text("gitdir: ./.bare\n")
    for name in ("ada", "bob"):
        assert git(project, "worktree", "add", "-b", name, name).returncode == 0
        install(hub, project / name, agent=name)
        stage(project / name, held)
    assert _HOLDS in git(project / "ada", "commit", "-m", "ada's").stderr
    assert git(project, "-C", "bob", "commit", "-m", "bob's").returncode == 0


def test_a_process_with_a_token_commits_as_its_agent(hub: RunningHub, repository: Path, held: str) -> None:
    install(hub, repository)
    stage(repository, held)
    bob = str(hub.data / "tokens" / "bob.token")
    assert git(repository, "commit", "-m", "ada's", CLAUDE_PROJECT_DIR=str(hub.data)).returncode == 1
    assert git(repository, "commit", "-m", "bob's", TOCSIN_TOKEN_FILE=bob).returncode == 0


def test_a_working_tree_without_an_agent_is_told_and_a_strict_guard_refuses(
    hub: RunningHub, repository: Path, worktree: Path
) -> None:
    install(hub, repository)
    stage(worktree, "a.txt")
    passed = git(worktree, "commit", "-m", "one")
    assert (passed.returncode, f"not checked: no agent is named for {worktree}" in passed.stderr) == (0, True)
    assert install(hub, worktree, "--strict", agent=None)["agent"] is None
    stage(worktree, "b.txt")
    refused = git(worktree, "commit", "-m", "two")
    assert (refused.returncode, f"strict: no agent is named for {worktree}" in refused.stderr) == (1, True)
    assert git(worktree, "commit", "--allow-empty", "--only", "-m", "nothing to check").returncode == 0


def test_a_clone_that_names_an_agent_is_not_checked_as_that_agent(hub: RunningHub, repository: Path, held: str) -> None:
    install(hub, repository, agent="bob")
    clone = repository.parent / "clone"
    assert git(repository, "clone", str(repository), str(clone)).returncode == 0
    (clone / ".tocsin").mkdir()
    (clone / ".tocsin" / "agent.json").write_text((repository / ".tocsin" / "agent.json").read_text())
    install(hub, clone, "--strict", agent=None)
    stage(clone, held)
    refused = git(clone, "commit", "-m", "as bob")
    assert (refused.returncode, "did not write it for this folder" in refused.stderr) == (1, True)


def test_in_the_sandbox_of_codex_the_guard_names_the_setting(hub: RunningHub, repository: Path) -> None:
    install(hub, repository, url="http://127.0.0.1:9")
    stage(repository, "a.txt")
    passed = git(repository, "commit", "-m", "one", CODEX_SANDBOX_NETWORK_DISABLED="1")
    assert passed.returncode == 0
    assert "the commit was not checked: Codex's sandbox" in passed.stderr
    assert "`network_access = true` under [sandbox_workspace_write]" in passed.stderr
    install(hub, repository, "--strict", url="http://127.0.0.1:9")
    stage(repository, "b.txt")
    refused = git(repository, "commit", "-m", "two", CODEX_SANDBOX_NETWORK_DISABLED="1")
    assert (refused.returncode, "[sandbox_workspace_write]" in refused.stderr) == (1, True)


def test_a_script_that_names_an_agent_is_told_and_replaced(hub: RunningHub, repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    old = f"{TOCSIN} --url {hub.url} --data {hub.data} --as bob hooks guard-commit"
    hook.write_text(f"#!/bin/sh\n# The commit guard of tocsin; remove it with: tocsin hooks uninstall git\n{old}\n")

    def states() -> tuple[bool, bool | None]:
        shown = json.loads(run("hooks", "show", "--json", cwd=repository).stdout)
        checked = json.loads(run("--url", hub.url, "doctor", "--agent", "ada", "--json", cwd=repository).stdout)
        (guard,) = [row for row in shown if row["agent"] == "git"]
        (finding,) = [one for one in checked if one["check"] == "git guard"]
        assert guard["installed"]
        return guard["outdated"], finding["good"]

    assert states() == (True, False)
    assert "git guard: of an earlier version" in run("hooks", "show", cwd=repository).stdout
    install(hub, repository)
    assert states() == (False, True)


def test_the_guard_keeps_the_agent_of_the_folder(hub: RunningHub, repository: Path) -> None:
    install(hub, repository)
    run("hooks", "install", "claude", cwd=repository)
    run("hooks", "uninstall", "claude", cwd=repository)
    assert (repository / ".tocsin" / "agent.json").exists()
    run("hooks", "uninstall", "git", cwd=repository)
    run("hooks", "uninstall", "claude", cwd=repository)
    assert not (repository / ".tocsin" / "agent.json").exists()
