"""Leases, event by event: what is recorded when they are granted, queued, renewed, released, taken away and lapse."""

from typing import Any

from tests.core.conftest import NewTeam
from tests.core.stories import Story, crew
from tocsin.core import commands as cmd
from tocsin.core.protocol.timestamps import as_datetime


def acquire(*exclusive: str, shared: tuple[str, ...] = (), **parts: Any) -> cmd.AcquireLease:
    return cmd.AcquireLease(exclusive, shared, **parts)


def test_a_lease_from_its_grant_to_its_release(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    held = team.hold(acquire("a", "b", shared=("c",), lease="one", ttl_s=100, priority="Blocking"), "impl_001")
    ends = as_datetime(team.now + 100_000_000)
    assert held == cmd.LeaseRecord("one", "held", "impl_001", ("a", "b"), ("c",), "Blocking", ends)
    assert story.next() == [("LeaseGranted", "one", "impl_001", ("a", "b"), ("c",), 2, 100.0, 100.0, 0, ())]
    assert team.hold(acquire("a", "b", shared=("c",), lease="one"), "impl_001").duplicate
    assert story.next() == []
    team.advance(10)
    assert team.hold(cmd.RenewLease("one"), "impl_001").expires_at == as_datetime(team.now + 100_000_000)
    assert team.hold(cmd.RenewLease("one", 50), "impl_001").expires_at == as_datetime(team.now + 50_000_000)
    assert story.next() == [
        ("LeaseRenewed", "one", "impl_001", 100.0, 110.0),
        ("LeaseRenewed", "one", "impl_001", 50.0, 60.0),
    ]
    freed = team.ask(cmd.ReleaseLease(None, ("b", "c", "b")), "impl_001", cmd.Released)
    assert freed == cmd.Released(("b", "c"))
    assert story.next() == [("LeaseReleased", "one", "impl_001", ("b", "c"), "released", "impl_001", "")]
    assert team.ask(cmd.ReleaseLease("one"), "impl_001", cmd.Released) == cmd.Released(("a",))
    assert story.next() == [("LeaseReleased", "one", "impl_001", ("a",), "released", "impl_001", "")]


def test_a_request_that_waits(new_team: NewTeam) -> None:
    """Its record names its place and who holds what it waits for."""
    team = crew(new_team)
    team.hold(acquire("a", lease="one"), "impl_001")
    team.hold(acquire("b", lease="two"), "manager_001")
    story = Story(team)
    waiting = team.wait_for_lease(acquire("a", shared=("b",), lease="three", ttl_s=60, wait_s=90), "impl_002")
    until = as_datetime(team.now + 90_000_000)
    assert waiting == cmd.LeaseRecord(
        "three", "waiting", "impl_002", ("a",), ("b",), "Coordinate", None, 1, until, ("impl_001", "manager_001")
    )
    assert team.wait_for_lease(acquire("a", shared=("b",), lease="three"), "impl_002").duplicate
    assert story.next() == [
        ("LeaseQueued", "three", "impl_002", ("a",), ("b",), 1, 60.0, 90.0, ("impl_001", "manager_001"), 1),
        ("PriorityInherited", "impl_001", None, 1, "impl_002", "lease:three", ()),
        ("PriorityInherited", "manager_001", None, 1, "impl_002", "lease:three", ()),
    ]
    assert team.wait_for_lease(acquire("a", lease="four"), "boss").place == 2
    story.next()
    team.advance(5)
    team.ask(cmd.ReleaseLease("two"), "manager_001", cmd.Released)
    story.next()
    team.ask(cmd.ReleaseLease("one"), "impl_001", cmd.Released)
    assert story.next() == [
        ("LeaseReleased", "one", "impl_001", ("a",), "released", "impl_001", ""),
        ("EscalationMoved", "esc", "over", "director_notified", "resolved", "tocsin", "the condition", 0),
        ("EscalationMoved", "esc", "returned", "resolved", "normal", "tocsin", "", 0),
        ("PriorityRestored", "impl_001", 1, None, ()),
        ("LeaseGranted", "three", "impl_002", ("a",), ("b",), 1, 60.0, 65.0, 5000000, ()),
        ("PriorityInherited", "impl_002", None, 1, "boss", "lease:four", ()),
    ]
    assert team.ask(cmd.ReleaseLease("four"), "boss", cmd.Released) == cmd.Released((), ("four",))
    assert story.next() == [
        ("LeaseWaitEnded", "four", "boss", "cancelled", 5000000),
        ("PriorityRestored", "impl_002", 1, None, ()),
    ]


def test_a_wait_that_ends_without_a_lease(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(acquire("a", lease="one"), "impl_001")
    team.wait_for_lease(acquire("a", lease="two", wait_s=7), "impl_002")
    team.wait_for_lease(acquire("a", lease="three"), "manager_001")
    story = Story(team)
    team.advance(8)
    assert story.next()[:1] == [("LeaseWaitEnded", "two", "impl_002", "timeout", 7010000)]
    assert team.ask(cmd.ForceRelease("three", "not now"), "boss", cmd.Released) == cmd.Released((), ("three",))
    assert story.next()[:1] == [("LeaseWaitEnded", "three", "manager_001", "forced", 8000000)]
    assert team.ask(cmd.ForceRelease("one", "needed"), "boss", cmd.Released) == cmd.Released(("a",))
    assert story.next() == [("LeaseReleased", "one", "impl_001", ("a",), "forced", "boss", "needed")]


def test_a_lease_that_lapses(new_team: NewTeam) -> None:
    """Its holder is warned first; one that is not there has its lease reclaimed."""
    team = crew(new_team, "leases: {lapsed_max: 1}")
    team.attach("impl_001")
    team.hold(acquire("a", lease="one", ttl_s=100), "impl_001")
    team.hold(acquire("b", lease="two", ttl_s=101), "impl_002")
    story = Story(team)
    team.advance(69, beating=True)
    assert story.next() == []
    team.advance(33, beating=True)
    assert story.next() == [
        ("LeaseExpiring", "one", "impl_001", 100.0),
        ("LeaseExpiring", "two", "impl_002", 101.0),
        ("LeaseLapsed", "one", "impl_001", ("a",), 100.0, ()),
        ("LeaseReclaimed", "two", "impl_002", ("b",), 101.0, ("one",), "not_available_offline"),
    ]


def test_a_deadlock_is_broken_at_the_lowest_priority(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(acquire("a", lease="l-a"), "impl_001")
    team.hold(acquire("b", lease="l-b"), "impl_002")
    team.wait_for_lease(acquire("b", lease="w-b", priority="Blocking"), "impl_001")
    story = Story(team)
    team.refused(acquire("a", lease="w-a"), "impl_002")
    assert [told for told in story.next() if told[0] not in ("EscalationOpened", "EscalationMoved")] == [
        ("LeaseQueued", "w-a", "impl_002", ("a",), (), 1, 300.0, 300.0, ("impl_001",), 1),
        ("DeadlockFound", ("impl_002", "impl_001"), ("lease:w-a", "lease:w-b"), (1, 2), "impl_002", "lease:w-a"),
        ("LeaseWaitEnded", "w-a", "impl_002", "deadlock", 0),
        ("LeaseReleased", "l-b", "impl_002", ("b",), "deadlock", "tocsin", "deadlock: impl_002"),
        ("PriorityRestored", "impl_002", 2, None, ()),
        ("LeaseGranted", "w-b", "impl_001", ("b",), (), 2, 300.0, 300.0, 0, ()),
        ("AgentCharged", "impl_002", "notices", 1, 1.0, 999.0, 5.0, 20.0),
    ]


def test_contention_is_recorded_when_it_reaches_its_depth(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(acquire("a", lease="one"), "impl_001")
    story = Story(team)
    team.wait_for_lease(acquire("a", lease="two"), "impl_002")
    assert "LeaseContended" not in [told[0] for told in story.next()]
    team.wait_for_lease(acquire("a", lease="three"), "manager_001")
    assert [told for told in story.next() if told[0] == "LeaseContended"] == [
        ("LeaseContended", "a", 2, ("impl_002", "manager_001"), ("impl_001",))
    ]
    team.wait_for_lease(acquire("a", lease="four"), "boss")
    assert "LeaseContended" not in [told[0] for told in story.next()]


def test_an_overtaken_request_is_named(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(acquire("a", lease="one"), "impl_001")
    team.wait_for_lease(acquire("a", "b", lease="two"), "impl_002")
    story = Story(team)
    team.hold(acquire("b", lease="three"), "manager_001")
    assert story.next()[:1] == [("LeaseGranted", "three", "manager_001", ("b",), (), 1, 300.0, 300.0, 0, ("two",))]


def test_a_retired_agent_holds_and_wants_nothing(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(acquire("a", lease="one"), "impl_001")
    team.hold(acquire("b", lease="two"), "impl_002")
    team.wait_for_lease(acquire("b", lease="three"), "impl_001")
    story = Story(team)
    team.ask(cmd.RetireAgent("impl_001", "done"), "boss", cmd.Done)
    assert story.next() == [
        ("LeaseReleased", "one", "impl_001", ("a",), "retired", "tocsin", ""),
        ("LeaseWaitEnded", "three", "impl_001", "retired", 0),
        ("AgentRetired", "impl_001", "boss", "done"),
        ("PriorityRestored", "impl_002", 1, None, ()),
    ]


def test_a_request_behind_another_is_cancelled(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(acquire("a", lease="one"), "impl_001")
    team.wait_for_lease(acquire("a", lease="two"), "impl_002")
    team.wait_for_lease(acquire("a", lease="three"), "manager_001")
    story = Story(team)
    team.ask(cmd.ReleaseLease("three"), "manager_001", cmd.Released)
    assert story.next()[0] == ("LeaseWaitEnded", "three", "manager_001", "cancelled", 0)
