"""Notes of the checks and MCP servers that a coding agent has started, in the data directory.

`tocsin hooks show` and `tocsin doctor --agent` read them, to tell whether a check really runs in a folder. There is one
file for the latest check of each event and one for each MCP server that runs. Nothing is written if the data directory
does not exist, and a note that cannot be written is left out: it must not disturb the agent.

Only the standard library is imported, because `tocsin hooks check` runs after every tool call.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tocsin.cli.identity import Identity, start_folder
from tocsin.cli.remote import Refused, Unreachable

__all__ = ["ASKED", "firings_of", "noted", "noted_server", "servers_of"]

#: Outcome of a check that the hub has answered.
ASKED = "asked the hub"
#: Names of agents and events that become names of files.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
#: Characters of a noted text.
_TEXT_MAX = 300
#: Errors with which a check ends in silence.
_SILENT = (Refused, Unreachable, OSError, ValueError, LookupError, TypeError, AttributeError)


@contextlib.contextmanager
def noted(identity: Identity, event: str, event_input: dict[str, Any]) -> Iterator[None]:
    """Note a check and how it ended; the errors of a check end here."""
    outcome = ASKED
    try:
        yield
    except _SILENT as error:
        outcome = identity.missing() or str(error)
    folder = _folder(identity)
    if folder is not None and _PLAIN.fullmatch(event):
        note = {"event": event, "at": time.time(), "client": _client(event_input), "outcome": outcome[:_TEXT_MAX]}
        note |= {"session": str(event_input.get("session_id", ""))[:_TEXT_MAX], "folder": str(start_folder())}
        _write(folder / f"{event}.json", note)


def firings_of(data: Path, agent: str) -> list[dict[str, Any]]:
    """Return the latest check of each event, the newest first."""
    found = [note for note in _notes(data, agent) if "event" in note and isinstance(note.get("at"), float)]
    return sorted(found, key=lambda note: -float(note["at"]))


@contextlib.contextmanager
def noted_server(identity: Identity) -> Iterator[list[int]]:
    """Note that an MCP server runs, while it does; yields the processes that serve the same agent already."""
    folder = _folder(identity)
    if folder is None:
        yield []
        return
    others = [int(note["process"]) for note in servers_of(identity.data, identity.key())]
    file = folder / f"server-{os.getpid()}.json"
    _write(file, {"process": os.getpid(), "at": time.time(), "folder": str(start_folder())})
    try:
        yield others
    finally:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def servers_of(data: Path, agent: str) -> list[dict[str, Any]]:
    """Return the MCP servers of an agent that run; notes of others are removed."""
    found = []
    for note in _notes(data, agent):
        if isinstance(note.get("process"), int):
            if _runs(note["process"]):
                found.append(note)
            else:
                with contextlib.suppress(OSError):
                    (data / "hooks" / agent / f"server-{note['process']}.json").unlink(missing_ok=True)
    return found


def _folder(identity: Identity) -> Path | None:
    key = ""
    with contextlib.suppress(*_SILENT):
        key = identity.key()
    return identity.data / "hooks" / key if _PLAIN.fullmatch(key) and identity.data.is_dir() else None


def _notes(data: Path, agent: str) -> Iterator[dict[str, Any]]:
    if not _PLAIN.fullmatch(agent):
        return
    for path in sorted((data / "hooks" / agent).glob("*.json")):
        with contextlib.suppress(OSError, ValueError):
            note = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(note, dict):
                yield note


def _write(file: Path, note: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.write_text(json.dumps(note), encoding="utf-8")
        new.replace(file)


def _client(event_input: dict[str, Any]) -> str:
    """Return the coding agent that runs a check, by the file in which it keeps the session."""
    transcript = str(event_input.get("transcript_path", ""))
    return "claude" if "/.claude/" in transcript else "codex" if "/rollout-" in transcript else ""


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
