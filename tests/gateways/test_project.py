"""Agents, tokens, history, policy, dead letters and metrics over HTTP, in process."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, registered_team
from tests.patience import PATIENCE_S
from tocsin import policies
from tocsin.core.policy import Policy, policy_from
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.tokens import Grant
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.sqlite import SqliteJournal
from tocsin.journal.tables import Tables


async def test_a_token_is_issued_used_rotated_and_revoked(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        issued = await team.post("root", "/v1/admin/tokens", {"agent": "eve", "role": "clone", "type": "Manager"})
        team.tokens["eve"] = issued.json()["token"]
        me = (await team.get("eve", "/v1/me")).json()
        assert (me["agent"], me["role"], me["registered"]["type"]) == ("eve", "clone", "Manager")
        old = team.tokens["eve"]
        team.tokens["eve"] = (await team.post("root", "/v1/admin/tokens/eve/rotate", {})).json()["token"]
        assert (await team.get("eve", "/v1/me")).status_code == 200
        team.tokens["old"] = old
        assert (await team.get("old", "/v1/me")).json()["error_code"] == "token_revoked"
        listed = await team.get("root", "/v1/admin/tokens")
        assert team.tokens["eve"] not in listed.text
        assert sum(grant["agent"] == "eve" for grant in listed.json()["items"]) == 2
        await team.post("root", "/v1/admin/tokens/eve/revoke")
        assert (await team.get("eve", "/v1/me")).json()["error_code"] == "token_revoked"
        assert (await team.post("root", "/v1/admin/tokens/nobody/revoke")).status_code == 404


async def test_a_refused_token_leaves_nothing_behind(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for _ in range(3):
            refused = await team.post("root", "/v1/admin/tokens", {"agent": "eve", "type": "no such type"})
            assert (refused.status_code, refused.json()["code"]) == (422, "E_VALIDATION_004")
        listed = (await team.get("root", "/v1/admin/tokens")).json()["items"]
        assert not [grant for grant in listed if grant["agent"] == "eve"]
        for body in ({"agent": "eve!"}, {"agent": "ada", "role": "director"}):
            assert (await team.post("root", "/v1/admin/tokens", body)).status_code in (409, 422)
        known = {agent["agent"]: agent["role"] for agent in (await team.get("root", "/v1/agents")).json()["items"]}
        assert known == {"ada": "primary", "bob": "primary", "boss": "director"}


async def test_a_rotated_token_inherits_its_lifetime_unless_told_otherwise(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:

        async def lifetime_s(path: str, body: dict[str, Any]) -> float | None:
            grant = (await team.post("root", f"/v1/admin/tokens{path}", body)).json()["grant"]
            if grant["expires_at"] is None:
                return None
            created_at, expires_at = (datetime.fromisoformat(grant[name]) for name in ("created_at", "expires_at"))
            return (expires_at - created_at).total_seconds()

        assert await lifetime_s("", {"agent": "eve", "lifetime_s": 3600}) == 3600
        assert await lifetime_s("/eve/rotate", {}) == 3600
        assert await lifetime_s("/eve/rotate", {"lifetime_s": 60}) == 60
        assert await lifetime_s("/eve/rotate", {"overlap_s": 5}) == 60
        assert await lifetime_s("/eve/rotate", {"lifetime_s": None}) is None


async def test_a_store_that_does_not_answer_holds_up_tokens_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with registered_team(tmp_path) as team:
        begun, gate, write = threading.Event(), threading.Event(), SqliteGrants.write

        def held(store: SqliteGrants, grants: list[Grant], by: str | None, at: int) -> None:
            begun.set()
            assert gate.wait(PATIENCE_S)
            write(store, grants, by, at)

        monkeypatch.setattr(SqliteGrants, "write", held)
        rotating = asyncio.create_task(team.post("root", "/v1/admin/tokens/ada/rotate", {"overlap_s": 60}))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        issuing = asyncio.create_task(team.post("root", "/v1/admin/tokens", {"agent": "eve"}))
        assert (await team.get("ada", "/v1/me")).status_code == 200
        revoking = asyncio.create_task(team.post("root", "/v1/admin/tokens/ada/revoke"))
        while (me := await team.get("ada", "/v1/me")).status_code == 200:
            pass
        assert me.json()["code"] == "E_AUTH_005", "it is refused before that is durable"
        assert [task.done() for task in (issuing, rotating, revoking)] == [False] * 3
        gate.set()
        assert (await issuing).json()["grant"]["live"]
        team.tokens["ada"] = (await rotating).json()["token"]
        assert len((await revoking).json()) == 2, "changes happen in the order in which they were asked for"
        assert (await team.get("ada", "/v1/me")).json()["code"] == "E_AUTH_005"


async def test_a_store_that_fails_is_no_bug_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with registered_team(tmp_path) as team:

        def away(*_: object) -> None:
            raise JournalUnavailable("connection_lost", "the server is away")

        monkeypatch.setattr(SqliteGrants, "write", away)
        for path, body in (("", {"agent": "eve"}), ("/bob/rotate", {}), ("/ada/revoke", {})):
            answer = await team.post("root", f"/v1/admin/tokens{path}", body)
            problem = answer.json()
            assert (answer.status_code, problem["code"], problem["retryable"]) == (503, "E_HUB_007", True)
            assert "the server is away" in problem["detail"]
        assert (await team.get("bob", "/v1/me")).status_code == 200
        assert (await team.get("ada", "/v1/me")).json()["code"] == "E_AUTH_005"
        monkeypatch.undo()
        assert (await team.post("root", "/v1/admin/tokens/ada/revoke")).status_code == 200


async def test_history_that_cannot_be_read_is_read_again_on_new_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Tables] = []
    away: list[Exception] = []
    open_tables = SqliteJournal.tables

    def tables(journal: SqliteJournal) -> Tables:
        if away:
            raise away[0]
        opened.append(open_tables(journal))
        return opened[-1]

    monkeypatch.setattr(SqliteJournal, "tables", tables)
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1))
        before = len(opened)
        for _ in range(2):
            opened[-1].close()
            assert (await team.get("ada", "/v1/messages/msg_1_x")).status_code == 200
        assert len(opened) == before + 2
        opened[-1].close()
        away.append(JournalUnavailable("connection_lost", "the server is away"))
        for path in ("/v1/search?q=number", "/v1/messages/msg_1_x/history?fresh=false"):
            answer = await team.get("ada", path)
            assert (answer.status_code, answer.json()["code"]) == (503, "E_HUB_007")
        away.clear()
        assert (await team.get("ada", "/v1/messages/msg_1_x")).status_code == 200


async def test_history_shows_an_agent_its_own_and_a_director_everything(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("eve")
        opening = {"correlationId": "thread_1", "messageType": "CUSTOM_NOTE"}
        await team.post("ada", "/v1/messages", envelope(1, payload={"text": "the swordfish"}, **opening))
        for path in ("/v1/threads/thread_1", "/v1/search?q=swordfish"):
            for agent, count in (("ada", 1), ("bob", 1), ("boss", 1), ("eve", 0)):
                found = await team.get(agent, path)
                while path.startswith("/v1/search") and count and not found.json()["items"]:
                    found = await team.get(agent, path)
                assert len(found.json()["items"]) == count, (agent, path)
        assert (await team.get("eve", "/v1/messages/msg_1_x")).status_code == 404
        assert [item["signal_id"] for item in (await team.get("bob", "/v1/inbox")).json()["items"]] == ["msg_1_x"]


async def test_a_dead_letter_is_listed_with_its_life_and_redriven(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1))
        await team.post("bob", "/v1/inbox/drain")
        await team.post("bob", "/v1/messages/msg_1_x/nack", {"reason": "no", "can_retry": False})
        letters = (await team.get("boss", "/v1/dead-letters")).json()["items"]
        assert [(letter["message"]["signal_id"], letter["reason"]) for letter in letters] == [("msg_1_x", "rejected")]
        assert letters[0]["history"][-1]["kind"] == "MessageDied"
        redriven = (await team.post("boss", "/v1/dead-letters/redrive", {"signal_ids": ["msg_1_x", "msg_2_x"]})).json()
        assert redriven["redriven"] == ["msg_1_x"]
        assert redriven["refused"]["msg_2_x"]["error_code"] == "message_not_found"
        assert (await team.get("boss", "/v1/dead-letters")).json()["items"] == []


async def test_a_policy_is_checked_shown_and_changed_by_a_director(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        wrong = (await team.post("ada", "/v1/policy/check", {"policy": {"aging": {"treshold_s": 5}}})).json()
        assert not wrong["valid"]
        assert "threshold_s" in wrong["problem"]["detail"]
        assert (await team.post("ada", "/v1/policy/check", {"policy": {"aging": {"threshold_s": 1e-3}}})).json()[
            "valid"
        ]
        change = {"policy": {"aging": {"threshold_s": 5}}, "reason": "faster"}
        assert (await team.put("ada", "/v1/policy", change)).json()["error_code"] == "not_permitted"
        assert (await team.put("boss", "/v1/policy", change)).json() == {"version": 2}
        shown = (await team.get("ada", "/v1/policy")).json()
        assert (shown["version"], shown["policy"]["aging"]["threshold_s"]) == (2, 5)


async def test_an_agent_leaves_and_a_director_may_remove_another(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        assert (await team.call("DELETE", "ada", "/v1/agents/bob")).status_code == 403
        assert (await team.call("DELETE", "boss", "/v1/agents/bob")).status_code == 200
        assert (await team.get("ada", "/v1/agents/bob")).json()["error_code"] == "unknown_recipient"
        assert [agent["agent"] for agent in (await team.get("ada", "/v1/agents")).json()["items"]] == ["ada", "boss"]


#: SPEC-071 §12 C2, and LIMINAL's PriorityMetrics.
NAMES = {
    *("signal_expired_total", "signal_recalled_total", "recipient_state_total", "unknown_recipient_rejection_total"),
    *("messages_sent_total", "messages_delivered_total", "queue_depth", "delivery_latency_count"),
    *("escalations_triggered_total", "priority_boosts_total", "deadlocks_detected_total"),
    *("priority_violations_total", "rate_limit_hits_total", "gaming_detections_total"),
}


async def figures(team: HubTeam) -> dict[str, float]:
    """Return every metric by its name and labels."""
    lines = (await team.get("root", "/metrics")).text.splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs if "_created" not in name}


async def rise(team: HubTeam, before: dict[str, float], names: list[str]) -> list[float]:
    """Return by how much some metrics have risen."""
    now = await figures(team)
    return [now.get(name, 0) - before.get(name, 0) for name in names]


async def send(team: HubTeam, *numbers: int, sender: str = "ada", **fields: Any) -> None:
    for number in numbers:
        await team.post(sender, "/v1/messages", envelope(number, sender, **fields))


async def deliver(team: HubTeam) -> None:
    await send(team, 1, priority="Critical")
    cursor = (await team.post("bob", "/v1/inbox/drain")).json()["cursor"]
    await team.get("bob", "/v1/me", headers={"Tocsin-Receipt": cursor})


async def recall(team: HubTeam) -> None:
    await send(team, 1)
    await team.post("ada", "/v1/messages/msg_1_x/recall")


async def inflate(team: HubTeam) -> None:
    await team.register("eve")
    await send(team, *range(6), sender="eve", priority="Blocking")


async def block_each_other(team: HubTeam) -> None:
    for agent in ("ada", "bob"):
        await team.post(agent, "/v1/leases", {"exclusive": [agent]})
    for agent, other in (("ada", "bob"), ("bob", "ada")):
        await team.post(agent, "/v1/leases", {"exclusive": [other]})


async def age(team: HubTeam) -> None:
    # At the top of aging a message rises once, to the front of its level.
    policy = {"aging": {"threshold_s": 0.01, "top": "Coordinate"}}
    await team.put("boss", "/v1/policy", {"policy": policy, "reason": "to see one rise"})
    await send(team, 1, priority="Coordinate")


#: What moves each metric, by one.
CAUSES: list[tuple[Callable[[HubTeam], Awaitable[None]], list[str]]] = [
    (
        lambda team: send(team, 1, priority="Critical"),
        [
            'messages_sent_total{priority="Critical"}',
            'queue_depth{priority="Critical"}',
            'recipient_state_total{state="not_available_offline"}',
        ],
    ),
    (deliver, ['delivery_latency_count{priority="Critical"}', 'messages_delivered_total{priority="Critical"}']),
    (lambda team: send(team, 1, 2, priority="Critical"), ['rate_limit_hits_total{code="E_ADMISSION_002"}']),
    (lambda team: send(team, 1, priority="DirectorOverride"), ['priority_violations_total{rule="refused"}']),
    (
        lambda team: send(team, 1, receiver="nobody"),
        ['unknown_recipient_rejection_total{sender="ada",signal_type="StatusUpdate"}'],
    ),
    (recall, ['signal_recalled_total{outcome="recalled"}']),
    (
        lambda team: send(team, 1, metadata={"ttl": 0.01}),
        ['signal_expired_total{reason="ttl",signal_type="StatusUpdate"}'],
    ),
    (inflate, ["gaming_detections_total", 'escalations_triggered_total{trigger="priority_inflation"}']),
    (block_each_other, ["deadlocks_detected_total", 'escalations_triggered_total{trigger="deadlock"}']),
    (age, ["priority_boosts_total"]),
]
MEASURED = QUICK + "\nsweeper: {interval_s: 0.02}\nquotas: {critical: {cap: 1, refill_per_s: 0.001}}"


def test_metrics_have_the_names_of_the_documents() -> None:
    assert {name.split("{")[0] for _, names in CAUSES for name in names} == NAMES


@pytest.mark.parametrize(("cause", "names"), CAUSES, ids=[names[0].split("{")[0] for _, names in CAUSES])
async def test_metrics_move_with_what_happens(
    tmp_path: Path, cause: Callable[[HubTeam], Awaitable[None]], names: list[str]
) -> None:
    async with registered_team(tmp_path, policy=MEASURED) as team:
        before = await figures(team)
        await cause(team)
        async with asyncio.timeout(PATIENCE_S):
            while not all(risen := await rise(team, before, names)):
                await asyncio.sleep(0.01)
        assert dict(zip(names, risen, strict=True)) == dict.fromkeys(names, 1)


async def test_the_time_of_a_delivery_is_in_the_buckets_of_its_priority(tmp_path: Path) -> None:
    async with registered_team(tmp_path, policy=MEASURED) as team:
        await deliver(team)
        async with asyncio.timeout(PATIENCE_S):
            while not (now := await figures(team)).get('messages_delivered_total{priority="Critical"}'):
                await asyncio.sleep(0.01)
        assert now['queue_depth{priority="Critical"}'] == 0
        assert now['delivery_latency_bucket{le="3600.0",priority="Critical"}'] == 1
        assert 'delivery_latency_bucket{le="5e-05",priority="Critical"}' in now


async def test_requests_and_events_are_counted(tmp_path: Path) -> None:
    async with registered_team(tmp_path, policy=MEASURED) as team:
        await recall(team)
        assert (await figures(team))['http_requests_total{operation="send_message",status="200"}'] == 1
        status = (await team.get("ada", "/v1/status")).json()
        assert (status["agents"], status["events"]["MessageRecalled"]) == (3, 1)


async def test_labels_that_senders_choose_are_bounded(tmp_path: Path) -> None:
    async with registered_team(tmp_path, label_values_max=2) as team:
        for number in range(4):
            await team.post("ada", "/v1/messages", envelope(number, receiver="nobody", messageType=f"CUSTOM_{number}"))
        text = (await team.get("ada", "/metrics")).text
        assert 'unknown_recipient_rejection_total{sender="ada",signal_type="other"} 2.0' in text


async def test_a_question_about_the_past_does_not_wait_for_the_tables_usual_interval(tmp_path: Path) -> None:
    async with registered_team(
        tmp_path, policy="storage: {projection_interval_s: 3600, projection_events_max: 1000000}"
    ) as team:
        for number in range(3):
            await team.post("ada", "/v1/messages", envelope(number))
            found = await team.get("ada", f"/v1/messages/msg_{number}_x")
            assert found.status_code == 200, found.text


@pytest.mark.parametrize("scope", ["whole", "change"])
async def test_a_policy_is_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str) -> None:
    threads: set[int] = set()
    convert = policy_from

    def noted(document: object) -> Policy:
        threads.add(threading.get_ident())
        return convert(document)

    async with registered_team(tmp_path) as team:
        monkeypatch.setattr(policies, "policy_from", noted)
        types = {f"CUSTOM_{number}": {"ttl_s": 60} for number in range(500)}
        asked = {"policy": {"contracts": types}, "scope": scope}
        assert (await team.post("ada", "/v1/policy/check", asked)).json()["valid"] is True
        assert (await team.put("boss", "/v1/policy", asked)).status_code == 200
    assert threads
    assert threading.get_ident() not in threads
