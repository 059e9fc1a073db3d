"""Hostile agents: everything that an agent can write is shown as text on every page."""

import json
import re
from collections.abc import Callable

import msgspec
import pytest
from playwright.sync_api import Locator, expect

from tests.dashboard.extracts import ADVICE, write_extract
from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]
ATTACK = "<img src=x onerror=alert(1)>\"'><svg/onload=alert(2)></textarea><script>alert(3)</script>"
#: An attack for names that must be short or without slashes.
SHORT = '"><img src=x onerror=alert(4)>'
LINK = "javascript:alert(5)"


@pytest.fixture(scope="module")
def hostile(stage: Stage) -> dict[str, str]:
    """Let ada and bob write an attack into every field with free text; return the messages that the tests open."""
    ok = stage.ok
    ok("PUT", "ada", "/v1/me", {"type": "Manager", "capabilities": [SHORT, "CUSTOM_PLAN"]})
    ok("PUT", "bob", "/v1/me", {"type": "Implementation"})
    payload = {"text": ATTACK, ATTACK: [ATTACK, LINK], "url": LINK}
    metadata = {"tags": [SHORT], "note": ATTACK}
    plain = stage.send(messageType="CUSTOM_NOTE", payload=payload, metadata=metadata)
    asked = stage.send("ada", "hanna", messageType="CUSTOM_QUESTION", payload=payload, metadata=metadata)
    plan = stage.send(messageType="CUSTOM_PLAN", payload=payload)
    ok("POST", "ada", "/v1/approvals", {"handoff": "plan_approval", "subject": ATTACK, "details": ATTACK})
    for agent in ("ada", "bob", "boss"):
        ok("POST", agent, "/v1/leases", {"exclusive": [SHORT]})
    ok(
        "POST",
        "ada",
        "/v1/discussions",
        {"question": ATTACK, "participants": ["bob", "boss"], "options": [SHORT, LINK]},
    )
    ok("POST", "ada", "/v1/topics/subscribe", {"topic": "topic"})
    dead = stage.send(messageType="CUSTOM_NOTE", payload=payload)
    stage.drain("bob")
    said = {"reason": ATTACK, "code": SHORT, "suggested_fix": ATTACK, "can_retry": False}
    ok("POST", "bob", f"/v1/messages/{dead}/nack", said)
    ok("POST", "bob", f"/v1/messages/{plain}/ack", {"notes": ATTACK})
    ok("POST", "bob", "/v1/attention/begin", {"message_id": plain})
    ok("POST", "bob", "/v1/attention/aside", {"saved": ATTACK})
    stage.call("POST", "ada", "/v1/messages", {"sender": ATTACK, "messageType": ATTACK})
    advice = msgspec.structs.replace(ADVICE, text=ATTACK, subject=ATTACK, patch=ATTACK, rule=SHORT)
    folder = stage.data / "warehouse" / "_extract"
    write_extract(folder, project="default", advice=[advice], senders=[ATTACK, SHORT])
    reports = stage.data / "lab" / "reports"
    reports.mkdir(parents=True)
    (reports / "study.html").write_text("<h1>study</h1>")
    (reports / "study.json").write_text(json.dumps({"title": ATTACK, "kind": SHORT, "made_at": LINK}))
    return {"plain": plain, "asked": asked, "plan": plan, "dead": dead}


def injected(visitor: Visitor) -> Locator:
    """Return the elements that only an injection creates."""
    return visitor.page.locator("main :is(img, script, iframe[srcdoc], [onerror], [onload], a[href^='javascript:'])")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("overview", ""),
        ("messages", ""),
        ("messages/{plain}", ATTACK),
        ("messages/{dead}", ATTACK),
        ("messages/{plan}", "<img src=x onerror=alert(1)>"),
        ("messages?q=" + "img", ""),
        ("agents", ""),
        ("agents/ada", ""),
        ("agents/bob", ""),
        ("leases", SHORT),
        ("inbox", ATTACK),
        ("dead-letters", ""),
        ("history/tables/traffic", ATTACK),
        ("history/advice", ATTACK),
        ("history/reports", ATTACK),
    ],
    ids=lambda text: text if "<" not in text and text else "",
)
def test_an_attack_is_shown_as_text(tool_call: ToolCall, hostile: dict[str, str], address: str, shown: str) -> None:
    visitor = tool_call(address.format(**hostile))
    page = visitor.page
    expect(page.locator("main .card, main .tiles").first).to_be_visible()
    expect(page.locator("main .loading")).to_have_count(0)
    if shown:
        expect(page.locator("main").get_by_text(shown).first).to_be_attached()
    for details in page.locator("main details:not([open]) > summary").all():
        if details.is_visible():
            details.click()
    expect(injected(visitor)).to_have_count(0)
    for link in page.locator("main a[href]").all():
        assert str(link.get_attribute("href")).startswith(("#/", "/"))


def test_an_attack_in_a_dialog_is_text_too(tool_call: ToolCall, hostile: dict[str, str]) -> None:
    visitor = tool_call("inbox")
    page = visitor.page
    page.locator(f"[data-id='{hostile['asked']}']").get_by_role("button", name="Answer").click()
    expect(page.get_by_role("dialog")).to_contain_text(ATTACK)
    expect(page.locator("dialog :is(img, script, svg)")).to_have_count(0)
    page.keyboard.press("Escape")
    approval = (
        page.locator(".item")
        .filter(has=page.locator(f"a[href='#/messages/{hostile['plan']}']"))
        .filter(has_text="message held")
    )
    approval.get_by_role("button", name="Approve with changes …").click()
    expect(page.get_by_label("Payload (JSON)")).to_have_value(re.compile(re.escape(json.dumps(ATTACK)[1:-1])))
    expect(page.locator("dialog :is(img, script, svg)")).to_have_count(0)
