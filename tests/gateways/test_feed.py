"""The live feed: access, content, and independence of the hub from slow watchers."""

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, team_at
from tocsin.gateways.feed import FeedGateway
from tocsin.gateways.http.app import build_app
from tocsin.gateways.http.server import QuietServer, listen

FEED = {"watchers_max": 2, "frames_max": 4, "records_max": 3, "check_interval_s": 0.02}


@asynccontextmanager
async def watched(path: Path, policy: str = QUICK) -> AsyncIterator[tuple[HubTeam, str]]:
    """Serve a hub with its feed on a real port."""
    async with team_at(path, policy, feed=FEED) as team:
        await team.register("ada")
        await team.register("bob")
        await team.register("boss", "director")
        app = build_app(team.hub, beside=FeedGateway(team.hub).routes())
        listener = listen("127.0.0.1", 0)
        server = QuietServer(uvicorn.Config(app, log_config=None, lifespan="off", ws="websockets-sansio"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.001)
        try:
            yield team, f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/feed"
        finally:
            server.stop()
            await serving


def watching(team: HubTeam, url: str, agent: str = "boss", query: str = "") -> connect:
    headers = {"Authorization": f"Bearer {team.tokens[agent]}"}
    return connect(url + query, additional_headers=headers, compression=None)


async def items(socket: ClientConnection, count: int) -> list[Any]:
    """Receive items until there are `count`."""
    found: list[Any] = []
    while len(found) < count:
        found += json.loads(await socket.recv())
    return found


async def test_a_director_sees_what_becomes_durable_and_no_payload(tmp_path: Path) -> None:
    async with watched(tmp_path) as (team, url), watching(team, url) as socket:
        (hello,) = await items(socket, 1)
        assert hello["hello"]["project"] == "team"
        await team.post("ada", "/v1/messages", envelope(1))
        (event,) = [item["event"] for item in await items(socket, 1)]
        assert (event["kind"], event["message_id"], event["seq"]) == (
            "MessageAccepted",
            "msg_1_x",
            hello["hello"]["seq"] + 1,
        )
        assert "payload" not in event


async def test_only_the_kinds_asked_for_are_sent(tmp_path: Path) -> None:
    async with (
        watched(tmp_path) as (team, url),
        watching(team, url, query="?kinds=MessageRecalled,SendRefused") as socket,
    ):
        assert (await items(socket, 1))[0]["hello"]["kinds"] == ["MessageRecalled", "SendRefused"]
        await team.post("ada", "/v1/messages", envelope(1))
        await team.post("ada", "/v1/messages/msg_1_x/recall")
        assert [item["event"]["kind"] for item in await items(socket, 1)] == ["MessageRecalled"]


@pytest.mark.parametrize(
    ("agent", "query", "status", "code"),
    [
        ("ada", "", 403, "E_AUTH_003"),
        ("boss", "?kinds=Nonsense", 422, "E_VALIDATION_003"),
        ("nobody", "", 401, "E_AUTH_001"),
    ],
)
async def test_whoever_may_not_watch_is_refused_from_the_catalogue(
    tmp_path: Path, agent: str, query: str, status: int, code: str
) -> None:
    async with watched(tmp_path) as (team, url):
        team.tokens["nobody"] = ""
        with pytest.raises(InvalidStatus) as refused:
            await watching(team, url, agent, query)
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["code"] == code


async def test_there_are_only_so_many_watchers_and_one_who_leaves_makes_room(tmp_path: Path) -> None:
    async with watched(tmp_path) as (team, url):
        async with watching(team, url), watching(team, url) as second:
            with pytest.raises(InvalidStatus) as refused:
                await watching(team, url)
            assert json.loads(refused.value.response.body or b"")["code"] == "E_ADMISSION_008"
            await second.close()
            while team.hub.feed.watchers > 1:
                await asyncio.sleep(0.001)
            async with watching(team, url) as third:
                await items(third, 1)
        while team.hub.feed.watchers:
            await asyncio.sleep(0.001)


async def test_a_watcher_that_takes_too_little_misses_commits_and_is_told_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path) as (team, url):
        taking = asyncio.Event()
        send = WebSocket.send

        async def send_in_time(socket: WebSocket, message: MutableMapping[str, Any]) -> None:
            if '"event"' in message.get("text", ""):
                await taking.wait()
            await send(socket, message)

        monkeypatch.setattr(WebSocket, "send", send_in_time)
        async with watching(team, url) as socket:
            seq = (await items(socket, 1))[0]["hello"]["seq"]
            for number in range(8):
                await team.post("ada", "/v1/messages", envelope(number))
            assert team.hub.feed.missed == 3  # one is being told, four wait
            taking.set()
            seen = [item["event"]["seq"] - seq for item in await items(socket, 5)]
            assert seen == [1, 2, 3, 4, 5]
            await team.post("ada", "/v1/messages", envelope(8))
            gap, event = await items(socket, 2)
            assert gap["gap"] == {"first_seq": seq + 6, "last_seq": seq + 8}
            assert event["event"]["seq"] == seq + 9


async def test_a_token_that_ends_ends_the_watching(tmp_path: Path) -> None:
    async with watched(tmp_path) as (team, url):
        team.join("root", "human", admin=True)
        async with watching(team, url) as socket:
            await items(socket, 1)
            await team.post("root", "/v1/admin/tokens/boss/revoke", {})
            with pytest.raises(ConnectionClosedError) as closed:
                await items(socket, 10**9)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401


async def test_a_hub_that_stops_says_so(tmp_path: Path) -> None:
    async with watched(tmp_path) as (team, url), watching(team, url) as socket:
        await items(socket, 1)
        team.hub.closing.set()
        assert [item["bye"]["reason"] for item in await items(socket, 1)] == ["the hub is shutting down"]


async def test_without_a_watcher_nothing_is_published(tmp_path: Path) -> None:
    async with watched(tmp_path) as (team, _url):
        await team.post("ada", "/v1/messages", envelope(1))
        assert team.hub.feed.published == 0


async def test_an_alert_is_told_as_it_is_raised(tmp_path: Path) -> None:
    async with (
        watched(tmp_path, "health: {sustained_s: 0.01}") as (team, url),
        watching(team, url, query="?kinds=AlertRaised") as socket,
    ):
        await items(socket, 1)
        report = {"values": {"clone_spawn_p99_s": 1e6}}
        while "clone_spawn_p99_s" not in (await team.post("boss", "/v1/health-reports", report)).json()["alerts"]:
            await asyncio.sleep(0.01)
        (event,) = [item["event"] for item in await items(socket, 1)]
        assert (event["kind"], event["metric"], event["value"]) == ("AlertRaised", "clone_spawn_p99_s", 1e6)
