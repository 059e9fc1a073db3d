"""The waker that types into a client's terminal, as `tocsin wake template tmux` prints it."""

import pytest

from tests.clients.drivers import Client
from tests.clients.ground import Ground
from tests.clients.known import TMUX_PASTE
from tests.clients.model import Call, Say

#: Seconds in which a woken client asks its model.
_WAKES_S = 20.0


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("the tmux waker starts a turn of an idle client")
@TMUX_PASTE
def test_the_waker_starts_a_turn(ground: Ground, dev: Client) -> None:
    (ground.data / "server.yaml").write_text(ground.tocsin("wake", "template", "tmux", "--agent", "dev"))
    (ground.data / "tocsin.yaml").write_text("wake: {after_s: 0.5}\n")
    ground.stop_hub()
    ground.start_hub()
    dev.connect()
    terminal = dev.terminal()
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    ground.send("lead", "dev", "Wake up: the price list is wrong.", "Critical")
    terminal.wait_for("You were woken")
    assert ground.model.comes(lambda record: record.of("dev"), _WAKES_S), terminal.screen()
    assert "You were woken" in ground.model.of("dev")[0].text
