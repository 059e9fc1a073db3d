"""What happened to a team, step by step: its events as tuples, without the notices of the bus.

A tuple is the name of the event and its fields but for the time, which is the time of the decision. Times are seconds
since the start of the clock, and messages are named by their ids. Of an id that the bus has made only the prefix is
kept, and of a sentence the first two words.
"""

import re
from typing import Any

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, START, Team
from tocsin.core import events as ev

__all__ = ["Story", "crew"]

#: Fields that have the sequence number of a message.
_MESSAGES = frozenset({"about", "by", "instead", "lowered", "message", "raised", "work"})
#: Fields that are sentences.
_SENTENCES = frozenset({"detail", "details", "note"})
_MADE = re.compile(r"\b(apr|dis|esc|ses|wak)_[0-9]+_[0-9]+\b")


def crew(new_team: NewTeam, policy: str | None = None) -> Team:
    """Make a team of a manager, two who implement, and a director."""
    team = new_team(policy)
    team.register("manager_001", "Manager")
    team.register("impl_001")
    team.register("impl_002")
    team.register("boss", "Director", "director")
    return team


class Story:
    """The events of a team from a moment on."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._seen = len(team.events)
        self._ids: dict[int, str] = {}
        self._notices: set[int] = set()

    def next(self) -> list[tuple[Any, ...]]:
        """Return what happened since the last time; notices of the bus and heartbeats are left out."""
        found, self._seen = self._team.events[self._seen :], len(self._team.events)
        for message in self._team.exchange.state.messages.values():
            self._ids[message.seq] = message.message_id
            if message.sender == "tocsin":
                self._notices.add(message.seq)
        return [self._told(event) for event in found if not self._is_noise(event)]

    def _is_noise(self, event: Any) -> bool:
        if isinstance(event, ev.MessageAccepted):
            return event.sender == "tocsin"
        return isinstance(event, ev.SessionHeartbeat) or getattr(event, "message", None) in self._notices

    def _told(self, event: Any) -> tuple[Any, ...]:
        names = [name for name in event.__struct_fields__ if name != "at"]
        return (type(event).__name__, *(self._value(name, getattr(event, name)) for name in names))

    def _value(self, name: str, value: Any) -> object:
        if name in _MESSAGES and isinstance(value, tuple):
            return tuple(self._ids.get(number, number) for number in value)
        if name in _MESSAGES and isinstance(value, int):
            return self._ids.get(value, value)
        if isinstance(value, str):
            text = _MADE.sub(r"\1", value)
            return " ".join(text.split()[:2]) if name in _SENTENCES else text
        return (value - START) / SECOND if isinstance(value, int) and value >= START else value
