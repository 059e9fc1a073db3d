"""Every page in both themes: text has the contrast of WCAG AA, and every control has an accessible name."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.dashboard.extracts import write_extract
from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]
PAGES = (
    "overview",
    "messages",
    "agents",
    "leases",
    "inbox",
    "dead-letters",
    "history",
    "history/advice",
    "history/reports",
)

#: Returns the texts whose contrast with their background is below WCAG AA.
FAINT = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return { rgb: [red, green, blue], alpha: alpha / 255 };
  };
  const over = (top, ground) => top.rgb.map((value, place) => value * top.alpha + ground[place] * (1 - top.alpha));
  const groundOf = (element) => {
    if (!element) return [255, 255, 255];
    const own = read(getComputedStyle(element).backgroundColor);
    return own.alpha === 1 ? own.rgb : over(own, groundOf(element.parentElement));
  };
  const light = (rgb) => {
    const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = rgb.map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const said = walker.currentNode.data.trim();
    if (!said || element.closest("[aria-hidden=true], :disabled, option, script, svg, title")) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ground = groundOf(element);
    const [one, other] = [light(over(read(style.color), ground)), light(ground)].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (contrast < (large ? 3 : 4.5)) found.push(`${said.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""

#: Returns the controls without an accessible name.
NAMELESS = """() => [...document.querySelectorAll("button, a[href], input, select, textarea")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !(element.getAttribute("aria-label") || element.labels?.length || element.textContent.trim()))
  .map((element) => element.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def busy(stage: Stage) -> Stage:
    """A hub with content for every page."""
    dead = stage.send("ada", "bob")
    stage.drain("bob")
    stage.ok("POST", "bob", f"/v1/messages/{dead}/nack", {"reason": "no", "code": "E_TASK_001", "can_retry": False})
    for number, priority in enumerate(("Info", "Coordinate", "Blocking", "Critical")):
        stage.send("ada", "bob", priority=priority)
        stage.send("ada", "hanna", priority=priority, messageType="CUSTOM_QUESTION")
        stage.ok("POST", "ada", "/v1/leases", {"exclusive": [f"part{number}"]})
        stage.ok("POST", "bob", "/v1/leases", {"exclusive": [f"part{number}"], "priority": priority})
    stage.send("ada", "nobody")
    stage.ok("POST", "boss", "/v1/leases", {"exclusive": ["part0"]})
    stage.send("ada", "bob", messageType="CUSTOM_PLAN")
    write_extract(stage.data / "warehouse" / "_extract", project="default")
    return stage


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_can_be_read_and_every_control_has_a_name(tool_call: ToolCall, busy: Stage, theme: Any) -> None:
    visitor = tool_call("overview", color_scheme=theme)
    for address in PAGES:
        visitor.open(address)
        expect(visitor.page.locator("main .card, main .tiles").first).to_be_visible()
        expect(visitor.page.locator("main .loading")).to_have_count(0)
        assert visitor.page.evaluate(FAINT) == [], f"{address} in the {theme}"
        assert visitor.page.evaluate(NAMELESS) == [], address


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dialogs_can_be_read(tool_call: ToolCall, busy: Stage, theme: Any) -> None:
    visitor = tool_call("inbox", color_scheme=theme)
    page = visitor.page
    page.get_by_role("button", name="Write to an agent").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    visitor.shot(f"compose-{theme}", full=False)
    assert page.evaluate(FAINT) == []
    assert page.evaluate(NAMELESS) == []
