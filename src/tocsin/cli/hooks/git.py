"""`tocsin hooks install git`: a pre-commit guard that refuses commits to paths that another agent holds.

The guard asks the hub which of the staged paths others hold. All working trees of a repository share its hooks, so the
script names no agent: who commits is the agent of the working tree, or that of a token of the process. If there is no
agent, no hub answers, or the hub refuses, the commit passes with a warning: a guard that stops all work whenever the
hub is down does not stay installed. With `--strict` the commit is refused instead, also if Tocsin itself cannot be
started. An existing hook is kept, runs first, and is restored when the guard is removed.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from tocsin.cli.context import Json, project_data
from tocsin.cli.hooks.files import Unreadable, apply, own_program
from tocsin.cli.hooks.trees import agent_changes
from tocsin.cli.identity import AGENT_FILE, TreeAgent, agent_of_tree, identify, tree_root
from tocsin.cli.output import UNREADABLE, fail, show_json
from tocsin.cli.output.replies import cell
from tocsin.cli.output.terminal import console
from tocsin.cli.remote import DEFAULT_URL, Exit, Refused, Remote, Unreachable, Unusable
from tocsin.wire.leases import PathConflict

__all__ = ["OUTDATED", "Guard", "guard_commit", "guard_of", "install_git", "uninstall_git"]

#: What is wrong with a guard of an earlier version.
OUTDATED = "of an earlier version: its script names an agent or a data directory for all working trees"

#: First words of the guard, by which it is recognised.
_MARK = "# The commit guard of tocsin"
_CALL = " hooks guard-commit"
_BEFORE = "pre-commit.before-tocsin"
#: Paths per request, and seconds that a commit waits for the reply.
_BATCH = 500
_TIMEOUT_S = 10.0
#: Seconds that a command of git may take.
_GIT_TIMEOUT_S = 60.0
#: Variable that Codex sets in commands of its sandbox without a network, and what to do then.
_SANDBOXED = "CODEX_SANDBOX_NETWORK_DISABLED"
_SANDBOX = (
    "Codex's sandbox lets its commands connect to nothing, not even to a hub on this machine. To allow it, write"
    " `network_access = true` under [sandbox_workspace_write] into Codex's config.toml"
)

Strict = Annotated[bool, typer.Option("--strict", help="Refuse the commit also if the hub cannot be asked.")]


class Guard(NamedTuple):
    """The pre-commit hook that git runs in a folder."""

    file: Path
    #: Whether it is Tocsin's guard.
    installed: bool
    #: Whether its script names an agent or a data directory, as those of earlier versions did.
    is_outdated: bool


def guard_of(folder: Path) -> Guard | None:
    """Return the pre-commit hook that git runs in a folder; null outside of a repository."""
    try:
        hook = _hook_of(folder)
    except Unusable:
        return None
    try:
        script = hook.read_text(encoding="utf-8", errors="replace")
    except OSError:
        script = ""
    options = "".join(line.partition(_CALL)[0] for line in script.splitlines() if _CALL in line)
    return Guard(hook, _MARK in script, _MARK in script and any(name in options for name in (" --as ", " --data ")))


def install_git(
    context: typer.Context,
    strict: Strict = False,
    prefix: Annotated[str, typer.Option(help="Prefix of the paths of this repository in resource names.")] = "",
    command: Annotated[
        str, typer.Option(help="Command with which git starts tocsin; by default this program, by its path.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Git: a pre-commit guard for all working trees of this repository; with --as it names the agent of this one."""
    given = context.find_root().params
    script = _script(given["url"], strict=strict, prefix=prefix, command=command)
    root = tree_root(Path.cwd())
    try:
        hook = _hook_of(Path.cwd())
        before = hook.with_name(_BEFORE)
        hook.parent.mkdir(parents=True, exist_ok=True)
        if hook.exists() and not _is_ours(hook):
            if before.exists():
                raise fail(f"{hook} is not the guard, and {before} exists already: move one of them away", Exit.FAILED)
            hook.rename(before)
        hook.write_text(script, encoding="utf-8")
        hook.chmod(0o755)
        if given["agent"] is not None:
            for change in agent_changes(root, TreeAgent(AGENT_FILE, given["agent"], given["data"].resolve())):
                apply(change)
    except (OSError, Unreadable, Unusable) as error:
        raise fail(f"the guard cannot be installed: {error}", Exit.FAILED) from None
    try:
        here = agent_of_tree(Path.cwd())
        who = _nobody(root) if here is None else f"commits in {root} are checked as those of {here.agent}"
    except Unusable as error:
        here, who = None, str(error)
    kept = str(before) if before.exists() else None
    _done(
        {"file": str(hook), "kept": kept, "agent": None if here is None else here.agent},
        f"{hook}: the guard is installed for all working trees of the repository\n{who}",
        as_json,
    )


def uninstall_git(as_json: Json = False) -> None:
    """Remove the guard from this repository, and restore the hook that was there before."""
    try:
        hook = _hook_of(Path.cwd())
        before = hook.with_name(_BEFORE)
        ours = hook.exists() and _is_ours(hook)
        if ours:
            hook.unlink()
            if before.exists():
                before.rename(hook)
    except (OSError, Unusable) as error:
        raise fail(f"the guard cannot be removed: {error}", Exit.FAILED) from None
    what = "the guard is removed" if ours else "there was no guard"
    _done({"file": str(hook), "removed": ours}, f"{hook}: {what}", as_json)


def guard_commit(
    context: typer.Context,
    strict: Strict = False,
    prefix: Annotated[str, typer.Option(help="Prefix of the paths of this repository in resource names.")] = "",
    as_json: Json = False,
) -> None:
    """Fail if another agent holds a staged path; git runs this before a commit."""
    try:
        staged = _git("diff", "--cached", "--name-only", "--no-renames", "-z")
    except Unusable as error:
        raise fail(str(error), Exit.FAILED) from None
    paths = [prefix + path for path in staged.split("\0") if path]
    held: list[PathConflict] = []
    given = context.find_root().params
    # Git runs hooks at the root of the working tree, and names the folder in which the commit was made.
    folder = Path.cwd() / os.environ.get("GIT_PREFIX", "")
    try:
        identity = identify(project_data(context), given["agent"], folder=folder)
        if paths and not identity.is_known:
            raise Unusable(_nobody(tree_root(folder)))
        headers = {} if given["project"] is None else {"Tocsin-Project": given["project"]}
        remote = Remote(
            given["url"],
            identity.token(),
            agent=identity.agent or "",
            headers=headers,
            timeout_s=_TIMEOUT_S,
            no_token=identity.missing(),
        )
        for start in range(0, len(paths), _BATCH):
            held += remote.ask("check_paths", {"paths": paths[start : start + _BATCH]})
        lines = [
            f"  {one.path}: {one.holder} holds {one.resource}{' (shared)' * one.shared} until {cell(one.expires_at)}"
            f" ({one.lease})"
            for one in held
        ]
    except (Unreachable, Refused, OSError, *UNREADABLE) as error:
        reason = _SANDBOX if isinstance(error, Unreachable) and os.environ.get(_SANDBOXED) else error
        if strict:
            raise fail(
                f"tocsin: the leases cannot be checked, and the guard is strict: {reason}", Exit.FAILED
            ) from None
        sys.stderr.write(f"tocsin: the commit was not checked: {reason}\n")
        return
    if as_json:
        show_json(held)
    if lines:
        advice = "Wait for them, or ask them or a director; git commit --no-verify skips this guard."
        raise fail("\n".join(["tocsin: this commit changes paths that others hold:", *lines, advice]), Exit.FAILED)


def _nobody(root: Path) -> str:
    """Say that nobody is known who commits, and what to do."""
    return f"no agent is named for {root}: run `tocsin --data DIRECTORY --as NAME hooks install git` there"


def _script(url: str, *, strict: bool, prefix: str, command: str) -> str:
    words = shlex.split(command) if command else own_program()
    options = [] if url == DEFAULT_URL else ["--url", url]
    arguments = ["hooks", "guard-commit", *(["--strict"] if strict else []), *(["--prefix", prefix] if prefix else [])]
    return f"""#!/bin/sh
{_MARK}; remove it with: tocsin hooks uninstall git
before="$(dirname "$0")/{_BEFORE}"
if [ -x "$before" ]; then "$before" "$@" || exit $?; fi
{shlex.join([*words, *options, *arguments])}
status=$?
if [ $status -eq 126 ] || [ $status -eq 127 ]; then
    echo "tocsin: the commit was not checked: "{shlex.quote(words[0])}" cannot be started" >&2
    exit {int(strict)}
fi
exit $status
"""


def _is_ours(hook: Path) -> bool:
    return _MARK in hook.read_text(encoding="utf-8", errors="replace")


def _hook_of(folder: Path) -> Path:
    """Return the file of the pre-commit hook of a folder; the hooks may be elsewhere (`core.hooksPath`)."""
    found = _git("-C", str(folder), "rev-parse", "--git-path", "hooks")
    return (folder / found.strip()).resolve() / "pre-commit"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False, timeout=_GIT_TIMEOUT_S)  # noqa: S603, S607
    except FileNotFoundError:
        raise Unusable("git was not found") from None
    except subprocess.TimeoutExpired:
        raise Unusable(f"git has not answered within {_GIT_TIMEOUT_S:g} s") from None
    if done.returncode:
        raise Unusable(f"git: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode("utf-8", errors="surrogateescape")


def _done(answer: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        console.print(text, soft_wrap=True, markup=False)
