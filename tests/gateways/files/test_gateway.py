"""File agents among others: what they say arrives, what is said to them is in their channels, they are who they are."""

import asyncio
import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.envelopes import envelope
from tests.gateways.files.channels import FileClient, channel_team, line, lines_of, until, until_state
from tests.gateways.hubs import QUICK, HubTeam, team_at
from tocsin.core.errors import PolicyRefused, TocsinError
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.payloads import check_payload
from tocsin.hub.hosting.host import Condition
from tocsin.journal.base import Commit, Group
from tocsin.journal.errors import CommitFailed
from tocsin.policies import default_policy


async def test_a_file_agent_and_another_talk(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        bob.say(1, "ada", payload={"text": "ping"})
        [receipt] = await until(bob.receipts)
        assert receipt["messageId"] == "msg_1_x"
        assert receipt["receipt"]["recipient"] == "ada"
        assert receipt["receipt"]["durability"] == "flushed"
        [taken] = (await team.post("ada", "/v1/inbox/drain")).json()["deliveries"]
        assert taken["envelope"]["payload"] == {"text": "ping"}
        answer = (await team.post("ada", "/v1/messages", envelope(2, receiver="bob"))).json()["receipt"]
        assert (answer["recipient_state"], answer["publish_path"]) == ("available", "buffered_for_piggyback")
        [item] = await until(lambda: bob.lines("ada"))
        assert (item["messageId"], item["payload"]) == ("msg_2_x", {"text": "number 2"})
        assert (await until_state(team, "msg_2_x", "delivered"))[-2:] == ["MessageOffered", "MessageDelivered"]


async def test_what_others_say_to_each_other_can_be_followed(tmp_path: Path) -> None:
    async with channel_team(tmp_path) as (team, root):
        await team.register("eve")
        for number in range(5):
            priority = "Blocking" if number % 2 else "Info"
            await team.post("ada", "/v1/messages", envelope(number, receiver="eve", priority=priority))
        path = root / "ada_to_eve" / "messages.ndjson"
        await until(lambda: len(lines_of(path)) == 5)
        assert [item["messageId"] for item in lines_of(path)] == [f"msg_{number}_x" for number in range(5)]


async def test_a_channel_to_a_file_agent_is_in_order_of_acceptance(tmp_path: Path) -> None:
    """A drain hands out the most urgent first; the channel does not (APM §6.4)."""
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        for number in range(6):
            priority = "Blocking" if number % 2 else "Info"
            await team.post("ada", "/v1/messages", envelope(number, receiver="bob", priority=priority))
        bob.outbox()
        await until(lambda: len(bob.lines("ada")) == 6)
        assert [item["messageId"] for item in bob.lines("ada")] == [f"msg_{number}_x" for number in range(6)]
        seqs = [item["metadata"]["journalSeq"] for item in bob.lines("ada")]
        assert seqs == sorted(set(seqs))


async def test_two_file_agents_talk_and_the_bus_carries_it(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob", "eve") as (_team, root):
        bob, eve = FileClient(root, "bob"), FileClient(root, "eve")
        eve.outbox()
        for number in range(3):
            bob.say(number, "eve")
        await until(lambda: len(eve.lines()) == 3)
        assert [item["messageId"] for item in eve.lines()] == [f"msg_{number}_x" for number in range(3)]
        assert {item["sender"]["agentId"] for item in eve.lines()} == {"bob"}
        eve.say(10, "bob", payload={"text": "answer"})
        [item] = await until(bob.lines)
        assert item["payload"] == {"text": "answer"}


async def test_nobody_speaks_for_another(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        bob.append(line(1, "ada", "boss"), "boss")
        bob.append(line(2, "bob", "boss"), "ada")
        bob.append(line(3, "ada", "tocsin", messageType="CUSTOM_RECALL", payload={"messageId": "msg_9_x"}))
        await until(lambda: len(bob.receipts()) == 3)
        codes = {receipt["messageId"]: receipt["problem"]["code"] for receipt in bob.receipts()}
        assert codes == {"msg_1_x": "E_AUTH_002", "msg_2_x": "E_ROUTING_002", "msg_3_x": "E_AUTH_002"}
        nacks = await until(lambda: len(bob.lines()) == 3 and bob.lines())
        assert {nack["payload"]["rejectedMessageId"]: nack["payload"]["errorCode"] for nack in nacks} == codes
        assert (await team.post("boss", "/v1/inbox/drain")).json()["deliveries"] == []


async def test_an_unknown_recipient_is_reported_and_a_bad_message_rejected(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (_team, root):
        bob = FileClient(root, "bob")
        bob.append(line(1, "bob", "nobody"))
        bob.append(line(2, "bob", "ada", payload="no object", correlationId="req_7"), "ada")
        bob.append(
            b"not json\n" + b'"no object"\n' + b'{"version": "1.1.0", "payload": "\xff"}\n' + b"[" * 5000 + b"\n"
        )
        await until(lambda: len(bob.lines()) == 6)
        told = [(item["messageType"], item["payload"]["errorCode"]) for item in bob.lines()]
        assert sorted(told) == [
            ("ERROR_REPORT", "E_PROTOCOL_002"),
            ("ERROR_REPORT", "E_PROTOCOL_002"),
            ("ERROR_REPORT", "E_PROTOCOL_002"),
            ("ERROR_REPORT", "E_ROUTING_001"),
            ("ERROR_REPORT", "E_VALIDATION_002"),
            ("NACK", "E_VALIDATION_002"),
        ]
        [nack] = [item for item in bob.lines() if item["messageType"] == "NACK"]
        assert (nack["payload"]["rejectedMessageId"], nack["correlationId"]) == ("msg_2_x", "req_7")
        for item in bob.lines():
            parsed = parse_envelope(json.dumps(item).encode(), 10_000)
            check_payload(item["messageType"], parsed.payload, default_policy().contracts[item["messageType"]])


async def test_a_line_without_an_id_gets_one_that_stays(tmp_path: Path) -> None:
    def nameless(text: str) -> bytes:
        whole = envelope(1, "bob", "ada", payload={"text": text})
        del whole["messageId"]
        return json.dumps(whole).encode() + b"\n"

    async with channel_team(tmp_path, "bob") as (_, root):
        bob = FileClient(root, "bob")
        for text in ("one", "two", "two"):
            bob.append(nameless(text), "ada")
        await until(lambda: len(bob.receipts()) == 3)
        said = [receipt["receipt"]["message_id"] for receipt in bob.receipts()]
        assert len(set(said)) == 3
        assert all(name.startswith("msg_file_") for name in said)
    for note in (tmp_path / "data" / "channels" / "project=team").glob("agent-*.json"):
        note.unlink()
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        await until(lambda: len(bob.receipts()) == 3)
        bob.append(nameless("three"), "ada")
        await until(lambda: len(bob.receipts()) == 4)
        drained = (await team.post("ada", "/v1/inbox/drain")).json()["deliveries"]
        assert [item["envelope"]["messageId"] for item in drained][:3] == said
        assert len(drained) == 4


async def test_presence_is_a_directory(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (team, root):

        async def presence() -> str:
            return str((await team.get("ada", "/v1/agents/bob")).json()["presence"])

        async def until_presence(wanted: str) -> None:
            while await presence() != wanted:
                await asyncio.sleep(0.005)

        assert await presence() == "not_available_offline"
        bob = FileClient(root, "bob")
        folder = bob.outbox().parent
        await until_presence("available")
        folder.rmdir()
        await until_presence("not_available_offline")
        reply = (await team.post("ada", "/v1/messages", envelope(1, receiver="bob"))).json()["receipt"]
        assert reply["publish_path"] == "queued_offline"
        bob.outbox()
        await until_presence("available")
        [item] = await until(lambda: bob.lines("ada"))
        assert item["messageId"] == "msg_1_x"


async def test_what_was_recalled_is_never_written(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        for number in (1, 2):
            await team.post("ada", "/v1/messages", envelope(number, receiver="bob"))
        assert (await team.post("ada", "/v1/messages/msg_1_x/recall")).json()["outcome"] == "recalled"
        bob.outbox()
        await until(lambda: bob.lines("ada"))
        assert [item["messageId"] for item in bob.lines("ada")] == ["msg_2_x"]
        assert (await team.post("ada", "/v1/messages/msg_2_x/recall")).json()["outcome"] == "already_delivered"


async def test_a_file_agent_recalls(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        bob.say(1, "ada")
        await until(bob.receipts)
        bob.append(line(2, "bob", "tocsin", messageType="CUSTOM_RECALL", payload={"messageId": "msg_1_x"}))
        await until(lambda: len(bob.receipts()) == 2)
        assert bob.receipts()[1]["recall"]["outcome"] == "recalled"
        assert (await team.post("ada", "/v1/inbox/drain")).json()["deliveries"] == []


async def test_an_assignment_is_written_again_until_it_is_acknowledged(tmp_path: Path) -> None:
    task = {"taskId": "t", "taskRef": "r", "taskDescription": "d", "memoryLogPath": "m", "executionType": "single-step"}
    quick = QUICK + "\ncontracts: {TASK_ASSIGNMENT: {timeout_s: 0.3, backoff_s: [0.05]}}"
    async with channel_team(tmp_path, "bob", policy=quick) as (team, root):
        bob = FileClient(root, "bob")
        bob.outbox("ada")
        sent = envelope(1, receiver="bob", messageType="TASK_ASSIGNMENT", payload=task, correlationId="req_1")
        await team.post("ada", "/v1/messages", sent)
        await until(lambda: len(bob.lines("ada")) == 2)
        assert [item["metadata"]["retryCount"] for item in bob.lines("ada")] == [0, 1]
        ack = {"acknowledgedMessageId": "msg_1_x", "status": "received", "timestamp": "2026-01-01T00:00:00Z"}
        bob.say(2, "ada", messageType="ACK", payload=ack, correlationId="req_1")
        await until_state(team, "msg_1_x", "acknowledged")
        [taken] = (await team.post("ada", "/v1/inbox/drain")).json()["deliveries"]
        assert taken["envelope"]["messageType"] == "ACK"


async def test_a_broadcast_comes_once_to_each(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob", "eve") as (team, root):
        bob, eve = FileClient(root, "bob"), FileClient(root, "eve")
        bob.outbox()
        eve.outbox()
        await team.post("ada", "/v1/messages", envelope(1, receiver="*"))
        await until(lambda: bob.lines("ada") and eve.lines("ada") and (root / "ada_to_boss").exists())
        for item in (*bob.lines("ada"), *eve.lines("ada"), *lines_of(root / "ada_to_boss" / "messages.ndjson")):
            assert item["payload"] == {"text": "number 1"}
        eve.append(line(2, "eve", "*"))
        [item] = await until(bob.lines)
        assert item["sender"]["agentId"] == "eve"
        assert len((await until(eve.receipts))[0]["receipts"]) == 3


async def test_an_old_agent_is_spoken_to_in_its_version(tmp_path: Path) -> None:
    async with channel_team(tmp_path, declared={"bob": {"versions": ["1.0.0"]}}) as (team, root):
        bob = FileClient(root, "bob")
        bob.outbox()
        await team.post("ada", "/v1/messages", envelope(1, receiver="bob"))
        bob.append(b"nonsense\n")
        [item] = await until(lambda: bob.lines("ada"))
        assert (item["version"], item["messageType"], item["priority"]) == ("1.0.0", "CUSTOM_STATUS_UPDATE", "LOW")
        [report] = await until(bob.lines)
        assert (report["version"], report["priority"]) == ("1.0.0", "HIGH")


async def test_an_unsound_directory_is_told_of_and_nothing_in_it_read(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (_team, root):
        bob = FileClient(root, "bob")
        bob.outbox()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "messages.ndjson").write_bytes(line(1, "bob", "ada"))
        (root / "bob_to_ada").symlink_to(elsewhere)
        [report] = await until(bob.lines)
        assert report["payload"]["errorCode"] == "E_AUTH_001"
        (root / "bob_to_boss").mkdir()
        (root / "bob_to_boss" / "messages.ndjson").symlink_to(elsewhere / "messages.ndjson")
        await until(lambda: len(bob.lines()) == 2)
        bob.append(line(2, "bob", "boss"))
        await until(bob.receipts)
        assert [receipt["messageId"] for receipt in bob.receipts()] == ["msg_2_x"]
        assert len(bob.lines()) == 2


async def test_directories_of_another_user_are_not_its_own(tmp_path: Path) -> None:
    async with channel_team(tmp_path, declared={"bob": {"uid": 54321}, "eve": {}}) as (team, root):
        bob, eve = FileClient(root, "bob"), FileClient(root, "eve")
        bob.say(1, "ada")
        eve.say(2, "ada")
        await until(eve.receipts)
        [report] = await until(bob.lines)
        assert report["payload"]["errorCode"] == "E_AUTH_001"
        assert bob.receipts() == []
        assert (await team.get("ada", "/v1/agents/bob")).json()["presence"] == "not_available_offline"


async def test_only_so_many_directories_are_read(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob", files_per_agent_max=2) as (_team, root):
        bob = FileClient(root, "bob")
        for receiver in ("ada", "boss", "zoe"):
            bob.say(1, receiver)
        await until(lambda: len(bob.receipts()) == 2)
        [report] = await until(lambda: [item for item in bob.lines() if item["messageType"] == "ERROR_REPORT"])
        assert report["payload"]["errorCode"] == "E_ADMISSION_008"


async def test_a_channel_in_the_way_leads_to_a_dead_letter_and_not_to_a_loss(tmp_path: Path) -> None:
    """APM §3.5: an unavailable channel is retried as the contract says, then the message is dead."""
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        bob.outbox()
        (root / "ada_to_bob").mkdir()
        (root / "ada_to_bob" / "messages.ndjson").mkdir()
        await team.post("ada", "/v1/messages", envelope(1, receiver="bob"))
        kinds = await until_state(team, "msg_1_x", "dead")
        assert kinds[-2:] == ["MessageRejected", "MessageDied"]


async def test_a_flood_gets_the_exchanges_refusals(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob", policy="bucket: {capacity: 1000, refill_per_s: 0.001}\n") as (team, root):
        bob = FileClient(root, "bob")
        bob.append(b"".join(line(number, "bob", "ada") for number in range(1300)), "ada")
        await until(lambda: len(bob.receipts()) == 1300)
        refused = [receipt for receipt in bob.receipts() if "problem" in receipt]
        assert refused
        assert {receipt["problem"]["code"] for receipt in refused} == {"E_ADMISSION_001"}
        assert len([item for item in bob.lines() if item["payload"]["canRetry"]]) == len(refused)
        waiting = sum((await team.get("ada", "/v1/agents/ada")).json()["waiting"].values())
        assert waiting == 1300 - len(refused)


async def test_a_copy_of_the_hubs_own_line_is_not_sent_again(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob") as (_team, root):
        bob = FileClient(root, "bob")
        bob.say(1, "ada", metadata={"journalSeq": 12})
        [receipt] = await until(bob.receipts)
        assert receipt["problem"]["field"] == "$.metadata.journalSeq"


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        ({"a_to_b": {}}, "$.channels.agents.a_to_b"),
        ({"tocsin": {}}, "$.channels.agents.tocsin"),
        ({"bob": {"role": "king"}}, "$.channels.agents.bob.role"),
        ({"bob": {"versions": ["3.0.0"]}}, "$.channels.agents.bob.versions"),
    ],
)
async def test_a_file_agent_that_cannot_be_is_refused(tmp_path: Path, declared: dict[str, object], field: str) -> None:
    with pytest.raises(PolicyRefused) as refused:
        async with channel_team(tmp_path, declared=declared):
            pass
    assert refused.value.problem.field == field


async def test_an_agents_name_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TocsinError):
        async with channel_team(tmp_path, declared={"../up": {}}):
            pass


async def test_a_root_that_anyone_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "channels").mkdir()
    (tmp_path / "channels").chmod(0o777)
    with pytest.raises(PolicyRefused, match="sticky"):
        async with channel_team(tmp_path, "bob"):
            pass


async def test_what_falls_out_of_the_memory_is_read_from_the_journal(tmp_path: Path) -> None:
    async with channel_team(tmp_path, backlog_events_max=1) as (team, root):
        await team.register("eve")
        for number in range(40):
            await team.post("ada", "/v1/messages", envelope(number, receiver="eve"))
        path = root / "ada_to_eve" / "messages.ndjson"
        await until(lambda: len(lines_of(path)) == 40)
        assert [item["messageId"] for item in lines_of(path)] == [f"msg_{number}_x" for number in range(40)]


async def test_channels_that_begin_later_have_what_the_journal_still_has(tmp_path: Path) -> None:
    async with team_at(tmp_path) as team:
        await team.register("ada")
        await team.register("eve")
        await team.post("ada", "/v1/messages", envelope(1, receiver="eve"))
    async with channel_team(tmp_path) as (team, root):
        await team.register("eve")
        await team.post("ada", "/v1/messages", envelope(2, receiver="eve"))
        path = root / "ada_to_eve" / "messages.ndjson"
        await until(lambda: len(lines_of(path)) == 2)


async def test_a_full_disk_holds_the_channels_up_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        bob.outbox()
        await until(lambda: "bob" in _attached(team))
        full, failures = True, 0
        real = os.write

        def write(opened: int, data: memoryview) -> int:
            nonlocal failures
            if full and b"messageId" in bytes(data):
                failures += 1
                real(opened, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "no space left on device")
            return real(opened, data)

        monkeypatch.setattr("tocsin.gateways.files.writing.os.write", write)
        for number in range(3):
            await team.post("ada", "/v1/messages", envelope(number, receiver="bob"))
        await until(lambda: failures)
        full = False
        await until(lambda: len(bob.lines("ada")) == 3)
        assert [item["messageId"] for item in bob.lines("ada")] == ["msg_0_x", "msg_1_x", "msg_2_x"]


def _attached(team: HubTeam) -> set[str]:
    return {session.agent for session in team.hub.host.exchange.state.sessions.values()}


async def test_a_change_is_noticed_without_looking_again_and_again(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob", poll_interval_s=1000) as (_team, root):
        bob = FileClient(root, "bob")
        for number in range(3):
            bob.say(number, "ada")
            await until(lambda: len(bob.receipts()) == number + 1)  # noqa: B023


async def test_it_is_there_as_long_as_it_is_attended(tmp_path: Path) -> None:
    """Its session is kept fresh, although it says nothing and nobody looks often."""
    quick = QUICK + "\nsessions: {stale_after_s: 0.6, heartbeat_record_s: 0}"
    async with channel_team(tmp_path, "bob", policy=quick, poll_interval_s=1000) as (team, root):
        FileClient(root, "bob").outbox()
        await until(lambda: "bob" in _attached(team))
        [session] = [one for one in team.hub.host.exchange.state.sessions.values() if one.agent == "bob"]
        opened_at = session.heartbeat_at
        await until(lambda: session.heartbeat_at > opened_at + 1_000_000)
        assert not session.stale


@pytest.mark.parametrize("stored", [False, True])
async def test_what_the_hub_could_not_decide_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """A commit fails, or succeeds and nobody learns of it: the line is sent again, and there is one message."""
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        bob.outbox("ada")
        await until(lambda: "bob" in _attached(team))
        journal = team.hub.host.journal
        real, failures = journal.append, 0

        def append(group: Group) -> Commit:
            nonlocal failures
            if failures or b"number 1" not in group.events:
                return real(group)
            failures += 1
            if stored:
                real(group)
            raise CommitFailed("io_error", "seen by nobody")

        monkeypatch.setattr(journal, "append", append)
        for number in range(3):
            bob.say(number, "ada")
        await until(lambda: len(bob.receipts()) == 3)
        assert failures == 1
        assert [item["receipt"]["message_id"] for item in bob.receipts()] == ["msg_0_x", "msg_1_x", "msg_2_x"]
        assert bob.lines() == []
        drained = (await team.post("ada", "/v1/inbox/drain")).json()["deliveries"]
        assert [item["envelope"]["messageId"] for item in drained] == ["msg_0_x", "msg_1_x", "msg_2_x"]


@pytest.mark.parametrize("receiver", ["bob", "boss"])
async def test_a_message_whose_commit_nobody_was_told_of_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: str
) -> None:
    async with channel_team(tmp_path, "bob") as (team, root):
        bob = FileClient(root, "bob")
        bob.outbox()
        await until(lambda: "bob" in _attached(team))
        journal = team.hub.host.journal
        real = journal.append

        def append(group: Group) -> Commit:
            commit = real(group)
            if b"number 1" not in group.events:
                return commit
            monkeypatch.setattr(journal, "append", real)
            raise CommitFailed("io_error", "seen by nobody")

        monkeypatch.setattr(journal, "append", append)
        assert (await team.post("ada", "/v1/messages", envelope(1, receiver=receiver))).status_code == 503
        await until(lambda: team.hub.host.condition is Condition.SERVING)
        assert (await team.post("ada", "/v1/messages", envelope(2, receiver=receiver))).status_code == 200
        path = root / f"ada_to_{receiver}" / "messages.ndjson"
        await until(lambda: len(lines_of(path)) == 2)
        assert [item["messageId"] for item in lines_of(path)] == ["msg_1_x", "msg_2_x"]


async def test_where_everything_must_be_signed_no_line_is_taken(tmp_path: Path) -> None:
    async with channel_team(tmp_path, "bob", policy=QUICK + "\nsecurity: {require_signatures: true}") as (_team, root):
        bob = FileClient(root, "bob")
        bob.say(1, "boss")
        [receipt] = await until(bob.receipts)
        assert receipt["problem"]["code"] == "E_AUTH_006"


async def test_a_project_that_begins_anew_writes_to_the_channels_that_are_there(tmp_path: Path) -> None:
    async def talk(team: HubTeam, root: Path) -> None:
        bob = FileClient(root, "bob")
        before = len(bob.lines("ada")), len(bob.receipts())
        await team.post("ada", "/v1/messages", envelope(1, receiver="bob", payload={"text": "again"}))
        bob.outbox()
        await until(lambda: len(bob.lines("ada")) == before[0] + 1)
        bob.append(b"nonsense\n")
        await until(lambda: len(bob.receipts()) == before[1] + 1)

    async with channel_team(tmp_path, "bob") as (team, root):
        await talk(team, root)
    shutil.rmtree(tmp_path / "data")
    shutil.rmtree(tmp_path / "channels" / "bob_to_tocsin")
    async with channel_team(tmp_path, "bob") as (team, root):
        await talk(team, root)
