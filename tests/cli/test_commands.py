"""The command line against a real hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import RunningHub, run


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    data = tmp_path_factory.mktemp("cli") / "data"
    data.mkdir(mode=0o700)
    # However busy this machine is, it is nothing to be alarmed about: the hub does not measure itself here.
    (data / "server.yaml").write_text("health_interval_s: 86400")
    with RunningHub(data) as hub:
        for agent in ("ada", "bob"):
            hub.json("agents", "add", agent, "--save")
        yield hub


def test_a_message_is_sent_seen_taken_and_traced(hub: RunningHub) -> None:
    signal = hub.json("send", "bob", "hello", "--priority", "Critical", agent="ada")["receipt"]["signal_id"]
    assert [item["signal_id"] for item in hub.json("inbox", agent="bob")["items"]] == [signal]
    taken = hub.json("inbox", "--take", agent="bob")["deliveries"]
    assert [item["envelope"]["payload"] for item in taken] == [{"text": "hello"}]
    assert hub.json("inbox", agent="bob")["items"] == []
    told = hub.run("trace", signal, agent="ada").stdout
    assert "accepted (as_requested)" in told
    assert "the recipient has it (receipt)" in told


def test_a_recall_says_what_became_of_it(hub: RunningHub) -> None:
    signal = hub.json("send", "bob", "never mind", agent="ada")["receipt"]["signal_id"]
    assert hub.json("recall", signal, agent="ada")["outcome"] == "recalled"
    assert hub.run("recall", "msg_1_none", agent="ada").returncode == 4


def test_exit_codes_tell_what_went_wrong(hub: RunningHub, tmp_path: Path) -> None:
    unknown = hub.run("send", "nobody", "hello", agent="ada")
    assert (unknown.returncode, "unknown_recipient" in unknown.stderr) == (4, True)
    assert hub.run("agents", "add", "eve", agent="ada").returncode == 5
    assert hub.run("send", "bob", "now", "--type", "Blocker", "--priority", "LOUD", agent="ada").returncode == 3
    assert hub.run("inbox", agent="stranger").returncode == 5
    nobody = run("--url", "http://127.0.0.1:1", "agents", "list", "--json", cwd=tmp_path)
    problem = json.loads(nobody.stdout)
    assert (nobody.returncode, problem["code"], problem["error_code"]) == (7, "E_HUB_004", "hub_unreachable")
    assert nobody.stderr == problem["detail"] + "\n"
    assert run("--url", "http://127.0.0.1:1", "doctor", cwd=tmp_path).returncode == 1
    assert run("nonsense", cwd=tmp_path).returncode == 2


def test_agents_are_listed_rotated_and_revoked(hub: RunningHub) -> None:
    hub.json("agents", "add", "eve", "--role", "clone", "--save")
    assert {"ada", "bob", "eve"} <= {row["agent"] for row in hub.json("agents", "list")}
    old = (hub.data / "tokens" / "eve.token").read_text()
    hub.json("agents", "rotate", "eve", "--save")
    assert (hub.data / "tokens" / "eve.token").read_text() != old
    assert hub.run("inbox", agent="eve").returncode == 0
    hub.json("agents", "revoke", "eve")
    assert hub.run("inbox", agent="eve").returncode == 5


def test_a_rotated_token_keeps_its_lifetime_unless_told_otherwise(hub: RunningHub) -> None:
    def ends(*arguments: str) -> bool:
        return hub.json("agents", *arguments)["grant"]["expires_at"] is not None

    assert ends("add", "kay", "--lifetime-s", "3600")
    assert ends("rotate", "kay")
    assert not ends("rotate", "kay", "--lifetime-s", "0")


def test_dead_letters_are_listed_and_redriven(hub: RunningHub) -> None:
    assert hub.json("dlq", "list")["items"] == []
    assert hub.run("dlq", "redrive", "msg_1_none").returncode == 3
    assert hub.run("dlq", "show", "msg_1_none").returncode == 4


def test_a_policy_is_shown_and_a_file_checked(hub: RunningHub, tmp_path: Path) -> None:
    assert hub.json("policy", "show")["version"] == 1
    file = tmp_path / "tocsin.yaml"
    file.write_text("aging: {treshold_s: 1}")
    wrong = run("policy", "check", str(file), cwd=tmp_path)
    assert (wrong.returncode, "threshold_s" in wrong.stderr) == (3, True)
    file.write_text("aging: {threshold_s: 1}")
    assert run("policy", "check", str(file), cwd=tmp_path).returncode == 0


def test_top_shows_the_project(hub: RunningHub) -> None:
    assert hub.json("top")["status"]["condition"] == "serving"
    assert "bob" in hub.run("top", "--once").stdout


def test_a_plan_is_approved_and_refused_from_the_command_line(hub: RunningHub) -> None:
    for text in ("first", "second"):
        assert hub.json("send", "bob", text, "--type", "CUSTOM_PLAN", agent="ada")["receipt"]["held"]
    first, second = (row["approval"] for row in hub.json("approvals", "list"))
    assert hub.json("approvals", "approve", first)["outcome"] == "approved"
    assert "refused" in hub.run("approvals", "refuse", second, "too risky").stdout
    assert hub.json("approvals", "list") == []
    assert hub.run("approvals", "approve", second).returncode == 4


def test_escalations_and_alerts_are_listed(hub: RunningHub) -> None:
    assert hub.json("alerts") == []
    assert hub.json("escalations", "list", "--closed") == []
    assert hub.run("escalations", "resolve", "esc_none", "done").returncode == 4
    assert hub.run("escalations", "list", agent="ada").returncode == 5
