"""Discussions, topics, requests, attention, approvals, escalations and alerts from the command line, at a real hub."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tocsin.cli.remote import Exit, Remote

POLICY = "health: {sustained_s: 0.01, limits: {clone_spawn_p99_s: 0.1}}\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    data = tmp_path_factory.mktemp("patterns") / "data"
    data.mkdir()
    (data / "tocsin.yaml").write_text(POLICY, encoding="utf-8")
    with RunningHub(data) as hub:
        for agent, role in (("ada", "primary"), ("bob", "primary"), ("dora", "director"), ("hugo", "human")):
            hub.ask("agents", "add", agent, "--role", role, "--save")
        yield hub


def remote(hub: RunningHub, agent: str) -> Remote:
    return Remote(hub.url, (hub.data / "tokens" / f"{agent}.token").read_text().strip())


def request(hub: RunningHub, number: int) -> str:
    """Let ada ask bob something, and wait."""
    message_id = f"msg_20250101_{number}"
    question = envelope(
        message_id, sender_type="AdHoc", messageType="CUSTOM_QUESTION", correlationId=message_id, priority=None
    )
    remote(hub, "ada").post("v1", "requests", body=question)
    return message_id


def test_a_discussion_is_opened_shown_voted_on_and_cancelled(hub: RunningHub) -> None:
    opened = hub.ask("discussions", "open", "tabs?", "bob", "dora", "--option", "yes", "--option", "no", agent="ada")
    name = opened["discussion"]
    assert hub.ask("discussions", "speak", name, "never", agent="bob")["state"] == "open"
    assert hub.ask("discussions", "vote", name, "no", agent="bob")["votes"]["no"] == 1
    assert [row["discussion"] for row in hub.ask("discussions", "list", agent="dora")["items"]] == [name]
    shown = hub.ask("discussions", "show", name, agent="ada")
    assert (shown["question"], shown["votes"]) == ("tabs?", {"bob": "no"})
    assert "bob: no" in hub.tell("discussions", "show", name, agent="ada").stdout
    assert hub.tell("discussions", "cancel", name, agent="ada").exit_code == 0
    assert hub.ask("discussions", "list", agent="ada")["items"] == []
    assert hub.tell("discussions", "show", name, agent="ada").exit_code == Exit.NOT_FOUND
    assert hub.tell("discussions", "cancel", name, agent="ada").exit_code == Exit.NOT_FOUND


def test_a_topic_is_subscribed_to_published_to_and_left(hub: RunningHub) -> None:
    assert hub.json("topics", "subscribe", "builds", agent="bob")["topics"] == ["builds"]
    assert hub.json("topics", "list", agent="bob")["items"] == [
        {"topic": "builds", "subscribers": 1, "subscribed": True}
    ]
    published = hub.json("topics", "publish", "builds", "red", "--priority", "Coordinate", agent="ada")
    assert [receipt["recipient"] for receipt in published["receipts"]] == ["bob"]
    taken = hub.json("inbox", "--take", agent="bob")["deliveries"]
    assert {"text": "red"} in [item["envelope"]["payload"] for item in taken]
    assert hub.run("topics", "unsubscribe", "builds", agent="bob").stdout == "nothing\n"
    assert hub.json("topics", "list")["items"] == []


def test_requests_are_listed_and_cancelled(hub: RunningHub) -> None:
    name = request(hub, 1)
    (row,) = hub.ask("requests", "list", agent="bob")["items"]
    assert (row["request"], row["requester"], row["responder"]) == (name, "ada", "bob")
    assert hub.tell("requests", "cancel", name, agent="bob").exit_code == Exit.NOT_FOUND
    assert hub.tell("requests", "cancel", name, agent="ada").exit_code == 0
    assert hub.ask("requests", "list")["items"] == []


def test_attention_is_shown(hub: RunningHub) -> None:
    assert hub.ask("attention", "show", agent="ada")["status"] == "idle"
    name = request(hub, 2)
    hub.ask("inbox", "--take", agent="bob")
    remote(hub, "bob").post("v1", "attention", "begin", body={"message_id": name})
    assert hub.ask("attention", "show", "bob", agent="dora")["working_on"] == name
    assert name in hub.tell("attention", "show", agent="bob").stdout.replace("\n", "")
    assert hub.tell("attention", "show", "bob", agent="ada").exit_code == Exit.NOT_PERMITTED
    assert hub.tell("attention", "show", "nobody", agent="dora").exit_code == Exit.NOT_FOUND
    remote(hub, "bob").post("v1", "attention", "finish", body={})
    hub.ask("requests", "cancel", name, agent="ada")


def test_approvals_are_asked_for_withdrawn_and_given_with_another_payload(hub: RunningHub) -> None:
    asked = hub.ask("approvals", "request", "plan_approval", "rewrite it", "--details", "all of it", agent="ada")
    assert [row["details"] for row in hub.ask("approvals", "list", agent="dora")["items"]] == ["all of it"]
    assert hub.tell("approvals", "withdraw", asked["approval"], agent="bob").exit_code == Exit.NOT_FOUND
    assert hub.tell("approvals", "withdraw", asked["approval"], agent="ada").exit_code == 0
    assert hub.ask("approvals", "list", agent="dora")["items"] == []
    assert hub.tell("approvals", "request", "no_such_point", "x", agent="ada").exit_code == Exit.REFUSED

    hub.ask("send", "bob", "the plan", "--type", "CUSTOM_PLAN", agent="ada")
    (held,) = hub.ask("approvals", "list", agent="dora")["items"]
    wrong = hub.tell("approvals", "approve", held["approval"], "--payload", "[1]", agent="dora")
    assert (wrong.exit_code, "--payload must be an object" in wrong.stderr) == (Exit.USAGE, True)
    changed = json.dumps({"text": "half of the plan"})
    word = hub.ask("approvals", "approve", held["approval"], "--payload", changed, agent="dora")
    assert word["approval"] == held["approval"]
    assert {"text": "half of the plan"} in [payload_of(item) for item in taken(hub, "bob")]


def taken(hub: RunningHub, agent: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = hub.ask("inbox", "--take", agent=agent)["deliveries"]
    return items


def payload_of(item: dict[str, Any]) -> Any:
    return item["envelope"]["payload"]


def test_an_escalation_goes_to_a_human_and_is_resolved(hub: RunningHub) -> None:
    for agent in ("ada", "bob", "dora"):
        hub.ask("leases", "acquire", "src/x", agent=agent)
    (opened,) = [row for row in hub.ask("escalations", "list", agent="dora")["items"] if row["subject"] == "src/x"]
    name = opened["escalation"]
    assert "src/x" in hub.tell("escalations", "list", agent="dora").stdout
    said = hub.tell("escalations", "escalate-to-human", name, "--reason", "who goes first?", agent="dora")
    assert (said.exit_code, said.stdout.split()) == (0, ["escalation", name, "state", "human_escalation"])
    assert any(name in str(payload_of(item)) for item in taken(hub, "hugo"))
    assert hub.ask("escalations", "resolve", name, "bob does", agent="hugo") == {"escalation": name, "state": "normal"}
    (closed,) = [row for row in hub.ask("escalations", "list", "--closed")["items"] if row["escalation"] == name]
    assert (closed["resolution"], closed["resolved_by"]) == ("bob does", "hugo")


def test_an_alert_is_listed(hub: RunningHub) -> None:
    measured = {"values": {"clone_spawn_p99_s": 5.0}}
    while not remote(hub, "dora").post("v1", "health-reports", body=measured)["alerts"]:
        pass
    (alert,) = [row for row in hub.ask("alerts")["items"] if row["metric"] == "clone_spawn_p99_s"]
    assert (alert["state"], alert["value"], alert["limit"]) == ("raised", 5.0, 0.1)
    assert "clone_spawn_p99_s" in hub.tell("alerts").stdout
