"""Every message type between two agents, one over streamable HTTP and one over stdio, in both directions."""

from typing import Any

import pytest

from tests.gateways.mcp.clients import WAYS, Caller, Hub

NOW = "2025-11-12T10:30:45.000Z"
ASSIGNMENT = {"taskId": "t1", "taskRef": "plan 1", "taskDescription": "make it", "memoryLogPath": "memory/t1.md"}
ASSIGNMENT |= {"executionType": "single-step"}
UPDATE = {"taskId": "t1", "status": "completed", "progress": 1.0}
SYNC = {"entityType": "task", "entityId": "t1", "operation": "update", "state": {"a": 1}, "syncTimestamp": NOW}
REPORT = {"errorType": "TaskFailure", "errorMessage": "it broke", "severity": "high"}
SIGNALS = ("StatusUpdate", "Question", "Blocker", "ReviewRequested", "TaskAssigned", "TaskCompleted", "Acknowledgment")
SYSTEM = ("MasterPreempted", "PeerJoined", "PeerLeft")


async def received(agent: Caller) -> dict[str, dict[str, Any]]:
    """Take all that waits, and what came with the answer before; by type."""
    found: dict[str, dict[str, Any]] = {}
    while True:
        answer = await agent.do("fetch_inbox")
        mail = answer["messages"] + answer["inbox"]["urgent"]
        if not mail:
            return found
        found |= {message["type"]: message for message in mail}


@pytest.mark.parametrize(("one", "two"), [("http", "stdio"), ("stdio", "http")])
async def test_every_type_arrives(hub: Hub, pair: tuple[str, str], one: str, two: str) -> None:
    boss, doer = pair
    async with WAYS[one](hub, boss) as manager, WAYS[two](hub, doer) as implementer:
        await manager.do("register_agent", type="Manager")
        await implementer.do("register_agent", type="Implementation")

        async def sends(kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
            return await manager.do("post_message", to=doer, type=kind, payload=payload, **more)

        async def answers(kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
            return await implementer.do("post_message", to=boss, type=kind, payload=payload, **more)

        names = {"sourceAgent": {"agentId": boss, "type": "Manager"}}
        names["targetAgent"] = {"agentId": doer, "type": "Implementation"}
        handoff = {"taskId": "t2", "reason": "load_balancing", "handoffContext": {}} | names
        payloads: dict[str, dict[str, Any]] = {kind: {"text": kind} for kind in SIGNALS}
        payloads |= {"TASK_ASSIGNMENT": ASSIGNMENT, "STATE_SYNC": SYNC, "HANDOFF_REQUEST": handoff}
        payloads |= {"CUSTOM_NOTE": {"any": ["thing", 1, None]}}
        sent = {kind: (await sends(kind, payload))["message_id"] for kind, payload in payloads.items()}
        got = await received(implementer)
        assert {kind: mail["message_id"] for kind, mail in got.items() if kind not in SYSTEM} == sent
        assert got["CUSTOM_NOTE"]["payload"] == {"any": ["thing", 1, None]}
        for kind in ("TASK_ASSIGNMENT", "HANDOFF_REQUEST"):
            subject = {"acknowledgedMessageId": sent[kind], "rejectedMessageId": sent[kind], "timestamp": NOW}
            reply = "ACK" if kind == "TASK_ASSIGNMENT" else "NACK"
            payload = subject | {"status": "received", "reason": "busy", "canRetry": False}
            done = await answers(reply, payload, correlation_id=got[kind]["correlation_id"])
            assert done.get("receipt") or done.get("settled")
        await answers("TASK_UPDATE", UPDATE, correlation_id=got["TASK_ASSIGNMENT"]["correlation_id"])
        await answers("ERROR_REPORT", REPORT)
        back = await received(manager)
        assert {"TASK_UPDATE", "ERROR_REPORT"} <= set(back)
        await manager.do("acknowledge_message", message_id=back["ERROR_REPORT"]["message_id"], status="processed")
        assert hub.state(sent["TASK_ASSIGNMENT"]) == "processed"
        assert hub.state(sent["HANDOFF_REQUEST"]) == "dead"
        for kind in SYSTEM:
            problem = await manager.refused("post_message", to=doer, type=kind, text="x")
            assert problem["code"] == "E_AUTH_003"
