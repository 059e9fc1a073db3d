"""Inbox checks in the clients' hooks: when they fire, what the model is shown of them, and what counts as received."""

import json
import re
from collections.abc import Callable

import pytest

from tests.clients.drivers import Client
from tests.clients.ground import Ground
from tests.clients.known import needs
from tests.clients.model import Call, Request, Say

#: A payload of this size is whole in one hook's output, and four are not.
_LARGE = 4_000


def news(request: Request) -> str:
    """Return what was added since the model last spoke."""
    return "\n".join(part.text for part in request.news)


def sends(ground: Ground, priority: str, answer: Call | Say, texts: tuple[str, ...]) -> Callable[[Request], Call | Say]:
    """Return a step during which messages arrive: the client runs while its model thinks."""

    def step(_: Request) -> Call | Say:
        for text in texts:
            ground.send("lead", "dev", text, priority)
        return answer

    return step


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("a check at the start and with a prompt counts what waits")
def test_the_first_request_counts_what_waits(ground: Ground, dev: Client) -> None:
    dev.connect()
    ground.send("lead", "dev", "No hurry.")
    ground.model.script("dev", Say("done"))
    dev.run("Begin.")
    assert "Tocsin: 1 Coordinate waiting for you" in ground.model.of("dev")[0].text
    assert ground.received("dev") == []


@pytest.mark.short
@pytest.mark.only("claude", "codex", "gemini")
@pytest.mark.capability("an urgent message is shown in the middle of a turn, after a tool")
def test_an_urgent_message_in_the_middle_of_a_turn(ground: Ground, dev: Client) -> None:
    dev.connect()
    urgent = sends(ground, "Critical", dev.shell("echo one"), ("Stop: the price list is wrong.",))
    ground.model.script("dev", urgent, dev.shell("echo two"), Say("done"), Say("really done"))
    dev.run("Begin.")
    shown = [news(request) for request in ground.model.of("dev")[1:]]
    assert "Stop: the price list is wrong." in shown[0]
    assert not [text for text in shown[1:] if "Stop: the price list is wrong." in text], "once per session"
    assert all("shown to you before" in text for text in shown[1:3])
    assert ground.received("dev") == [], "a hook confirms nothing"


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("an agent acknowledges what a hook has shown")
def test_an_acknowledgement_of_what_a_hook_has_shown(ground: Ground, dev: Client) -> None:
    dev.connect()
    urgent = sends(ground, "Critical", dev.shell("echo one"), ("Stop: the price list is wrong.",))

    def acknowledge(request: Request) -> Call:
        (name,) = set(re.findall(r"msg_\w+", news(request)))
        return Call("acknowledge_message", {"message_id": name})

    ground.model.script("dev", urgent, acknowledge, Say("done"))
    dev.run("Begin.")
    assert "shown to you before" not in ground.model.text("dev")
    assert len(ground.received("dev")) == 1
    assert ground.unseen("dev") == []


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("an agent that is about to stop goes on for an urgent message")
def test_an_urgent_message_at_the_end_of_a_turn(ground: Ground, dev: Client) -> None:
    dev.connect()
    ending = sends(ground, "Blocking", Say("finished early"), ("Which price is right?",))
    ground.model.script("dev", ending, Say("answered"))
    assert "answered" in dev.run("Begin.").stdout
    assert "Which price is right?" in news(ground.model.of("dev")[1])
    assert ground.received("dev") == []


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("a large urgent message at the end of a turn is shown whole")
def test_a_large_urgent_message_at_the_end_of_a_turn(ground: Ground, dev: Client) -> None:
    """The reason of a Stop hook has the same limit as the output of the others."""
    dev.connect()
    text = "word " * 1_400 + "end of it"
    ground.model.script("dev", sends(ground, "Blocking", Say("finished early"), (text,)), Say("answered"))
    dev.run("Begin.")
    assert text in news(ground.model.of("dev")[1])


@pytest.mark.only("claude", "codex", "gemini")
@pytest.mark.capability("what only a sub-agent was shown does not count as received")
def test_an_urgent_message_while_a_sub_agent_works(ground: Ground, dev: Client) -> None:
    """The check after the sub-agent's tool prints the message into the sub-agent's context."""
    dev.connect()
    arrived = sends(ground, "Critical", dev.shell("echo inner"), ("Stop: the price list is wrong.",))
    ground.model.script("dev", arrived, dev.shell("echo more"), Say("looked around"), purpose="sub")
    after = (dev.shell("sleep 1"), Call("fetch_inbox"), Call("list_team"), Say("done"))
    ground.model.script("dev", *dev.delegate("Look around."), *after)
    dev.run("Begin.")
    needs(len(ground.model.of("dev", "sub")) > 1, "the sub-agent has called no tool")
    assert ground.unseen("dev") == []
    assert len(ground.received("dev")) == 1


@pytest.mark.only("claude", "codex", "gemini")
@pytest.mark.capability("several large urgent messages count as received only when shown whole")
def test_four_large_messages(ground: Ground, dev: Client) -> None:
    dev.connect()
    texts = tuple(f"Question {number}: " + f"{number} " * (_LARGE // 2) + f"end of {number}" for number in range(4))
    arrived = sends(ground, "Blocking", dev.shell("echo one"), texts)
    fetches = [Call("fetch_inbox")] * 4
    ground.model.script("dev", arrived, dev.shell("echo two"), *fetches, Call("list_team"), Say("done"))
    dev.run("Begin.")
    assert texts[0] in news(ground.model.of("dev")[1]), "the first is shown whole"
    assert ground.unseen("dev") == []
    assert len(ground.received("dev")) == len(texts)


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("a message that is too large for a hook and for a tool's result is read in parts")
def test_a_message_that_is_too_large_for_any_answer(ground: Ground, dev: Client) -> None:
    dev.connect()
    words = [f"w{number:05}" for number in range(9_000)]
    arrived = sends(ground, "Critical", dev.shell("echo one"), (" ".join(words),))

    def fetch(request: Request) -> Call:
        found = re.search(r"call the tool fetch_inbox with (\{.+?\})", news(request))
        assert found is not None, "the hook announces the call"
        return Call("fetch_inbox", json.loads(found[1]))

    def following(request: Request) -> Call | Say:
        found = re.search(r"call fetch_inbox with (\{.+?\})", news(request).replace("\\", ""))
        return Call("list_team") if found is None else Call("fetch_inbox", json.loads(found[1]))

    ground.model.script("dev", arrived, fetch, *[following] * 6, Say("done"))
    dev.run("Begin.")
    pieces = re.findall(r'"parts":\d+,"text":"((?:[^"\\]|\\.)*)"', ground.model.text("dev"))
    assert " ".join(words) in "".join(pieces)
    assert len(ground.received("dev")) == 1


@pytest.mark.only("gemini")
@pytest.mark.capability("checks in the hooks of Gemini CLI show and confirm nothing by themselves")
def test_checks_in_the_hooks_of_gemini(ground: Ground, dev: Client) -> None:
    """What is printed at AfterAgent is dropped, so a check prints nothing there."""
    dev.connect()
    settings = dev.folder / ".gemini" / "settings.json"
    check = {"hooks": [{"type": "command", "command": "tocsin --as dev hooks check"}]}
    hooks = {"hooks": {event: [check] for event in ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent")}}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | hooks))
    first = sends(ground, "Critical", dev.shell("echo one"), ("Stop: the price list is wrong.",))
    last = sends(ground, "Critical", Say("done"), ("Nobody sees this.",))
    ground.model.script("dev", first, last, Say("really done"))
    dev.run("Begin.")
    assert "Stop: the price list is wrong." in news(ground.model.of("dev")[1])
    assert "Nobody sees this." not in ground.model.text("dev")
    assert ground.received("dev") == []
