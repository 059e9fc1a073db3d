"""Piggyback receipts: a call confirms exactly what had left before it arrived."""

import asyncio
from pathlib import Path
from typing import Any

from tests.gateways.hubs import Team, envelope, team_at, with_team
from tocsin.core.commands import Confirm
from tocsin.core.errors import Problem
from tocsin.gateways.http.app import build_app

DRAIN = "/v1/inbox/drain"


async def states(team: Team, *numbers: int) -> list[str]:
    return [(await team.get("ada", f"/v1/messages/msg_{number}_x")).json()[0]["state"] for number in numbers]


def ids(answer: Any) -> list[str]:
    return [item["signal_id"] for item in answer.json()["deliveries"]]


def test_of_two_drains_at_a_time_neither_confirms_the_other(tmp_path: Path) -> None:
    async def test(team: Team) -> None:
        for number in (1, 2):
            await team.post("ada", "/v1/messages", envelope(number))
        both = await asyncio.gather(*(team.post("bob", DRAIN, {"limit": 1}) for _ in range(2)))
        assert sorted(signal for answer in both for signal in ids(answer)) == ["msg_1_x", "msg_2_x"]
        assert await states(team, 1, 2) == ["offered", "offered"]
        await team.get("bob", "/v1/me")
        assert await states(team, 1, 2) == ["delivered", "delivered"]
        assert (await team.get("ada", "/v1/agents/bob")).json()["sessions"] == {"piggyback": 1}

    with_team(tmp_path, test)


def test_a_call_that_came_before_the_answer_left_confirms_nothing(tmp_path: Path) -> None:
    async def test(team: Team) -> None:
        await team.post("ada", "/v1/messages", envelope(1))
        begun, release = asyncio.Event(), asyncio.Event()

        async def held() -> Any:
            begun.set()
            await release.wait()
            yield b"{}"

        headers = {"Authorization": f"Bearer {team.tokens['bob']}"}
        early = asyncio.ensure_future(team.client.put("/v1/me", content=held(), headers=headers))
        await begun.wait()
        assert ids(await team.post("bob", DRAIN)) == ["msg_1_x"]
        release.set()
        assert (await early).status_code == 200
        assert await states(team, 1) == ["offered"]

    with_team(tmp_path, test)


def test_what_nobody_took_goes_back_at_once(tmp_path: Path) -> None:
    async def test(team: Team) -> None:
        await team.post("ada", "/v1/messages", envelope(1))
        app = build_app(team.hub)
        body = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            return body.pop() if body else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            """Discard the answer, as a server does after its client has disconnected."""

        token = f"Bearer {team.tokens['bob']}".encode()
        scope = {"type": "http", "method": "POST", "path": DRAIN, "query_string": b"", "http_version": "1.1"}
        await app(scope | {"headers": [(b"authorization", token)]}, receive, send)
        assert ids(await team.post("bob", DRAIN)) == ["msg_1_x"]
        bob = (await team.get("ada", "/v1/agents/bob")).json()
        assert (bob["sessions"], bob["presence"]) == ({"piggyback": 1}, "available")

    with_team(tmp_path, test)


def test_what_a_hub_that_is_gone_handed_out_is_not_taken_as_seen(tmp_path: Path) -> None:
    async def test() -> None:
        async with team_at(tmp_path) as team:
            await team.register("ada")
            await team.register("bob")
            await team.post("ada", "/v1/messages", envelope(1))
            assert ids(await team.post("bob", DRAIN)) == ["msg_1_x"]
        async with team_at(tmp_path) as again:
            again.tokens = team.tokens
            assert ids(await again.post("bob", DRAIN)) == ["msg_1_x"]

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_caller_that_confirms_by_itself_confirms_by_nothing_else(tmp_path: Path) -> None:
    async def test(team: Team) -> None:
        explicit = {"Tocsin-Receipts": "explicit"}
        await team.post("ada", "/v1/messages", envelope(1))
        await team.post("bob", DRAIN, headers=explicit)
        await team.get("bob", "/v1/me", headers=explicit)
        await team.get("bob", "/v1/me")
        assert await states(team, 1) == ["offered"]
        await team.post("bob", "/v1/inbox/receipts", {"message_ids": ["msg_1_x"]}, headers=explicit)
        assert await states(team, 1) == ["delivered"]
        await team.post("ada", "/v1/messages", envelope(2))
        await team.post("bob", DRAIN)
        await team.get("bob", "/v1/me", headers=explicit)
        assert await states(team, 2) == ["offered"]

    with_team(tmp_path, test)


def test_only_the_urgent_can_be_asked_for(tmp_path: Path) -> None:
    async def test(team: Team) -> None:
        for number, priority in enumerate(("Info", "Blocking", "Critical")):
            await team.post("ada", "/v1/messages", envelope(number, priority=priority))
        asked = {"limit": 5, "at_least": "Blocking"}
        assert ids(await team.post("bob", DRAIN, asked | {"bytes_max": 1})) == []
        assert ids(await team.post("bob", DRAIN, asked | {"bytes_max": 1000})) == ["msg_2_x", "msg_1_x"]
        wrong = (await team.post("bob", DRAIN, {"at_least": "Loud"})).json()
        assert (wrong["code"], wrong["field"]) == ("E_VALIDATION_003", "$.at_least")

    with_team(tmp_path, test)


def test_a_receipt_that_could_not_be_stored_is_given_again(tmp_path: Path) -> None:
    async def test(team: Team) -> None:
        await team.post("ada", "/v1/messages", envelope(1))
        await team.post("bob", DRAIN)
        submit, failed = team.hub.host.submit, asyncio.Event()

        def failing(command: Any, *rest: Any) -> Any:
            if not isinstance(command, Confirm) or failed.is_set():
                return submit(command, *rest)
            failed.set()
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.set_result(Problem("E_HUB_001", "no commit", retryable=True))
            return future

        team.hub.host.submit = failing  # type: ignore[method-assign,assignment]
        await team.get("bob", "/v1/me")
        assert failed.is_set()
        assert await states(team, 1) == ["offered"]
        await team.get("bob", "/v1/me")
        assert await states(team, 1) == ["delivered"]

    with_team(tmp_path, test)
