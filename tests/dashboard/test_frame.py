"""The frame around all pages: sign-in and sign-out, access, connection, themes, keys."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]


def test_a_human_signs_in_and_out(tool_call: ToolCall, stage: Stage) -> None:
    visitor = tool_call(agent="")
    page = visitor.page
    page.goto("/")
    expect(page).to_have_url(re.compile("/sign-in$"))
    visitor.shot("sign-in")
    visitor.sign_in("hanna")
    expect(page.locator(".who")).to_contain_text("hanna")
    expect(page).to_have_title("Overview · Tocsin")
    (cookie,) = visitor.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert stage.tokens["hanna"] not in cookie["value"]
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    visitor.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": stage.url}])
    page.goto("/")
    expect(page).to_have_url(re.compile("/sign-in$"))  # the session does not outlive the sign-out


def test_a_sign_in_link_opens_the_dashboard_once(browser: Browser, stage: Stage) -> None:
    path = stage.ok("POST", "hanna", "/sign-in/links", {})["path"]
    visitor = Visitor(browser, stage)
    visitor.page.goto(path)
    visitor.expect_live()
    expect(visitor.page.locator(".who")).to_contain_text("hanna")
    expect(visitor.page).to_have_url(re.compile(r":\d+/$"))
    visitor.close()
    late = Visitor(browser, stage)
    late.page.goto(path)
    expect(late.page.get_by_role("alert")).to_contain_text("used before")
    expect(late.page).to_have_url(re.compile(r"/sign-in$"))
    late.close(allow=lambda complaint: "status of 401" in complaint)


@pytest.mark.parametrize(("token", "words"), [("tcs_nonsense", "not valid"), ("bob", "directors, humans")])
def test_a_refused_sign_in_shows_the_reason(browser: Browser, stage: Stage, token: str, words: str) -> None:
    visitor = Visitor(browser, stage)
    visitor.page.goto("/sign-in")
    visitor.page.get_by_label("Token").fill(stage.tokens.get(token, token))
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("alert")).to_contain_text(words)
    assert visitor.context.cookies() == []
    visitor.close(allow=lambda complaint: "status of 40" in complaint)


def test_a_lost_connection_is_shown_and_made_again(browser: Browser, tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        waiting = stage.send()
        visitor = Visitor(browser, stage).sign_in()
        page = visitor.page
        expect(page.get_by_role("link", name=waiting)).to_be_visible()
        stage.hub.stop()
        expect(page.locator(".connection")).to_have_text("connection lost")
        expect(page.locator(".banner")).to_contain_text("the data shown may be out of date")
        visitor.shot("connection-lost", full=False)
        stage.start_again()
        visitor.expect_live()
        expect(page.locator(".banner")).to_have_count(0)
        expect(page.locator(".who")).to_contain_text("hanna")  # one stays signed in
        stage.drain("bob")
        expect(page.get_by_role("link", name=waiting)).to_have_count(0)  # and sees what happens
        visitor.close(allow=lambda complaint: re.search("WebSocket|ERR_|status of 503", complaint) is not None)


def test_a_page_opened_without_a_hub_is_filled_when_the_hub_is_back(browser: Browser, tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        visitor = Visitor(browser, stage).sign_in()
        page = visitor.page
        stage.hub.stop()
        expect(page.locator(".connection")).to_have_text("connection lost")
        page.keyboard.press("g")
        page.keyboard.press("a")
        # If the page's module was not loaded before, it cannot be loaded now, and a notice says so.
        expect(
            page.get_by_role("alert").filter(has_text=re.compile("does not answer|could not be loaded"))
        ).not_to_have_count(0)
        stage.start_again()
        visitor.expect_live()
        again = page.get_by_role("button", name="Reload")
        if again.count():
            again.click()
        expect(page.get_by_role("region", name="Agents", exact=True)).to_contain_text("hanna")
        visitor.close(allow=lambda complaint: re.search("WebSocket|ERR_|status of 503", complaint) is not None)


def test_pages_are_opened_with_keys_alone(tool_call: ToolCall) -> None:
    page = tool_call("overview").page
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page.get_by_role("heading", level=1)).to_have_text("Agents")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_the_theme_follows_the_system_and_the_button(tool_call: ToolCall) -> None:
    page = tool_call("overview", color_scheme="dark").page
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    button = page.get_by_role("button", name="Theme")
    button.click()
    light = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == light
    button.click()
    assert page.evaluate(ground) == dark


def test_an_unknown_address_shows_a_notice(tool_call: ToolCall) -> None:
    page = tool_call("nowhere").page
    expect(page.get_by_text("Page not found")).to_be_visible()


def test_a_phone_shows_the_current_page_in_the_navigation(browser: Browser, stage: Stage) -> None:
    visitor = Visitor(browser, stage, viewport={"width": 390, "height": 844}).enter()
    for address in ("history", "overview"):
        visitor.open(address)
        expect(visitor.page.locator(".navigation [aria-current]")).to_be_in_viewport(ratio=1)
    visitor.close()
