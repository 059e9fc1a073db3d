"""The waker that types into a client's terminal, as `tocsin wake template tmux` prints it."""

import pytest

from tests.clients.drivers import Claude, Client
from tests.clients.ground import Ground
from tests.clients.model import Call, Say

#: Seconds in which a woken client asks its model.
_WAKES_S = 20.0
_PROMPT = "Wake up: the price list is wrong."


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("the tmux waker starts a turn of an idle client")
def test_the_waker_starts_a_turn(ground: Ground, dev: Client) -> None:
    _declare_waker(ground)
    dev.connect()
    terminal = dev.terminal()
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    ground.send("lead", "dev", _PROMPT, "Critical")
    terminal.wait_for("You were woken")
    assert ground.model.comes(lambda record: record.of("dev"), _WAKES_S), terminal.screen()
    assert "You were woken" in ground.model.of("dev")[0].text


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("the tmux waker leaves a person's draft alone")
def test_the_waker_leaves_a_draft_alone(ground: Ground, dev: Client) -> None:
    dev.connect()
    terminal = dev.terminal()
    draft = "and what about the"
    terminal.type(draft)
    terminal.wait_for(draft)
    words = ["tocsin", "wake", "tmux", "dev"]
    done = ground.run([*words, "--wait-s", "1"], check=False)
    assert (done.returncode, done.stderr) == (6, "tocsin wake: a draft is in the prompt\n")
    assert "You were woken" not in terminal.screen()
    for _ in draft:
        terminal.press("BSpace")
    ground.model.script("dev", Say("done"))
    ground.run(words)
    ground.model.wait(lambda record: record.of("dev"), _WAKES_S)
    assert ground.model.of("dev")[0].text.count("You were woken") == 1
    assert draft not in ground.model.of("dev")[0].text


@pytest.mark.only("claude")
@pytest.mark.capability("an agent whose channel is ignored is woken by its waker")
def test_a_waker_starts_where_the_channel_is_ignored(ground: Ground, dev: Claude) -> None:
    _declare_waker(ground, "after_s: 0.5, notifications_max: 2, notify_again_s: [1]", sessions="stale_after_s: 40")
    dev.connect("--channel")
    dev.terminal()
    ground.wait(lambda: ground.ask("agents", "show", "dev")["reach"] == "channel", "a channel session")
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    message = ground.send("lead", "dev", _PROMPT, "Critical")
    # The check at the start of its session counts as long as sessions do without a call.
    ground.model.wait(lambda record: len(record.of("dev")) > 1, 4 * _WAKES_S)
    assert message in ground.model.text("dev")
    ground.wait(lambda: ground.ask("agents", "show", "dev")["wake"]["outcome"] == "woken", "a wake that worked")


def _declare_waker(ground: Ground, wake: str = "after_s: 0.5", sessions: str = "") -> None:
    (ground.data / "server.yaml").write_text(ground.tocsin("wake", "template", "tmux", "--agent", "dev"))
    (ground.data / "tocsin.yaml").write_text(f"wake: {{{wake}}}\nsessions: {{{sessions}}}\n")
    ground.stop_hub()
    ground.start_hub()
