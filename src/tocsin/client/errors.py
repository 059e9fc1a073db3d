"""Errors of the client: the classes of the catalogue, and some that are more specific.

TocsinError
├── …                        a refusal of the hub, by the code of its problem
├── TryLater
│   └── HubUnavailable
│       └── NoAnswer         E_HUB_005       also a TimeoutError: the outcome is unknown
├── ProtocolViolation
│   └── NoResponse           E_PROTOCOL_004  also a TimeoutError: the other agent did not answer
└── LeaseConflict
    ├── LeaseLost            E_LEASE_003     a lease was held, and no longer is
    └── Deadlock             E_LEASE_004     a wait was ended to break a deadlock
"""

from typing import Any

from tocsin.core.errors import (
    CATALOGUE,
    HubUnavailable,
    LeaseConflict,
    Problem,
    ProtocolViolation,
    TocsinError,
    error_for,
)

__all__ = ["Deadlock", "LeaseLost", "NoAnswer", "NoResponse", "error_of", "no_answer", "no_response", "unreachable"]


class NoAnswer(HubUnavailable, TimeoutError):
    """The hub did not answer in time: the operation may or may not have been done."""


class NoResponse(ProtocolViolation, TimeoutError):
    """The other agent did not answer in time."""


class LeaseLost(LeaseConflict):
    """A lease was lost: it lapsed, was taken away, or was released to break a deadlock."""


class Deadlock(LeaseConflict):
    """A wait was ended to break a deadlock: release what you hold, then ask again."""


#: The classes of codes that have a class of their own here.
_CLASSES: dict[str, type[TocsinError]] = {
    "E_PROTOCOL_004": NoResponse,
    "E_LEASE_003": LeaseLost,
    "E_LEASE_004": Deadlock,
}


def error_of(problem: Problem) -> TocsinError:
    """Return the exception of a problem from a hub, which may be newer than this client."""
    known = _CLASSES.get(problem.code)
    if known is not None:
        return known(problem)
    return error_for(problem) if problem.code in CATALOGUE else TocsinError(problem)


def no_answer(detail: str, **facts: Any) -> NoAnswer:
    """Return the error of a hub that did not answer in time."""
    return NoAnswer(Problem("E_HUB_005", detail, retryable=True, facts=facts))


def no_response(detail: str, **facts: Any) -> NoResponse:
    """Return the error of an agent that did not answer in time."""
    return NoResponse(Problem("E_PROTOCOL_004", detail, retryable=True, facts=facts))


def unreachable(detail: str) -> TocsinError:
    """Return the error of a hub that cannot be reached."""
    return error_for(Problem("E_HUB_004", detail, retryable=True))
