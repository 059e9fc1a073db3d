"""Each client starts `tocsin mcp`, tells its model of the tools, and calls them."""

import pytest

from tests.clients.drivers import Client
from tests.clients.ground import Ground
from tests.clients.known import OPENCODE_CANCELS
from tests.clients.model import Call, Request, Say


@pytest.mark.short
@pytest.mark.capability("calls the tools; a fetched message is shown whole")
def test_fetches_and_sends(ground: Ground, dev: Client, request: pytest.FixtureRequest) -> None:
    if dev.installed.client == "opencode":
        request.applymarker(OPENCODE_CANCELS)
    dev.connect()
    message = ground.send("lead", "dev", 'The "price" of an empty cart\nis wrong: mend price.py.')
    answer = Call("post_message", {"to": "lead", "text": "It is mended."})
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
        return Call("list_team")

    ground.model.script("dev", Call("list_team"), ask_again, Say("done"))
    dev.run("Who is there?")
    shown = ground.model.of("dev")[-1].result_of("list_team")
    assert "Stop: the price list is wrong." in shown
    assert "URGENT (Critical), 1 delivered with this answer" in shown


@pytest.mark.capability("a receipt that the model reads has at most 340 characters")
def test_a_receipt_is_short(ground: Ground, dev: Client) -> None:
    dev.connect()
    ground.model.script("dev", Call("post_message", {"to": "lead", "text": "It is mended."}), Say("done"))
    dev.run("Tell the lead.")
    shown = ground.model.of("dev")[-1].result_of("post_message")
    [arrived] = ground.ask("--as", "lead", "inbox")["items"]
    receipt = shown[shown.find('{"receipt"') :] if '{"receipt"' in shown else shown
    assert arrived["message_id"] in receipt
    assert len(receipt) <= 340


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("instructions name the tools by the names that the client lists")
def test_instructions_name_the_tools_in_full(ground: Ground, dev: Client) -> None:
    dev.connect()
    ground.model.script("dev", Call("fetch_inbox"), Say("done"))
    dev.run("Look into your inbox.")
    assert "Call mcp__tocsin__fetch_inbox first" in ground.model.text("dev")


@pytest.mark.only("codex")
@pytest.mark.capability("the first request names the tools, however slowly the server starts")
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
