"""Every page with a busy team and without one, in both themes, on a laptop and on a phone.

Each page is measured. `make pictures` runs this file and keeps the picture of each page in `artifacts/dashboard`; like
`make soak` it looks at both themes in both sizes, where `make test` looks at each theme and each size once.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard.contrast import too_faint
from tests.dashboard.looks import blank_charts, clipped, nameless, too_wide
from tests.dashboard.projects import BusyProject, busy_project, empty_project
from tests.dashboard.stage import Stage, Visitor
from tests.soak import SOAK

SIZES = {"laptop": {"width": 1360, "height": 850}, "phone": {"width": 390, "height": 844}}
EMPTY = (
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

PICTURES = bool(os.environ.get("TOCSIN_PICTURES"))
LOOKS = [("light", "laptop"), ("dark", "phone")]
if SOAK or PICTURES:
    LOOKS += [("light", "phone"), ("dark", "laptop")]

both_themes = pytest.mark.parametrize("theme", ["light", "dark"])
all_looks = pytest.mark.parametrize(("theme", "size"), LOOKS)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusyProject]:
    """A hub with content for every page."""
    with busy_project(tmp_path_factory.mktemp("busy")) as project:
        yield project


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub that nobody has used yet."""
    with empty_project(tmp_path_factory.mktemp("empty")) as stage:
        yield stage


def opened(visitor: Visitor, address: str) -> None:
    """Open a page and wait until it has loaded."""
    visitor.open(address)
    expect(visitor.page.locator("main .card, main .tiles").first).to_be_visible()
    expect(visitor.page.locator("main .loading")).to_have_count(0)


def keep(visitor: Visitor, name: str, *, full: bool = True) -> None:
    """Keep a picture of the page, if pictures are asked for."""
    if PICTURES:
        visitor.shot(name, full=full)


def check(visitor: Visitor) -> None:
    """Measure what can be measured."""
    page = visitor.page
    assert too_faint(page) == []
    assert nameless(page) == []
    assert too_wide(page) == []
    assert clipped(page) == []


@all_looks
def test_a_busy_project_is_readable(browser: Browser, busy: BusyProject, theme: Any, size: str) -> None:
    visitor = Visitor(browser, busy.stage, color_scheme=theme, viewport=SIZES[size]).enter("hanna")
    for name, address in busy.pages.items():
        if name in ("overview", "messages"):
            busy.talk()
        opened(visitor, address)
        if name == "overview":
            expect(visitor.page.get_by_role("region", name="Alerts").get_by_text("raised")).to_be_visible()
            visitor.page.wait_for_function("() => document.querySelectorAll('main figure.chart').length >= 4")
            visitor.page.get_by_role("button", name="2 min").click()
            visitor.points(8)
            assert blank_charts(visitor.page) == []
        check(visitor)
        keep(visitor, f"busy/{name}-{theme}-{size}")
    visitor.close()


@all_looks
def test_an_empty_project_is_readable(browser: Browser, empty: Stage, theme: Any, size: str) -> None:
    visitor = Visitor(browser, empty, color_scheme=theme, viewport=SIZES[size])
    visitor.page.goto("/sign-in")
    check(visitor)
    keep(visitor, f"empty/sign-in-{theme}-{size}", full=False)
    visitor.enter("admin")
    for address in EMPTY:
        opened(visitor, address)
        check(visitor)
        keep(visitor, f"empty/{address.replace('/', '-')}-{theme}-{size}")
    visitor.close()


@both_themes
def test_dialogs_are_readable(browser: Browser, busy: BusyProject, theme: Any) -> None:
    visitor = Visitor(browser, busy.stage, color_scheme=theme).enter("hanna")
    opened(visitor, "inbox")
    button = visitor.page.get_by_role("button", name="Write to an agent")
    button.hover()
    check(visitor)
    button.click()
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    check(visitor)
    keep(visitor, f"busy/compose-{theme}", full=False)
    visitor.close()
