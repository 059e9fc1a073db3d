"""Two agents over each pair of gateways, against one hub in a process of its own: what the documents promise holds.

A test that needs an agent that is not there yet takes one of the latecomers; whoever is called `-a` or `-b` is there.

In `make test` each test has some of the pairs, in which each gateway sends and receives, and the tests together have
all of them; in `make soak` each test has all pairs.
"""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
import yaml

from tests.acceptance.agents.base import Driver, Letter, Refused
from tests.acceptance.agents.team import ABSENT, GATEWAYS, GatewayTeam, serving
from tests.soak import SOAK

POLICY = """
health: {limits: {message_routing_p99_s: 60, critical_delivery_s: 60, blocking_delivery_s: 60}}
storage: {projection_interval_s: 0.05}
sweeper: {interval_s: 0.05}
contracts:
  CUSTOM_HURRY: {ack: required, timeout_s: 0.3, retries_max: 9, backoff_s: [0.05]}
"""
#: Sessions that are taken for stale soon, and for ended when the test says so.
HASTY = POLICY + "sessions: {stale_after_s: 1, lapse_after_s: 1000, heartbeat_record_s: 0}\n"
PUSHED = frozenset({"socket"})

#: What is hard to carry: text of many alphabets, separators, numbers at the edge, nesting, emptiness.
CONTENT: dict[str, Any] = {
    "text": 'naïve ✓ \u2028 \U0001f514 "quoted" \\ / <&> \t\n end',
    "numbers": [0, -1, 1.5, 1e-7, 2**53 - 1],
    "nested": {"list": [{"deep": [None, True, False, {}]}], "": ""},
}
TASK = {
    "taskId": "task_3_1",
    "taskRef": "Task 3.1 - Protocol Design",
    "taskDescription": "Design it",
    "memoryLogPath": ".apm/Memory/Task_3_1.md",
    "executionType": "multi-step",
    "context": CONTENT,
}
UPDATE = {"taskId": "task_3_1", "progress": 0.5, "status": "in_progress", "notes": CONTENT["text"]}
SYNC = {
    "entityType": "task",
    "entityId": "task_3_1",
    "operation": "update",
    "state": CONTENT,
    "syncTimestamp": "2025-11-12T10:30:00.000Z",
}
ERROR = {"errorType": "TaskFailure", "errorCode": "E_TASK_003", "errorMessage": "failed", "severity": "high"}
HANDOFF = {
    "taskId": "task_3_1",
    "reason": "load_balancing",
    "sourceAgent": {"agentId": "impl_001", "type": "Implementation"},
    "targetAgent": {"agentId": "impl_002", "type": "Implementation"},
    "handoffContext": {"stateSnapshot": CONTENT},
}
SIGNALS = (
    *("Blocker", "Question", "ReviewRequested", "TaskAssigned", "TaskCompleted", "StatusUpdate"),
    *("Acknowledgment", "MasterPreempted", "PeerJoined", "PeerLeft"),
)
#: Types of one message each; ACK and NACK, which answer another, are sent apart.
PAYLOADS: dict[str, dict[str, Any]] = {
    "TASK_ASSIGNMENT": TASK,
    "TASK_UPDATE": UPDATE,
    "STATE_SYNC": SYNC,
    "ERROR_REPORT": ERROR,
    "HANDOFF_REQUEST": HANDOFF,
    **dict.fromkeys(SIGNALS, CONTENT),
    "CUSTOM_ANALYSIS_REQUEST": {"analysisType": "code_quality", "options": CONTENT},
}
MUST_ACK = frozenset({"TASK_ASSIGNMENT", "ERROR_REPORT", "HANDOFF_REQUEST"})

_threads = count(1)


def pairs(*drawn: int) -> list[tuple[str, str]]:
    """Return pairs of gateways: all, or in `make test` each gateway with those that come so many places after it."""
    places = range(len(GATEWAYS)) if SOAK else drawn
    return [(one, GATEWAYS[(at + step) % len(GATEWAYS)]) for step in places for at, one in enumerate(GATEWAYS)]


def thread() -> str:
    return f"req_{next(_threads)}"


class Stage:
    """A team that tests of one module play on, one after the other."""

    def __init__(self, team: GatewayTeam) -> None:
        self.team = team
        self._late = {gateway: count() for gateway in GATEWAYS}

    def latecomer(self, gateway: str) -> str:
        """Name an agent that is known and has never been there."""
        return f"{gateway}-late{next(self._late[gateway])}"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with serving(tmp_path_factory.mktemp("pairs"), POLICY, attached=True) as team:
        yield Stage(team)


@pytest.fixture(scope="module")
async def hasty(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with serving(tmp_path_factory.mktemp("hasty"), HASTY, attached=False) as team:
        yield Stage(team)


@pytest.mark.parametrize(("one", "other"), pairs(0, 1))
async def test_every_type_arrives_as_it_was_sent(stage: Stage, one: str, other: str) -> None:
    sender, receiver = stage.team.agents[f"{one}-a"], stage.team.agents[f"{other}-b"]
    assignment = thread()
    for message_type, payload in PAYLOADS.items():
        own = assignment if message_type in ("TASK_ASSIGNMENT", "TASK_UPDATE") else thread()
        letter = Letter.fresh(sender.agent, message_type, payload, correlation_id=own)
        receipt = await sender.send(receiver.agent, letter)
        _check_receipt(receipt, letter, receiver, pushed=other in PUSHED)
        came = await receiver.receive(letter.message_id)
        assert came.same_content(letter), message_type
        if message_type in MUST_ACK:
            await receiver.acknowledge(came)
            await stage.team.until(stage.team.state, letter.message_id, "acknowledged", "processed")


def _check_receipt(receipt: dict[str, Any], letter: Letter, receiver: Driver, *, pushed: bool) -> None:
    """Hold a receipt against SPEC-071 §5 for a recipient that is there."""
    assert receipt["message_id"] == receipt["signal_id"] == letter.message_id
    assert receipt["recipient"] == receiver.agent
    assert receipt["recipient_state"] == "available"
    assert receipt["publish_path"] == ("pushed_to_ws" if pushed else "buffered_for_piggyback")
    assert (receipt["delivered"], receipt["queued"]) == (pushed, not pushed)
    assert receipt["resolved_to_session"].startswith("ses_")
    assert (receipt["duplicate"], receipt["durability"], receipt["copies"]) == (False, "flushed", 1)


@pytest.mark.parametrize(("one", "other"), pairs(2, 3))
async def test_ack_and_nack_are_messages_too(stage: Stage, one: str, other: str) -> None:
    """Whoever got a message confirms or rejects it with an envelope, and its sender sees that."""
    confirmer, asker = stage.team.agents[f"{one}-a"], stage.team.agents[f"{other}-b"]
    bodies: dict[str, dict[str, Any]] = {
        "ACK": {"status": "processed", "notes": CONTENT["text"]},
        "NACK": {"reason": CONTENT["text"], "canRetry": False, "errorCode": "E_TASK_003"},
    }
    names = {"ACK": "acknowledgedMessageId", "NACK": "rejectedMessageId"}
    ends = {"ACK": "processed", "NACK": "dead"}
    for message_type, body in bodies.items():
        asked = Letter.fresh(asker.agent, "HANDOFF_REQUEST", HANDOFF, correlation_id=thread())
        await asker.send(confirmer.agent, asked)
        await confirmer.receive(asked.message_id)
        payload = {names[message_type]: asked.message_id, "timestamp": "2025-11-12T10:00:00.150Z", **body}
        answer = Letter.fresh(confirmer.agent, message_type, payload, correlation_id=asked.correlation_id)
        await confirmer.send(asker.agent, answer)
        assert (await asker.receive(answer.message_id)).same_content(answer)
        assert await stage.team.state(asked.message_id) == ends[message_type]
        if message_type == "NACK":
            report = await asker.receive_report(asked.message_id)
            assert (report.sender, report.payload["errorCode"]) == ("tocsin", "E_TASK_003")


@pytest.mark.parametrize(("one", "other"), pairs(4, 0))
async def test_without_an_ack_it_comes_again_and_a_rejection_for_good_is_reported(
    stage: Stage, one: str, other: str
) -> None:
    sender, receiver = stage.team.agents[f"{one}-a"], stage.team.agents[f"{other}-b"]
    letters = [Letter.fresh(sender.agent, "CUSTOM_HURRY", CONTENT, correlation_id=thread()) for _ in range(2)]
    for letter in letters:
        await sender.send(receiver.agent, letter)
    silent, rejected = letters
    await receiver.reject(await receiver.receive(rejected.message_id), can_retry=True)
    for letter in (silent, silent, rejected):
        assert (await receiver.receive(letter.message_id)).same_content(letter)
    await receiver.acknowledge(silent)
    await receiver.reject(rejected, can_retry=False)
    assert await stage.team.until(stage.team.state, rejected.message_id, "dead") == "dead"
    assert (await sender.receive_report(rejected.message_id)).payload["context"]["recipient"] == receiver.agent
    assert await stage.team.state(silent.message_id) == "acknowledged"
    assert "MessageRequeued" in await stage.team.life(silent.message_id)


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_recalled_or_delivered_and_never_both(stage: Stage, gateway: str) -> None:
    """Recalls from every gateway, before anyone could be offered the message, while it is, and after it was."""
    name = stage.latecomer(gateway)
    senders = [stage.team.agents[f"{one}-a"] for one in GATEWAYS]

    async def one_each() -> list[tuple[Driver, Letter]]:
        sent = [(sender, Letter.fresh(sender.agent, "StatusUpdate", CONTENT)) for sender in senders]
        for sender, letter in sent:
            receipt = await sender.send(name, letter)
            assert (receipt["recipient_state"], receipt["publish_path"], receipt["queued"], receipt["delivered"]) == (
                *("not_available_offline", "queued_offline"),
                *(True, False),
            )
        return sent

    early, racing = await one_each(), await one_each()
    for sender, letter in early:
        assert await sender.recall(letter.message_id) == "recalled"
    recalls = [asyncio.ensure_future(sender.recall(letter.message_id)) for sender, letter in racing]
    async with stage.team.attach(name) as receiver:
        outcomes = await asyncio.gather(*recalls)
        for sender in senders:
            letter = Letter.fresh(sender.agent, "StatusUpdate", CONTENT)
            await sender.send(name, letter)
            await receiver.receive(letter.message_id)
            assert await sender.recall(letter.message_id) == "already_delivered"
        came = [letter.message_id for letter in receiver.kept]
    for (_, letter), outcome in zip(racing, outcomes, strict=True):
        assert outcome == ("already_delivered" if letter.message_id in came else "recalled")
    assert len(came) == len(set(came))
    assert set(came) <= {letter.message_id for _, letter in racing}
    for _, letter in early:
        assert await stage.team.state(letter.message_id) == "recalled"


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_what_expires_unread_is_never_seen(stage: Stage, gateway: str) -> None:
    name = stage.latecomer(gateway)
    senders = [stage.team.agents[f"{one}-a"] for one in GATEWAYS]
    short = [(sender, Letter.fresh(sender.agent, "StatusUpdate", CONTENT, ttl_s=0.05)) for sender in senders]
    for sender, letter in short:
        await sender.send(name, letter)
    for sender, letter in short:
        await stage.team.until(stage.team.state, letter.message_id, "expired")
        assert await sender.recall(letter.message_id) == "already_expired"
    async with stage.team.attach(name) as receiver:
        last = Letter.fresh(senders[0].agent, "StatusUpdate", CONTENT, correlation_id=thread())
        await senders[0].send(name, last)
        assert (await receiver.receive(last.message_id)).same_content(last)
        assert receiver.kept == []


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_nobody_there_is_told_at_once(stage: Stage, gateway: str) -> None:
    """A sync message to somebody absent, and any to nobody, fail fast and leave nothing behind."""
    sender = stage.team.agents[f"{gateway}-a"]
    with pytest.raises(Refused) as refused:
        await sender.send(ABSENT, Letter.fresh(sender.agent, "Question", CONTENT))
    assert refused.value.code == "E_ADMISSION_006"
    assert refused.value.problem["facts"]["recipient_state"] == "not_available_offline"
    with pytest.raises(Refused) as refused:
        await sender.send("nobody", Letter.fresh(sender.agent, "StatusUpdate", CONTENT))
    assert refused.value.code == "E_ROUTING_001"


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_the_same_again_is_a_duplicate(stage: Stage, gateway: str) -> None:
    sender, receiver = stage.team.agents[f"{gateway}-a"], stage.team.agents["http-b"]
    letter = Letter.fresh(sender.agent, "StatusUpdate", CONTENT, correlation_id=thread())
    first, again = [await sender.send(receiver.agent, letter) for _ in range(2)]
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    with pytest.raises(Refused) as refused:
        await sender.send(receiver.agent, letter._replace(payload={"text": "another"}))
    assert refused.value.code == "E_ADMISSION_007"
    await receiver.receive(letter.message_id)
    assert all(kept.message_id != letter.message_id for kept in receiver.kept)


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_presence_follows_the_agent(hasty: Stage, gateway: str) -> None:
    """Available while attached; gone, or taken for stale and then gone, once it is not."""
    name = hasty.latecomer(gateway)
    team = hasty.team

    async def lapse_after(seconds: float) -> None:
        policy = yaml.safe_load(HASTY)
        policy["sessions"]["lapse_after_s"] = seconds
        await team.ask("PUT", "/v1/policy", {"policy": policy, "reason": "a test"})

    assert await team.presence(name) == "not_available_offline"
    polls = gateway not in ("socket", "files")
    async with team.attach(name) as agent:
        while await team.presence(name) != "available":
            if polls:
                await agent.look()
    if polls:
        await team.until(team.presence, name, "not_available_stale")
        await lapse_after(1.1)
    await team.until(team.presence, name, "not_available_offline")
    await lapse_after(1000)
