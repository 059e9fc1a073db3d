"""The overview: the five states, saturation, pending messages, recalls, drain times, daemons and alerts."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from websockets.sync.client import connect

from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]
POLICY = """
storage: {projection_interval_s: 0.02}
sweeper: {interval_s: 0.2}
health: {sustained_s: 0.2, limits: {critical_queue_depth: 1}}
"""
SERVER = """
health_interval_s: 0.1
dashboard: {tick_s: 0.1, shared_s: 0, sample_s: 0.2, pending_hot: 4, undeliverable_hot: 2}
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub with low thresholds for saturation and alerts."""
    with Stage(tmp_path_factory.mktemp("stage"), POLICY, SERVER) as opened:
        yield opened


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def tile(page: Page, label: str) -> Locator:
    return card(page, "Messages").locator(".tile").filter(has=page.get_by_text(label, exact=False)).first


def value(page: Page, label: str) -> Locator:
    return tile(page, label).locator(".tile-value")


def test_the_tiles_are_in_one_row_on_a_small_laptop(tool_call: ToolCall) -> None:
    page = tool_call("overview").page
    page.set_viewport_size({"width": 1040, "height": 660})
    tiles = card(page, "Messages").locator(".tile")
    expect(tiles).to_have_count(6)
    tops = tiles.evaluate_all("tiles => tiles.map((tile) => tile.getBoundingClientRect().top)")
    assert len(set(tops)) == 1


def test_the_five_states_are_updated_live(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("overview").page
    before = int(value(page, "Delivered").inner_text())
    waiting = int(value(page, "Recipient away").inner_text())
    stage.send()
    expect(value(page, "Recipient away")).to_have_text(str(waiting + 1))
    expect(tile(page, "Recipient away")).to_contain_text("wait for its return")
    stage.drain("bob")
    expect(value(page, "Delivered")).to_have_text(str(before + 1))
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
        page.locator(".saturation-item").filter(has_text=name) for name in ("transient", "structural")
    )
    for _ in range(4):
        stage.send("boss", "ada")
    expect(tile(page, "Recipient away").locator(".flag")).to_have_text("HOT")
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


def test_one_recall_is_drawn_as_one(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("overview").page
    page.get_by_role("button", name="30 min").click()
    chart = card(page, "Recalls").get_by_role("img")
    label = str(chart.get_attribute("aria-label"))
    assert label.startswith("Recalls by outcome, per minute: recalled ")
    before = int(label.split("recalled ")[1].split(",")[0])
    stage.ok("POST", "ada", f"/v1/messages/{stage.send()}/recall", {})
    expect(chart).to_have_attribute("aria-label", re.compile(f"recalled {before + 1},"))
    columns = card(page, "Recalls").locator(".bars-column")
    expect(columns).to_have_count(30)
    drawn: list[str] = columns.evaluate_all("columns => columns.map((column) => column.title)")
    assert sum(int(re.findall(r"recalled (\d+)", title)[0]) for title in drawn) == before + 1
    highest = max(sum(map(int, re.findall(r"[a-z] (\d+)$", title, re.MULTILINE))) for title in drawn)
    top = int(card(page, "Recalls").locator(".bars-axis span").first.inner_text())
    assert highest <= top <= 2 * highest


def test_buckets_follow_the_span(tool_call: ToolCall) -> None:
    page = tool_call("overview").page
    for span, per, number in (("2 min", "10 seconds", 12), ("10 min", "minute", 10), ("30 min", "minute", 30)):
        page.get_by_role("button", name=span).click()
        expect(page.get_by_role("heading", name=f"Not delivered, per {per}")).to_be_visible()
        expect(card(page, "Recalls").locator(".bars-column")).to_have_count(number)
    steps = page.evaluate(
        """() => import(`${document.documentElement.dataset.base}/lib/series.js`)
          .then(({ stepOf }) => [60, 1800, 7200, 86400].map(stepOf))"""
    )
    assert steps == [10, 60, 600, 3600]


def test_queries_are_repeated_in_proportion_to_the_updates(tool_call: ToolCall) -> None:
    intervals = tool_call("overview").page.evaluate(
        """() => import(`${document.documentElement.dataset.base}/lib/query.js`)
          .then(({ paced }) => [paced(5000), ...[0.5, 0.1, 2].map((tick) => paced(5000, tick))])"""
    )
    assert intervals == [5000, 5000, 1000, 20_000]


def test_notices_from_before_the_page_was_opened_are_shown(tool_call: ToolCall, stage: Stage) -> None:
    stage.send("ada", "nobody-of-that-name")
    page = tool_call("overview").page
    expect(card(page, "Recent events")).to_contain_text("Send from ada to nobody-of-that-name refused")


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
    alert = card(page, "Alerts").get_by_role("listitem").filter(has_text="waiting Critical messages")
    expect(alert).to_contain_text("raised")
    expect(alert).to_contain_text(re.compile(r"\d, over the limit of 1"))
    expect(page.get_by_role("navigation").get_by_role("link", name="Overview")).to_contain_text(re.compile(r"[1-9]"))
    expect(card(page, "Queue depth by priority").locator(".over")).to_contain_text("Critical")
    for agent in ("bob", "boss"):  # the directors were notified, at Critical
        stage.drain(agent)
    expect(alert).to_contain_text(re.compile("easing.*0, back under the limit of 1 for .*; the alert ends after 1 min"))


@pytest.mark.parametrize(
    ("state", "value", "text"),
    [
        ("breached", 0.062, "over the limit of 50 ms for 20 s; an alert is raised after 1 min"),
        ("raised", 0.062, "over the limit of 50 ms"),
        ("raised", 0.045, "under the limit of 50 ms, but the alert ends only under 40 ms"),
        ("easing", 0.034, "back under the limit of 50 ms for 20 s; the alert ends after 1 min 30 s"),
    ],
)
def test_an_alert_says_how_its_value_stands_to_the_limit(
    tool_call: ToolCall, state: str, value: float, text: str
) -> None:
    page = tool_call("overview").page
    alert = {"metric": "blocking_delivery_s", "value": value, "limit": 0.05, "state": state, "since": 1_000_000_000_000}
    health = {"sustained_s": 60, "clear_share": 0.8, "clear_s": 90}
    said = page.evaluate(
        """([alert, health]) => import(`${document.documentElement.dataset.base}/components/alerts.js`)
          .then(({ standing }) => standing(alert, health, alert.since + 20000))""",
        [alert, health],
    )
    assert said == text
