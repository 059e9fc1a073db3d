"""The channel of Claude Code: a message starts a turn of an idle client, if the client takes part."""

import time

import pytest

from tests.clients.drivers import Claude
from tests.clients.ground import Ground
from tests.clients.model import Call, Say

pytestmark = pytest.mark.only("claude")
_OPTION = ("--dangerously-load-development-channels", "server:tocsin")
_LOCAL = "I am using this for local development"
#: Seconds in which an announcement starts a turn that calls a tool.
_TURN_S = 30.0
#: Seconds for which a way that does not work may still be named, after the last announcement.
_NAMED_S = 15.0


@pytest.mark.capability("the channel starts a turn of an idle client")
def test_the_channel_starts_a_turn(ground: Ground, dev: Claude) -> None:
    """The account has the feature: its gate is in the client's cache, and the person confirms the warning."""
    dev.enable_channels()
    dev.connect("--channel")
    terminal = dev.open(*_OPTION)
    terminal.wait_for(_LOCAL)
    terminal.press("Enter")
    terminal.wait_for(dev.ready)
    ground.wait(lambda: ground.ask("agents", "show", "dev")["reach"] == "channel", "a channel session")
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    message = ground.send("lead", "dev", "Wake up: the price list is wrong.", "Critical")
    assert ground.model.comes(lambda record: len(record.of("dev")) > 1, _TURN_S), terminal.screen()
    assert message in ground.model.text("dev")
    assert "<channel source=" in ground.model.text("dev")


@pytest.mark.capability("a channel that the client ignores is not called a way to the agent")
def test_a_channel_that_is_ignored(ground: Ground, dev: Claude) -> None:
    """Without the launch option, the account's feature or the organisation's consent, announcements are dropped."""
    (ground.data / "tocsin.yaml").write_text("wake: {notifications_max: 2, notify_again_s: [1]}\n")
    ground.tocsin("policy", "apply", str(ground.data / "tocsin.yaml"))
    dev.connect("--channel")
    dev.terminal()
    ground.wait(lambda: "channel" in ground.ask("agents", "show", "dev")["sessions"], "a channel session")
    ground.send("lead", "dev", "Wake up: the price list is wrong.", "Critical")
    end = time.monotonic() + _NAMED_S
    while ground.ask("agents", "show", "dev")["reach"] == "channel" and time.monotonic() < end:
        time.sleep(1)
    assert ground.ask("agents", "show", "dev")["reach"] != "channel"
    assert ground.model.of("dev") == []
