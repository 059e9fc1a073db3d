"""Counts over the histories of a replay, apart from the figures that are stored, so that they can be compiled."""

from collections.abc import Iterable, Sequence
from typing import Final

from tocsin.core.commands import SYSTEM
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.trace import RECORDED, RecordedMessage

__all__ = ["Tally", "recorded_waits", "same_histories", "same_outcomes", "tally_by_level", "waits_until_offered"]

_BUS: Final = SYSTEM.agent
#: Places in a recorded message.
_STATE: Final = RECORDED.index("state")
_REASON: Final = RECORDED.index("reason")
_ACCEPTED_AT: Final = RECORDED.index("accepted_at")
_FIRST_OFFERED_AT: Final = RECORDED.index("first_offered_at")


class Tally:
    """Counts of messages, named as in a row of figures, and their waiting times."""

    def __init__(self) -> None:
        self.accepted = 0
        self.offered = 0
        self.delivered = 0
        self.longest_us = 0
        self.starved = 0
        self.expired = 0
        self.stale = 0
        self.dead = 0
        self.recalled = 0
        self.boosts = 0
        self.retries = 0
        self.lowered = 0
        #: Waiting times of the messages that were offered, microseconds.
        self.waits: list[int] = []

    def count(self, history: MessageHistory, ends_at: int, starved_us: int) -> None:
        """Count one message."""
        offered_at, state = history.first_offered_at, history.state
        wait = max(0, (offered_at or history.ended_at or ends_at) - history.accepted_at)
        self.accepted += 1
        if offered_at:
            self.offered += 1
            self.waits.append(wait)
        if history.delivered_at:
            self.delivered += 1
        if wait > self.longest_us:
            self.longest_us = wait
        if wait > starved_us:
            self.starved += 1
        if state == "expired":
            reason = history.reason
            if reason == "ttl" and not history.offers:
                self.expired += 1
            elif reason == "stale":
                self.stale += 1
        elif state == "dead":
            self.dead += 1
        elif state == "recalled":
            self.recalled += 1
        self.boosts += history.boosts
        self.retries += history.requeues
        if history.priority < history.requested:
            self.lowered += 1

    def add(self, other: "Tally") -> None:
        """Add the counts of others."""
        self.accepted += other.accepted
        self.offered += other.offered
        self.delivered += other.delivered
        self.longest_us = max(self.longest_us, other.longest_us)
        self.starved += other.starved
        self.expired += other.expired
        self.stale += other.stale
        self.dead += other.dead
        self.recalled += other.recalled
        self.boosts += other.boosts
        self.retries += other.retries
        self.lowered += other.lowered
        self.waits += other.waits


def tally_by_level(
    histories: Sequence[MessageHistory], levels: int, directing: set[str], ends_at: int, starved_us: int
) -> tuple[list[Tally], int]:
    """Count the messages of each requested priority, and those to some recipients.

    Notices of the bus count only in the latter.
    """
    tallies = [Tally() for _ in range(levels)]
    directed = 0
    for history in histories:
        if history.recipient in directing:
            directed += 1
        if history.sender != _BUS:
            tallies[history.requested].count(history, ends_at, starved_us)
    return tallies, directed


def same_outcomes(known: dict[str, RecordedMessage], replayed: Sequence[MessageHistory]) -> tuple[int, int]:
    """Return the number of messages that were recorded or replayed, and of those with the same outcome."""
    found = {history.signal: history for history in replayed}
    messages, same = len(known), 0
    for signal, history in found.items():
        recorded = known.get(signal)
        if recorded is None:
            messages += 1
        elif recorded[_STATE] == history.state and recorded[_REASON] == history.reason:
            same += 1
    return messages, same


def same_histories(recorded: Sequence[MessageHistory], replayed: Sequence[MessageHistory]) -> tuple[int, int]:
    """Return the number of messages that were recorded or replayed, and of those with the same timestamps too."""
    known = {history.signal: history for history in recorded}
    found = {history.signal: history for history in replayed}
    same = len([signal for signal, history in found.items() if known.get(signal) == history])
    return len(known.keys() | found.keys()), same


def waits_until_offered(histories: Sequence[MessageHistory]) -> list[int]:
    """Return the waiting times for the first offer, microseconds."""
    waits: list[int] = []
    for history in histories:
        offered_at = history.first_offered_at
        if offered_at:
            waits.append(max(0, offered_at - history.accepted_at))
    return waits


def recorded_waits(messages: Iterable[RecordedMessage]) -> list[int]:
    """Return the recorded waiting times for the first offer, microseconds."""
    waits: list[int] = []
    for message in messages:
        offered_at: int = message[_FIRST_OFFERED_AT]
        if offered_at:
            waits.append(max(0, offered_at - message[_ACCEPTED_AT]))
    return waits
