"""Clients in worktrees and sub folders: which agent they are, and whether checks and guards run there."""

from pathlib import Path

import pytest

from tests.clients.cache import Installed
from tests.clients.drivers import Client, client_of
from tests.clients.ground import Ground
from tests.clients.known import (
    CLAUDE_SUB_FOLDER,
    GEMINI_RUNS_NO_HOOKS,
    GEMINI_SUB_FOLDER,
    needs,
)
from tests.clients.model import Call, Say


@pytest.fixture
def worktree(ground: Ground) -> Path:
    """A worktree beside the project, as the tutorial has it."""
    folder = ground.root / "shop-dev"
    ground.run(["git", "worktree", "add", "-q", str(folder)])
    return folder


def commits(client: Client, text: str) -> Call:
    """Return a call that changes price.py and commits it."""
    return client.shell(
        f"echo 'PRICE = {len(text)}' > price.py && git commit -q -a -m '{text}' && echo committed-{text}"
    )


@pytest.mark.only("claude", "codex", "gemini", "opencode")
@pytest.mark.capability("the commit guard refuses a commit of a file that another agent holds")
def test_the_guard(ground: Ground, dev: Client, request: pytest.FixtureRequest) -> None:
    if dev.installed.client == "gemini":
        request.applymarker(GEMINI_RUNS_NO_HOOKS)
    ground.tocsin("--as", "dev", "hooks", "install", "git")
    ground.ask("--as", "lead", "leases", "acquire", "price.py")
    ground.model.script("dev", commits(dev, "mine"), Say("done"))
    dev.run("Change the price.", *dev.unrestricted)
    shown = ground.model.of("dev")[1].news[0].text
    assert "price.py: lead holds price.py" in shown
    assert "committed-mine" not in shown


@pytest.mark.only("claude")
@pytest.mark.capability("in worktrees the commit guard knows whose worktree it is")
def test_the_guard_in_worktrees(ground: Ground, installed: Installed, worktree: Path) -> None:
    """The tutorial: the guard is installed in the developer's worktree, and the lead works in the main one."""
    lead, dev = client_of(installed, ground, "lead"), client_of(installed, ground, "dev", worktree)
    lead.connect()
    dev.connect()
    ground.tocsin("--data", "../shop/.tocsin", "--as", "dev", "hooks", "install", "git", cwd=worktree)
    ground.model.script("dev", Call("acquire_lease", {"exclusive": ["price.py"]}), commits(dev, "mine"), Say("done"))
    dev.run("Change the price.")
    needs("committed-mine" in ground.model.of("dev")[-1].text, "the holder could not commit")
    ground.model.script("lead", commits(lead, "theirs"), Say("done"))
    lead.run("Change the price.")
    assert "committed-theirs" not in ground.model.of("lead")[-1].news[0].text


@pytest.mark.only("codex")
@pytest.mark.capability("in a sandbox without a network the commit guard names the setting that allows it")
def test_the_guard_in_a_sandbox(ground: Ground, dev: Client) -> None:
    """The sandbox allows no commit, so the hook is run as git would."""
    ground.tocsin("--as", "dev", "hooks", "install", "git")
    (ground.project / "price.py").write_text("PRICE = 2\n")
    ground.run(["git", "add", "."])
    ground.model.script("dev", dev.shell(".git/hooks/pre-commit && echo passed-guard"), Say("done"))
    dev.run("Check the commit.", "--sandbox", "workspace-write")
    shown = ground.model.of("dev")[1].news[0].text
    assert "the commit was not checked: Codex's sandbox" in shown
    assert "network_access = true" in shown
    assert "passed-guard" in shown


@pytest.mark.only("codex")
@pytest.mark.capability("in a sandbox with a network the commit guard reaches the hub")
def test_the_guard_in_a_sandbox_with_a_network(ground: Ground, dev: Client) -> None:
    ground.tocsin("--as", "dev", "hooks", "install", "git", "--strict")
    ground.ask("--as", "lead", "leases", "acquire", "price.py")
    (ground.project / "price.py").write_text("PRICE = 2\n")
    ground.run(["git", "add", "."])
    ground.model.script("dev", dev.shell(".git/hooks/pre-commit || echo refused-it"), Say("done"))
    network = ("-c", "sandbox_workspace_write.network_access=true")
    dev.run("Check the commit.", "--sandbox", "workspace-write", *network)
    shown = ground.model.of("dev")[1].news[0].text
    assert "price.py: lead holds price.py" in shown
    assert "refused-it" in shown


@pytest.mark.only("gemini")
@pytest.mark.capability("the commit guard's check can be run without git's hooks")
def test_the_check_of_the_guard_without_hooks(ground: Ground, dev: Client) -> None:
    ground.tocsin("--as", "dev", "hooks", "install", "git")
    ground.ask("--as", "lead", "leases", "acquire", "price.py")
    change = "echo 'PRICE = 2' > price.py && git add price.py"
    command = f"{change} && tocsin hooks guard-commit --strict && git commit -q -m mine && echo committed-mine"
    ground.model.script("dev", dev.shell(command), Say("done"))
    dev.run("Change the price.")
    shown = ground.model.of("dev")[1].news[0].text
    assert "price.py: lead holds price.py" in shown
    assert "committed-mine" not in shown


@pytest.mark.only("claude", "codex", "gemini", "opencode")
@pytest.mark.capability("started in a sub folder of the project, the tools work")
def test_a_sub_folder(ground: Ground, dev: Client, installed: Installed, request: pytest.FixtureRequest) -> None:
    if installed.client == "gemini":
        request.applymarker(GEMINI_SUB_FOLDER)
    dev.connect()
    below = ground.project / "src"
    below.mkdir()
    inner = client_of(installed, ground, "dev", below)
    ground.send("lead", "dev", "The price list is wrong.")
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    inner.run("Look into your inbox.")
    assert "The price list is wrong." in ground.model.text("dev")


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("started in a sub folder of the project, checks run")
def test_checks_in_a_sub_folder(
    ground: Ground, dev: Client, installed: Installed, request: pytest.FixtureRequest
) -> None:
    if installed.client == "claude":
        request.applymarker(CLAUDE_SUB_FOLDER)
    dev.connect()
    below = ground.project / "src"
    below.mkdir()
    inner = client_of(installed, ground, "dev", below)
    ground.send("lead", "dev", "Stop: the price list is wrong.", "Critical")
    ground.model.script("dev", Say("done"))
    inner.run("Begin.")
    assert "Stop: the price list is wrong." in ground.model.text("dev")


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("in a worktree the tools work")
def test_a_worktree(ground: Ground, installed: Installed, worktree: Path) -> None:
    dev = client_of(installed, ground, "dev", worktree)
    dev.connect()
    message = ground.send("lead", "dev", "The price list is wrong.")
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    dev.run("Look into your inbox.")
    assert message in ground.model.text("dev")


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("in a worktree checks run")
def test_checks_in_a_worktree(ground: Ground, installed: Installed, worktree: Path) -> None:
    dev = client_of(installed, ground, "dev", worktree)
    dev.connect()
    ground.send("lead", "dev", "Stop: the price list is wrong.", "Critical")
    ground.model.script("dev", Say("done"))
    dev.run("Begin.")
    assert "Stop: the price list is wrong." in ground.model.text("dev")


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("a process with a token of its own is that agent, also in another agent's folder")
def test_a_token_of_its_own(ground: Ground, dev: Client, installed: Installed) -> None:
    """The project is connected as the lead, and the developer's client is started there with its own token."""
    client_of(installed, ground, "lead").connect()
    urgent = ground.send("dev", "lead", "Only the lead may read this.", "Blocking")
    ground.model.script(
        "dev", Call("post_message", {"to": "lead", "text": "Who am I?"}), dev.shell("true"), Say("done")
    )
    dev.run("Begin.", TOCSIN_TOKEN_FILE=str(ground.data / "tokens" / "dev.token"))
    [sent] = ground.ask("messages", "find", "--q", "Who am I")["items"]
    assert sent["sender"] == "dev"
    assert urgent not in ground.model.text("dev")
    assert ground.received("lead") == []
