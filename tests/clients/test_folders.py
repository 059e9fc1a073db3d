"""Clients in worktrees and sub folders: which agent they are, and whether checks and guards run there."""

from pathlib import Path

import pytest

from tests.clients.cache import Installed
from tests.clients.drivers import Client, client_of
from tests.clients.ground import Ground
from tests.clients.known import (
    AGENT_OF_A_FOLDER,
    CODEX_WORKTREE,
    GEMINI_RUNS_NO_HOOKS,
    GEMINI_SUB_FOLDER,
    GUARD_IN_WORKTREES,
    RELATIVE_DATA,
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
@GUARD_IN_WORKTREES
def test_the_guard_in_worktrees(ground: Ground, installed: Installed, worktree: Path) -> None:
    """The tutorial: the guard is installed in the developer's worktree, and the lead works in the main one."""
    lead, dev = client_of(installed, ground, "lead"), client_of(installed, ground, "dev", worktree)
    lead.connect()
    dev.connect()
    ground.tocsin("--data", "../shop/.tocsin", "--as", "dev", "hooks", "install", "git", cwd=worktree)
    ground.model.script("dev", Call("acquire_lease", {"exclusive": ["price.py"]}), commits(dev, "mine"), Say("done"))
    dev.run("Change the price.")
    assert "committed-mine" in ground.model.of("dev")[-1].text
    ground.model.script("lead", commits(lead, "theirs"), Say("done"))
    lead.run("Change the price.")
    assert "committed-theirs" not in ground.model.of("lead")[-1].news[0].text


@pytest.mark.only("claude", "codex", "gemini", "opencode")
@pytest.mark.capability("started in a sub folder of the project, the tools work")
def test_a_sub_folder(ground: Ground, dev: Client, installed: Installed, request: pytest.FixtureRequest) -> None:
    dev.connect()
    below = ground.project / "src"
    below.mkdir()
    request.applymarker(GEMINI_SUB_FOLDER if installed.client == "gemini" else RELATIVE_DATA)
    inner = client_of(installed, ground, "dev", below)
    ground.send("lead", "dev", "The price list is wrong.")
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    inner.run("Look into your inbox.")
    assert "The price list is wrong." in ground.model.text("dev")


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("started in a sub folder of the project, checks run")
@RELATIVE_DATA
def test_checks_in_a_sub_folder(ground: Ground, dev: Client, installed: Installed) -> None:
    dev.connect()
    below = ground.project / "src"
    below.mkdir()
    inner = client_of(installed, ground, "dev", below)
    ground.send("lead", "dev", "Stop: the price list is wrong.", "Critical")
    ground.model.script("dev", Say("done"))
    inner.run("Begin.")
    assert "Stop: the price list is wrong." in ground.model.text("dev")


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("in a worktree checks run")
def test_checks_in_a_worktree(
    ground: Ground, installed: Installed, worktree: Path, request: pytest.FixtureRequest
) -> None:
    if installed.client == "codex":
        request.applymarker(CODEX_WORKTREE)
    dev = client_of(installed, ground, "dev", worktree)
    dev.connect()
    ground.send("lead", "dev", "Stop: the price list is wrong.", "Critical")
    ground.model.script("dev", Say("done"))
    dev.run("Begin.")
    assert "Stop: the price list is wrong." in ground.model.text("dev")


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("a process with a token of its own is that agent, also in another agent's folder")
@AGENT_OF_A_FOLDER
def test_a_token_of_its_own(ground: Ground, dev: Client, installed: Installed) -> None:
    """The project is connected as the lead, and the developer's client is started there with its own token."""
    client_of(installed, ground, "lead").connect()
    urgent = ground.send("dev", "lead", "Only the lead may read this.", "Blocking")
    ground.model.script(
        "dev", Call("send_message", {"to": "lead", "text": "Who am I?"}), dev.shell("true"), Say("done")
    )
    dev.run("Begin.", TOCSIN_TOKEN_FILE=str(ground.data / "tokens" / "dev.token"))
    [sent] = ground.ask("messages", "find", "--q", "Who am I")["items"]
    assert sent["sender"] == "dev"
    assert urgent not in ground.model.text("dev")
    assert ground.received("lead") == []
