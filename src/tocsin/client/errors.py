"""Refusals as a client meets them: the catalogue's own classes, and two that are timeouts as well.

TocsinError
├── …                        whatever the hub refused, by the code of its problem
└── TryLater
└── HubUnavailable
└── NoAnswer         E_HUB_005       also a TimeoutError: it may or may not have been done
ProtocolViolation
└── NoResponse           E_PROTOCOL_004  also a TimeoutError: the other agent did not answer
"""

from typing import Any

from tocsin.core.errors import CATALOGUE, HubUnavailable, Problem, ProtocolViolation, TocsinError, error_for

__all__ = ["NoAnswer", "NoResponse", "error_of", "no_answer", "no_response", "unreachable"]


class NoAnswer(HubUnavailable, TimeoutError):
    """The hub did not answer in time: what was asked may or may not have been done."""


class NoResponse(ProtocolViolation, TimeoutError):
    """The other agent did not answer in time."""


def error_of(problem: Problem) -> TocsinError:
    """Make the exception of a problem that came from a hub, which may be newer than this client."""
    return error_for(problem) if problem.code in CATALOGUE else TocsinError(problem)


def no_answer(detail: str, **facts: Any) -> NoAnswer:
    """Say that the hub did not answer in time."""
    return NoAnswer(Problem("E_HUB_005", detail, retryable=True, facts=facts))


def no_response(detail: str, **facts: Any) -> NoResponse:
    """Say that another agent did not answer in time."""
    return NoResponse(Problem("E_PROTOCOL_004", detail, retryable=True, facts=facts))


def unreachable(detail: str) -> TocsinError:
    """Say that no hub answers."""
    return error_for(Problem("E_HUB_004", detail, retryable=True))
