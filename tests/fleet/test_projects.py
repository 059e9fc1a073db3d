"""Several projects behind one address: whose call is whose, and when projects are open."""

import asyncio
import resource
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.hubs import Address, eventually, serving
from tocsin.hub.service import Hub
from tocsin.journal.sqlite import SqliteJournal


async def closed(address: Address) -> None:
    """Wait until the project `acme` is closed."""

    async def is_closed() -> bool:
        return (await address.states())["acme"] == "closed"

    await eventually(is_closed)


async def test_a_token_says_which_project_a_caller_belongs_to(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        acme, beta = await address.add("acme"), await address.add("beta")
        tokens = [await address.agent(admin, "bob") for admin in (acme, beta, address.admin)]
        for token, text in zip(tokens, ("in acme", "in beta", "at home"), strict=True):
            assert (await address.send(token, "bob", "bob", text)).status_code == 200
        assert [await address.inbox(token) for token in tokens] == [["in acme"], ["in beta"], ["at home"]]


async def test_only_an_administrator_of_the_home_project_names_another_project(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        acme, _ = await address.add("acme"), await address.add("beta")
        bob = await address.agent(address.admin, "bob", "director")

        async def status(token: str | None, project: str) -> tuple[int, str]:
            answer = await address.call("GET", "/v1/status", token, tocsin_project=project)
            return answer.status_code, answer.json().get("project") or answer.json()["code"]

        assert await status(address.admin, "acme") == (200, "acme")
        assert await status(address.admin, "home") == (200, "home")
        assert await status(address.admin, "nothing") == (404, "E_STATE_005")
        assert await status(acme, "acme") == (200, "acme")
        assert await status(acme, "beta") == (401, "E_AUTH_001")
        assert await status(acme, "home") == (401, "E_AUTH_001")
        assert await status(bob, "acme") == (403, "E_AUTH_003")
        assert await status(None, "acme") == (401, "E_AUTH_001")
        assert await status("tcs_" + "0" * 16 + "_" + "x" * 43, "acme") == (401, "E_AUTH_001")


async def test_a_revoked_administrator_of_the_home_project_is_refused_everywhere(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        await address.add("acme")
        issued = await address.call(
            "POST", "/v1/admin/tokens", address.admin, {"agent": "eve", "role": "human", "admin": True}
        )
        eve = issued.json()["token"]
        assert (await address.call("GET", "/v1/status", eve, tocsin_project="acme")).status_code == 200
        await address.call("POST", "/v1/admin/tokens/eve/revoke", address.admin, {})
        answer = await address.call("GET", "/v1/status", eve, tocsin_project="acme")
        assert (answer.status_code, answer.json()["code"]) == (401, "E_AUTH_005")


async def test_projects_administer_nothing_but_themselves(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        acme = await address.add("acme")
        answer = await address.call("POST", "/v1/projects", acme, {"project": "more"})
        assert (answer.status_code, answer.json()["code"]) == (404, "E_STATE_004")


@pytest.mark.parametrize("name", ["home", "acme", "", "../up", "A", ".x", "a/b", "x" * 64])
async def test_a_name_that_is_taken_or_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as address:
        await address.add("acme")
        answer = await address.call("POST", "/v1/projects", address.admin, {"project": name})
        assert answer.status_code in (409, 422), answer.text
        assert await address.states() == {"acme": "closed", "home": "open"}


async def test_a_quiet_project_is_closed_and_its_next_call_opens_it(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=0.05) as address:
        bob = await address.agent(await address.add("acme"), "bob")
        assert (await address.send(bob, "bob", "bob", "kept")).status_code == 200
        await closed(address)
        assert await address.inbox(bob) == ["kept"]


async def test_calls_that_meet_a_closed_project_share_one_opening(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=0.05) as address:
        bob = await address.agent(await address.add("acme"), "bob")
        await closed(address)
        answers = await asyncio.gather(*(address.send(bob, "bob", "bob", f"text {n}") for n in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert len(await address.inbox(bob)) == 20


async def _expiring(address: Address) -> str:
    """Send a message that expires within a second, in a project of its own; return its recipient's token."""
    admin = await address.add("acme")
    policy = {"policy": {"sweeper": {"interval_s": 0.1}}, "scope": "change"}
    adopted = await address.call("PUT", "/v1/policy", admin, policy)
    assert adopted.status_code == 200, adopted.text
    bob = await address.agent(admin, "bob")
    sent = await address.send(bob, "bob", "bob", "short", metadata={"ttl": 1.0})
    assert sent.status_code == 200, sent.text
    return bob


async def _message(address: Address, token: str) -> dict[str, Any]:
    answer = await address.call("GET", "/v1/messages/msg_1_short", token)
    (message,) = answer.json()
    return dict(message)


async def test_what_falls_due_in_a_closed_project_happens_without_a_call(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=0.05) as address:
        bob = await _expiring(address)
        await closed(address)

        async def due() -> int | None:
            return {one.name: one.due_at for one in await address.projects.known()}["acme"]

        first = await due()
        assert first is not None

        async def happened() -> bool:
            return await due() != first and (await address.states())["acme"] == "closed"

        await eventually(happened)
        before = datetime.now(UTC)
        message = await _message(address, bob)
        assert message["state"] == "expired"
        assert datetime.fromisoformat(message["expired_at"]) < before


async def test_what_fell_due_while_the_hub_was_stopped_happens_at_its_next_start(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=600) as address:
        bob = await _expiring(address)
    await asyncio.sleep(1.1)  # The time to live of the message, while no hub runs.
    async with serving(tmp_path, quiet_s=600) as address:
        await eventually(lambda: [hub.host.project for hub in address.projects.hubs()] == ["acme"])
        assert (await _message(address, bob))["state"] == "expired"


async def test_a_project_that_was_open_in_a_crash_is_opened_at_the_next_start(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=600) as address:
        assert (await address.call("GET", "/v1/status", await address.add("acme"))).status_code == 200
        for name in ("projects.db", "projects.db-wal"):  # as a crash leaves them
            shutil.copy(tmp_path / name, tmp_path / f"{name}.kept")
    for name in ("projects.db", "projects.db-wal"):
        shutil.move(tmp_path / f"{name}.kept", tmp_path / name)
    async with serving(tmp_path, quiet_s=600) as address:
        await eventually(lambda: [hub.host.project for hub in address.projects.hubs()] == ["acme"])


async def test_an_archived_project_refuses_its_callers_and_can_be_restored_or_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        bob = await address.agent(await address.add("acme"), "bob")
        assert (await address.send(bob, "bob", "bob", "kept")).status_code == 200
        in_use = await address.call("DELETE", "/v1/projects/acme", address.admin)
        assert (in_use.status_code, in_use.json()["code"]) == (409, "E_STATE_002")
        archived = await address.call("POST", "/v1/projects/acme/archive", address.admin, {})
        assert archived.json()["state"] == "archived"
        refused = await address.call("GET", "/v1/inbox", bob)
        assert (refused.status_code, refused.json()["code"]) == (409, "E_STATE_006")
        await address.call("POST", "/v1/projects/acme/restore", address.admin, {})
        assert await address.inbox(bob) == ["kept"]
        await address.call("POST", "/v1/projects/acme/archive", address.admin, {})
        assert (await address.call("DELETE", "/v1/projects/acme", address.admin)).status_code == 200
        assert not (tmp_path / "projects" / "acme").exists()
        assert (await address.call("GET", "/v1/inbox", bob)).json()["code"] == "E_AUTH_001"
        await address.add("acme")


async def test_the_project_that_was_quiet_longest_makes_room(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=600, open_max=2) as address:
        first, second, third = [await address.add(name) for name in ("first", "second", "third")]
        for token in (first, second, first, third):
            assert (await address.call("GET", "/v1/status", token)).status_code == 200
        async with asyncio.timeout(60):
            while (states := await address.states())["second"] == "open":
                pass  # it is listed as open until it is closed
        assert states == {"first": "open", "second": "closed", "third": "open", "home": "open"}


async def test_a_project_is_refused_for_now_when_all_that_may_be_open_are_in_use(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=600, open_max=1) as address:
        first, second = await address.add("first"), await address.add("second")
        async with address.projects.using("first"):
            answer = await address.call("GET", "/v1/status", second)
            assert (answer.status_code, answer.json()["code"]) == (503, "E_HUB_007")
            assert answer.headers["retry-after"] == "1"
            assert (await address.call("GET", "/v1/status", first)).status_code == 200
        assert (await address.call("GET", "/v1/status", second)).status_code == 200


async def test_a_folder_that_was_copied_here_is_served_with_its_tokens(tmp_path: Path) -> None:
    async with serving(tmp_path / "a") as address:
        bob = await address.agent(await address.add("acme"), "bob")
        assert (await address.send(bob, "bob", "bob", "moved")).status_code == 200
    shutil.copytree(tmp_path / "a" / "projects", tmp_path / "b" / "projects")
    async with serving(tmp_path / "b") as address:
        assert await address.inbox(bob) == ["moved"]


async def test_a_project_that_another_process_has_open_is_refused_for_now(tmp_path: Path) -> None:
    async with serving(tmp_path, quiet_s=0.05) as address:
        acme = await address.add("acme")
        await closed(address)
        other = SqliteJournal(tmp_path / "projects" / "acme", "acme", checkpoint_bytes=1_000_000)
        try:
            answer = await address.call("GET", "/v1/status", acme)
            assert (answer.status_code, answer.json()["code"]) == (503, "E_HUB_002")
        finally:
            other.close()
        assert (await address.call("GET", "/v1/status", acme)).status_code == 200


async def test_metrics_carry_the_project_and_only_administrators_see_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        bob = await address.agent(await address.add("acme"), "bob")
        await address.send(bob, "bob", "bob", "counted")
        ada = await address.agent(address.admin, "ada")
        sent = 'messages_sent_total{priority="Info",project="acme"} 1.0'

        async def exposed(token: str) -> str:
            return (await address.call("GET", "/metrics", token)).text

        async def counted() -> bool:
            return sent in await exposed(address.admin)

        await eventually(counted)
        assert (await exposed(address.admin)).count("# TYPE messages_sent_total counter") == 1
        assert 'project="home"' in await exposed(ada)
        assert 'project="acme"' not in await exposed(ada)


async def test_the_number_of_projects_with_metrics_of_their_own_is_limited(tmp_path: Path) -> None:
    async with serving(tmp_path, metrics_max=2) as address:
        for name in ("acme", "beta"):
            assert (await address.call("GET", "/v1/status", await address.add(name))).status_code == 200
        exposed = (await address.call("GET", "/metrics", address.admin)).text
        assert 'project="home"' in exposed
        assert 'project="acme"' in exposed
        assert 'project="beta"' not in exposed
        assert 'projects_open{worker="0"} 3.0' in exposed
        assert f'open_files_max{{worker="0"}} {float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])}' in exposed
        assert 'open_files{worker="0"} ' in exposed
        assert 'projects_unlabelled{worker="0"} 1.0' in exposed


async def test_open_projects_are_listed_with_their_counts_for_administrators_of_the_home_project(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as address:
        acme = await address.add("acme")
        bob = await address.agent(acme, "bob")
        await address.send(bob, "bob", "bob", "waits")
        listed = (await address.call("GET", "/v1/projects/open?limit=1", address.admin)).json()
        (one,) = listed["items"]
        assert (one["project"], one["condition"], one["agents"], one["waiting"]["Info"]) == ("acme", "serving", 1, 1)
        assert (listed["next"], listed["workers_silent"]) == ("acme", 0)
        ready = await address.call("GET", "/ready?projects=all", None)
        assert ready.json()["projects"] == {"open": 2, "not_ready": 0, "workers_silent": 0}
        assert "projects" not in (await address.call("GET", "/ready", None)).json()
        assert (await address.call("GET", "/v1/projects/open", bob)).status_code == 403
        assert (await address.call("GET", "/v1/projects/open", acme)).status_code == 404


async def test_quiet_projects_are_closed_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of another project does not wait behind the end of all of them."""
    under_way: list[int] = []
    now = 0
    close = Hub.close

    async def slowly(hub: Hub) -> None:
        nonlocal now
        now += 1
        under_way.append(now)
        await asyncio.sleep(0.02)
        await close(hub)
        now -= 1

    names = {f"p{number}" for number in range(9)}
    async with serving(tmp_path, quiet_s=600, opening_max=2) as address:
        for name in sorted(names):
            await address.add(name)
    async with serving(tmp_path, quiet_s=0.5, opening_max=2) as address:
        calls = (address.call("GET", "/v1/status", address.admin, tocsin_project=name) for name in sorted(names))
        await asyncio.gather(*calls)
        monkeypatch.setattr(Hub, "close", slowly)

        async def all_closed() -> bool:
            states = await address.states()
            return all(states[name] == "closed" for name in names)

        await eventually(all_closed)
        assert len(under_way) >= len(names)
        assert max(under_way) <= 2
        monkeypatch.undo()
