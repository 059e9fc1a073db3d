"""Record of what inbox checks have shown to the sessions of a coding agent: a small file in the data directory.

The file only saves repetition. If it is lost or cannot be written, messages are shown again.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["ShownMessages"]

#: Sessions that are remembered, messages of each, seconds, and bytes of the file.
_SESSIONS_MAX, _MESSAGES_MAX, _AGE_S_MAX, _BYTES_MAX = 8, 50, 7 * 86_400, 500_000
_NAME_MAX = 128


class ShownMessages:
    """The messages that were shown to one session."""

    def __init__(self, data: Path, agent: str, session: str) -> None:
        self._data = data
        self._file = data / "hooks" / f"{agent.replace('/', '_')}.json"
        self._session = session[:_NAME_MAX]
        known = self._read().get(self._session, {})
        #: Ids of messages that were shown, the oldest first.
        self.ids: dict[str, None] = dict.fromkeys(known.get("shown", ()))
        #: Ids of messages for which the agent went on once instead of stopping.
        self.held_up: dict[str, None] = dict.fromkeys(known.get("held_up", ()))

    def clear(self) -> None:
        """Show everything again."""
        if self.ids or self.held_up:
            self.ids, self.held_up = {}, {}
            self._keep()

    def add(self, ids: Iterable[str]) -> None:
        """Remember messages that were shown."""
        if new := dict.fromkeys(ids):
            self.ids |= new
            self._keep()

    def hold_up(self, ids: Iterable[str]) -> bool:
        """Remember messages for which the agent goes on; return false if that cannot be stored."""
        self.held_up |= dict.fromkeys(ids)
        return self._keep()

    def _keep(self) -> bool:
        """Write the file; return false if that fails. No data directory is created."""
        others = {name: known for name, known in self._read().items() if name != self._session}
        newest = sorted(others, key=lambda name: others[name]["at"])[-(_SESSIONS_MAX - 1) :]
        shown, held_up = (list(ids)[-_MESSAGES_MAX:] for ids in (self.ids, self.held_up))
        mine = {"at": int(time.time()), "shown": shown, "held_up": held_up}
        try:
            if not self._data.is_dir():
                return False
            self._file.parent.mkdir(exist_ok=True, mode=0o700)
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps({name: others[name] for name in newest} | {self._session: mine}), "utf-8")
            new.replace(self._file)
        except OSError:
            return False
        return True

    def _read(self) -> dict[str, Any]:
        """Return what is known of each session that is not too old; nothing if the file is not what was written."""
        try:
            with self._file.open(encoding="utf-8") as file:
                known = json.loads(file.read(_BYTES_MAX))
            oldest = time.time() - _AGE_S_MAX
            return {
                name: {"at": int(one["at"]), "shown": _ids(one["shown"]), "held_up": _ids(one["held_up"])}
                for name, one in known.items()
                if int(one["at"]) > oldest
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {}


def _ids(names: Any) -> list[str]:
    return [str(name) for name in names][-_MESSAGES_MAX:]
