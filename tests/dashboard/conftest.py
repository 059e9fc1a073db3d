from asyncio import AbstractEventLoop, events
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.dashboard.browser import FLAGS, find_browser
from tests.dashboard.stage import Stage, Visitor


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Browser, AbstractEventLoop]]:
    """One Chromium per worker, and the event loop that drives it."""
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        loop = events.get_running_loop()
        events._set_running_loop(None)
        yield launched, loop
        events._set_running_loop(loop)
        launched.close()


@pytest.fixture
def browser(chromium: tuple[Browser, AbstractEventLoop]) -> Iterator[Browser]:
    """The worker's Chromium, for one test.

    Playwright leaves its event loop marked as the running one, so that no other test of the worker could run its own;
    it is marked while a browser is used, and at no other time.
    """
    launched, loop = chromium
    events._set_running_loop(loop)
    yield launched
    events._set_running_loop(None)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub with hanna (human), boss (director), ada and bob, shared by the tests of a module."""
    with Stage(tmp_path_factory.mktemp("stage")) as opened:
        yield opened


@pytest.fixture
def tool_call(browser: Browser, stage: Stage) -> Iterator[Callable[..., Visitor]]:
    """Open the dashboard, signed in unless `agent` is empty; the page must not log errors or warnings."""
    visitors: list[Visitor] = []

    def arrive(address: str = "", agent: str = "hanna", **options: Any) -> Visitor:
        visitor = Visitor(browser, stage, **options)
        visitors.append(visitor)
        if agent:
            visitor.enter(agent)
            visitor.open(address)
        return visitor

    yield arrive
    for visitor in visitors:
        visitor.close()
