"""The API browser at /docs, in a browser: it shows the operations, calls them, and reaches nothing outside."""

import re

from playwright.sync_api import Browser, expect

from tests.dashboard.stage import Stage, Visitor


def test_a_visitor_signs_in_reads_and_tries_an_operation(browser: Browser, stage: Stage) -> None:
    visitor = Visitor(browser, stage)
    page = visitor.page
    page.goto("/docs")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=docs$"))
    page.get_by_label("Token").fill(stage.tokens["hanna"])
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(r"/docs$"))
    page.locator("#operations-tag-agents").click()
    operation = page.locator("#operations-agents-get_me")
    operation.locator(".opblock-summary").click()
    visitor.shot("api-browser")
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table").get_by_text('"hanna"').first).to_be_visible()
    visitor.close()
