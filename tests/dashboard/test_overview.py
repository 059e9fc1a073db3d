"""The overview: the five states, saturation, pending messages, recalls, drain times, daemons and alerts."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from websockets.sync.client import connect

from tests.dashboard.contrast import too_faint
from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]
POLICY = """
storage: {projection_interval_s: 0.02}
sweeper: {interval_s: 0.2}
health: {sustained_s: 0.2, limits: {critical_queue_depth: 1}}
"""
SERVER = """
health_interval_s: 0.1
dashboard: {tick_s: 0.1, listen_s: 0.02, shared_s: 0, sample_s: 0.2, pending_hot: 4, undeliverable_hot: 2}
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub with low thresholds for saturation and alerts."""
    with Stage(tmp_path_factory.mktemp("stage"), POLICY, SERVER) as opened:
        yield opened


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def tile(page: Page, label: str) -> Locator:
    return card(page, "Signals").locator(".tile").filter(has=page.get_by_text(label, exact=False)).first


def value(page: Page, label: str) -> Locator:
    return tile(page, label).locator(".tile-value")


def test_the_five_states_are_updated_live(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("overview").page
    before = int(value(page, "Available now").inner_text())
    waiting = int(value(page, "Pending pickup").inner_text())
    stage.send()
    expect(value(page, "Pending pickup")).to_have_text(str(waiting + 1))
    expect(tile(page, "Pending pickup")).to_contain_text("recipient away")
    stage.drain("bob")
    expect(value(page, "Available now")).to_have_text(str(before + 1))
    stage.call("POST", "ada", f"/v1/messages/{stage.send()}/recall", {})
    expect(value(page, "Recalled")).to_have_text("1")
    stage.send(metadata={"ttl": 0.05})
    expect(value(page, "Expired")).to_have_text("1")
    stage.send(receiver="nobody", messageType="Question")
    expect(value(page, "Undeliverable")).to_have_text("1")
    row = card(page, "Undeliverable").get_by_role("row").filter(has_text="Question")
    expect(row).to_contain_text("ada")


def test_transient_and_structural_saturation_are_separate(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("overview").page
    transient, structural = (
        page.locator(".saturation-item").filter(has_text=name) for name in ("Transient", "Structural")
    )
    for _ in range(4):
        stage.send("boss", "ada")
    expect(tile(page, "Pending pickup").locator(".flag")).to_have_text("HOT")
    expect(transient).to_contain_text("HOT")
    expect(structural).not_to_contain_text("HOT")
    stage.drain("ada")
    for _ in range(2):
        stage.send("boss", "nobody")
    expect(tile(page, "Undeliverable").locator(".flag")).to_have_text("HOT")
    expect(structural).to_contain_text("HOT")
    expect(transient).to_contain_text("normal")


def test_pending_messages_show_a_countdown_and_their_path(tool_call: ToolCall, stage: Stage) -> None:
    soon, later, old = (stage.send(metadata={"ttl": ttl}) for ttl in (90, 7000, 9000))
    stage.get(f"/v1/messages/{old}")  # brings the tables up to date
    with sqlite3.connect(stage.data / "tables.db") as tables:
        tables.execute("UPDATE signal_queue SET publish_path = NULL WHERE message_id = ?", (old,))
    page = tool_call("overview").page
    rows = card(page, "Pending messages").get_by_role("row")
    expect(rows.nth(1)).to_contain_text(soon)
    expect(rows.nth(1)).to_contain_text(re.compile(r"1:[0-2]\d"))
    expect(rows.filter(has_text=later)).to_contain_text(re.compile(r"1:5\d:\d\d"))
    expect(rows.filter(has_text=later)).to_contain_text(re.compile("offline|piggyback"))
    expect(rows.filter(has_text=old)).to_contain_text("unknown")
    first = rows.nth(1).inner_text()
    expect(rows.nth(1)).not_to_have_text(first)  # it counts down by itself
    rows.nth(1).get_by_role("link").click()
    expect(page.get_by_role("heading", name=soon)).to_be_visible()
    stage.drain("bob")


def test_recalls_are_counted_by_outcome(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("overview").page
    taken = stage.send()
    stage.drain("bob")
    assert stage.ok("POST", "ada", f"/v1/messages/{taken}/recall", {})["outcome"] == "already_delivered"
    stage.call("POST", "ada", "/v1/messages/msg_1_nothing/recall", {})
    figures = card(page, "Recalls").locator("dl.levels > div")
    expect(figures.filter(has_text="already delivered").locator("dd")).to_have_text("1")
    expect(figures.filter(has_text="not found").locator("dd")).to_have_text("1")


def test_time_to_drain_is_shown_by_type_and_path(tool_call: ToolCall, stage: Stage) -> None:
    stage.send(messageType="TaskCompleted")
    stage.drain("bob")
    page = tool_call("overview").page
    row = card(page, "Time to drain by type").get_by_role("row").filter(has_text="TaskCompleted")
    expect(row).to_contain_text("picked up")
    expect(row.get_by_role("img")).to_have_attribute("aria-label", re.compile("TaskCompleted, drain: 1 messages"))
    widths = row.locator("rect.bar").evaluate_all("bars => bars.map((bar) => getComputedStyle(bar).width)")
    assert set(widths) == {"11px"}


def test_daemons_are_counted_by_state(tool_call: ToolCall, stage: Stage) -> None:
    stage.join("dora")
    page = tool_call("overview").page
    daemons = card(page, "Daemons and sessions")
    tiles = daemons.locator(".tile-value")
    expect(tiles).to_have_text(["0", "0", "0"])
    url = stage.url.replace("http", "ws") + "/v1/socket"
    token = {"Authorization": f"Bearer {stage.tokens['dora']}"}
    with connect(url, additional_headers=token, subprotocols=["tocsin.v1"], compression=None) as socket:  # type: ignore[list-item]
        socket.send(json.dumps([{"op": "hello", "id": 1, "daemon": True}]))
        assert "dora" in str(socket.recv())
        expect(tiles).to_have_text(["1", "0", "0"])
        expect(daemons.get_by_role("row").filter(has_text="dora")).to_contain_text("daemon")
        stage.send(receiver="dora")
        row = card(page, "Time to drain by type").get_by_role("row").filter(has_text="StatusUpdate")
        expect(row.filter(has_text="pushed")).to_have_count(1)
    expect(tiles).to_have_text(["0", "1", "0"])


def test_an_alert_is_shown_while_it_lasts(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("overview").page
    for _ in range(2):
        stage.send("boss", "bob", priority="Critical", messageType="CUSTOM_ALARM")
    alert = card(page, "Alerts").get_by_role("listitem").filter(has_text="critical queue depth")
    expect(alert).to_contain_text("raised")
    expect(alert).to_contain_text("over the limit of 1")
    expect(page.get_by_role("navigation").get_by_role("link", name="Overview")).to_contain_text(re.compile(r"[1-9]"))
    expect(card(page, "Queue depth by priority").locator(".over")).to_contain_text("Critical")
    stage.drain("bob")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read_in_both_themes_and_on_a_phone(tool_call: ToolCall, stage: Stage, theme: str) -> None:
    for number in range(12):
        stage.send(priority=("Info", "Coordinate", "Blocking")[number % 3], metadata={"ttl": 50 + 400 * number})
    laptop = tool_call("overview", color_scheme=theme, viewport={"width": 1360, "height": 850})
    expect(card(laptop.page, "Pending messages").get_by_role("row")).not_to_have_count(0)
    expect(laptop.page.locator("canvas")).to_have_count(5)
    assert too_faint(laptop.page) == []
    laptop.shot(f"overview-{theme}")
    phone = tool_call("overview", color_scheme=theme, viewport={"width": 390, "height": 844})
    expect(card(phone.page, "Pending messages").get_by_role("link").first).to_be_visible()
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.shot(f"overview-{theme}-phone")
    stage.drain("bob")
