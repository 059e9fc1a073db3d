"""Each client starts `tocsin mcp`, tells its model of the tools, and calls them."""

import pytest

from tests.clients.drivers import Client
from tests.clients.ground import Ground
from tests.clients.known import FIRST_REQUEST
from tests.clients.model import Call, Request, Say


@pytest.mark.short
@pytest.mark.capability("calls the tools; a fetched message is shown whole")
def test_fetches_and_sends(ground: Ground, dev: Client) -> None:
    dev.connect()
    message = ground.send("lead", "dev", 'The "price" of an empty cart\nis wrong: mend price.py.')
    answer = Call("send_message", {"to": "lead", "text": "It is mended."})
    ground.model.script("dev", Call("fetch_inbox"), answer, Say("done"))
    assert "done" in dev.run("Look into your inbox.").stdout
    assert [one.message_id for one in ground.received("dev")] == [message]
    assert ground.unseen("dev") == []
    [arrived] = ground.ask("--as", "lead", "inbox")["items"]
    assert (arrived["sender"], arrived["payload"]) == ("dev", {"text": "It is mended."})


@pytest.mark.capability("an urgent message comes with the result of any tool of Tocsin")
def test_results_carry_urgent_messages(ground: Ground, dev: Client) -> None:
    dev.connect()

    def ask_again(_: Request) -> Call:
        ground.send("lead", "dev", "Stop: the price list is wrong.", "Critical")
        return Call("list_agents")

    ground.model.script("dev", Call("list_agents"), ask_again, Say("done"))
    dev.run("Who is there?")
    assert "Stop: the price list is wrong." in ground.model.of("dev")[-1].result_of("list_agents")


@pytest.mark.only("codex")
@pytest.mark.capability("the first request names the tools, however slowly the server starts")
@FIRST_REQUEST
def test_the_first_request_names_the_tools(ground: Ground, dev: Client) -> None:
    """A wrapper delays the start by more than Codex waits for servers that are not required."""
    slow = ground.root / "slow-tocsin"
    slow.write_text('#!/bin/sh\nsleep 3\nexec tocsin "$@"\n')
    slow.chmod(0o755)
    dev.connect("--command", str(slow))
    ground.model.script("dev", Say("done"))
    dev.run("Look into your inbox.")
    first = ground.model.of("dev")[0]
    assert "mcp__tocsin" in "\n".join([first.text, *first.tools])
