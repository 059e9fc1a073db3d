"""The dashboard's endpoints without a browser: browser sessions, the files of the page, and live updates."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import HubTeam, team_at
from tocsin.core.errors import TocsinError
from tocsin.gateways.dashboard.assets import Assets
from tocsin.gateways.dashboard.gateway import DashboardGateway
from tocsin.gateways.dashboard.live_updates import SERIES
from tocsin.gateways.http.app import build_app
from tocsin.hub.auth.sign_in_links import SignInLinks

OWN = {"Tocsin-Dashboard": "1", "Origin": "http://localhost"}


@asynccontextmanager
async def dashboard_team(
    path: Path, **config: Any
) -> AsyncIterator[tuple[HubTeam, httpx2.AsyncClient, DashboardGateway]]:
    """Serve a project with its dashboard, and a client that keeps cookies."""
    async with team_at(path, **config) as team:
        await team.register("ada")
        await team.register("bob", kind="Implementation")
        await team.register("hanna", "human")
        team.join("root", "primary", admin=True)
        gateway = DashboardGateway(team.hub)
        app = build_app(team.hub, beside=gateway.routes())
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield team, client, gateway


async def sign_in(team: HubTeam, client: httpx2.AsyncClient, agent: str = "hanna") -> httpx2.Response:
    return await client.post("/sign-in", json={"token": team.tokens[agent]}, headers=OWN)


@pytest.mark.parametrize(("agent", "status"), [("hanna", 200), ("root", 200), ("ada", 403)])
async def test_humans_directors_and_administrators_sign_in(tmp_path: Path, agent: str, status: int) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        answer = await sign_in(team, client, agent)
        assert answer.status_code == status
        cookie = answer.headers.get("set-cookie", "").lower()
        assert ("httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie) == (status == 200)
        assert (await client.get("/")).status_code == (200 if status == 200 else 303)


async def sign_in_link(team: HubTeam, client: httpx2.AsyncClient, agent: str = "hanna") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {team.tokens[agent]}"}
    return await client.post("/sign-in/links", headers=headers)


async def follow(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    """Open a sign-in link as its page does: code and token id come from the fragment, the id goes to a header."""
    code, _, token_id = path.partition("#code=")[2].partition(".")
    return await client.post("/sign-in", json={"code": code}, headers={**OWN, "tocsin-token-id": token_id})


async def test_a_sign_in_link_signs_in_once(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        made = await sign_in_link(team, client)
        assert (made.status_code, made.headers["cache-control"]) == (200, "no-store")
        path = made.json()["path"]
        assert path.startswith("/sign-in?link#code=")
        answer = await follow(client, path)
        assert (answer.status_code, answer.json()["agent"]) == (200, "hanna")
        assert (await client.get("/")).status_code == 200
        client.cookies.clear()
        again = await follow(client, path)
        assert (again.status_code, again.json()["code"]) == (401, "E_AUTH_001")
        assert "used before" in again.json()["detail"]
        assert (await client.get("/")).status_code == 303


async def test_a_code_is_accepted_only_from_the_sign_in_page_and_never_empty(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        code = (await sign_in_link(team, client)).json()["path"].partition("#code=")[2]
        assert (await client.post("/sign-in", json={"code": code})).status_code == 401, "own page only"
        assert (await client.post("/sign-in", json={}, headers=OWN)).status_code == 401, "an empty code is no code"


async def test_whoever_is_signed_in_sees_the_sign_in_page_only_with_a_link(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        await sign_in(team, client)
        assert (await client.get("/sign-in")).status_code == 303
        assert (await client.get("/sign-in?link")).status_code == 200, "one may be signed in as someone else"


async def test_a_sign_in_link_needs_a_token_that_may_sign_in(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        assert (await sign_in_link(team, client, "ada")).status_code == 403
        assert (await client.post("/sign-in/links")).status_code == 401
        await sign_in(team, client)
        assert (await client.post("/sign-in/links", headers=OWN)).status_code == 401, "a browser session makes none"
        team.hub.trusting = True
        named = {"Tocsin-Agent": "hanna", "Tocsin-Role": "human"}
        assert (await client.post("/sign-in/links", headers=named)).status_code == 401, "no token to sign in with"


async def test_a_sign_in_link_ends_with_its_token_its_lifetime_or_above_the_limit(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path, dashboard={"sign_in_links_max": 2}) as (team, client, _gateway):
        first = (await sign_in_link(team, client)).json()["path"]
        others = [(await sign_in_link(team, client)).json()["path"] for _ in range(2)]
        assert (await follow(client, first)).status_code == 401, "the oldest of three ended, by the limit of two"
        assert (await follow(client, others[0])).status_code == 200
        team.hub.authority.revoke("hanna")
        assert (await follow(client, others[1])).json()["code"] == "E_AUTH_005"
    async with dashboard_team(tmp_path / "late") as (team, _client, _gateway):
        authority, now = team.hub.authority, team.hub.now()
        links = SignInLinks(authority, lambda: now, lifetime_s=60, links_max=2)
        link = links.make(authority.authenticate(team.tokens["hanna"]))
        now = link.expires_at
        with pytest.raises(TocsinError, match="expired"):
            links.redeem(link.code)


async def test_a_browser_session_is_accepted_only_from_the_dashboards_own_page(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        await sign_in(team, client)
        assert (await client.get("/v1/me", headers=OWN)).json()["agent"] == "hanna"
        origins = ("http://evil.example", "http://localhost:3000", "null", "")
        foreign = [{}, {"Origin": "http://localhost"}, *(OWN | {"Origin": origin} for origin in origins)]
        for headers in foreign:
            refused = await client.post("/v1/messages/msg_1_x/recall", headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (401, "E_AUTH_001")
        assert (await client.post("/sign-in", json={"token": team.tokens["hanna"]})).status_code == 401


async def test_a_browser_session_ends_with_its_token_its_lifetime_or_the_sign_out(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        browser_sessions = team.hub.browser_sessions
        grant = team.hub.authority.authenticate(team.tokens["hanna"])
        text, browser_session = browser_sessions.issue(grant)
        assert browser_sessions.check(text) == browser_session
        for wrong in (
            text[:-1] + ("0" if text[-1] != "0" else "1"),
            text.replace(str(browser_session.expires_at), "9" * 16),
            "",
        ):
            with pytest.raises(TocsinError, match="sign in again"):
                browser_sessions.check(wrong)
        browser_sessions.end(browser_session)
        with pytest.raises(TocsinError, match="signed out"):
            browser_sessions.check(text)
        short = team.hub.authority.issue("guest", "human", lifetime_s=60)
        assert browser_sessions.issue(short.grant)[1].expires_at == short.grant.expires_at
        await sign_in(team, client)
        team.hub.authority.revoke("hanna")
        assert (await client.get("/v1/me", headers=OWN)).json()["code"] == "E_AUTH_005"
        assert (await client.get("/")).status_code == 303


async def test_an_expired_browser_session_is_refused(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path, dashboard={"browser_session_s": 0.05}) as (team, _client, _gateway):
        text, browser_session = team.hub.browser_sessions.issue(team.hub.authority.authenticate(team.tokens["hanna"]))
        while team.hub.now() < browser_session.expires_at:
            await asyncio.sleep(0.001)
        with pytest.raises(TocsinError, match="browser session has expired"):
            team.hub.browser_sessions.check(text)


async def test_the_number_of_remembered_sign_outs_is_limited(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path, dashboard={"sign_outs_max": 2}) as (team, _client, _gateway):
        browser_sessions, grant = team.hub.browser_sessions, team.hub.authority.authenticate(team.tokens["hanna"])
        texts = [browser_sessions.issue(grant) for _ in range(3)]
        for _, browser_session in texts:
            browser_sessions.end(browser_session)
        assert browser_sessions.check(texts[0][0]) == texts[0][1]
        with pytest.raises(TocsinError):
            browser_sessions.check(texts[2][0])


async def test_the_page_may_load_only_files_of_the_hub(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        await sign_in(team, client)
        page = await client.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<style" not in page.text
        assert "style=" not in page.text


async def base_of_files(team: HubTeam, client: httpx2.AsyncClient) -> str:
    """Sign in, and return the path under which the page has its files."""
    await sign_in(team, client)
    return (await client.get("/")).text.split('data-base="')[1].split('"')[0]


async def test_files_of_the_page_are_compressed_and_kept_by_browsers(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        base = await base_of_files(team, client)
        file = await client.get(base + "/app.js")
        assert file.headers["content-type"].startswith("text/javascript")
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["content-encoding"] == "gzip"
        plain = await client.get(base + "/app.js", headers={"Accept-Encoding": "identity"})
        assert plain.text == file.text


async def test_only_files_of_the_page_are_served(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path) as (team, client, _gateway):
        base = await base_of_files(team, client)
        for path in (
            base + "/nothing.js",
            "/ui/0/app.js",
            base + "/%2e%2e/gateway.py",
            base + "/index.html",
            base + "/",
        ):
            assert (await client.get(path)).status_code == 404


def test_a_hub_without_the_libraries_shows_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    for name in ("index.html", "sign-in.html"):
        (tmp_path / "page" / name).write_text("<p>{base}</p>")
    assets = Assets(tmp_path / "page")
    answer = assets.page("index.html", {})
    assert (answer.status_code, assets.complete) == (503, False)
    assert b"make dashboard" in answer.body
    (tmp_path / "page" / "vendor").mkdir()
    (tmp_path / "page" / "vendor" / "vendor.json").write_text("{}")
    whole = Assets(tmp_path / "page")
    assert whole.version != assets.version
    assert whole.page("index.html", {}).body == f"<p>/ui/{whole.version}</p>".encode()
    (tmp_path / "page" / "docs.html").write_text('<script src="{base}/vendor/browser.js"></script>')
    assert Assets(tmp_path / "page").page("docs.html", {}).status_code == 503, "a library of a newer version is missing"
    (tmp_path / "page" / "vendor" / "browser.js").write_text("")
    assert Assets(tmp_path / "page").page("docs.html", {}).status_code == 200


LIVE = {"tick_s": 0.05, "sample_s": 0.1}


async def send_one_and_one_to_nobody(team: HubTeam) -> None:
    await team.post("ada", "/v1/messages", envelope(1))
    await team.post("ada", "/v1/messages", envelope(2, receiver="nobody"))


async def update_of_both(viewer: Any) -> dict[str, Any]:
    """Wait for an update that has counted both."""
    while True:
        tick: dict[str, Any] = msgspec.json.decode(await viewer.next())["tick"]
        if tick["totals"]["undeliverable"] == 1 and tick["changes"]["messages"] >= 2:
            return tick


async def test_all_viewers_get_updates_and_none_follows_the_feed(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path, dashboard=LIVE) as (team, _client, gateway):
        viewers = [gateway.live_updates.join() for _ in range(10)]
        assert team.hub.feed.watchers == 0
        await send_one_and_one_to_nobody(team)
        assert [(await update_of_both(viewer))["totals"]["accepted"] for viewer in viewers] == [1] * 10
        for viewer in viewers:
            gateway.live_updates.leave(viewer)
        assert team.hub.feed.published == 0


async def test_an_update_counts_messages_agents_and_refusals(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path, dashboard=LIVE) as (team, _client, gateway):
        viewer = gateway.live_updates.join()
        await send_one_and_one_to_nobody(team)
        tick = await update_of_both(viewer)
        gateway.live_updates.leave(viewer)
        summary = tick["summary"]
        assert (summary["depths"], summary["recipient_away"], summary["offline"]) == ([1, 0, 0, 0, 0], 1, 3)
        assert tick["agents"] == 3
        refused = [notice["facts"]["recipient"] for notice in tick["notices"] if notice["kind"] == "SendRefused"]
        assert refused == ["nobody"]


async def test_a_new_viewer_gets_the_figures_so_far(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path, dashboard=LIVE) as (team, _client, gateway):
        viewer = gateway.live_updates.join()
        await send_one_and_one_to_nobody(team)
        await update_of_both(viewer)
        told = msgspec.json.decode(gateway.live_updates.hello({}))
        gateway.live_updates.leave(viewer)
        series = told["hello"]["series"]
        assert set(series) == set(SERIES)
        assert {len(column) for column in series.values()} == {len(series["at"])}
        assert len(series["at"]) >= 1
        assert (told["tick"]["changes"]["agents"], told["tick"]["changes"]["letters"]) == (3, 0)


async def test_a_slow_viewer_gets_the_latest_update(tmp_path: Path) -> None:
    async with dashboard_team(tmp_path, dashboard={"tick_s": 0.05}) as (_team, _client, gateway):
        slow, quick = gateway.live_updates.join(), gateway.live_updates.join()
        first = [await quick.next() for _ in range(3)]
        assert await slow.next() == first[-1]
        gateway.live_updates.leave(slow)
        gateway.live_updates.leave(quick)
