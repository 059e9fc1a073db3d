"""The first steps in an empty project, and the administration of agents and tokens."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from tests.dashboard.projects import empty_project
from tests.dashboard.stage import Stage, Visitor
from tocsin.cli.commands import app
from tocsin.gateways import dashboard

PAGE = Path(str(dashboard.__file__)).parent / "page"
CLIPBOARD = ["clipboard-read", "clipboard-write"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Stage]:
    """A hub with nothing but its administrator."""
    with empty_project(tmp_path) as stage:
        yield stage


@pytest.fixture
def admin(browser: Browser, project: Stage) -> Iterator[Visitor]:
    """The administrator, at the overview."""
    visitor = Visitor(browser, project, permissions=CLIPBOARD).enter("admin").open("overview")
    yield visitor
    visitor.close()


def copied(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def steps_done(page: Page, number: int) -> None:
    expect(page.locator(".first-step.done")).to_have_count(number)


def test_three_steps_lead_to_a_message(admin: Visitor, project: Stage) -> None:
    page = admin.page
    expect(page.locator(".first-step")).to_have_count(3)
    steps_done(page, 0)
    page.locator(".first-step").nth(1).get_by_role("button", name="Copy").click()
    assert copied(page) == "tocsin --as ada hooks install claude"
    expect(page.get_by_role("button", name="Write to")).to_be_disabled()
    page.get_by_role("button", name="Add an agent").click()
    page.get_by_label("Name").fill("ada lovelace")
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be an agent")  # and what was typed stays
    page.get_by_label("Name").fill("ada")
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    dialog = page.get_by_role("dialog", name="Token of ada")
    token = dialog.locator("code").first.inner_text()
    assert token.startswith("tcs_")
    dialog.get_by_role("button", name="Copy").last.click()
    address = f"{project.url}/mcp"
    assert copied(page) == f'claude mcp add --transport http tocsin {address} --header "Authorization: Bearer {token}"'
    dialog.get_by_role("button", name="Done").click()
    expect(page.get_by_role("heading", name="ada", exact=True)).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(token)  # it is shown once
    project.tokens["ada"] = token
    assert project.ok("GET", "ada", "/v1/me")["agent"] == "ada"
    admin.open("overview")
    steps_done(page, 1)
    project.drain("ada")
    steps_done(page, 2)
    page.get_by_role("button", name="Write to ada").click()
    page.get_by_label("Text").fill("Hello, ada")
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    expect(page.locator(".first-step")).to_have_count(0)
    (message,) = project.ok("GET", "ada", "/v1/inbox")["items"]
    assert (message["sender"], message["payload"]) == ("admin", {"text": "Hello, ada"})
    admin.complaints = [complaint for complaint in admin.complaints if "status of 4" not in complaint]


def test_a_token_is_replaced_revoked_and_issued_again(admin: Visitor, project: Stage) -> None:
    first = project.join("bob")
    page = admin.open("agents/bob").page
    tokens = page.get_by_role("region", name="Access tokens", exact=True).first
    expect(tokens).to_contain_text("never")
    tokens.get_by_role("button", name="Replace by a new token").click()
    page.get_by_role("dialog").get_by_role("button", name="Replace the tokens").click()
    second = page.get_by_role("dialog", name="Token of bob").locator("code").first.inner_text()
    page.get_by_role("button", name="Done").click()
    assert (works(project, first), works(project, second)) == (False, True)
    tokens.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert works(project, second)
    tokens.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(tokens).to_contain_text("No valid token")
    assert not works(project, second)
    tokens.get_by_role("button", name="Issue a token").click()
    third = page.get_by_role("dialog", name="Token of bob").locator("code").first.inner_text()
    page.get_by_role("button", name="Done").click()
    assert works(project, third)


def works(project: Stage, token: str) -> bool:
    project.tokens["probe"] = token
    return project.call("GET", "probe", "/v1/me").is_success


def test_an_agent_is_written_to_and_retired_from_its_page(admin: Visitor, project: Stage) -> None:
    project.join("bob")
    page = admin.open("agents/bob").page
    page.get_by_role("button", name="Write to bob").click()
    expect(page.get_by_label("To", exact=True)).to_have_value("bob")
    page.get_by_label("Text").fill("Please look at the parser.")
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    latest = page.get_by_role("region", name="Latest to bob", exact=True).first
    expect(latest).to_contain_text("Please look at the parser.")
    page.get_by_role("button", name="Retire bob").click()
    page.get_by_label("Reason").fill("its work is done")
    page.get_by_role("dialog").get_by_role("button", name="Retire").click()
    expect(page).to_have_url(re.compile("#/agents$"))
    assert "bob" not in [row["agent"] for row in project.get("/v1/agents", "admin")["items"]]


def test_a_director_adds_agents_and_administers_their_tokens(browser: Browser, project: Stage) -> None:
    project.join("boss", "director")
    project.join("hanna", "human")
    visitor = Visitor(browser, project).enter("boss").open("agents")
    page = visitor.page
    page.get_by_role("button", name="Add an agent").first.click()
    page.get_by_role("dialog").get_by_label("Name").fill("bob")
    roles = page.get_by_label("Role").locator("option").evaluate_all("all => all.map((one) => one.value)")
    assert roles == ["primary", "clone"]
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    token = page.get_by_role("dialog", name="Token of bob").locator("code").first.inner_text()
    page.get_by_role("button", name="Done").click()
    assert works(project, token)
    tokens = page.get_by_role("region", name="Access tokens", exact=True).first
    tokens.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(tokens).to_contain_text("No valid token")
    assert not works(project, token)
    visitor.open("agents/hanna")
    expect(page.get_by_role("button", name="Write to hanna")).to_be_visible()
    expect(page.get_by_role("region", name="Access tokens")).to_have_count(0)
    visitor.close()


def test_an_empty_list_of_agents_mentions_no_filter(admin: Visitor) -> None:
    page = admin.open("agents").page
    expect(page.get_by_text("No agents yet")).to_be_visible()
    page.get_by_label("Part of a name").fill("ada")
    expect(page.get_by_text("No agent's name contains “ada”.")).to_be_visible()


def test_every_command_that_the_page_names_exists() -> None:
    files = [path for path in PAGE.rglob("*") if path.suffix in (".js", ".html") and "vendor" not in path.parts]
    named: set[str] = set()
    for path in files:
        words = r"(?:<code>|`)tocsin(?:\$\{[A-Z]+\})? ((?:--as \S+ )?[a-z]+(?: [a-z]+)?)"
        named |= set(re.findall(words, path.read_text()))
    commands = {re.sub(r"^--as \S+ ", "", words) for words in named}
    assert {"top", "agents add", "pipeline run", "pipeline report", "hooks install", "send", "lab"} <= commands
    for words in sorted(commands):
        told = CliRunner().invoke(app, [*words.split(), "--help"])
        assert told.exit_code == 0, f"tocsin {words}: {told.output}"
