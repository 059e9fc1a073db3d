"""Inbox checks in the clients' hooks: when they fire, what the model is shown of them, and what counts as received."""

from collections.abc import Callable

import pytest

from tests.clients.drivers import Client
from tests.clients.ground import Ground
from tests.clients.known import LARGE_OUTPUT, SUB_AGENTS
from tests.clients.model import Call, Request, Say

#: A payload of this size is whole in one hook's output, and four are not.
_LARGE = 4_000


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
@pytest.mark.only("claude", "codex")
@pytest.mark.capability("an urgent message is shown in the middle of a turn, after a tool")
def test_an_urgent_message_in_the_middle_of_a_turn(ground: Ground, dev: Client) -> None:
    dev.connect()
    urgent = sends(ground, "Critical", dev.shell("echo one"), ("Stop: the price list is wrong.",))
    ground.model.script("dev", urgent, dev.shell("echo two"), Say("done"))
    dev.run("Begin.")
    shown = ground.model.of("dev")[1]
    assert "Stop: the price list is wrong." in "\n".join(part.text for part in shown.news)
    assert len(ground.received("dev")) == 1
    assert ground.unseen("dev") == []


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("an agent that is about to stop goes on for an urgent message")
def test_an_urgent_message_at_the_end_of_a_turn(ground: Ground, dev: Client) -> None:
    dev.connect()
    ending = sends(ground, "Blocking", Say("finished early"), ("Which price is right?",))
    ground.model.script("dev", ending, Say("answered"))
    assert "answered" in dev.run("Begin.").stdout
    assert "Which price is right?" in "\n".join(part.text for part in ground.model.of("dev")[1].news)
    assert ground.unseen("dev") == []


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("what only a sub-agent was shown does not count as received")
@SUB_AGENTS
def test_an_urgent_message_while_a_sub_agent_works(ground: Ground, dev: Client) -> None:
    """The check after the sub-agent's tool prints the message into the sub-agent's context."""
    dev.connect()
    arrived = sends(ground, "Critical", dev.shell("echo inner"), ("Stop: the price list is wrong.",))
    ground.model.script("dev", arrived, dev.shell("echo more"), Say("looked around"), purpose="sub")
    after = (dev.shell("sleep 1"), Call("fetch_inbox"), Call("list_agents"), Say("done"))
    ground.model.script("dev", *dev.delegate("Look around."), *after)
    dev.run("Begin.")
    if len(ground.model.of("dev", "sub")) < 2:
        raise RuntimeError("the sub-agent has called no tool")
    assert ground.unseen("dev") == []
    assert len(ground.received("dev")) == 1


@pytest.mark.only("claude", "codex")
@pytest.mark.capability("several large urgent messages count as received only when shown whole")
@LARGE_OUTPUT
def test_four_large_messages(ground: Ground, dev: Client) -> None:
    dev.connect()
    texts = tuple(f"Question {number}: " + f"{number} " * (_LARGE // 2) + f"end of {number}" for number in range(4))
    arrived = sends(ground, "Blocking", dev.shell("echo one"), texts)
    fetches = [Call("fetch_inbox")] * 4
    ground.model.script("dev", arrived, dev.shell("echo two"), *fetches, Call("list_agents"), Say("done"))
    dev.run("Begin.")
    assert ground.unseen("dev") == []
    assert len(ground.received("dev")) == len(texts)
