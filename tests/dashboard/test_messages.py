"""The page of messages: search, history, and actions with their effect on the hub."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]
POLICY = "storage: {projection_interval_s: 0.02}\nsweeper: {interval_s: 0.2}\naging: {threshold_s: 0.5}\n"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub where messages are boosted soon."""
    with Stage(tmp_path_factory.mktemp("stage"), POLICY) as opened:
        opened.join("cleo", "clone")
        yield opened


def entry(page: Page, kind: str) -> Locator:
    return page.locator(f"[data-kind={kind}]").first


def rows(page: Page) -> Locator:
    return page.get_by_role("table").get_by_role("row")


def tab_to(page: Page, wanted: Locator) -> None:
    """Move the focus to an element with the Tab key."""
    expect(wanted).to_be_visible()
    for _ in range(60):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail("it cannot be reached with the Tab key")


def test_messages_are_found_by_words_and_by_properties(tool_call: ToolCall, stage: Stage) -> None:
    wanted = stage.send(payload={"text": "the parser is on fire"}, messageType="ReviewRequested")
    stage.send("boss", "ada", payload={"text": "the parser is fine"})
    page = tool_call("messages").page
    page.get_by_label("Words of the payload").fill("parser fire")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(2)
    expect(rows(page).nth(1)).to_contain_text("the parser is on fire")
    expect(rows(page).nth(1)).to_contain_text("ada → bob ReviewRequested")
    expect(rows(page).nth(1).locator(f"[title='{wanted}']")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(rows(page)).not_to_have_count(2)
    page.get_by_label("Sender").fill("boss")
    page.get_by_role("button", name="Find").click()
    expect(rows(page)).to_have_count(2)
    expect(rows(page).nth(1)).to_contain_text("boss → ada")
    page.get_by_label("State", exact=True).select_option("dead")
    expect(page.get_by_text("No messages found")).to_be_visible()
    page.go_back()
    expect(page).to_have_url(re.compile("#/messages$"))


def test_what_is_typed_as_soon_as_the_page_changes_is_kept(tool_call: ToolCall) -> None:
    """The form was filled from the address a moment after it had been drawn, over what had been typed meanwhile."""
    page = tool_call("messages").page
    expect(page.get_by_label("Sender")).to_be_visible()
    page.evaluate(
        """async () => {
            const moved = new Promise((done) => addEventListener("hashchange", done, { once: true }));
            location.hash = "#/messages?recipient=bob";
            await moved;
            await new Promise((done) => setTimeout(done, 0));
            const sender = document.querySelector("[name=sender]");
            sender.value = "boss";
            sender.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => setTimeout(done, 500));
        }"""
    )
    expect(page.get_by_label("Sender")).to_have_value("boss")
    expect(page.get_by_label("Recipient")).to_have_value("bob")


def test_older_messages_are_loaded_on_demand(tool_call: ToolCall, stage: Stage) -> None:
    for _ in range(55):
        stage.send("boss", "ada", messageType="CUSTOM_MANY")
    page = tool_call("messages?type=CUSTOM_MANY").page
    expect(rows(page)).to_have_count(51)
    page.get_by_role("button", name="Load older messages").click()
    expect(rows(page)).to_have_count(56)
    stage.drain("ada")


def test_a_history_shows_rules_and_thresholds(tool_call: ToolCall, stage: Stage) -> None:
    lowered = stage.send("cleo", "bob", priority="Critical", metadata={"ttl": 2})
    page = tool_call(f"messages/{lowered}").page
    accepted = entry(page, "MessageAccepted")
    expect(accepted).to_contain_text("Accepted at Coordinate instead of Critical: the sender's role may use no more")
    expect(accepted.locator(".reason > div")).to_have_text(
        ["rulerole cap", "measuredCritical requested", "limitCoordinate for the sender's role"]
    )
    boosted = entry(page, "MessageBoosted")
    expect(boosted).to_contain_text("Raised: Coordinate → Blocking")
    expect(boosted.locator(".reason")).to_contain_text(re.compile("measuredit waited .*limit500 ms"))
    expired = entry(page, "MessageExpired")
    expect(expired.locator(".reason")).to_contain_text("limit2 s")
    expect(page.locator(".summary")).to_contain_text("expired")


def test_a_rejection_a_dead_letter_and_a_redrive(tool_call: ToolCall, stage: Stage) -> None:
    dead = stage.send()
    stage.drain("bob")
    stage.ok("POST", "bob", f"/v1/messages/{dead}/nack", {"reason": "no such branch", "can_retry": False})
    page = tool_call(f"messages/{dead}").page
    expect(entry(page, "MessageRejected")).to_contain_text("no such branch")
    expect(entry(page, "MessageDied")).to_contain_text("rejected")
    page.get_by_role("button", name="Redrive").click()
    expect(entry(page, "DeadLetterRedriven")).to_contain_text("Redriven by hanna")
    assert stage.states(dead) == ["queued"]
    assert dead in stage.drain("bob")
    expect(page.locator(".summary")).to_contain_text("delivered")


def test_only_the_sender_can_recall(tool_call: ToolCall, stage: Stage) -> None:
    mine, theirs = stage.send("hanna", "bob"), stage.send("ada", "bob")
    visitor = tool_call(f"messages/{mine}")
    page = visitor.page
    page.get_by_role("button", name="Recall").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert stage.states(mine) == ["queued"]
    page.get_by_role("button", name="Recall").click()
    page.get_by_role("dialog").get_by_role("button", name="Recall").click()
    expect(entry(page, "MessageRecalled")).to_contain_text("Recalled by hanna")
    assert stage.states(mine) == ["recalled"]
    visitor.open(f"messages/{theirs}")
    expect(page.get_by_role("button", name="Recall")).to_be_disabled()
    expect(page.get_by_text("Only the sender can recall a message.")).to_be_visible()
    stage.drain("bob")


def test_a_held_message_is_approved_with_a_changed_payload(tool_call: ToolCall, stage: Stage) -> None:
    held = stage.send(messageType="CUSTOM_PLAN", payload={"plan": "rewrite everything"})
    page = tool_call(f"messages/{held}").page
    expect(entry(page, "MessageAccepted")).to_contain_text("Held for approval: plan approval")
    page.get_by_role("button", name="Approve").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Payload").fill(json.dumps({"plan": "rewrite the parser"}))
    dialog.get_by_role("button", name="Approve").click()
    expect(entry(page, "MessageReleased")).to_contain_text("Approved by hanna")
    (copy,) = stage.get(f"/v1/messages/{held}")
    assert (copy["state"], copy["payload"]) == ("queued", {"plan": "rewrite the parser"})


def test_a_held_message_is_refused_with_a_reason(tool_call: ToolCall, stage: Stage) -> None:
    held = stage.send(messageType="CUSTOM_PLAN", payload={"plan": "delete everything"})
    page = tool_call(f"messages/{held}").page
    page.get_by_role("button", name="Refuse").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Refuse").click()
    expect(dialog).to_be_visible()  # without a reason it stays
    dialog.get_by_label("Reason").fill("not today")
    dialog.get_by_role("button", name="Refuse").click()
    expect(entry(page, "MessageDied")).to_contain_text("not today")
    assert stage.states(held) == ["dead"]


def test_a_thread_is_shown_in_its_order(tool_call: ToolCall, stage: Stage) -> None:
    asked = stage.send(correlationId="thread-1", payload={"text": "is it done?"})
    stage.send("bob", "ada", correlationId="thread-1", payload={"text": "nearly"})
    page = tool_call(f"messages/{asked}").page
    items = page.locator(".talk li")
    expect(items).to_have_count(2)
    expect(items.nth(0)).to_contain_text("is it done?")
    expect(items.nth(0)).to_have_class("current")
    items.nth(1).get_by_role("link").click()
    expect(page.get_by_role("heading", name="nearly")).to_be_visible()


def test_an_unknown_message_shows_a_notice(browser: Browser, stage: Stage) -> None:
    visitor = Visitor(browser, stage).sign_in()
    visitor.open("messages/msg_0_nothing")
    expect(visitor.page.get_by_role("alert")).to_contain_text("there is no message msg_0_nothing that you may see")
    visitor.close(allow=lambda complaint: "404" in complaint or "409" in complaint)


def test_a_message_is_found_and_recalled_with_keys_alone(tool_call: ToolCall, stage: Stage) -> None:
    mine = stage.send("hanna", "bob", payload={"text": "zebra crossing"})
    page = tool_call("messages").page
    words = page.get_by_label("Words of the payload")
    expect(words).to_be_visible()
    while not words.evaluate("field => field === document.activeElement"):
        page.keyboard.press("/")  # the page listens to keys a moment after it is drawn
    page.keyboard.type("zebra")
    expect(words).to_have_value("zebra")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(2)
    tab_to(page, page.get_by_role("link", name="zebra crossing"))
    page.keyboard.press("Enter")
    recall = page.get_by_role("button", name="Recall")
    expect(recall).to_be_enabled()
    tab_to(page, recall)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(recall).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("dialog").get_by_role("button", name="Recall"))
    page.keyboard.press("Enter")
    expect(entry(page, "MessageRecalled")).to_be_visible()
    assert stage.states(mine) == ["recalled"]
