"""`tocsin hooks`: what goes into the files of coding agents, and what a check says at their safe points.

The field names are those that Claude Code documents for hooks (`hooks`, `type`, `command`, `timeout` in settings.json;
`hookSpecificOutput`, `hookEventName`, `additionalContext`, `decision`, `reason` in the output; `hook_event_name`,
`stop_hook_active` in the input) and for `.mcp.json` (`mcpServers`, `type`, `command`, `args`), and Codex for
`config.toml` (`mcp_servers.<name>`, `command`, `args`, `env_vars`, `required`) and `hooks.json` (as Claude Code's).
"""

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import COMMAND, RunningHub, run
from tests.patience import PATIENCE_S
from tocsin.cli import is_check
from tocsin.cli.hooks.check import output_of
from tocsin.cli.hooks.notice import notice_of
from tocsin.cli.hooks.sessions import ShownMessages

EVENTS = {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"}
FILES = {"claude": (".mcp.json", ".claude/settings.json"), "codex": (".codex/config.toml", ".codex/hooks.json")}

#: How the program that installs is started.
PROGRAM = f"{sys.executable} -m tocsin"


def hooks(folder: Path, *arguments: str, before: tuple[str, ...] = ()) -> str:
    done = run(*before, "hooks", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def commands_of(document: dict[str, Any]) -> dict[str, list[str]]:
    return {
        event: [hook["command"] for group in groups for hook in group["hooks"]]
        for event, groups in document["hooks"].items()
    }


def test_claude_gets_a_server_and_checks_at_its_safe_points(tmp_path: Path) -> None:
    hooks(tmp_path, "install", "claude")
    server = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["tocsin"]
    assert server == {"type": "stdio", "command": sys.executable, "args": ["-m", "tocsin", "mcp"]}
    settings = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    assert commands_of(settings) == {event: [f"{PROGRAM} hooks check"] for event in EVENTS}
    for groups in settings["hooks"].values():
        for group in groups:
            assert [(hook["type"], hook["timeout"]) for hook in group["hooks"]] == [("command", 10)]


def test_codex_gets_a_server_and_checks(tmp_path: Path) -> None:
    hooks(tmp_path, "install", "codex")
    server = tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())["mcp_servers"]["tocsin"]
    assert server == {
        "command": sys.executable,
        "args": ["-m", "tocsin", "mcp"],
        "env_vars": ["TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE", "TOCSIN_URL", "TOCSIN_DATA"],
        "required": True,
        "startup_timeout_sec": 30,
    }
    checks = json.loads((tmp_path / ".codex" / "hooks.json").read_text())
    assert commands_of(checks) == {event: [f"{PROGRAM} hooks check"] for event in EVENTS}


def test_the_entries_name_no_agent_and_no_token_is_written(tmp_path: Path) -> None:
    secret = "tcs_0123456789abcdef_" + "s" * 43
    data = tmp_path / "my data"
    (data / "tokens").mkdir(parents=True)
    (data / "tokens" / "ada.token").write_text(secret)
    before = ("--as", "ada", "--data", "my data", "--url", "http://127.0.0.1:9999")
    for agent in FILES:
        hooks(tmp_path, "install", agent, before=before)
    written = {name: text for name, text in tree(tmp_path).items() if not name.startswith("my data")}
    assert not [name for name, text in written.items() if secret in text]
    assert json.loads(written.pop(".tocsin/agent.json")) == {"agent": "ada", "data": str(data)}
    assert not [name for name, text in written.items() if "ada" in text or "my data" in text]
    arguments = ["-m", "tocsin", "--url", "http://127.0.0.1:9999", "mcp"]
    assert json.loads(written[".mcp.json"])["mcpServers"]["tocsin"]["args"] == arguments
    assert tomllib.loads(written[".codex/config.toml"])["mcp_servers"]["tocsin"]["args"] == arguments
    for agent in FILES:
        checks = commands_of(json.loads(written[FILES[agent][1]]))
        assert checks["Stop"] == [f"{PROGRAM} --url http://127.0.0.1:9999 hooks check"]


def test_the_agent_of_a_folder_stays_while_a_coding_agent_uses_it(tmp_path: Path) -> None:
    for agent in FILES:
        said = hooks(tmp_path, "install", agent, before=("--as", "ada"))
        assert f"{tmp_path / '.tocsin/tokens/ada.token'} does not exist yet" in said
    hooks(tmp_path, "uninstall", "claude")
    assert (tmp_path / ".tocsin" / "agent.json").exists()
    hooks(tmp_path, "uninstall", "codex")
    assert not (tmp_path / ".tocsin" / "agent.json").exists()


def test_codex_gets_the_checks_of_a_worktree_in_the_main_checkout(tmp_path: Path) -> None:
    """Codex reads the hooks of a worktree from there, and the server from the worktree."""
    main, tree = tmp_path / "shop", tmp_path / "shop-dev"
    repository(main, tree)
    hooks(tree, "install", "codex", before=("--as", "dev", "--data", "../shop/.tocsin"))
    assert (tree / ".codex" / "config.toml").exists()
    assert not (tree / ".codex" / "hooks.json").exists()
    assert commands_of(json.loads((main / ".codex" / "hooks.json").read_text()))["Stop"] == [f"{PROGRAM} hooks check"]
    assert json.loads((tree / ".tocsin" / "agent.json").read_text())["data"] == str(main / ".tocsin")
    shown = json.loads(hooks(tree, "show", "--json"))
    mine = [row["installed"] for row in shown if (row["agent"], row["scope"]) == ("codex", "project")]
    assert mine == [True, True]
    hooks(tree, "uninstall", "codex")
    assert not (tree / ".codex" / "config.toml").exists()
    assert (main / ".codex" / "hooks.json").exists(), "other working trees use them too"


def test_codex_is_refused_where_it_finds_no_checks(tmp_path: Path) -> None:
    tree = tmp_path / "shop-dev"
    repository(tmp_path / "shop", tree, "--bare")
    done = run("--as", "dev", "hooks", "install", "codex", cwd=tree)
    assert (done.returncode, "--scope user" in done.stderr) == (1, True)
    assert not (tree / ".codex").exists()


def repository(main: Path, tree: Path, *options: str) -> None:
    """Make a git repository, and a linked worktree of it."""
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@localhost")
    git("init", "-q", *options, str(main))
    commit = git("-C", str(main), *identity, "commit-tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "-m", "begin")
    git("-C", str(main), "worktree", "add", "-q", "-b", "dev", str(tree), commit.strip())


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout  # noqa: S603, S607


def test_what_a_coding_agent_may_do_without_asking_is_written_when_asked(tmp_path: Path) -> None:
    fill(tmp_path)
    hooks(tmp_path, "install", "claude", "--allow")
    hooks(tmp_path, "install", "codex", "--allow")
    for _ in range(2):
        settings = json.loads((tmp_path / ".claude" / "settings.json").read_text())
        assert settings["permissions"]["allow"] == ["Bash(ls:*)", "mcp__tocsin"]
        assert settings["enabledMcpjsonServers"] == ["tocsin"]
        hooks(tmp_path, "install", "claude")
    server = tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())["mcp_servers"]["tocsin"]
    assert server["default_tools_approval_mode"] == "approve"
    hooks(tmp_path, "uninstall", "claude")
    assert json.loads((tmp_path / ".claude" / "settings.json").read_text()) == SETTINGS


SETTINGS = {
    "model": "opus",
    "hooks": {
        "PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "make fmt", "timeout": 60}]}],
        "Notification": [{"hooks": [{"type": "command", "command": "say done"}]}],
    },
    "permissions": {"allow": ["Bash(ls:*)"]},
}
SERVERS = {"mcpServers": {"other": {"command": "other", "args": ["x"]}}, "more": True}
CODEX = '# mine\nmodel = "o4"\n\n[mcp_servers.other]\ncommand = "other"\n\n[features]\nhooks = true\n'


def fill(folder: Path) -> dict[str, str]:
    (folder / ".claude").mkdir()
    (folder / ".codex").mkdir()
    (folder / ".mcp.json").write_text(json.dumps(SERVERS))
    (folder / ".claude" / "settings.json").write_text(json.dumps(SETTINGS, indent=4))
    (folder / ".codex" / "config.toml").write_text(CODEX)
    (folder / ".codex" / "hooks.json").write_text(json.dumps({"hooks": SETTINGS["hooks"]}))
    return tree(folder)


def test_what_is_there_stays_and_comes_back_as_it_was(tmp_path: Path) -> None:
    before = fill(tmp_path)
    (tmp_path / ".mcp.json").chmod(0o640)
    for agent in FILES:
        hooks(tmp_path, "install", agent)
    settings = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    assert settings["hooks"]["PostToolUse"][0] == SETTINGS["hooks"]["PostToolUse"][0]  # type: ignore[index]
    assert commands_of(settings)["PostToolUse"] == ["make fmt", f"{PROGRAM} hooks check"]
    assert (settings["model"], settings["permissions"]) == (SETTINGS["model"], SETTINGS["permissions"])
    servers = json.loads((tmp_path / ".mcp.json").read_text())
    assert (servers["more"], servers["mcpServers"]["other"]) == (True, SERVERS["mcpServers"]["other"])  # type: ignore[index]
    assert stat.S_IMODE((tmp_path / ".mcp.json").stat().st_mode) == 0o640
    assert (tmp_path / ".codex" / "config.toml").read_text().startswith(CODEX)
    installed = tree(tmp_path)
    for name, text in before.items():
        assert installed[name + ".before-tocsin"] == text, "what was there is kept beside it"
    for agent in FILES:
        assert "unchanged" in hooks(tmp_path, "install", agent)
    assert tree(tmp_path) == installed, "a second time changes nothing"
    for agent in FILES:
        hooks(tmp_path, "uninstall", agent)
    after = tree(tmp_path)
    assert after[".codex/config.toml"] == CODEX
    for name in (".mcp.json", ".claude/settings.json", ".codex/hooks.json"):
        assert json.loads(after[name]) == json.loads(before[name])


def test_what_tocsin_made_alone_is_gone_afterwards(tmp_path: Path) -> None:
    for agent, files in FILES.items():
        hooks(tmp_path, "install", agent)
        shown = json.loads(hooks(tmp_path, "show", "--json"))
        mine = [row["installed"] for row in shown if (row["agent"], row["scope"]) == (agent, "project")]
        assert mine == [True, True]
        hooks(tmp_path, "uninstall", agent)
        assert not [name for name in files if (tmp_path / name).exists()]


def test_another_wiring_takes_the_place_of_the_first(tmp_path: Path) -> None:
    hooks(tmp_path, "install", "claude")
    hooks(tmp_path, "install", "claude", "--command", "/opt/tocsin/bin/tocsin")
    settings = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    assert commands_of(settings)["Stop"] == ["/opt/tocsin/bin/tocsin hooks check"]


@pytest.mark.parametrize("broken", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": 1}}'])
def test_what_cannot_be_understood_is_left_alone(tmp_path: Path, broken: str) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(broken)
    done = run("hooks", "install", "claude", cwd=tmp_path)
    assert (done.returncode, "settings.json" in done.stderr) == (1, True)
    assert tree(tmp_path) == {".claude/settings.json": broken}, "not even the file that could have been changed"


def test_a_server_of_ones_own_and_a_broken_toml_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    for text in ('[mcp_servers.tocsin]\ncommand = "x"\n', "= nothing\n"):
        (tmp_path / ".codex" / "config.toml").write_text(text)
        assert run("hooks", "install", "codex", cwd=tmp_path).returncode == 1
        assert tree(tmp_path) == {".codex/config.toml": text}


def test_a_dry_run_shows_and_changes_nothing(tmp_path: Path) -> None:
    before = fill(tmp_path)
    for agent in FILES:
        shown = hooks(tmp_path, "install", agent, "--dry-run")
        assert "+" in shown
        assert "tocsin" in shown
    assert tree(tmp_path) == before


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / ".mcp.json").symlink_to("real.json")
    hooks(tmp_path, "install", "claude")
    assert (tmp_path / ".mcp.json").is_symlink()
    assert "tocsin" in (tmp_path / "real.json").read_text()


def test_ones_own_files_are_in_the_home_directory_and_private(tmp_path: Path) -> None:
    for agent, made in (("claude", {".claude.json", ".claude/settings.json"}), ("codex", set(FILES["codex"]))):
        home = tmp_path / agent
        home.mkdir()
        environment = os.environ | {"HOME": str(home), "CODEX_HOME": ""}
        command = [*COMMAND, "--as", "ada", "hooks", "install", agent, "--scope", "user"]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=PATIENCE_S)  # noqa: S603
        assert set(tree(home)) == made
        assert {stat.S_IMODE((home / name).stat().st_mode) for name in made} == {0o600}
        assert "ada" not in "".join(tree(home).values()), "each folder names its own agent"
    assert json.loads((tmp_path / ".tocsin" / "agent.json").read_text())["agent"] == "ada"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("hooks") / "data") as hub:
        for agent in ("ada", "bob"):
            hub.json("agents", "add", agent, "--save")
        hub.json("agents", "add", "boss", "--role", "director", "--save")
        yield hub


def checked(hub: RunningHub, agent: str, said: Any, *options: str) -> Any:
    """Run a check as a coding agent does, with what it says of the event on standard input."""
    command = [*COMMAND, "--url", hub.url, "--data", str(hub.data), "--as", agent, "hooks", "check", *options]
    text = said if isinstance(said, str) else json.dumps(said)
    done = subprocess.run(  # noqa: S603
        command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=hub.data.parent
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout) if done.stdout else None


AFTER_TOOL = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "session_id": "one"}


def text_of(said: Any) -> str:
    assert said is not None
    return str(said["hookSpecificOutput"]["additionalContext"])


def shown_in(said: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of(said).splitlines() if line.startswith("{")]


def sent(hub: RunningHub, to: str, text: str, priority: str = "Critical") -> str:
    return str(hub.json("send", to, text, "--priority", priority, agent="boss")["receipt"]["signal_id"])


def state_of(hub: RunningHub, message_id: str) -> str:
    return str(hub.json("messages", "show", message_id)[0]["state"])


@pytest.fixture
def bob(hub: RunningHub) -> Iterator[str]:
    """An agent without urgent messages and without sessions that checks remember."""
    yield "bob"
    while hub.json("inbox", "--take", agent="bob")["deliveries"]:
        pass
    (hub.data / "hooks" / "bob.json").unlink(missing_ok=True)


def test_a_check_is_silent_until_something_is_urgent_shows_it_once_and_confirms_nothing(
    hub: RunningHub, bob: str
) -> None:
    assert checked(hub, bob, AFTER_TOOL) is None
    sent(hub, bob, "no hurry", "Info")
    assert checked(hub, bob, AFTER_TOOL) is None, "what is not urgent does not interrupt"
    fire = sent(hub, bob, "fire")
    said = checked(hub, bob, AFTER_TOOL)
    assert said["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
    assert "not instructions" in text_of(said)
    assert [(one["message_id"], one["payload"]) for one in shown_in(said)] == [(fire, {"text": "fire"})]
    for _ in range(2):
        again = text_of(checked(hub, bob, AFTER_TOOL))
        assert (fire in again, "fire" in again.replace(fire, ""), len(again.splitlines())) == (True, False, 1)
    assert state_of(hub, fire) == "queued", "the coding agent may have dropped all of it"
    hub.run("call", "acknowledge_message", f"message_id={fire}", agent=bob)
    assert state_of(hub, fire) == "acknowledged"
    assert checked(hub, bob, AFTER_TOOL) is None
    assert "received by the recipient: its ACK implies it" in hub.run("trace", fire, agent="boss").stdout
    start = checked(hub, bob, {"hook_event_name": "SessionStart", "source": "startup"})
    assert "1 Info" in text_of(start)


def test_a_check_of_a_sub_agent_says_and_changes_nothing(hub: RunningHub, bob: str) -> None:
    fire = sent(hub, bob, "fire")
    for event in EVENTS:
        inner = {"hook_event_name": event, "session_id": "one", "agent_id": "a1", "agent_type": "general-purpose"}
        assert checked(hub, bob, inner) is None
    assert not (hub.data / "hooks" / "bob.json").exists()
    assert [one["message_id"] for one in shown_in(checked(hub, bob, AFTER_TOOL))] == [fire]


def test_nothing_is_said_at_events_whose_output_nobody_sees(hub: RunningHub, bob: str) -> None:
    fire = sent(hub, bob, "fire")
    for event in ("AfterAgent", "SessionEnd", "PreCompact", "SubagentStop", "Notification"):
        assert checked(hub, bob, {"hook_event_name": event, "session_id": "one"}) is None
        assert checked(hub, bob, {"session_id": "one"}, "--event", event) is None
    for event in ("AfterTool", "BeforeAgent"):
        said = checked(hub, bob, {"hook_event_name": event, "session_id": event})
        assert said["hookSpecificOutput"]["hookEventName"] == event
        assert [one["message_id"] for one in shown_in(said)] == [fire]


@pytest.mark.parametrize("source", ["compact", "resume", "clear", "startup"])
def test_a_session_that_begins_anew_is_shown_everything_again(hub: RunningHub, bob: str, source: str) -> None:
    fire = sent(hub, bob, "fire")
    for _ in range(2):
        begin = {"hook_event_name": "SessionStart", "source": source, "session_id": "one"}
        assert [one["message_id"] for one in shown_in(checked(hub, bob, begin))] == [fire]
        assert shown_in(checked(hub, bob, AFTER_TOOL)) == []


def test_each_session_is_shown_a_message(hub: RunningHub, bob: str) -> None:
    fire = sent(hub, bob, "fire")
    for session in ("one", "two"):
        assert [one["message_id"] for one in shown_in(checked(hub, bob, AFTER_TOOL | {"session_id": session}))] == [
            fire
        ]


@pytest.mark.parametrize("broken", ["", "{", "[1]", '{"one": 1}', '{"one": {"at": "x"}}', "[" * 9000])
def test_without_what_was_remembered_a_message_is_shown_again(hub: RunningHub, bob: str, broken: str) -> None:
    fire = sent(hub, bob, "fire")
    checked(hub, bob, AFTER_TOOL)
    (hub.data / "hooks" / "bob.json").write_text(broken)
    assert [one["message_id"] for one in shown_in(checked(hub, bob, AFTER_TOOL))] == [fire]
    assert state_of(hub, fire) == "queued"


def test_no_data_directory_is_created(hub: RunningHub, bob: str, tmp_path: Path) -> None:
    fire = sent(hub, bob, "fire")
    environment = os.environ | {"TOCSIN_TOKEN_FILE": str(hub.data / "tokens" / "bob.token"), "TOCSIN_URL": hub.url}
    for _ in range(2):
        done = subprocess.run(  # noqa: S603
            [*COMMAND, "hooks", "check"],
            input=json.dumps(AFTER_TOOL),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
            cwd=tmp_path,
            env=environment,
        )
        assert [one["message_id"] for one in shown_in(json.loads(done.stdout))] == [fire]
    assert list(tmp_path.iterdir()) == []


def test_what_is_remembered_is_limited(tmp_path: Path) -> None:
    for number in range(20):
        shown = ShownMessages(tmp_path, "ada", f"session {number}" + "x" * 1000)
        shown.add(f"msg_{number}_{message}" for message in range(200))
    known = json.loads((tmp_path / "hooks" / "ada.json").read_text())
    assert [len(session["shown"]) for session in known.values()] == [50] * 8
    assert all(len(name) <= 128 for name in known)
    for session in known.values():
        session["at"] -= 8 * 86_400
    (tmp_path / "hooks" / "ada.json").write_text(json.dumps(known))
    assert ShownMessages(tmp_path, "ada", f"session 19{'x' * 1000}").ids == {}


def test_an_agent_that_would_stop_goes_on_once_for_an_urgent_message(hub: RunningHub, bob: str) -> None:
    ends = {"hook_event_name": "Stop", "stop_hook_active": False, "session_id": "one"}
    assert checked(hub, bob, ends) is None
    wait = sent(hub, bob, "wait for me", "Blocking")
    assert checked(hub, bob, ends | {"stop_hook_active": True}) is None, "it went on already"
    answer = checked(hub, bob, ends)
    assert (answer["decision"], "wait for me" in answer["reason"]) == ("block", True)
    assert checked(hub, bob, ends) is None, "not for ever, also with a client that does not say that it went on"
    assert state_of(hub, wait) == "queued"


def test_an_agent_that_was_shown_a_message_before_goes_on_once_as_well(hub: RunningHub, bob: str) -> None:
    wait = sent(hub, bob, "wait for me", "Blocking")
    checked(hub, bob, AFTER_TOOL)
    ends = {"hook_event_name": "Stop", "session_id": "one"}
    answer = checked(hub, bob, ends)
    assert (wait in answer["reason"], "wait for me" in answer["reason"]) == (True, False)
    assert checked(hub, bob, ends) is None


def test_what_does_not_fit_comes_with_the_next_check(hub: RunningHub, bob: str) -> None:
    texts = [f"{number} " * 1000 for number in range(6)]
    messages = [sent(hub, bob, text, "Blocking") for text in texts]
    seen: list[str] = []
    while new := shown_in(checked(hub, bob, AFTER_TOOL)):
        assert len(new) <= 5
        assert [one["payload"]["text"] for one in new] == texts[len(seen) : len(seen) + len(new)], "whole, in order"
        seen += [one["message_id"] for one in new]
    assert seen == messages


def test_a_message_that_is_too_large_is_announced_with_the_call_that_fetches_it(hub: RunningHub, bob: str) -> None:
    large = sent(hub, bob, "x" * 20_000)
    small = sent(hub, bob, "fire")
    said = checked(hub, bob, AFTER_TOOL)
    assert [one["message_id"] for one in shown_in(said)] == [small]
    (line,) = [line for line in text_of(said).splitlines() if large in line]
    assert "Critical" in line
    assert "20,0" in line
    assert f'fetch_inbox with {{"message_id": "{large}"}}' in line
    assert text_of(checked(hub, bob, AFTER_TOOL)).count(large) == 1


def message(number: int, payload: Any, size: int = 0) -> dict[str, Any]:
    facts = {"sender": "ada", "type": "Question", "level": "Blocking", "correlation_id": None}
    return facts | {"message_id": f"m{number}", "payload": payload, "payload_bytes": size}


@pytest.mark.parametrize("text", ["x", '"', "\\", "é", "\N{FIRE}", "\n"])
@pytest.mark.parametrize("length", [100, 2_000, 7_000, 50_000])
def test_the_output_has_a_limit_whatever_the_messages(text: str, length: int) -> None:
    waiting = {"Info": 7, "Coordinate": 0, "Blocking": 2000, "Critical": 0, "DirectorOverride": 0}
    messages = [message(number, {"text": text * length}) for number in range(20)]
    notice = notice_of(messages, waiting, {f"m{number}" for number in range(5, 15)}, 9_000, True)
    assert notice.shown
    assert len(json.dumps(output_of("UserPromptSubmit", notice), ensure_ascii=False).encode()) <= 9_000


def test_the_rest_is_said_with_its_number_before_what_merely_waits() -> None:
    waiting = {"Info": 7, "Coordinate": 0, "Blocking": 2, "Critical": 2, "DirectorOverride": 0}
    notice = notice_of([message(1, {}), message(2, {})], waiting, {"m2"}, 9_000, True)
    lines = notice.text.splitlines()
    assert lines[0].startswith("Tocsin: 1 urgent message for you.")
    assert json.loads(lines[1])["message_id"] == "m1"
    assert "m2 (Blocking from ada)" in lines[2]
    assert lines[3].startswith("Tocsin: 2 more urgent messages not shown here (2 Critical, 2 Blocking in all)")
    assert lines[4].startswith("Tocsin: 7 Info waiting for you")
    assert (notice.shown, notice.named) == (("m1",), ("m2",))


def test_claude_gets_a_channel_only_if_asked(tmp_path: Path) -> None:
    said = hooks(tmp_path, "install", "claude", "--channel")
    assert "claude --dangerously-load-development-channels server:tocsin" in said
    server = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["tocsin"]
    assert server["args"] == ["-m", "tocsin", "mcp", "--channel"]
    hooks(tmp_path, "install", "claude")
    server = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["tocsin"]
    assert server["args"] == ["-m", "tocsin", "mcp"], "another installation takes its place"


def test_a_check_never_stands_in_the_way(hub: RunningHub, tmp_path: Path) -> None:
    for said in ("", "not json", "[1]", "[" * 5000):
        checked(hub, "ada", said)
    assert checked(hub, "stranger", {"hook_event_name": "Stop"}) is None
    for arguments in (
        ["--url", "http://127.0.0.1:1", "--as", "ada", "hooks", "check"],
        ["--url", "nonsense", "--as", "ada", "hooks", "check"],
        ["hooks", "check"],
    ):
        done = run(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), arguments
    assert run("hooks", "check", "--nonsense", cwd=tmp_path).returncode == 1, "2 would block the coding agent"
    assert tree(tmp_path) == {}, "a check makes no data directory"


def test_a_check_loads_nothing_that_is_slow() -> None:
    code = "import sys, tocsin.cli, tocsin.cli.hooks.check as c; c.main(['hooks', 'check']); print(*sys.modules)"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"typer", "rich", "yaml", "msgspec", "mcp", "starlette", "asyncio"}


def test_a_check_is_known_by_its_words_alone() -> None:
    assert is_check(["hooks", "check"])
    assert is_check(["--url", "u", "--data=d", "--as", "a", "hooks", "check", "--event", "Stop"])
    helped = ["hooks", "check", "--help"]
    for other in (["hooks", "show"], ["send", "hooks", "check"], ["--as", "hooks", "check"], [], ["--url"], helped):
        assert not is_check(other)


def test_what_is_said_depends_on_the_event() -> None:
    waiting = {"Info": 2, "Coordinate": 0, "Blocking": 1, "Critical": 0, "DirectorOverride": 0}
    nothing = notice_of([], {"Info": 2, "Blocking": 0}, (), 9_000, False)
    assert output_of("PostToolUse", nothing) is None
    assert output_of("SessionStart", notice_of([], {"Info": 0, "Blocking": 0}, (), 9_000, True)) is None
    assert "2 Info" in str(output_of("UserPromptSubmit", notice_of([], waiting, (), 9_000, True)))
    stop = output_of("Stop", notice_of([message(1, {})], waiting, (), 9_000, False))
    assert stop is not None
    assert (stop["decision"], "m1" in stop["reason"], "Info" in stop["reason"]) == ("block", True, False)
