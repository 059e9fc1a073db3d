"""The configuration files of coding agents: what Tocsin puts into them, and how it gets in without breaking anything.

A file is read whole, changed only where Tocsin's own entries are, and replaced in one step, with the file as it was
kept beside it. What cannot be read is left alone. No token is ever written: the entries name environment variables or
a file that only its owner can read.
"""

import json
import os
import re
import shlex
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocsin.cli.remote import DEFAULT_URL

__all__ = ["Change", "ClaudeFiles", "CodexFiles", "HookFiles", "Unreadable", "Wiring", "apply"]

_NAME = "tocsin"
#: How an entry of ours is told from others.
_MARK = " hooks check"
_BACKUP = ".before-tocsin"
#: Safe points: where a coding agent can be told something without being interrupted (Claude Code, Codex).
_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
#: Time that the coding agent gives a check, seconds; the check itself gives up earlier.
_TIMEOUT_S = 10
#: Variables that say who one is.
_IDENTITY = ("TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE")
_BEGIN, _END = "# >>> tocsin >>>", "# <<< tocsin <<<"
_BLOCK = re.compile(rf"\n*^{_BEGIN}$.*?^{_END}$\n?", re.MULTILINE | re.DOTALL)


class Unreadable(Exception):
    """A file is not what it should be; it was left as it is."""


class Wiring:
    """How the entries call Tocsin: as which program, and with which options before the subcommand."""

    def __init__(self, command: str, url: str | None, agent: str | None, data: Path, root: str = "") -> None:
        self.command = command
        options = [] if url is None else ["--url", url]
        checks = [shlex.quote(word) for word in [command, *options]]
        if agent is not None:
            options += ["--data", str(data), "--as", agent]
            # A hook runs wherever the coding agent happens to be: `root` is what its shell knows the project by.
            place = shlex.quote(str(data)) if data.is_absolute() or not root else f'"{root}"/{shlex.quote(str(data))}'
            checks += ["--data", place, "--as", shlex.quote(agent)]
        #: Arguments that make the program an MCP server.
        self.arguments = [*options, "mcp"]
        #: The shell command of a check.
        self.check = " ".join([*checks, "hooks", "check"])
        #: Whether who calls is left to the environment.
        self.by_environment = agent is None


class Change:
    """What one file is, and what it would be."""

    def __init__(self, path: Path, before: str | None, after: str | None) -> None:
        self.path = path
        #: Nothing where the file is not there, or not to be there.
        self.before = before
        self.after = after

    @property
    def is_one(self) -> bool:
        """Tell whether anything would change."""
        return self.before != self.after


class HookFiles:
    """The files of one coding agent at one place."""

    def __init__(self, *files: "tuple[Path, Callable[[str, Wiring | None], str]]") -> None:
        self._files = files

    def changes(self, wiring: Wiring | None) -> list[Change]:
        """Return what installing with a wiring would change, or uninstalling without one."""
        found = []
        for path, edit in self._files:
            before = _text(path)
            if before is None and wiring is None:
                continue
            try:
                after = edit(before or "", wiring)
            except Unreadable as error:
                raise Unreadable(f"{path}: {error}") from None
            gone = after != before and after.strip() in ("", "{}")
            found.append(Change(path, before, None if gone else after))
        return found

    def installed(self) -> dict[Path, bool]:
        """Say of each file whether Tocsin's entries are in it."""
        changed = {change.path: change.is_one for change in self.changes(None)}
        return {path: changed.get(path, False) for path, _ in self._files}


class ClaudeFiles(HookFiles):
    """Claude Code: the MCP server in `.mcp.json`, the hooks in `.claude/settings.json`."""

    def __init__(self, root: Path, *, user: bool) -> None:
        servers = root / (".claude.json" if user else ".mcp.json")
        super().__init__((servers, _json_server), (root / ".claude" / "settings.json", _json_hooks))


class CodexFiles(HookFiles):
    """Codex: the MCP server in `config.toml`, the hooks in `hooks.json` beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__((folder / "config.toml", _toml_server), (folder / "hooks.json", _json_hooks))


def apply(change: Change) -> None:
    """Replace a file in one step, keeping what it was beside it."""
    path = change.path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    if change.before is not None:
        _write(path.with_name(path.name + _BACKUP), change.before, mode)
    if change.after is None:
        path.unlink()
    else:
        _write(path, change.after, mode)


def _write(path: Path, text: str, mode: int) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None


def _json(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text or "{}")
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Unreadable("it is not a JSON object")
    return document


def _part(document: dict[str, Any], name: str, kind: type) -> Any:
    part = document.get(name, kind())
    if not isinstance(part, kind):
        raise Unreadable(f"{name} is not {'an object' if kind is dict else 'a list'}")
    return part


def _rendered(text: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Write a document, or leave it exactly as it was where it says the same."""
    return text if text and before == after else json.dumps(after, indent=2, ensure_ascii=False) + "\n"


def _json_server(text: str, wiring: Wiring | None) -> str:
    before = _json(text)
    servers = {name: server for name, server in _part(before, "mcpServers", dict).items() if name != _NAME}
    if wiring is not None:
        environment = {name: f"${{{name}:-}}" for name in _IDENTITY} | {"TOCSIN_URL": f"${{TOCSIN_URL:-{DEFAULT_URL}}}"}
        own = {"type": "stdio", "command": wiring.command, "args": wiring.arguments}
        servers[_NAME] = own | {"env": environment} if wiring.by_environment else own
    after = _with(before, "mcpServers", servers)
    return _rendered(text, before, after)


def _json_hooks(text: str, wiring: Wiring | None) -> str:
    before = _json(text)
    hooks = {event: _others(groups) for event, groups in _part(before, "hooks", dict).items()}
    hooks = {event: groups for event, groups in hooks.items() if groups}
    if wiring is not None:
        for event in _EVENTS:
            own = {"type": "command", "command": wiring.check, "timeout": _TIMEOUT_S}
            hooks[event] = [*hooks.get(event, []), {"hooks": [own]}]
    after = _with(before, "hooks", hooks)
    return _rendered(text, before, after)


def _others(groups: Any) -> list[Any]:
    """Return the groups of an event without the hooks that are ours."""
    if not isinstance(groups, list):
        raise Unreadable("hooks of an event are not a list")
    kept = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list):
            kept.append(group)
            continue
        rest = [hook for hook in hooks if not _is_ours(hook)]
        if len(rest) == len(hooks):
            kept.append(group)
        elif rest:
            kept.append(group | {"hooks": rest})
    return kept


def _is_ours(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and _NAME in command and command.endswith(_MARK)


def _with(document: dict[str, Any], name: str, part: dict[str, Any]) -> dict[str, Any]:
    if part or document.get(name) == part:
        return document | {name: part}
    return {key: value for key, value in document.items() if key != name}


def _toml_server(text: str, wiring: Wiring | None) -> str:
    kept = _BLOCK.sub("\n", text) if _BLOCK.search(text) else text
    kept = kept.lstrip("\n") if kept != text else kept
    others = _toml(kept)
    if wiring is None:
        return kept
    if _NAME in others.get("mcp_servers", {}):
        raise Unreadable("it has an [mcp_servers.tocsin] of its own: take that out first")
    values = {"command": wiring.command, "args": wiring.arguments}
    lines = [_BEGIN, f"[mcp_servers.{_NAME}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    if wiring.by_environment:
        lines.append(f"env_vars = {json.dumps([*_IDENTITY, 'TOCSIN_URL'])}")
    after = kept + ("\n" if kept else "") + "\n".join([*lines, _END]) + "\n"
    merged = _toml(after)
    merged.get("mcp_servers", {}).pop(_NAME, None)
    if not merged.get("mcp_servers"):
        merged.pop("mcp_servers", None)
    if merged != others:
        raise Unreadable("it would not say the same any more")
    return after


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"it is not TOML: {error}") from None
