"""Requests that wait for nobody who holds, but for those before them in the queue."""

import os

import pytest

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd
from tocsin.core.leases.book import LeaseBook, claims_of
from tocsin.core.leases.model import Lease, LeaseRequest
from tocsin.core.leases.used_patterns import UsedPattern
from tocsin.core.waiting.graph import WaitGraph


def test_a_refusal_names_all_for_whom_it_is_reserved(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two", "three", "four"):
        team.register(agent)
    team.hold(cmd.AcquireLease((), ("a",)), "one")
    for agent in ("two", "three"):
        team.wait_for_lease(cmd.AcquireLease(("a",)), agent)
    problem = team.refused(cmd.AcquireLease((), ("a",), wait_s=0), "four")
    assert problem.detail == "a is reserved for three, two"
    assert problem.facts == {"holders": [], "ahead": ["three", "two"]}


@pytest.mark.skipif(os.environ.get("TOCSIN_FORM") == "compiled", reason="compiled methods cannot be replaced")
def test_requests_that_change_together_are_placed_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = WaitGraph()
    book = LeaseBook(waits, {})
    claims = claims_of([f"src/{number}" for number in range(8)], ())
    book.hold(Lease("held", "ann", claims, 1, 60.0, 0, 60, 1))
    requests = [LeaseRequest(f"r{seq}", f"agent {seq}", claims, 1, 60.0, 0, 60, seq) for seq in range(2, 22)]
    for request in requests:
        book.enter(request)
    book.settle_places(10)
    looked_up: list[str] = []
    conflicting = book.patterns.conflicting

    def counted(resource: str) -> list[UsedPattern]:
        looked_up.append(resource)
        return conflicting(resource)

    monkeypatch.setattr(book.patterns, "conflicting", counted)
    for request in requests:
        book.raise_to(request.lease, 2)
    for request in requests[:10]:
        book.leave(request)
    book.settle_places(10)
    assert len(looked_up) == 2 * len(claims), "once to find the requests, once to place them"
    assert [len(book.wait_of(request).behind) for request in requests[10:]] == list(range(10))
