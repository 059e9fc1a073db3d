"""The choice of a project in the dashboard: who sees it, what it switches, and that projects stay apart."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard.stage import SERVER, Stage, Visitor
from tocsin.fleet.worker import Share


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub with two workers, and a project in each beside the home project."""
    with Stage(tmp_path_factory.mktemp("fleet"), "", SERVER, "--workers", "2") as opened:
        for name in projects():
            opened.tokens[name] = opened.ok("POST", "admin", "/v1/projects", {"project": name})["token"]
            agent = {"agent": f"agent-of-{name}", "role": "primary"}
            opened.ok("POST", name, "/v1/admin/tokens", agent)
            director = {"agent": "boss", "role": "director"}
            opened.tokens[f"boss of {name}"] = opened.ok("POST", name, "/v1/admin/tokens", director)["token"]
        yield opened


def projects() -> list[str]:
    """Return the name of a project for each worker."""
    share = Share(0, 2, "default")
    found = sorted({share.worker_of(name): name for name in ("acme", "alpha", "beta", "delta", "zeta")}.values())
    assert len(found) == 2
    return found


@pytest.fixture
def visitor(browser: Browser, stage: Stage) -> Iterator[Visitor]:
    arrived = Visitor(browser, stage)
    yield arrived
    arrived.close()


def test_an_administrator_of_the_home_project_switches_between_projects(visitor: Visitor, stage: Stage) -> None:
    visitor.sign_in("admin")
    page = visitor.page
    choice = page.get_by_label("Project", exact=True)
    expect(choice).to_have_value("default")
    expect(choice.locator("option")).to_have_text(sorted(["default", *projects()]))
    page.goto("/#/agents")
    for name in projects():
        choice.select_option(name)
        expect(page).to_have_url(re.compile(rf"/\?project={name}#/agents$"))
        visitor.expect_live()
        expect(choice).to_have_value(name)
        expect(page.get_by_role("main")).to_contain_text(f"agent-of-{name}")
        for other in projects():
            if other != name:
                expect(page.get_by_role("main")).not_to_contain_text(f"agent-of-{other}")
    page.reload()
    expect(choice).to_have_value(projects()[-1])
    choice.select_option("default")
    expect(page).to_have_url(re.compile(r":\d+/#/agents$"))
    expect(page.get_by_role("main")).to_contain_text("hanna")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_choice_is_seen_in_light_and_dark_and_on_a_phone(
    browser: Browser, stage: Stage, width: int, scheme: str
) -> None:
    visitor = Visitor(browser, stage, viewport={"width": width, "height": 800}, color_scheme=scheme)
    visitor.sign_in("admin")
    choice = visitor.page.get_by_label("Project", exact=True)
    expect(choice).to_be_visible()
    bar = visitor.page.locator(".top-bar").bounding_box()
    assert bar is not None
    assert bar["height"] < 56, "the bar is one line"
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visitor.shot(f"projects-{scheme}-{width}", full=False)
    visitor.close()


@pytest.mark.parametrize("who", ["hanna", "boss", "own admin", "own boss"])
def test_who_may_see_one_project_only_is_offered_no_other(visitor: Visitor, stage: Stage, who: str) -> None:
    name = projects()[0]
    token = {"own admin": name, "own boss": f"boss of {name}"}.get(who, who)
    visitor.sign_in(token)
    shown = visitor.page.locator(".project")
    expect(shown).to_have_text(name if who.startswith("own") else "default")
    visitor.points(3)
    expect(visitor.page.get_by_label("Project", exact=True)).to_have_count(0)


def test_a_link_of_a_project_signs_in_to_that_project(visitor: Visitor, stage: Stage) -> None:
    name = projects()[0]
    path = stage.ok("POST", f"boss of {name}", "/sign-in/links", {})["path"]
    visitor.page.goto(path)
    visitor.expect_live()
    expect(visitor.page.locator(".project")).to_have_text(name)


def test_who_signs_out_is_signed_out_of_all_projects(visitor: Visitor, stage: Stage) -> None:
    visitor.sign_in("admin")
    (cookie,) = visitor.context.cookies()
    name = projects()[0]
    visitor.page.goto(f"/?project={name}#/overview")
    visitor.expect_live()
    visitor.page.get_by_role("button", name="Sign out").click()
    expect(visitor.page).to_have_url(re.compile("/sign-in$"))
    for project in projects():
        headers = {
            "Cookie": f"{cookie['name']}={cookie['value']}",
            "Tocsin-Dashboard": "1",
            "Tocsin-Project": project,
        }
        answer = stage.client.get(f"{stage.url}/v1/status", headers=headers)
        assert (answer.status_code, "signed out" in answer.text) == (401, True), answer.text
