"""The command line against a real hub."""

import json
import re
from collections.abc import Iterator
from io import StringIO
from itertools import count
from pathlib import Path

import httpx2
import pytest

from tests.cli.processes import RunningHub, asked, run


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    data = tmp_path_factory.mktemp("cli") / "data"
    data.mkdir(mode=0o700)
    # However busy this machine is, it is nothing to be alarmed about: the hub does not measure itself here.
    (data / "server.yaml").write_text("health_interval_s: 86400")
    # What is sent from the command line is signed, whether it has to be or not: here it has to be.
    (data / "tocsin.yaml").write_text("security: {require_signatures: true}")
    with RunningHub(data) as hub:
        for agent, kind in (("ada", "Manager"), ("bob", "Implementation")):
            hub.ask("agents", "add", agent, "--type", kind, "--save")
        yield hub


def test_a_message_is_sent_seen_taken_and_traced(hub: RunningHub) -> None:
    signal = hub.json("send", "bob", "hello", "--priority", "Critical", agent="ada")["receipt"]["signal_id"]
    assert [item["signal_id"] for item in hub.json("inbox", agent="bob")["items"]] == [signal]
    taken = hub.json("inbox", "--take", agent="bob")["deliveries"]
    assert [item["envelope"]["payload"] for item in taken] == [{"text": "hello"}]
    assert hub.json("inbox", agent="bob")["items"] == []
    told = hub.run("trace", signal, agent="ada").stdout
    assert "accepted at Critical, as requested" in told
    assert "received by the recipient: it confirmed the receipt" in told


def test_what_is_taken_is_shown_with_its_priority(hub: RunningHub) -> None:
    hub.ask("send", "bob", "look", "--priority", "Blocking", agent="ada")
    taken = hub.tell("inbox", "--take", agent="bob").stdout
    assert "priority" in taken
    assert "Blocking" in taken


def test_an_absent_hub_is_named_without_a_number_of_the_system(hub: RunningHub) -> None:
    done = hub.run("--url", "http://127.0.0.1:1", "status")
    assert (done.returncode, done.stderr.strip()) == (7, "no hub answers at http://127.0.0.1:1: Connection refused")


def test_a_recall_says_what_became_of_it(hub: RunningHub) -> None:
    signal = hub.ask("send", "bob", "never mind", agent="ada")["receipt"]["signal_id"]
    assert hub.ask("recall", signal, agent="ada")["outcome"] == "recalled"
    assert hub.tell("recall", "msg_1_none", agent="ada").exit_code == 4


def test_a_link_signs_in_to_the_dashboard(hub: RunningHub) -> None:
    hub.ask("agents", "add", "hanna", "--role", "human", "--save")
    link = hub.tell("dashboard", agent="hanna").stdout.strip()
    assert link.startswith(f"{hub.url}/sign-in?link#code=")
    code, _, token_id = link.partition("#code=")[2].partition(".")
    body, headers = {"code": code}, {"Tocsin-Dashboard": "1", "Tocsin-Token-Id": token_id}
    assert httpx2.post(f"{hub.url}/sign-in", json=body, headers=headers).json()["agent"] == "hanna"
    assert set(hub.ask("dashboard", agent="hanna")) == {"link", "expires_at"}
    refused = hub.tell("dashboard", agent="ada")
    assert (refused.exit_code, "directors, humans" in refused.stderr) == (5, True)


def test_an_agent_without_a_saved_token_is_named(hub: RunningHub) -> None:
    refused = hub.tell("inbox", agent="ghost")
    assert refused.exit_code == 5
    assert "no token is saved for ghost in " in refused.stderr
    assert "; saved are those of ada, bob" in refused.stderr
    assert "`tocsin agents add ghost --save`" in refused.stderr


def test_exit_codes_tell_what_went_wrong(hub: RunningHub, tmp_path: Path) -> None:
    unknown = hub.tell("send", "nobody", "hello", agent="ada")
    assert (unknown.exit_code, "unknown_recipient" in unknown.stderr) == (4, True)
    assert hub.tell("agents", "add", "eve", agent="ada").exit_code == 5
    assert hub.tell("send", "bob", "now", "--type", "Blocker", "--priority", "LOUD", agent="ada").exit_code == 3
    assert hub.tell("inbox", agent="stranger").exit_code == 5
    nobody = run("--url", "http://127.0.0.1:1", "agents", "list", "--json", cwd=tmp_path)
    problem = json.loads(nobody.stdout)
    assert (nobody.returncode, problem["code"], problem["error_code"]) == (7, "E_HUB_004", "hub_unreachable")
    assert nobody.stderr == problem["detail"] + "\n"
    assert run("--url", "http://127.0.0.1:1", "doctor", cwd=tmp_path).returncode == 1
    assert run("nonsense", cwd=tmp_path).returncode == 2


def test_agents_are_listed_rotated_and_revoked(hub: RunningHub) -> None:
    hub.ask("agents", "add", "eve", "--role", "clone", "--save")
    assert {"ada", "bob", "eve"} <= {row["agent"] for row in hub.ask("agents", "list")["items"]}
    old = (hub.data / "tokens" / "eve.token").read_text()
    hub.ask("agents", "rotate", "eve", "--save")
    assert (hub.data / "tokens" / "eve.token").read_text() != old
    assert hub.tell("inbox", agent="eve").exit_code == 0
    hub.ask("agents", "revoke", "eve")
    assert hub.tell("inbox", agent="eve").exit_code == 5


def test_a_rotated_token_keeps_its_lifetime_unless_told_otherwise(hub: RunningHub) -> None:
    def ends(*arguments: str) -> bool:
        return hub.ask("agents", *arguments)["grant"]["expires_at"] is not None

    assert ends("add", "kay", "--lifetime-s", "3600")
    assert ends("rotate", "kay")
    assert not ends("rotate", "kay", "--lifetime-s", "0")


TASK = {
    "taskId": "task_1",
    "taskRef": "Task 1",
    "taskDescription": "Say hello",
    "memoryLogPath": "memory/task_1.md",
    "executionType": "single-step",
}


def test_a_payload_and_what_belongs_to_it_are_sent(
    hub: RunningHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "note.json"
    file.write_text('{"more": [1, null, "ü"]}', encoding="utf-8")
    options = ("--importance", "9", "--ttl", "3600", "--delivery-class", "async", "--correlation-id", "thread_1")
    hub.ask("send", "bob", "hello", "--type", "CUSTOM_NOTE", "--payload", f"@{file}", *options, agent="ada")
    (taken,) = hub.ask("inbox", "--take", agent="bob")["deliveries"]
    envelope = taken["envelope"]
    assert envelope["payload"] == {"more": [1, None, "ü"], "text": "hello"}
    assert (envelope["correlationId"], envelope["metadata"]["ttl"]) == ("thread_1", 3600)
    assert (envelope["qos"]["importance"], envelope["qos"]["deliveryClass"]) == (9, "async")
    monkeypatch.setattr("sys.stdin", StringIO('{"from": "standard input"}'))
    hub.ask("send", "bob", "--payload", "-", agent="ada")
    (taken,) = hub.ask("inbox", "--take", agent="bob")["deliveries"]
    assert taken["envelope"]["payload"] == {"from": "standard input"}
    hub.ask("inbox", agent="bob")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the message is empty: give a text, or --payload"),
        (("--payload", "{'taskId': 1}"), "--payload is not JSON: Expecting property name"),
        (("--payload", '{"size": NaN}'), "--payload is not JSON: NaN"),
        (("--payload", "[" * 100_000), "--payload is not JSON: "),
        (("--payload", "[1]"), "--payload must be an object"),
        (("--payload", "@nowhere.json"), "--payload @nowhere.json cannot be read: "),
        (("hello", "--payload", '{"text": "hello"}'), "--payload has a text already"),
    ],
)
def test_a_payload_that_is_none_is_told_before_anybody_is_asked(words: tuple[str, ...], said: str) -> None:
    told = asked("--url", "http://127.0.0.1:1", "send", "bob", *words)
    assert (told.exit_code, told.stderr.count("\n"), told.stderr[: len(said)]) == (2, 1, said)


def test_a_type_that_asks_for_more_than_a_text_says_so(hub: RunningHub) -> None:
    refused = hub.tell("send", "bob", "do it", "--type", "TASK_ASSIGNMENT", "--correlation-id", "t", agent="ada")
    assert (refused.exit_code, refused.stderr.split(":")[0]) == (3, "missing_field")


_tasks = count()


@pytest.fixture
def dead_letter(hub: RunningHub) -> Iterator[str]:
    """A task that bob has rejected for good; nothing is left of it after the test."""
    task = ("--type", "TASK_ASSIGNMENT", "--correlation-id", f"task_{next(_tasks)}", "--payload", json.dumps(TASK))
    signal = hub.ask("send", "bob", *task, agent="ada")["receipt"]["signal_id"]
    assert [item["signal_id"] for item in hub.ask("inbox", "--take", agent="bob")["deliveries"]] == [signal]
    nack = {"rejectedMessageId": signal, "reason": "no time", "canRetry": False, "timestamp": "2026-01-01T00:00:00Z"}
    hub.ask("send", "ada", "--type", "NACK", "--correlation-id", signal, "--payload", json.dumps(nack), agent="bob")
    yield signal
    hub.tell("dlq", "redrive", signal)
    hub.ask("inbox", "--take", agent="bob")


def test_a_dead_letter_is_listed(hub: RunningHub, dead_letter: str) -> None:
    (letter,) = hub.ask("dlq", "list")["items"]
    assert (letter["message"]["signal_id"], letter["reason"]) == (dead_letter, "rejected")
    listed = " ".join(hub.tell("dlq", "list").stdout.split())
    assert re.search(rf"{dead_letter} ada bob TASK_ASSIGNMENT \S+ bob rejected {dead_letter}: no time", listed)
    assert TASK["taskDescription"] in listed


def test_a_dead_letter_tells_why_it_died(hub: RunningHub, dead_letter: str) -> None:
    told = hub.tell("dlq", "show", dead_letter).stdout
    assert "rejected, for good: no time" in told
    assert "became a dead letter: rejected by its recipient" in told


def test_a_redriven_dead_letter_is_delivered_again(hub: RunningHub, dead_letter: str) -> None:
    done = hub.tell("dlq", "redrive", dead_letter)
    assert (done.exit_code, re.search(rf"redriven +{dead_letter}", done.stdout) is not None) == (0, True)
    assert hub.ask("dlq", "list")["items"] == []
    assert [item["signal_id"] for item in hub.ask("inbox", "--take", agent="bob")["deliveries"]] == [dead_letter]
    assert "redriven by " in hub.tell("trace", dead_letter).stdout


def test_a_dead_letter_that_is_not_there_is_named_and_the_others_are_redriven(
    hub: RunningHub, dead_letter: str
) -> None:
    done = hub.tell("dlq", "redrive", dead_letter, "msg_1_none")
    assert (done.exit_code, re.search(rf"redriven +{dead_letter}", done.stdout) is not None) == (3, True)
    assert "msg_1_none: " in done.stdout
    assert hub.tell("dlq", "show", "msg_1_none").exit_code == 4


def test_a_policy_is_shown_and_a_file_checked(hub: RunningHub, tmp_path: Path) -> None:
    assert hub.ask("policy", "show")["version"] == 1
    file = tmp_path / "tocsin.yaml"
    file.write_text("aging: {treshold_s: 1}")
    wrong = run("policy", "check", str(file), cwd=tmp_path)
    assert (wrong.returncode, "threshold_s" in wrong.stderr) == (3, True)
    file.write_text("aging: {threshold_s: 1}")
    assert run("policy", "check", str(file), cwd=tmp_path).returncode == 0


def test_a_policy_is_compared_applied_and_looked_up(hub: RunningHub, tmp_path: Path) -> None:
    before = hub.ask("policy", "show")["version"]
    file = tmp_path / "tocsin.yaml"
    file.write_text("{aging: {threshold_s: 31}, sweeper: {interval_s: 50}}")
    assert "aging.threshold_s: 60 s → 31 s" in hub.tell("policy", "diff", str(file)).stdout
    assert hub.ask("policy", "apply", str(file), "--reason", "a test")["version"] == before + 1
    assert hub.ask("policy", "diff", str(file)) == []
    file.write_text("aging: {threshold_s: 60}")
    hub.ask("policy", "apply", str(file), "--change")
    in_force = hub.ask("policy", "show")["policy"]
    assert (in_force["aging"]["threshold_s"], in_force["sweeper"]["interval_s"]) == (60, 50)
    newest, second = hub.ask("policy", "history", "--limit", "2")["items"]
    assert (newest["version"], second["version"], second["reason"]) == (before + 2, before + 1, "a test")
    assert newest["changes"] == [{"setting": "aging.threshold_s", "before": 31.0, "after": 60.0}]
    file.write_text("")
    hub.ask("policy", "apply", str(file))


def test_top_shows_the_project(hub: RunningHub) -> None:
    assert hub.ask("top")["status"]["condition"] == "serving"
    assert "bob" in hub.tell("top", "--once").stdout


def test_a_plan_is_approved_and_refused_from_the_command_line(hub: RunningHub) -> None:
    sent = [hub.ask("send", "bob", text, "--type", "CUSTOM_PLAN", agent="ada")["receipt"] for text in ("one", "two")]
    assert all(receipt["held"] for receipt in sent)
    rows = hub.ask("approvals", "list")["items"]
    assert [row["preview"] for row in rows] == ["one", "two"]
    assert re.search(r"plan_approval +ada .* two", hub.tell("approvals", "list").stdout)
    first, second = (row["approval"] for row in rows)
    assert hub.ask("approvals", "approve", first)["outcome"] == "approved"
    assert "refused" in hub.tell("approvals", "refuse", second, "too risky").stdout
    assert hub.ask("approvals", "list")["items"] == []
    assert hub.tell("approvals", "approve", second).exit_code == 4
    told = hub.tell("trace", sent[0]["signal_id"]).stdout
    assert "; held until a director decides (" in told
    assert f"released by admin ({first})" in told


def test_escalations_and_alerts_are_listed(hub: RunningHub) -> None:
    assert hub.ask("alerts")["items"] == []
    assert hub.ask("escalations", "list")["items"] == []
    closed = hub.ask("escalations", "list", "--closed")["items"]
    assert {row["state"] for row in closed} <= {"normal"}
    assert hub.tell("escalations", "resolve", "esc_none", "done").exit_code == 4
    assert hub.tell("escalations", "list", agent="ada").exit_code == 5
