"""The programs of the page on agent frameworks: each runs against a hub, with only its model replaced."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import RunningHub
from tocsin.client import Agent

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "frameworks.md"
_FENCE = re.compile(r"^```python framework (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = {match[1]: match[2] for match in _FENCE.finditer(PAGE.read_text(encoding="utf-8"))}
FRAMEWORKS = ("openai", "langgraph", "claude")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("frameworks") / ".tocsin") as running:
        running.ask("agents", "add", "lead", "--role", "director", "--type", "Manager", "--save")
        running.ask("agents", "add", "dev", "--save")
        running.ask("agents", "add", "writer", "--save")
        yield running


async def ask(hub: RunningHub, working: "asyncio.Task[None]") -> None:
    """Ask the agent a question as lead; check its answer, and what dev received from it."""
    from tests.client.framework_models import DONE, TEXT, WAIT_S

    tokens = {name: (hub.data / "tokens" / f"{name}.token").read_text().strip() for name in ("lead", "dev")}
    async with (
        Agent.connect(hub.url, token=tokens["lead"]) as lead,
        Agent.connect(hub.url, token=tokens["dev"]) as dev,
    ):
        question = {"text": "Tell dev that the tests fail."}
        asking = asyncio.create_task(
            lead.request(to="writer", type="CUSTOM_QUESTION", payload=question, timeout_s=WAIT_S)
        )
        await asyncio.wait({asking, working}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        answer = await asking
        assert answer.payload == {"text": DONE}
        received = await anext(aiter(dev.inbox(timeout_s=WAIT_S)))
        assert (received.sender, received.payload) == ("writer", {"text": TEXT})


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_framework_agent_answers_a_question_and_writes_to_its_team(
    framework: str, hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.client.framework_models import model_of

    monkeypatch.setenv("TOCSIN_URL", hub.url)
    monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(hub.data / "tokens" / "writer.token"))
    monkeypatch.delenv("TOCSIN_TOKEN", raising=False)
    program: dict[str, Any] = {"__name__": "__example__"}
    exec(compile(PROGRAMS[framework], f"{PAGE.name}: {framework}", "exec"), program)  # noqa: S102
    model = model_of(framework)
    working = asyncio.create_task(program["work"](model))
    try:
        await ask(hub, working)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert model.tools == {"send_message"}
    refused, accepted = model.results
    assert "nobody" in refused
    assert accepted.startswith("accepted; ")


def test_the_programs_are_short() -> None:
    assert set(PROGRAMS) == set(FRAMEWORKS)
    for framework, code in PROGRAMS.items():
        assert len(code.splitlines()) < 40, framework
