"""`tocsin hooks install git`: a pre-commit guard that refuses commits to paths that another agent holds.

The guard asks the hub which of the staged paths others hold. If no hub answers, or the hub refuses, the commit passes
with a warning: a guard that stops all work whenever the hub is down does not stay installed. With `--strict` the
commit is refused instead, also if Tocsin itself cannot be started. An existing hook is kept, runs first, and is
restored when the guard is removed.
"""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.hooks.files import own_program
from tocsin.cli.output import UNREADABLE, fail, show_json
from tocsin.cli.output.replies import cell
from tocsin.cli.output.terminal import console
from tocsin.cli.remote import Exit, Refused, Unreachable
from tocsin.wire.leases import PathConflict

__all__ = ["guard_commit", "install_git", "uninstall_git"]

#: First words of the guard, by which it is recognised.
_MARK = "# The commit guard of tocsin"
_BEFORE = "pre-commit.before-tocsin"
#: Paths per request, and seconds that a commit waits for the reply.
_BATCH = 500
_TIMEOUT_S = 10.0

Strict = Annotated[bool, typer.Option("--strict", help="Refuse the commit also if the hub cannot be asked.")]


def install_git(
    context: typer.Context,
    strict: Strict = False,
    prefix: Annotated[str, typer.Option(help="Prefix of the paths of this repository in resource names.")] = "",
    command: Annotated[
        str, typer.Option(help="Command with which git starts tocsin; by default this program, by its path.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Git: a pre-commit guard in this repository; an existing hook is kept and runs first."""
    folder = _hooks_folder()
    hook, before = folder / "pre-commit", folder / _BEFORE
    script = _script(context, strict=strict, prefix=prefix, command=command)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if hook.exists() and not _is_ours(hook):
            if before.exists():
                raise fail(f"{hook} is not the guard, and {before} exists already: move one of them away", Exit.FAILED)
            hook.rename(before)
        hook.write_text(script, encoding="utf-8")
        hook.chmod(0o755)
    except OSError as error:
        raise fail(f"the guard cannot be installed: {error}", Exit.FAILED) from None
    _done(
        {"file": str(hook), "kept": str(before) if before.exists() else None},
        f"{hook}: the guard is installed",
        as_json,
    )


def uninstall_git(as_json: Json = False) -> None:
    """Remove the guard from this repository, and restore the hook that was there before."""
    folder = _hooks_folder()
    hook, before = folder / "pre-commit", folder / _BEFORE
    try:
        ours = hook.exists() and _is_ours(hook)
        if ours:
            hook.unlink()
            if before.exists():
                before.rename(hook)
    except OSError as error:
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
    paths = [
        prefix + path for path in _git("diff", "--cached", "--name-only", "--no-renames", "-z").split("\0") if path
    ]
    held: list[PathConflict] = []
    try:
        remote = remote_of(context, timeout_s=_TIMEOUT_S)
        for start in range(0, len(paths), _BATCH):
            held += remote.ask("check_paths", {"paths": paths[start : start + _BATCH]})
        lines = [
            f"  {one.path}: {one.holder} holds {one.resource}{' (shared)' * one.shared} until {cell(one.expires_at)}"
            f" ({one.lease})"
            for one in held
        ]
    except (Unreachable, Refused, OSError, *UNREADABLE) as error:
        if strict:
            raise fail(f"tocsin: the leases cannot be checked, and the guard is strict: {error}", Exit.FAILED) from None
        sys.stderr.write(f"tocsin: the commit was not checked: {error}\n")
        return
    if as_json:
        show_json(held)
    if lines:
        advice = "Wait for them, or ask them or a director; git commit --no-verify skips this guard."
        raise fail("\n".join(["tocsin: this commit changes paths that others hold:", *lines, advice]), Exit.FAILED)


def _script(context: typer.Context, *, strict: bool, prefix: str, command: str) -> str:
    given = context.find_root().params
    words = shlex.split(command) if command else own_program()
    options = ["--url", given["url"], "--data", str(given["data"].resolve())]
    options += ["--as", given["agent"]] if given["agent"] else []
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


def _hooks_folder() -> Path:
    return Path(_git("rev-parse", "--git-path", "hooks").strip()).resolve()


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=True)  # noqa: S603, S607
    except FileNotFoundError:
        raise fail("git was not found", Exit.FAILED) from None
    except subprocess.CalledProcessError as error:
        raise fail(f"git {arguments[0]}: {error.stderr.decode(errors='replace').strip()}", Exit.FAILED) from None
    return done.stdout.decode("utf-8", errors="surrogateescape")


def _done(answer: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        console.print(text, soft_wrap=True, markup=False)
