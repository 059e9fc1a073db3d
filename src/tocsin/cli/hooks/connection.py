"""State of a coding agent's connection in a folder, for `tocsin doctor --agent` and `tocsin hooks show`.

Everything is read from where it takes effect: the token from the hub, the entries and the trust from the coding agent's
own files, and the checks from the notes that they have left. What cannot be told is neither good nor bad.
"""

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.cli.hooks.files import CHECK_TIMEOUT_S, STARTUP_S, ClaudeFiles, CodexFiles, HookFiles, Unreadable
from tocsin.cli.hooks.firings import ASKED, firings_of, servers_of
from tocsin.cli.hooks.git import OUTDATED, guard_of
from tocsin.cli.identity import Identity, agent_of_tree, repository_of, tree_root
from tocsin.cli.output import UNREADABLE
from tocsin.cli.remote import Refused, Remote, Unreachable, Unusable
from tocsin.wire.agents import Me

__all__ = ["Finding", "connection_of", "fired"]

_VERSION_TIMEOUT_S = 10.0


class Finding(NamedTuple):
    """One fact of a connection."""

    check: str
    #: Null if it cannot be told, or is not needed.
    good: bool | None
    detail: str
    #: What to do, if it is not good.
    next: str = ""


def connection_of(name: str, identity: Identity, url: str, folder: Path) -> Iterator[Finding]:
    """Return what is known of an agent's connection in a folder, in the order in which it must be mended."""
    here = agent_of_tree(folder)
    install = f"tocsin --data {identity.data.resolve()} --as {name} hooks install"
    if here is None:
        detail = "no file names the agent of this folder; only TOCSIN_TOKEN or TOCSIN_TOKEN_FILE can"
        yield Finding("this folder's agent", None, detail, f"{install} claude (or codex)")
    else:
        token = f"start {name} with TOCSIN_TOKEN_FILE={identity.file}, or: {install} claude (or codex)"
        yield Finding("this folder's agent", here.agent == name, f"{here.agent} ({here.file})", token)
    given = [variable for variable in ("TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE") if os.environ.get(variable)]
    if given:
        yield Finding("environment", None, f"{' and '.join(given)} is set here, and takes precedence over the folder")
    yield from _of_hub(name, identity, url)
    notes = firings_of(identity.data, name)
    for client in (_Claude(folder), _Codex(folder)):
        yield from client.findings([note for note in notes if note.get("client") in ("", client.name)], install)
    running = servers_of(identity.data, name)
    words = ", ".join(f"process {note['process']} in {note.get('folder')} since {_when(note)}" for note in running)
    several = "end those that no window uses: a message reaches only one of them" if len(running) > 1 else ""
    yield Finding("MCP servers that run now", False if several else None, words or "none", several)
    guard = guard_of(folder)
    if guard is not None:
        state = OUTDATED if guard.is_outdated else "installed" if guard.installed else "not installed"
        good = False if guard.is_outdated else guard.installed or None
        yield Finding("git guard", good, f"{guard.file}: {state}", f"{install} git")


def _of_hub(name: str, identity: Identity, url: str) -> Iterator[Finding]:
    """Return what the hub says of the agent."""
    add = f"tocsin --data {identity.data.resolve()} agents add {name} --save"
    try:
        if identity.missing():
            yield Finding("token", False, identity.missing(), add)
            return
        me: Me = Remote(url, identity.token(), agent=name).ask("get_me")
    except Unreachable as error:
        yield Finding("token", None, f"not checked: {error}", "tocsin serve")
        return
    except (Refused, Unusable, *UNREADABLE) as error:
        yield Finding("token", False, str(error), add)
        return
    expiry = "" if me.token_expires_at is None else f", expires {me.token_expires_at:%Y-%m-%d %H:%M}"
    yield Finding("token", me.agent == name, f"of {me.agent}, {me.role}, in {identity.source}{expiry}", add)
    agent = me.registered
    if agent is None:
        yield Finding("registered", False, "the agent has not registered", "tell it to call register_agent")
        return
    waiting = ", ".join(f"{count} {level}" for level, count in agent.waiting.items() if count) or "nothing"
    yield Finding("messages that wait", None, waiting)
    wake = "never woken" if agent.wake is None else f"latest wake: {agent.wake.outcome} {agent.wake.detail}".strip()
    yield Finding(
        "reached by", None if agent.reach == "none" else True, f"{agent.reach}; {wake}", "tocsin wake template"
    )


class _Client:
    """A coding agent on this machine, as it is set up for a folder."""

    name: str
    title: str
    #: Limits of how it runs Tocsin, in words.
    limits: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = tree_root(folder)
        #: The folder and those above it, up to the root of the working tree.
        above = [place for place in (folder, *folder.parents) if place.is_relative_to(self.root)]
        self.places: list[HookFiles] = [self.files(place) for place in above]
        self.user = self.user_files()

    def files(self, place: Path) -> HookFiles:
        """Return its files in a folder."""
        raise NotImplementedError

    def user_files(self) -> HookFiles:
        """Return its files in the home directory."""
        raise NotImplementedError

    def checks_read(self) -> list[HookFiles]:
        """Return the files from which it reads checks when it is started in the folder."""
        return [*self.places, self.user]

    def trust(self, server: Path, checks: Path, install: str, *, ran: bool) -> Iterator[Finding]:
        """Return what the person has accepted; checks that ran were accepted."""
        raise NotImplementedError

    def findings(self, notes: list[dict[str, Any]], install: str) -> Iterator[Finding]:
        """Return what is known of this coding agent in the folder."""
        program = shutil.which(self.name)
        install = f"{install} {self.name}"
        try:
            server = _first([*self.places, self.user], lambda files: files.server)
            checks = _first(self.checks_read(), lambda files: files.checks)
            above = _first(self.places, lambda files: files.checks)
        except Unreadable as error:
            yield Finding(f"{self.title}: files", False, str(error))
            return
        if server is None and above is None and checks is None:
            yield Finding(self.title, None, f"{_version(program)}; not connected here", install)
            return
        yield Finding(self.title, None, _version(program))
        yield Finding(f"{self.title}: MCP entry", server is not None, str(server or "no file has it"), install)
        if checks is None and above is not None:
            detail = f"{above} is not read in a sub folder"
            yield Finding(f"{self.title}: checks", False, detail, f"start it in {above.parents[1]}, or --scope user")
        else:
            yield Finding(f"{self.title}: checks", checks is not None, str(checks or "no file has them"), install)
        if server is not None and checks is not None:
            yield from self.trust(server, checks, install, ran=bool(notes))
        yield fired(self.title, notes)
        yield Finding(f"{self.title}: limits", None, f"{self.limits}; it ends a check after {CHECK_TIMEOUT_S} s")


class _Claude(_Client):
    """Claude Code."""

    name = "claude"
    title = "Claude Code"
    limits = "it asks its model without waiting for the MCP server"

    def files(self, place: Path) -> HookFiles:
        return ClaudeFiles(place, user=False)

    def user_files(self) -> HookFiles:
        return ClaudeFiles(Path.home(), user=True)

    def checks_read(self) -> list[HookFiles]:
        """Return the files of the folder itself: settings of a folder above are not read."""
        return [self.places[0], self.user]

    def trust(self, server: Path, checks: Path, install: str, *, ran: bool) -> Iterator[Finding]:
        known = _table(_read(Path.home() / ".claude.json", json.loads), "projects")
        here = [_table(known, str(place)) for place in (self.folder, *self.folder.parents)]
        trusted = any(project.get("hasTrustDialogAccepted") for project in here)
        detail = "the folder is trusted" if trusted else "the folder was not trusted yet"
        yield Finding(
            f"{self.title}: trust", trusted, detail, "start claude here, and choose: Yes, I trust this folder"
        )
        if server.name == ".mcp.json":
            names = ("settings.json", "settings.local.json")
            settings = [_read(self.folder / ".claude" / name, json.loads) for name in names]
            settings.append(_read(Path.home() / ".claude" / "settings.json", json.loads))
            approved = any(
                "tocsin" in (one.get("enabledMcpjsonServers") or ()) or one.get("enableAllProjectMcpServers")
                for one in [*here, *settings]
            )
            detail = "the server is approved" if approved else "the server of .mcp.json was not approved yet"
            yield Finding(
                f"{self.title}: approval", approved, detail, f"{install} --allow, or choose it when claude asks"
            )


class _Codex(_Client):
    """Codex."""

    name = "codex"
    title = "Codex"
    limits = f"it waits {STARTUP_S} s for the MCP server"

    def files(self, place: Path) -> HookFiles:
        return CodexFiles(place / ".codex", user=False)

    def user_files(self) -> HookFiles:
        return CodexFiles(Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex"), user=True)

    def trust(self, server: Path, checks: Path, install: str, *, ran: bool) -> Iterator[Finding]:
        config = _read(self.user.server, tomllib.loads)
        known, repository = _table(config, "projects"), repository_of(self.root)
        places = [self.root, *([repository.parent] if repository else [])]
        trusted = any(_table(known, str(place)).get("trust_level") == "trusted" for place in places)
        detail = "the folder is trusted" if trusted else "the folder was not trusted yet"
        yield Finding(f"{self.title}: trust", trusted, detail, "start codex here, and trust the folder")
        reviewed = [key for key in _table(_table(config, "hooks"), "state") if key.startswith(str(checks))]
        detail = f"{len(reviewed)} reviewed" if reviewed else "they ran unreviewed" if ran else "none was reviewed"
        todo = "start codex here, and choose: Trust all and continue; or /hooks"
        yield Finding(f"{self.title}: trust of the checks", bool(reviewed) or (None if ran else False), detail, todo)
        network = _table(config, "sandbox_workspace_write").get("network_access") is True
        open_to_all = network or config.get("sandbox_mode") == "danger-full-access"
        detail = "its commands reach the hub" if open_to_all else "its commands, as the git guard, do not reach the hub"
        setting = f"in {self.user.server}: [sandbox_workspace_write] network_access = true"
        yield Finding(f"{self.title}: sandbox", open_to_all or None, detail, setting)


def fired(title: str, notes: list[dict[str, Any]]) -> Finding:
    """Return which checks have run, by their notes."""
    check = f"{title}: checks that ran last"
    if not notes:
        return Finding(check, False, "none, ever", "start it here and say something; then look again")
    words = [
        f"{note['event']} {_when(note)}, {note.get('outcome')}, in {note.get('folder')}, session {note.get('session')}"
        for note in notes
    ]
    return Finding(check, notes[0].get("outcome") == ASKED, "\n    ".join(words), "mend what the check says")


def _first(places: list[HookFiles], which: Callable[[HookFiles], Path]) -> Path | None:
    return next((which(files) for files in places if files.installed()[which(files)]), None)


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """Return a document; an empty one if it cannot be read, because others check the files of people."""
    try:
        found = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _version(program: str | None) -> str:
    if program is None:
        return "not found on the PATH"
    try:
        done = subprocess.run(  # noqa: S603
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return f"{program}: its version cannot be asked"
    return f"{done.stdout.strip()[:100]} ({program})"


def _when(note: dict[str, Any]) -> str:
    return datetime.fromtimestamp(float(note["at"]), UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
