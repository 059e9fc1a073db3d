"""Limits of a socket: the outcome of crossing each, without effect on other sockets."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.envelopes import envelope
from tests.gateways.websocket.sockets import SocketTeam, socket_team
from tests.patience import PATIENCE_S
from tocsin.core.errors import TocsinError
from tocsin.hub.config import load_config
from tocsin.journal.errors import CommitFailed

LARGE = "x" * 500_000


async def test_sockets_of_one_agent_and_in_all(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"connections_max": 3, "connections_per_agent_max": 2}) as team:
        first = await team.attach("bob")
        await team.attach("bob")
        status, problem = await team.refused("bob")
        assert (status, problem["code"], problem["detail"]) == (
            429,
            "E_ADMISSION_008",
            "bob has 2 sockets open, the maximum",
        )
        assert problem["retry_after_s"] == 1.0
        await team.attach("ada")
        status, problem = await team.refused("ada")
        assert (status, problem["detail"]) == (429, "the hub has 3 sockets open, the maximum")
        await first.ok("bye")
        await first.closed()
        await team.attach("ada")


async def test_a_frame_of_too_many_operations_is_refused_whole(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"batch_max": 4, "in_flight_max": 4}) as team:
        ada = await team.attach("ada")
        text, _ = ada.numbered(*[{"op": "send_message", "envelope": envelope(number)} for number in range(5)])
        await ada.raw(text)
        answer = await ada.loose.get()
        assert answer["re"] is None
        assert (answer["problem"]["code"], answer["problem"]["found"]) == ("E_ADMISSION_008", "more than 4 operations")
        assert not team.hub.host.exchange.state.messages


async def test_the_hubs_frames_are_no_larger_either(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"batch_max": 4, "in_flight_max": 64, "frame_bytes_max": 65_536}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob", window=100)
        for start in range(0, 12, 4):
            await ada.ask(*[{"op": "send_message", "envelope": envelope(start + number)} for number in range(4)])
        await bob.ok("credit", window=1)
        await bob.take(12)
        large = [envelope(100 + n, payload={"text": "x" * 30_000}) for n in range(4)]
        await bob.ok("credit", window=0)
        await bob.confirm(*[f"msg_{number}_x" for number in range(12)])
        for letter in large:
            await ada.ok("send_message", envelope=letter)
        frames = len(bob.frames)
        await bob.ok("credit", window=100)
        await bob.take(4)
        assert all(len(frame) <= 4 for frame in bob.frames)
        assert [len(json.dumps(frame)) < 70_000 for frame in bob.frames[frames:]].count(False) == 0
        assert sum("deliver" in item for frame in bob.frames[frames:] for item in frame) == 4


async def test_a_frame_that_is_too_large_ends_the_socket_alone(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"frame_bytes_max": 65_536}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob")
        await ada.raw("[" + " " * 70_000 + "]")
        assert await ada.closed() == 1009
        assert (await bob.ok("ping"))["waiting"] == [0] * 5
        again = await team.attach("ada", session=ada.welcome["session"])
        assert again.welcome["resumed"]


async def test_a_message_that_is_too_large_is_refused_and_the_socket_lives(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    problem = await ada.refused("send_message", envelope=envelope(1, payload={"text": "x" * 1_100_000}))
    assert (problem["code"], problem["status"]) == ("E_VALIDATION_005", 413)
    await ada.ok("ping")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", "E_PROTOCOL_002"),
        ("{", "E_VALIDATION_002"),
        ("[1,]", "E_PROTOCOL_002"),
        ("[" * 100_000, "E_PROTOCOL_002"),
        ('[{"op":"send_message","id":1,"envelope":' + "[" * 50_000 + "]" * 50_000 + "}]", "E_PROTOCOL_002"),
        (
            '[{"op":"call","id":1,"operation":"get_me","arguments":' + '{"a":' * 5000 + "1" + "}" * 5000 + "}]",
            "E_PROTOCOL_002",
        ),
        ("null", "E_VALIDATION_002"),
        ('{"op":"ping","id":1}', "E_VALIDATION_002"),
        ("[7]", "E_VALIDATION_002"),
        ("[[]]", "E_VALIDATION_002"),
        ("[{}]", "E_VALIDATION_003"),
        ('[{"op":7}]', "E_VALIDATION_003"),
        ('[{"op":"fly","id":1}]', "E_VALIDATION_003"),
        ('[{"op":"ping"}]', "E_VALIDATION_001"),
        ('[{"op":"ping","id":"1"}]', "E_VALIDATION_002"),
        ('[{"op":"ping","id":-1}]', "E_VALIDATION_004"),
        ('[{"op":"ping","id":1e300}]', "E_VALIDATION_002"),
        ('[{"op":"acknowledge_message","id":1,"message_id":"x","status":"eaten"}]', "E_VALIDATION_003"),
        ('[{"op":"confirm_messages","message_ids":"x"}]', "E_VALIDATION_002"),
        ('[{"op":"credit","window":"all"}]', "E_VALIDATION_002"),
        (b"[]", "E_PROTOCOL_002"),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_what_cannot_be_understood_is_answered_and_the_socket_lives(
    team: SocketTeam, frame: str | bytes, code: str
) -> None:
    ada = await team.attach("ada")
    await ada.raw(frame)
    answer = await ada.loose.get()
    assert answer["problem"]["code"] == code, answer
    await ada.ok("ping")


async def test_a_fault_does_not_hurt_the_others_of_its_frame(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    body = json.dumps(envelope(1))
    good = f'{{"op":"send_message","id":72,"envelope":{body}}}'
    await ada.raw(f'[{{"op":"fly","id":71}},{good},{{"op":"acknowledge_message","id":"x"}}]')
    answers = [await ada.loose.get() for _ in range(3)]
    assert {answer["re"] for answer in answers} == {71, 72, None}
    assert next(answer for answer in answers if answer["re"] == 72)["ok"]["receipt"]["message_id"] == "msg_1_x"


async def test_too_many_faults_end_the_socket(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"faults_max": 3}) as team:
        ada = await team.attach("ada")
        for _ in range(3):
            await ada.raw("nonsense")
        assert await ada.closed() == 4400
        assert ada.loose.qsize() == 3, "each was answered"
        assert ada.bye == {"reason": "3 operations could not be parsed", "resume": True}
        assert (await team.attach("ada", session=ada.welcome["session"])).welcome["resumed"]


async def test_text_that_is_not_utf_8_ends_the_socket(team: SocketTeam, caplog: pytest.LogCaptureFixture) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await ada.socket.send(b"[\xff\xfe]", text=True)
    assert await ada.closed() == 1007
    await bob.ok("ping")


async def test_no_hello_in_time(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"hello_timeout_s": 0.05}) as team:
        client = await team.open("ada")
        assert await client.closed() == 4408
        assert client.bye == {"reason": "no hello within 0.05 s", "resume": False}


async def test_no_sign_of_life(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"silence_max_s": 1.5, "heartbeat_s": 0.5}) as team:
        silent, lively = await team.attach("ada"), await team.attach("bob")
        while silent.bye is None:
            await lively.ok("ping")
        assert await silent.closed() == 4408
        assert silent.bye == {"reason": "no frame for 1.5 s", "resume": True}
        await lively.ok("ping")


async def test_any_operation_keeps_a_session_fresh(tmp_path: Path) -> None:
    quick = "storage: {projection_interval_s: 0.02}\nsessions: {heartbeat_record_s: 0}"
    async with socket_team(tmp_path, policy=quick, socket={"heartbeat_s": 0.02}) as team:
        ada = await team.attach("ada")
        session = team.hub.host.exchange.state.sessions[ada.welcome["session"]]
        before = session.heartbeat_at
        while session.heartbeat_at == before:
            await ada.ok("recall_message", message_id="msg_0_x")


async def test_a_half_open_socket_is_found(tmp_path: Path) -> None:
    """Keep the TCP connection open without ever answering a WebSocket ping."""
    async with socket_team(tmp_path, socket={"ping_interval_s": 0.2, "ping_timeout_s": 1.5}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob")
        bob.socket.transport.pause_reading()
        session = team.hub.host.exchange.state.sessions[bob.welcome["session"]]
        while session.window != 0:
            await ada.ok("ping")
        assert (await ada.send(1))["queued"]


async def test_a_reader_that_takes_nothing_is_dropped_and_nothing_is_lost(tmp_path: Path) -> None:
    async with socket_team(
        tmp_path, socket={"slow_reader_timeout_s": 0.5, "outgoing_bytes_max": 2_000_000, "close_timeout_s": 0.1}
    ) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob", window=100)
        bob.socket.transport.pause_reading()
        for number in range(40):
            await ada.ok("send_message", envelope=envelope(number, payload={"text": LARGE}))
            assert team.metric("socket_bytes_queued") < 3_000_000, "what waits is bounded"
        session = team.hub.host.exchange.state.sessions[bob.welcome["session"]]
        while session.window != 0:
            await ada.ok("ping")
        assert session.in_flight, "what was on its way still is"
        again = await team.attach("bob", session=bob.welcome["session"], window=100)
        assert await again.take(40) == [f"msg_{number}_x" for number in range(40)]


async def test_a_reader_that_is_slow_for_a_while_gets_everything_in_the_end(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"outgoing_bytes_max": 2_000_000}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob", window=100)
        bob.socket.transport.pause_reading()
        for number in range(40):
            await ada.ok("send_message", envelope=envelope(number, payload={"text": LARGE}))
        assert 0 < team.metric("socket_bytes_queued") < 3_000_000, "not all of it is kept"
        bob.socket.transport.resume_reading()
        assert sorted(await bob.take(40)) == sorted(f"msg_{number}_x" for number in range(40))
        await bob.ok("ping")
        assert bob.pushes.empty(), "and nothing twice"


async def test_a_socket_cut_while_the_hub_has_stopped_reading_it_is_let_go(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"outgoing_bytes_max": 1_000_000, "slow_reader_timeout_s": 3600}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob", window=100)
        bob.socket.transport.pause_reading()
        for number in range(30):
            await ada.ok("send_message", envelope=envelope(number, payload={"text": LARGE}))
        read = team.metric("socket_frames", "in")
        await bob.raw('[{"op": "ping", "id": 1}]')
        while team.metric("socket_frames", "in") == read:
            await asyncio.sleep(0.005)
        assert team.metric("socket_operations", "ping") == 0, "it waits until there is room for the answer"
        bob.cut()
        while team.metric("socket_connections") > 1:
            await asyncio.sleep(0.005)
        again = await team.attach("bob", session=bob.welcome["session"], window=100)
        assert len(await again.take(30)) == 30


async def test_too_many_operations_without_an_answer_stop_the_reading(tmp_path: Path) -> None:
    """While no commit returns, the hub reads no more than the limit; then all operations are answered."""
    async with socket_team(tmp_path, socket={"batch_max": 8, "in_flight_max": 16}) as team:
        ada = await team.attach("ada")
        journal, gate = team.hub.host.journal, threading.Event()
        append = journal.append

        def hold(group: Any) -> Any:
            gate.wait(PATIENCE_S)
            return append(group)

        journal.append = hold  # type: ignore[method-assign]
        futures = []
        for frame in range(10):
            numbers = range(8 * frame, 8 * frame + 8)
            text, some = ada.numbered(*[{"op": "send_message", "envelope": envelope(number)} for number in numbers])
            futures += some
            await ada.raw(text)
        while team.metric("socket_operations", "send_message") < 16:
            await asyncio.sleep(0.005)
        await ada.socket.ping()
        for _ in range(20):
            await asyncio.sleep(0)
        assert team.metric("socket_operations", "send_message") == 16
        gate.set()
        assert all("ok" in answer for answer in await asyncio.gather(*futures))
        assert team.metric("socket_operations", "send_message") == 80


async def test_a_full_host_answers_what_it_refuses_and_what_it_takes(tmp_path: Path) -> None:
    crowded = "storage: {projection_interval_s: 0.02, group_events_max: 4, commands_waiting_max: 8}"
    async with socket_team(tmp_path, policy=crowded) as team:
        ada = await team.attach("ada")
        answers = await ada.ask(*[{"op": "send_message", "envelope": envelope(number)} for number in range(60)])
        codes = {answer["problem"]["code"] for answer in answers if "problem" in answer}
        assert codes <= {"E_HUB_001"}
        sent = sum("ok" in answer for answer in answers)
        assert sent == len(team.hub.host.exchange.state.messages) > 0


async def test_a_failed_commit_is_told_and_the_socket_lives_on(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    inner = team.hub.host.journal
    append, failing = inner.append, [True]

    def broken(group: Any) -> Any:
        if failing.pop() if failing else False:
            raise CommitFailed("disk_full", "no space left")
        return append(group)

    inner.append = broken  # type: ignore[method-assign]
    problem = await ada.refused("send_message", envelope=envelope(1))
    assert (problem["code"], problem["retryable"]) == ("E_HUB_001", True)
    while "problem" in (answer := await ada.one("send_message", envelope=envelope(1))):
        assert answer["problem"]["code"] == "E_HUB_001"
    assert await bob.take() == ["msg_1_x"]


@pytest.mark.parametrize(
    "changes",
    [{"batch_max": 10, "in_flight_max": 9}, {"heartbeat_s": 5, "silence_max_s": 5}, {"batch_max": 0}, {"colour": 1}],
)
def test_limits_that_do_not_fit_together_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TocsinError) as refused:
        load_config(socket=changes)
    assert refused.value.code == "E_POLICY_001"
    assert next(iter(changes)) in refused.value.problem.detail or "in_flight_max" in refused.value.problem.detail


def test_a_server_yaml_changes_only_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text("socket: {batch_max: 7}\nport: 1\n")
    config = load_config(tmp_path / "server.yaml")
    assert (config.socket.batch_max, config.port) == (7, 1)
    assert config.socket.in_flight_max == load_config().socket.in_flight_max
