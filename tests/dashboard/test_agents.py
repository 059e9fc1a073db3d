"""The page of agents: presence, current work, budget, and message counts between agents."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.dashboard.stage import POLICY, SERVER, Stage, Visitor

ToolCall = Callable[..., Visitor]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub whose budgets refill slowly, so that spending is visible."""
    slow = "bucket: {refill_per_s: 0.01}\nquotas: {blocking: {cap: 20, refill_per_s: 0.001}}\n"
    wakes = "wake: {after_s: 0, retries_max: 0}\n"
    wakers = 'wakers: {agents: {dozy: {command: ["true"]}, lost: {command: [/no/such/program]}}}\n'
    with Stage(tmp_path_factory.mktemp("stage"), POLICY + slow + wakes, SERVER + wakers) as opened:
        opened.join("gabe")
        (opened.data / "tokens").mkdir(exist_ok=True)
        for sleeper in ("dozy", "lost"):
            (opened.data / "tokens" / f"{sleeper}.token").write_text(opened.join(sleeper))
        yield opened


def row(page: Page, agent: str) -> Locator:
    table = page.get_by_role("region", name="Agents", exact=True)
    return table.get_by_role("row").filter(has=page.get_by_role("link", name=agent, exact=True))


def test_presence_sessions_and_attention_are_updated_live(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("agents").page
    expect(row(page, "bob")).to_contain_text("offline")
    task = stage.send(priority="Coordinate")
    expect(row(page, "bob").get_by_role("cell").last).to_have_text("1")
    stage.drain("bob")
    expect(row(page, "bob")).to_contain_text("available")
    expect(row(page, "bob")).to_contain_text("piggyback")
    stage.ok("POST", "bob", "/v1/attention/begin", {"message_id": task})
    expect(row(page, "bob")).to_contain_text("processing")
    expect(row(page, "bob")).to_contain_text(task)
    stage.ok("POST", "bob", "/v1/attention/finish", {})
    expect(row(page, "bob")).to_contain_text("idle")


def test_budgets_and_gaming_agents_are_shown(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("agents").page
    expect(row(page, "gabe")).to_contain_text("1,000 / 1,000")
    expect(row(page, "boss")).to_contain_text("unlimited")
    for _ in range(6):
        stage.send("gabe", "bob", priority="Blocking", messageType="ReviewRequested")
    # Five cost 20 each; the sixth exceeds the gaming threshold and is treated as Info.
    expect(row(page, "gabe")).to_contain_text(re.compile(r"89\d / 1,000"))
    expect(row(page, "gabe")).to_contain_text("15/20")
    expect(row(page, "gabe")).to_contain_text("gaming")
    row(page, "gabe").get_by_role("link", name="gabe", exact=True).click()
    expect(page.get_by_text(re.compile(r"6, of which Blocking or higher: 6 \(100 %\)"))).to_be_visible()
    expect(page.get_by_role("meter", name="Blocking quota")).to_have_attribute("aria-valuenow", re.compile(r"^15"))
    stage.drain("bob")


def test_unread_bytes_are_shown_with_their_limits(tool_call: ToolCall, stage: Stage) -> None:
    stage.send("boss", "bob", messageType="CUSTOM_NOTE", payload={"text": "x" * 3000})
    page = tool_call("agents/boss").page
    sent = page.get_by_role("meter", name="Unread bytes from it")
    expect(sent).to_have_attribute("aria-valuemax", str(64 << 20))
    expect(sent).to_have_attribute("aria-valuenow", re.compile(r"^\d{4,}$"))
    expect(page.get_by_text(re.compile(r"KiB of 64 MiB"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"of 256 MiB"))).to_be_visible()


def test_inherited_priority_is_shown(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("agents").page
    held = stage.ok("POST", "ada", "/v1/leases", {"exclusive": ["src/api.py"]})
    stage.ok("POST", "bob", "/v1/leases", {"exclusive": ["src/api.py"], "priority": "Critical"})
    expect(row(page, "ada")).to_contain_text("inherits Critical")
    stage.ok("DELETE", "ada", f"/v1/leases/{held['lease']}")
    expect(row(page, "ada")).not_to_contain_text("inherits")


def test_a_message_count_links_to_the_messages(tool_call: ToolCall, stage: Stage) -> None:
    for _ in range(3):
        sent = stage.send("boss", "gabe")
    page = tool_call("agents").page
    cell = page.get_by_role("link", name="3 from boss to gabe")
    cell.click()
    expect(page.get_by_role("link", name=sent)).to_be_visible()
    expect(page.get_by_label("Sender")).to_have_value("boss")
    stage.drain("gabe")


def test_agents_are_found_by_part_of_their_name(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("agents").page
    page.get_by_label("Part of a name").fill("ga")
    expect(row(page, "ada")).to_have_count(0)
    expect(row(page, "gabe")).to_have_count(1)
    page.get_by_label("Part of a name").fill("nobody at all")
    expect(page.get_by_text("No agent's name contains “nobody at all”.")).to_be_visible()


def test_the_details_of_one_agent(tool_call: ToolCall, stage: Stage) -> None:
    stage.drain("bob")
    visitor = tool_call("agents/bob")
    page = visitor.page
    expect(page.get_by_role("region", name="Sessions", exact=True).first).to_contain_text("piggyback")
    expect(page.get_by_role("meter", name="Tokens")).to_be_visible()
    visitor.open("agents/nobody")
    expect(page.get_by_text("There is no agent nobody")).to_be_visible()


def facts(page: Page) -> Locator:
    """Return the list of facts about an agent."""
    return page.locator("dl.facts")


def test_the_page_of_an_agent_shows_how_it_is_reached_and_its_last_wake(tool_call: ToolCall, stage: Stage) -> None:
    visitor = tool_call("agents/dozy")
    page = visitor.page
    expect(facts(page)).to_contain_text("its waker, which starts it")
    expect(facts(page)).not_to_contain_text("Last wake")
    sent = stage.send("boss", "dozy", priority="Blocking")
    expect(facts(page)).to_contain_text("Last wakeunder wayattempt 1")
    assert stage.drain("dozy") == [sent]
    expect(facts(page)).to_contain_text("Last wakewoken")
    expect(facts(page)).to_contain_text("1 wake in the last hour")
    expect(facts(page)).to_contain_text("its next check or call")
    visitor.shot("agent-woken")

    stage.send("boss", "lost", priority="Blocking")
    visitor.open("agents/lost")
    expect(facts(page)).to_contain_text("the waker failed")
    expect(facts(page)).to_contain_text("/no/such/program cannot be started")
    expect(facts(page)).to_contain_text("given up")
    visitor.shot("agent-not-woken")
    visitor.open("agents/gabe")
    expect(facts(page)).to_contain_text(re.compile("Reached by(nothing: messages wait|its next check)"))
