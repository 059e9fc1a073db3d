"""`tocsin hooks`: install, show and remove inbox checks in coding agents, and the commit guard in git."""

import difflib
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.context import Json
from tocsin.cli.hooks.check import check as run_check
from tocsin.cli.hooks.files import (
    Change,
    ClaudeFiles,
    CodexFiles,
    HookFiles,
    Unreadable,
    Wiring,
    apply,
)
from tocsin.cli.hooks.git import OUTDATED, guard_commit, guard_of, install_git, uninstall_git
from tocsin.cli.hooks.trees import agent_changes
from tocsin.cli.identity import AGENT_FILE, TreeAgent, identify
from tocsin.cli.output import fail, show_json, table
from tocsin.cli.output.terminal import console
from tocsin.cli.remote import DEFAULT_URL, Exit, Unusable

__all__ = ["hooks"]

hooks = typer.Typer(
    help="Connect Claude Code or Codex, and guard commits in git: install, show, uninstall.", no_args_is_help=True
)
install = typer.Typer(
    help="Install inbox checks and the MCP server in a coding agent, or the guard in a git repository.",
    no_args_is_help=True,
)
uninstall = typer.Typer(help="Remove what `tocsin hooks install` has added.", no_args_is_help=True)
hooks.add_typer(install, name="install")
hooks.add_typer(uninstall, name="uninstall")
install.command("git")(install_git)
uninstall.command("git")(uninstall_git)
hooks.command("guard-commit")(guard_commit)


class Scope(StrEnum):
    """Places of a coding agent's files."""

    PROJECT = "project"
    USER = "user"


ScopeOption = Annotated[
    Scope, typer.Option(help="project: the files in this directory; user: those in the home directory.")
]
Command = Annotated[
    str, typer.Option(help="Command with which the coding agent starts tocsin; by default this program, by its path.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")]


Allow = Annotated[
    bool, typer.Option("--allow", help="Let the coding agent use Tocsin's server and tools without asking.")
]


def _claude(scope: Scope) -> ClaudeFiles:
    user = scope is Scope.USER
    return ClaudeFiles(Path.home() if user else Path.cwd(), user=user)


def _codex(scope: Scope) -> CodexFiles:
    user = scope is Scope.USER
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    return CodexFiles(home if user else Path.cwd() / ".codex", user=user)


_AGENTS: dict[str, Callable[[Scope], HookFiles]] = {"claude": _claude, "codex": _codex}


def _wiring(context: typer.Context, command: str, *, channel: bool = False, allows: bool = False) -> Wiring:
    """Return what the entries call; the agent is written into a file of the working tree."""
    given = context.find_root().params
    url = None if given["url"] == DEFAULT_URL else given["url"]
    name, data = given["agent"], given["data"].resolve()
    agent = None if name is None else TreeAgent(AGENT_FILE, name, data)
    return Wiring(command, url, agent, channel=channel, allows=allows)


def _change(agent: str, scope: Scope, wiring: Wiring | None, *, dry_run: bool, as_json: bool) -> None:
    files = _AGENTS[agent](scope)
    try:
        changes = files.changes(wiring)
        if wiring is None and not _is_used(files):
            changes += agent_changes(Path.cwd(), None)
        elif wiring is not None and wiring.agent is not None:
            changes += agent_changes(Path.cwd(), wiring.agent)
        for change in changes:
            if change.is_one and not dry_run:
                apply(change)
    except (Unreadable, OSError) as error:
        raise fail(f"nothing was changed for {agent}: {error}", Exit.FAILED) from None
    if as_json:
        show_json([{"file": str(change.path), "changed": change.is_one} for change in changes])
        return
    for change in changes:
        if dry_run:
            console.print(_diff(change), markup=False, soft_wrap=True, end="")
        else:
            what = "unchanged" if not change.is_one else "removed" if change.after is None else "changed"
            console.print(f"{change.path}: {what}", markup=False, soft_wrap=True)
    if wiring is not None and not dry_run:
        _tell_next(agent, scope, wiring)


def _is_used(but: HookFiles) -> bool:
    """Return whether other entries than some, or the git guard, use the agent of this working tree."""
    others = [files(Scope.PROJECT) for files in _AGENTS.values()]
    guard = guard_of(Path.cwd())
    return (guard is not None and guard.installed) or any(
        other.installed()[other.server] for other in others if other.server != but.server
    )


def _tell_next(agent: str, scope: Scope, wiring: Wiring) -> None:
    said = [_NEXT[agent]]
    if wiring.agent is not None:
        token = wiring.agent.data / "tokens" / f"{wiring.agent.agent}.token"
        if not token.exists():
            said.append(
                f"{token} does not exist yet: tocsin --data {wiring.agent.data} agents add {wiring.agent.agent} --save"
            )
        said.append(f"Prove that it works, once it was started: tocsin doctor --agent {wiring.agent.agent}")
    if agent == "claude" and scope is Scope.PROJECT:
        said.append(_SUB_FOLDERS)
    for line in said:
        console.print(line, markup=False, soft_wrap=True)


_NEXT = {
    "claude": "Restart Claude Code and accept what it asks; /mcp and /hooks show the new entries.",
    "codex": "Restart Codex and trust the folder; /mcp shows the server, and /hooks asks you to trust the checks.",
}
_SUB_FOLDERS = (
    "Claude Code runs these checks only if it is started in this folder; for its sub folders install with --scope user."
)


_CHANNEL = """\
Channels are a preview of Claude Code (2.1.80 or later). Start it with:
  claude --dangerously-load-development-channels server:tocsin"""


def _diff(change: Change) -> str:
    before, after = (change.before or "").splitlines(keepends=True), (change.after or "").splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, str(change.path), str(change.path)))


@install.command("claude")
def install_claude(
    context: typer.Context,
    scope: ScopeOption = Scope.PROJECT,
    command: Command = "",
    allow: Allow = False,
    channel: Annotated[
        bool,
        typer.Option(
            "--channel", help="Also notify an idle Claude Code of messages that wait, and relay its permission prompts."
        ),
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Claude Code: .mcp.json and .claude/settings.json, or ~/.claude.json and ~/.claude/settings.json."""
    wiring = _wiring(context, command, channel=channel, allows=allow)
    _change("claude", scope, wiring, dry_run=dry_run, as_json=as_json)
    if channel and not as_json:
        console.print(_CHANNEL, markup=False, soft_wrap=True)


@install.command("codex")
def install_codex(
    context: typer.Context,
    scope: ScopeOption = Scope.PROJECT,
    command: Command = "",
    allow: Allow = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Codex: .codex/config.toml and .codex/hooks.json, here (in a git worktree: of its main checkout) or at home."""
    if _codex(scope).has_no_place:
        detail = "Codex reads the checks of a git worktree from the main checkout, and this repository has none"
        raise fail(f"nothing was changed for codex: {detail}; install with --scope user", Exit.FAILED)
    _change("codex", scope, _wiring(context, command, allows=allow), dry_run=dry_run, as_json=as_json)


@uninstall.command("claude")
def uninstall_claude(scope: ScopeOption = Scope.PROJECT, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Remove Tocsin's entries, and nothing else, from Claude Code's files."""
    _change("claude", scope, None, dry_run=dry_run, as_json=as_json)


@uninstall.command("codex")
def uninstall_codex(scope: ScopeOption = Scope.PROJECT, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Remove Tocsin's entries, and nothing else, from Codex's files."""
    _change("codex", scope, None, dry_run=dry_run, as_json=as_json)


@hooks.command("show")
def show(context: typer.Context, as_json: Json = False) -> None:
    """Show where Tocsin is installed, this folder's agent, and the checks that have run for it."""
    rows: list[dict[str, Any]] = []
    for agent, files in _AGENTS.items():
        for scope in Scope:
            try:
                found = files(scope).installed()
            except Unreadable as error:
                rows.append({"agent": agent, "scope": scope, "file": str(error), "installed": None})
                continue
            rows += [
                {"agent": agent, "scope": scope, "file": str(path), "installed": there} for path, there in found.items()
            ]
    guard = guard_of(Path.cwd())
    if guard is not None:
        row = {"agent": "git", "scope": "repository", "file": str(guard.file), "installed": guard.installed}
        rows.append(row | {"outdated": guard.is_outdated})
    if as_json:
        show_json(rows)
        return
    table(rows, "agent", "scope", "file", "installed")
    if guard is not None and guard.is_outdated:
        console.print(f"git guard: {OUTDATED}; tocsin hooks install git replaces it", markup=False, soft_wrap=True)
    _tell_agent(context)


def _tell_agent(context: typer.Context) -> None:
    """Say who works in this folder, and which checks have run."""
    from tocsin.cli.hooks.connection import fired
    from tocsin.cli.hooks.firings import firings_of

    given = context.find_root().params
    try:
        identity = identify(given["data"], given["agent"])
        who = f"{identity.key()} ({identity.source})" if identity.is_known else "no agent"
        said = [f"this folder: {who}"]
        if identity.is_known:
            ran = fired("checks", firings_of(identity.data, identity.key())).detail
            said += [identity.missing(), f"checks that ran last: {ran}"]
    except Unusable as error:
        said = [f"this folder: {error}"]
    for line in filter(None, said):
        console.print(line, markup=False, soft_wrap=True)


@hooks.command("check")
def check(
    context: typer.Context,
    event: Annotated[str | None, typer.Option(help="The event, if standard input does not name it.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the agent's token.")] = None,
    timeout_s: Annotated[float, typer.Option(help="Seconds after which it prints nothing.")] = 2.0,
) -> None:
    """Print the messages that wait for a coding agent; print nothing if there are none or no hub answers."""
    given = context.find_root().params
    run_check(given["url"], given["data"], given["agent"], token_file, timeout_s, event)
