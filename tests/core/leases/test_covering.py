"""Leases that cover a path: who may write to it, oldest first."""

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd


def test_the_leases_that_cover_a_path(new_team: NewTeam) -> None:
    """Each with the number of its claim that does; a path is taken as it is, even with characters of a glob."""
    team = new_team()
    for agent in ("one", "two"):
        team.register(agent)
    team.hold(cmd.AcquireLease((), ("docs/**", "src/**"), lease="first"), "one")
    team.hold(cmd.AcquireLease((), ("src/*/x.py",), lease="second"), "two")
    team.hold(cmd.AcquireLease(("lib/[[]a[]].py",), lease="third"), "two")
    book = team.exchange.state.leases
    found = {
        path: [(lease.lease, number) for lease, number in book.covering(path)]
        for path in ("src/api/x.py", "src/api", "docs", "lib/[a].py", "lib/a.py", "other")
    }
    assert found == {
        "src/api/x.py": [("first", 1), ("second", 0)],
        "src/api": [("first", 1)],
        "docs": [("first", 0)],
        "lib/[a].py": [("third", 0)],
        "lib/a.py": [],
        "other": [],
    }


def test_who_waits_for_a_resource_and_who_holds_it(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two", "three", "four"):
        team.register(agent)
    team.hold(cmd.AcquireLease((), ("a", "b"), lease="first"), "one")
    team.hold(cmd.AcquireLease((), ("a",), lease="second"), "two")
    team.wait_for_lease(cmd.AcquireLease(("a",), lease="third"), "three")
    team.wait_for_lease(cmd.AcquireLease(("a",), lease="fourth", priority="Blocking"), "four")
    book = team.exchange.state.leases
    assert [lease.lease for lease in book.holding("a")] == ["first", "second"]
    assert [request.lease for request in book.waiting_for("a")] == ["fourth", "third"]
    assert [book.place(book.queue[name]) for name in ("third", "fourth")] == [2, 1]
    contended = book.contention("a")
    assert (contended.depth, contended.waiters, contended.holders) == (2, ("four", "three"), ("one", "two"))
    assert book.contention("a", "third").waiters == ("four",)
    assert (book.contention("b").depth, book.contention("c").holders) == (0, ())
