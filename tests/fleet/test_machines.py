"""Several hubs on one PostgreSQL: shares, redirects, and a rolling restart that loses nothing."""

import asyncio
import secrets
import signal
from pathlib import Path

from tests.fleet.hubs import eventually
from tests.fleet.machines import SOON, Fleet, Sender, fleet_of
from tests.loopback import async_client
from tests.postgres import Server
from tests.soak import scaled

#: Restarts of every hub.
ROUNDS = scaled(1, 5)
HUBS = scaled(2, 3)
EACH = scaled(2, 4)
#: Time between two messages of a sender: the load goes on during a test, and leaves the processors to the hubs.
PAUSE_S = 0.01


def database() -> str:
    return f"fleet_{secrets.token_hex(6)}"


async def spread(fleet: Fleet, tokens: dict[str, str]) -> dict[str, str | None]:
    """Return the hub of each project."""
    owners = [await asyncio.to_thread(fleet.owner, token) for token in tokens.values()]
    return dict(zip(tokens, owners, strict=True))


async def test_a_rolling_restart_under_load_loses_nothing(tmp_path: Path, postgres: Server) -> None:
    async with fleet_of(tmp_path, postgres, database(), HUBS) as fleet:
        tokens = {name: await fleet.add(name) for name in fleet.names(EACH)}
        before = await spread(fleet, tokens)
        assert set(before.values()) == set(fleet.urls), "every hub has a share"
        senders = {name: Sender(fleet.urls, token, pause_s=PAUSE_S) for name, token in tokens.items()}
        running = [asyncio.create_task(sender.run()) for sender in senders.values()]
        await asyncio.gather(*(sender.until_confirmed(20) for sender in senders.values()))
        for _ in range(ROUNDS):
            for number in range(HUBS):
                await fleet.restart(number)
                await asyncio.gather(*(sender.until_confirmed(20) for sender in senders.values()))
        for sender in senders.values():
            sender.stop()
        await asyncio.gather(*running)
        assert {name: sender.errors for name, sender in senders.items() if sender.errors} == {}
        assert {name: sender.lost for name, sender in senders.items() if sender.lost} == {}
        assert [sender.session for sender in senders.values()] == [
            sender.first_session for sender in senders.values()
        ], "the sessions were resumed"
        assert await spread(fleet, tokens) == before, "the shares are those from before"


async def test_a_hub_that_hangs_is_replaced_and_does_nothing_when_it_returns(tmp_path: Path, postgres: Server) -> None:
    async with fleet_of(tmp_path, postgres, database(), 2, settings=SOON) as fleet:
        tokens = {name: await fleet.add(name) for name in fleet.names(1)}
        before = await spread(fleet, tokens)
        hung = fleet.urls[0]
        name = next(name for name, owner in before.items() if owner == hung)
        sender = Sender(fleet.urls[::-1], tokens[name], pause_s=PAUSE_S, silence_max_s=2)
        running = asyncio.create_task(sender.run())
        await sender.until_confirmed(20)
        fleet.signal(0, signal.SIGSTOP)
        await eventually(lambda: fleet.addresses()[name] == fleet.urls[1])
        await sender.until_confirmed(20)
        fleet.signal(0, signal.SIGCONT)
        await eventually(lambda: fleet.addresses()[name] == hung)
        await sender.until_confirmed(20)
        sender.stop()
        await running
        assert not sender.errors
        assert not sender.lost


async def test_a_caller_is_sent_to_the_hub_of_its_project(tmp_path: Path, postgres: Server) -> None:
    async with fleet_of(tmp_path, postgres, database(), 2) as fleet:
        tokens = {name: await fleet.add(name) for name in fleet.names(1)}
        owners = await spread(fleet, tokens)
        name, owner = next((name, owner) for name, owner in owners.items() if owner == fleet.urls[0])
        headers = {"authorization": f"Bearer {tokens[name]}"}
        async with async_client(base_url=fleet.urls[1], timeout=60) as client:
            answer = await client.get("/v1/agents?limit=7", headers=headers)
            assert (answer.status_code, answer.headers["location"]) == (307, f"{owner}/v1/agents?limit=7")
            assert (answer.json()["code"], answer.json()["facts"]) == ("E_HUB_002", {"address": owner})
            assert (await client.get(answer.headers["location"], headers=headers)).status_code == 200
            for path in ("/health", "/ready"):
                assert [(await client.get(url + path)).status_code for url in fleet.urls] == [200, 200]


async def test_with_proxy_a_hub_passes_calls_on(tmp_path: Path, postgres: Server) -> None:
    async with fleet_of(tmp_path, postgres, database(), 2, ["--proxy", "--workers", "1"]) as fleet:
        tokens = {name: await fleet.add(name) for name in fleet.names(1)}
        for token in tokens.values():
            headers = {"authorization": f"Bearer {token}"}
            for url in fleet.urls:
                async with async_client(base_url=url, timeout=60) as client:
                    answers = [await client.get("/v1/status", headers=headers) for _ in range(2)]
                    assert [answer.status_code for answer in answers] == [200, 200]
        owners = {name: fleet.addresses()[name] for name in tokens}
        elsewhere = {name: next(url for url in fleet.urls if url != owner) for name, owner in owners.items()}
        senders = [Sender([elsewhere[name]], token, pause_s=PAUSE_S) for name, token in tokens.items()]
        running = [asyncio.create_task(sender.run()) for sender in senders]
        await asyncio.gather(*(sender.until_confirmed(10) for sender in senders))
        for sender in senders:
            sender.stop()
        await asyncio.gather(*running)
        assert [(sender.errors, sender.lost) for sender in senders] == [([], set())] * len(senders)
        assert {name: fleet.addresses()[name] for name in tokens} == owners


async def test_hubs_with_workers_share_the_projects(tmp_path: Path, postgres: Server) -> None:
    async with fleet_of(tmp_path, postgres, database(), 2, ["--workers", "2"]) as fleet:
        tokens = {name: await fleet.add(name) for name in fleet.names(2)}
        wanted = {name: fleet.place(name) for name in tokens}
        assert await spread(fleet, tokens) == wanted
        await fleet.stop(0)
        assert set((await spread(fleet, tokens)).values()) == {fleet.urls[1]}
        await fleet.start(0)
        await asyncio.to_thread(lambda: [fleet.owner(token) for token in tokens.values()])
        assert await spread(fleet, tokens) == wanted
