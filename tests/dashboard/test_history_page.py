"""The history page in a real browser: freshness, tables, figures, advice, and reports in a sandbox."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from tests.dashboard.extracts import write_extract
from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]
DAYS = [f"2026-03-{day:02}" for day in range(2, 16)]


@pytest.fixture(scope="module")
def past(stage: Stage) -> Stage:
    """A hub with an extract that is behind, and a lab report."""
    seq = stage.get("/v1/status")["seq"]
    stage.send()
    write_extract(stage.data / "warehouse" / "_extract", project="default", last_seq=seq, days=DAYS)
    reports = stage.data / "lab" / "reports"
    reports.mkdir(parents=True)
    (reports / "ttl.html").write_text(
        "<!doctype html><title>ttl</title><style>h1 { color: rgb(1, 2, 3) }</style><h1>A study of TTL</h1>"
        "<script>parent.alert(1); document.body.innerHTML = 'overwritten'</script>"
        "<img src='https://example.org/x.png'>"
    )
    (reports / "ttl.json").write_text(json.dumps({"title": "Shorter TTL", "kind": "compare"}))
    return stage


def rows(page: Page) -> list[str]:
    return page.get_by_role("region", name="Rows").locator("tbody tr").all_inner_texts()


def test_without_an_extract_the_page_shows_how_to_make_one(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("history").page
    expect(page.locator(".empty")).to_contain_text("tocsin pipeline run")


def test_how_far_behind_the_pipeline_is(tool_call: ToolCall, past: Stage) -> None:
    page = tool_call("history").page
    expect(page.locator(".freshness")).to_contain_text(re.compile(r"\d+ events? behind"))
    expect(page.locator(".freshness")).to_contain_text("The tables include events up to 03 Mar 2026")


def test_a_table_by_range_and_type_with_a_figure(tool_call: ToolCall, past: Stage) -> None:
    visitor = tool_call("history/tables/traffic")
    page = visitor.page
    expect(page.get_by_text(f"{8 * len(DAYS)} matching rows")).to_be_visible()
    expect(page.get_by_role("img", name="messages, sum by day")).to_be_visible()
    visitor.shot("history-light")
    page.get_by_label("From").fill("2026-03-14")
    page.get_by_label("Message type").select_option("Question")
    expect(page.get_by_text(re.compile(r"^8 matching rows"))).to_be_visible()
    assert all("Question" in row for row in rows(page))
    page.get_by_label("Figure").select_option("p95_us")
    expect(page.get_by_role("img", name="p95, maximum by hour")).to_be_visible()
    expect(page).to_have_url(re.compile("since=2026-03-14.*type=Question"))
    page.reload()  # the address contains the filters
    expect(page.get_by_text(re.compile(r"^8 matching rows"))).to_be_visible()
    expect(page.get_by_label("Message type")).to_have_value("Question")


def test_rows_are_shown_in_pages(tool_call: ToolCall, past: Stage) -> None:
    page = tool_call("history/tables/traffic").page
    expect(page.get_by_text("1 to 50 of 112")).to_be_visible()
    first = rows(page)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("51 to 100 of 112")).to_be_visible()
    assert not set(first) & set(rows(page))
    page.get_by_role("button", name="Previous").click()
    expect(page.get_by_text("1 to 50 of 112")).to_be_visible()
    assert rows(page) == first


def test_a_table_is_chosen_with_keys_and_omitted_rows_are_counted(tool_call: ToolCall, past: Stage) -> None:
    page = tool_call("history/tables/traffic").page
    page.get_by_label("Table").focus()
    page.keyboard.type("Reca")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Recall", exact=True)).to_be_visible()
    expect(page.get_by_text("98 rows are not shown")).to_be_visible()
    expect(page.get_by_label("Message type")).to_have_count(0)


def test_advice_shows_evidence_and_the_change(tool_call: ToolCall, past: Stage) -> None:
    visitor = tool_call("history/advice", color_scheme="dark")
    page = visitor.page
    expect(page.locator(".advice")).to_contain_text("20 % of Question expire")
    expect(page.get_by_role("region", name="Evidence")).to_contain_text("expired where message_type = Question")
    expect(page.locator(".advice pre")).to_contain_text("ttl_s: 7200")
    visitor.shot("history-advice-dark")


def test_a_report_is_shown_in_a_sandbox(browser: Browser, past: Stage) -> None:
    visitor = Visitor(browser, past).enter().open("history/reports")
    page = visitor.page
    blocked: list[str] = []
    page.on("requestfailed", lambda request: blocked.append(f"{request.url} {request.failure}"))
    page.get_by_role("link", name="Shorter TTL").click()
    report = page.frame_locator("iframe.report")
    expect(report.get_by_role("heading")).to_have_text("A study of TTL")
    expect(report.get_by_role("heading")).to_have_css("color", "rgb(1, 2, 3)")
    visitor.shot("history-report-light")
    alone = visitor.context.new_page()
    said: list[str] = []

    def heard(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    alone.on("dialog", heard)
    answer = alone.goto("/dashboard/reports/ttl")
    assert answer is not None
    assert answer.headers["content-security-policy"].startswith("sandbox;")
    expect(alone.get_by_role("heading")).to_have_text("A study of TTL")
    assert alone.evaluate("origin") == "null", "it shares the hub's origin"
    assert said == []
    assert blocked == ["https://example.org/x.png csp"], "the picture was requested"
    # The browser reports that it blocked the script and the picture; nothing else may be reported.
    words = ("Blocked script", "Content Security Policy", "elsewhere: https://example.org/x.png")
    visitor.close(allow=lambda complaint: any(word in complaint for word in words))
