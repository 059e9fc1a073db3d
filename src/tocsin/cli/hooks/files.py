"""Tocsin's entries in the configuration files of coding agents.

A file is read completely, changed only in Tocsin's own entries, and replaced in one step; a copy of the old file is
kept beside it. A file that cannot be read is not changed. Tokens are never written: the entries name environment
variables, or a file that only its owner can read.
"""

import json
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocsin.cli.identity import TreeAgent, repository_of, tree_root

__all__ = [
    "CHECK_TIMEOUT_S",
    "STARTUP_S",
    "Change",
    "ClaudeFiles",
    "CodexFiles",
    "HookFiles",
    "Unreadable",
    "Wiring",
    "apply",
    "own_program",
    "text_of",
]

_NAME = "tocsin"
#: Ending of Tocsin's own commands, by which they are recognised.
_MARK = " hooks check"
_BACKUP = ".before-tocsin"
#: Events at which a coding agent accepts messages without being interrupted (Claude Code, Codex).
_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
#: Seconds after which the coding agent ends a check; the check itself gives up earlier.
CHECK_TIMEOUT_S = 10
#: Variables that Codex is to pass on to the MCP server; Claude Code passes all.
_VARIABLES = ("TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE", "TOCSIN_URL", "TOCSIN_DATA")
#: Seconds that Codex waits for the MCP server to start; it starts no session without a server that is required.
STARTUP_S = 30
#: Rule by which Claude Code uses the tools without asking.
_RULE = f"mcp__{_NAME}"
_BEGIN, _END = "# >>> tocsin >>>", "# <<< tocsin <<<"
_BLOCK = re.compile(rf"\n*^{_BEGIN}$.*?^{_END}$\n?", re.MULTILINE | re.DOTALL)


class Unreadable(Exception):
    """A file cannot be read or has an unexpected form; it was not changed."""


def own_program() -> list[str]:
    """Return the words that start this installation of Tocsin, wherever they are run."""
    started = Path(sys.argv[0])
    if started.name.startswith(_NAME) and started.is_file():
        return [str(started.absolute())]
    return [sys.executable, "-m", _NAME]


class Wiring:
    """The program and the options with which the entries call Tocsin; they name no agent."""

    def __init__(
        self,
        command: str,
        url: str | None,
        agent: TreeAgent | None = None,
        *,
        channel: bool = False,
        allows: bool = False,
    ) -> None:
        #: The program, and the words after it that start Tocsin.
        self.program, *words = shlex.split(command) if command else own_program()
        options = [] if url is None else ["--url", url]
        #: Arguments that make the program an MCP server.
        self.arguments = [*words, *options, "mcp", *(["--channel"] if channel else [])]
        #: The shell command of a check.
        self.check = shlex.join([self.program, *words, *options, "hooks", "check"])
        #: The agent of the working tree; null leaves it to the environment, or as it is.
        self.agent = agent
        #: Whether the coding agent may use the MCP server and its tools without asking.
        self.allows = allows


class Change:
    """A file before and after a change."""

    def __init__(
        self, path: Path, before: str | None, after: str | None, mode: int = 0o644, *, is_own: bool = False
    ) -> None:
        self.path = path
        #: Whether nobody but Tocsin writes the file.
        self.is_own = is_own
        #: Mode of the file, if it does not exist yet.
        self.mode = mode
        #: None if the file does not exist, or is to be deleted.
        self.before = before
        self.after = after

    @property
    def is_one(self) -> bool:
        """Return whether the file changes."""
        return self.before != self.after


class HookFiles:
    """The files of one coding agent in one place."""

    #: The file with the inbox checks.
    checks: Path
    #: The file with the MCP server.
    server: Path

    def __init__(self, *files: "tuple[Path, Callable[[str, Wiring | None], str]]", mode: int = 0o644) -> None:
        self._files = files
        self._mode = mode

    def changes(self, wiring: Wiring | None) -> list[Change]:
        """Return the changes of installing with a wiring, or of uninstalling without one."""
        found = []
        for path, edit in self._files:
            before = text_of(path)
            if before is None and wiring is None:
                continue
            try:
                after = edit(before or "", wiring)
            except Unreadable as error:
                raise Unreadable(f"{path}: {error}") from None
            gone = after != before and after.strip() in ("", "{}")
            found.append(Change(path, before, None if gone else after, self._mode))
        return found

    def installed(self) -> dict[Path, bool]:
        """Return for each file whether it contains Tocsin's entries."""
        changed = {change.path: change.is_one for change in self.changes(None)}
        return {path: changed.get(path, False) for path, _ in self._files}


class ClaudeFiles(HookFiles):
    """Claude Code: the MCP server in `.mcp.json`, the hooks in `.claude/settings.json`."""

    def __init__(self, root: Path, *, user: bool) -> None:
        self.server, self.checks = root / (".claude.json" if user else ".mcp.json"), root / ".claude" / "settings.json"
        super().__init__((self.server, _json_server), (self.checks, _json_settings), mode=0o600 if user else 0o644)


class CodexFiles(HookFiles):
    """Codex: the MCP server in `config.toml`, the hooks in `hooks.json`.

    In a linked git worktree Codex reads the server from the worktree and the hooks from the main checkout.
    """

    def __init__(self, folder: Path, *, user: bool) -> None:
        root = tree_root(folder.parent)
        repository = None if user else repository_of(root)
        #: Whether the checks are those of the main checkout, and serve all its worktrees.
        self.shares_checks = repository is not None and repository.name == ".git"
        #: Whether Codex finds no checks here, because the worktree belongs to a repository without a main checkout.
        self.has_no_place = repository is not None and not self.shares_checks
        place = repository.parent / folder.relative_to(root) if repository and self.shares_checks else folder
        self.server, self.checks = folder / "config.toml", place / "hooks.json"
        super().__init__((self.server, _toml_server), (self.checks, _json_hooks), mode=0o600 if user else 0o644)

    def changes(self, wiring: Wiring | None) -> list[Change]:
        """Return the changes; uninstalling leaves checks that other working trees share."""
        found = super().changes(wiring)
        return [one for one in found if wiring is not None or one.path == self.server or not self.shares_checks]

    def installed(self) -> dict[Path, bool]:
        """Return for each file whether it contains Tocsin's entries."""
        changed = {change.path: change.is_one for change in super().changes(None)}
        return {path: changed.get(path, False) for path, _ in self._files}


def apply(change: Change) -> None:
    """Replace a file in one step, and keep a copy of the old one beside it, unless the file is Tocsin's own."""
    path = change.path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else change.mode
    if change.before is not None and not change.is_own:
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


def text_of(path: Path) -> str | None:
    """Return the content of a file; null if it does not exist."""
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
    """Return a document as text; the original text if its content did not change."""
    return text if text and before == after else json.dumps(after, indent=2, ensure_ascii=False) + "\n"


def _json_server(text: str, wiring: Wiring | None) -> str:
    before = _json(text)
    servers = {name: server for name, server in _part(before, "mcpServers", dict).items() if name != _NAME}
    if wiring is not None:
        servers[_NAME] = {"type": "stdio", "command": wiring.program, "args": wiring.arguments}
    after = _with(before, "mcpServers", servers)
    return _rendered(text, before, after)


def _json_settings(text: str, wiring: Wiring | None) -> str:
    """Edit Claude Code's settings: the hooks, and what it is allowed without asking."""
    before = _json(text)
    after = _json(_json_hooks(text, wiring))
    if wiring is None or wiring.allows:
        permissions = _part(before, "permissions", dict)
        permissions = _with(permissions, "allow", _listed(permissions, "allow", _RULE, there=wiring is not None))
        after = _with(after, "permissions", permissions)
        servers = _listed(before, "enabledMcpjsonServers", _NAME, there=wiring is not None)
        after = _with(after, "enabledMcpjsonServers", servers)
    return _rendered(text, before, after)


def _listed(document: dict[str, Any], name: str, item: str, *, there: bool) -> list[Any]:
    """Return a list of a document with or without Tocsin's own item."""
    found = _part(document, name, list)
    rest = [one for one in found if one != item]
    return found if there and item in found else [*rest, item] if there else rest


def _json_hooks(text: str, wiring: Wiring | None) -> str:
    before = _json(text)
    hooks = {event: _others(groups) for event, groups in _part(before, "hooks", dict).items()}
    hooks = {event: groups for event, groups in hooks.items() if groups}
    if wiring is not None:
        for event in _EVENTS:
            own = {"type": "command", "command": wiring.check, "timeout": CHECK_TIMEOUT_S}
            hooks[event] = [*hooks.get(event, []), {"hooks": [own]}]
    after = _with(before, "hooks", hooks)
    return _rendered(text, before, after)


def _others(groups: Any) -> list[Any]:
    """Return the groups of an event without Tocsin's own hooks."""
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


def _with(document: dict[str, Any], name: str, part: Any) -> dict[str, Any]:
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
        raise Unreadable("it has another [mcp_servers.tocsin] already: remove that first")
    values: dict[str, Any] = {"command": wiring.program, "args": wiring.arguments, "env_vars": _VARIABLES}
    values |= {"required": True, "startup_timeout_sec": STARTUP_S}
    if wiring.allows:
        values["default_tools_approval_mode"] = "approve"
    lines = [_BEGIN, f"[mcp_servers.{_NAME}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    after = kept + ("\n" if kept else "") + "\n".join([*lines, _END]) + "\n"
    merged = _toml(after)
    merged.get("mcp_servers", {}).pop(_NAME, None)
    if not merged.get("mcp_servers"):
        merged.pop("mcp_servers", None)
    if merged != others:
        raise Unreadable("other entries of the file would change")
    return after


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"it is not TOML: {error}") from None
