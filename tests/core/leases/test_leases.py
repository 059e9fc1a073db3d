"""Leases: all or nothing, by priority and age, until their time is over; what is held is told and given back."""

from datetime import UTC, datetime

import msgspec
import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, START, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.messages.model import RecipientState
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_datetime


@pytest.fixture
def crew(new_team: NewTeam) -> Team:
    return crew_of(new_team())


def crew_of(team: Team) -> Team:
    team.register("boss", "Director", "director")
    for name in ("a", "b", "c", "d"):
        team.register(name)
    team.register("twin", "Implementation", "clone")
    return team


def acquire(team: Team, agent: str, *exclusive: str, shared: tuple[str, ...] = (), **more: object) -> cmd.LeaseRecord:
    """Ask, and expect to get it at once."""
    return team.hold(cmd.AcquireLease(exclusive, shared, **more), agent)  # type: ignore[arg-type]


def queue(team: Team, agent: str, *exclusive: str, shared: tuple[str, ...] = (), **more: object) -> cmd.LeaseRecord:
    """Ask, and expect to wait."""
    return team.wait_for_lease(cmd.AcquireLease(exclusive, shared, **more), agent)  # type: ignore[arg-type]


def release(team: Team, agent: str, lease: str) -> None:
    team.ask(cmd.ReleaseLease(lease), agent, cmd.Released)


def holders(team: Team, resource: str) -> list[str]:
    return [lease.holder for lease in team.exchange.state.leases.holding(resource)]


def told(team: Team, agent: str) -> list[tuple[str, dict[str, object]]]:
    """Return the notices that wait for an agent."""
    return [
        (message.type, msgspec.json.decode(message.payload))
        for message in team.exchange.state.messages.values()
        if message.recipient == agent and message.sender == "tocsin"
    ]


def test_a_free_resource_is_granted_at_once(crew: Team) -> None:
    lease = acquire(crew, "a", "src/api/**")
    (granted,) = crew.happened(ev.LeaseGranted)
    assert (granted.holder, granted.exclusive, granted.waited_us) == ("a", ("src/api/**",), 0)
    assert crew.elapsed_s(lease.expires_at) == 300


def test_a_glob_conflicts_with_what_it_covers(crew: Team) -> None:
    acquire(crew, "a", "src/api/**")
    problem = crew.refused(cmd.AcquireLease(("src/api/users.py",), wait_s=0), "b")
    assert (problem.code, problem.facts["holders"]) == ("E_LEASE_002", ["a"])
    assert crew.happened(ev.LeaseRefused)[0].code == "E_LEASE_002"
    acquire(crew, "b", "src/web/**")


def test_sharers_share_and_keep_others_out(crew: Team) -> None:
    acquire(crew, "a", shared=("db",))
    acquire(crew, "b", shared=("db",))
    assert holders(crew, "db") == ["a", "b"]
    assert queue(crew, "c", "db").holders == ("a", "b")


def test_a_sharer_does_not_overtake_one_who_waits_alone(crew: Team) -> None:
    first = acquire(crew, "a", shared=("db",))
    queue(crew, "b", "db")
    assert queue(crew, "c", shared=("db",)).place == 2
    release(crew, "a", first.lease)
    assert holders(crew, "db") == ["b"]


def test_a_more_urgent_sharer_goes_first(crew: Team) -> None:
    acquire(crew, "a", shared=("db",))
    queue(crew, "b", "db")
    acquire(crew, "c", shared=("db",), priority="Blocking")
    assert holders(crew, "db") == ["a", "c"]


def test_the_line_is_by_priority_then_age(crew: Team) -> None:
    lease = acquire(crew, "boss", "x")
    for agent, level in (("a", "Coordinate"), ("b", "Blocking"), ("c", "Coordinate"), ("d", "Blocking")):
        queue(crew, agent, "x", priority=level)
    order: list[str] = []
    for _ in range(4):
        release(crew, holders(crew, "x")[0], lease.lease)
        order += holders(crew, "x")
        lease = crew.hold(cmd.RenewLease(crew.exchange.state.leases.holding("x")[0].lease), order[-1])
    assert order == ["b", "d", "a", "c"]


def test_several_resources_are_all_or_nothing_and_none_is_held_while_waiting(crew: Team) -> None:
    b = acquire(crew, "a", "b")
    queue(crew, "c", "a", "b")
    assert holders(crew, "a") == []
    a = acquire(crew, "d", "a", wait_s=0)
    release(crew, "a", b.lease)
    assert holders(crew, "b") == []
    release(crew, "d", a.lease)
    assert holders(crew, "a") == holders(crew, "b") == ["c"]


def test_a_request_for_several_is_passed_by_only_so_often(new_team: NewTeam) -> None:
    team = crew_of(new_team("leases: {overtakes_max: 2}"))
    acquire(team, "a", "b")
    queue(team, "c", "a", "b")
    for _ in range(2):
        release(team, "d", acquire(team, "d", "a").lease)
    assert team.exchange.state.leases.queue[team.happened(ev.LeaseQueued)[0].lease].overtaken == 2
    assert team.refused(cmd.AcquireLease(("a",), wait_s=0), "d").facts == {"holders": [], "ahead": ["c"]}
    acquire(team, "d", "a", priority="Blocking")


def test_an_own_lease_is_in_nobodys_own_way(crew: Team) -> None:
    acquire(crew, "a", shared=("src/**",))
    acquire(crew, "a", "src/x")
    assert holders(crew, "src/x") == ["a", "a"]


def test_the_same_id_again_is_the_same_request(crew: Team) -> None:
    first = acquire(crew, "a", "x", lease="mine")
    assert acquire(crew, "a", "x", lease="mine") == msgspec.structs.replace(first, duplicate=True)
    waiting = queue(crew, "b", "x", lease="yours")
    assert queue(crew, "b", "x", lease="yours") == msgspec.structs.replace(waiting, duplicate=True)
    assert crew.refused(cmd.AcquireLease(("y",), lease="mine"), "a").code == "E_ADMISSION_007"
    assert crew.refused(cmd.AcquireLease(("x",), lease="mine"), "c").code == "E_ADMISSION_007"
    assert len(crew.happened(ev.LeaseGranted)) == 1


def test_a_grant_out_of_the_line_is_told(crew: Team) -> None:
    lease = acquire(crew, "a", "x")
    waiting = queue(crew, "b", "x")
    crew.advance(10)
    release(crew, "a", lease.lease)
    ((kind, payload),) = told(crew, "b")
    assert kind == "LEASE_GRANTED"
    assert (payload["lease"], payload["exclusive"], payload["waitedS"]) == (waiting.lease, ["x"], 10)
    assert crew.happened(ev.LeaseGranted)[-1].waited_us == 10 * SECOND


def test_releasing_what_is_not_held_is_an_error(crew: Team) -> None:
    lease = acquire(crew, "a", "x", "y")
    assert crew.refused(cmd.ReleaseLease(lease.lease), "b").code == "E_LEASE_001"
    assert crew.refused(cmd.ReleaseLease("nothing"), "a").code == "E_LEASE_001"
    assert crew.refused(cmd.ReleaseLease(resources=("x", "z")), "a").code == "E_LEASE_001"
    assert holders(crew, "x") == ["a"]
    release(crew, "a", lease.lease)
    assert crew.refused(cmd.ReleaseLease(lease.lease), "a").code == "E_LEASE_001"
    assert crew.refused(cmd.ReleaseLease(), "a").code == "E_VALIDATION_004"


def test_a_part_can_be_released_by_name(crew: Team) -> None:
    lease = acquire(crew, "a", "x", "y")
    queue(crew, "b", "y")
    assert crew.ask(cmd.ReleaseLease(resources=("y",)), "a", cmd.Released).resources == ("y",)
    assert (holders(crew, "x"), holders(crew, "y")) == (["a"], ["b"])
    release(crew, "a", lease.lease)
    assert holders(crew, "x") == []


def test_a_request_can_leave_the_line(crew: Team) -> None:
    acquire(crew, "a", shared=("x",))
    waiting = queue(crew, "b", "x")
    queue(crew, "c", shared=("x",))
    assert crew.ask(cmd.ReleaseLease(waiting.lease), "b", cmd.Released).cancelled == (waiting.lease,)
    assert holders(crew, "x") == ["a", "c"]
    assert crew.happened(ev.LeaseWaitEnded)[0].reason == "cancelled"


def test_a_holder_is_warned_and_then_loses_it(crew: Team) -> None:
    session = crew.attach("a", "piggyback")
    lease = acquire(crew, "a", "x", ttl_s=100)
    queue(crew, "b", "x")
    crew.advance(69.9, beating=True)
    assert not crew.happened(ev.LeaseExpiring)
    crew.advance(0.2, beating=True)
    assert crew.happened(ev.LeaseExpiring)[0].expires_at == START + 100 * SECOND
    assert lease.expires_at == as_datetime(START + 100 * SECOND)
    assert told(crew, "a")[0][0] == "LEASE_EXPIRING"
    crew.advance(29.8, beating=True)
    assert holders(crew, "x") == ["a"]
    crew.advance(0.2, beating=True)
    assert holders(crew, "x") == ["b"]
    assert crew.happened(ev.LeaseLapsed)[0].resources == ("x",)
    assert told(crew, "a")[1][0] == "LEASE_LOST"
    assert crew.refused(cmd.RenewLease(lease.lease), "a").code == "E_LEASE_003"
    assert crew.refused(cmd.ReleaseLease(lease.lease), "a").code == "E_LEASE_003"
    crew.detach(session)


def test_the_lease_of_one_who_is_gone_is_reclaimed_at_its_time_and_not_before(crew: Team) -> None:
    session = crew.attach("a", "piggyback")
    acquire(crew, "a", "x", ttl_s=100)
    crew.detach(session)
    queue(crew, "b", "x")
    crew.advance(99.9)
    assert holders(crew, "x") == ["a"]
    crew.advance(0.2)
    assert holders(crew, "x") == ["b"]
    assert crew.happened(ev.LeaseReclaimed)[0].holder_state is RecipientState.OFFLINE


def test_a_renewal_gives_time_and_takes_the_warning_back(crew: Team) -> None:
    lease = acquire(crew, "a", "x", ttl_s=100)
    crew.advance(80)
    renewed = crew.hold(cmd.RenewLease(lease.lease), "a")
    assert crew.elapsed_s(renewed.expires_at) == 180
    crew.advance(99)
    assert holders(crew, "x") == ["a"]
    assert len(crew.happened(ev.LeaseExpiring)) == 2
    longer = crew.hold(cmd.RenewLease(lease.lease, 1000), "a")
    assert crew.elapsed_s(longer.expires_at) == 1179
    assert crew.refused(cmd.RenewLease(lease.lease), "b").code == "E_LEASE_001"


def test_a_warning_that_comes_late_leaves_half_the_warning_time(crew: Team) -> None:
    acquire(crew, "a", "x", ttl_s=100)
    crew.now += 1000 * SECOND
    crew.tick()
    assert holders(crew, "x") == ["a"]
    assert crew.elapsed_s(crew.happened(ev.LeaseExpiring)[0].expires_at) == 1015
    crew.advance(16)
    assert holders(crew, "x") == []


def test_whoever_has_waited_long_enough_is_told(crew: Team) -> None:
    acquire(crew, "a", "x")
    queue(crew, "b", "x", wait_s=20)
    crew.advance(21)
    assert crew.happened(ev.LeaseWaitEnded)[0].reason == "timeout"
    ((kind, payload),) = told(crew, "b")
    assert (kind, payload["reason"], payload["errorCode"]) == ("LEASE_REFUSED", "timeout", "E_LEASE_002")
    assert not crew.exchange.state.waits.waits


def test_a_director_takes_a_lease_away_with_a_reason(crew: Team) -> None:
    lease = acquire(crew, "a", "x")
    queue(crew, "b", "x")
    assert crew.refused(cmd.ForceRelease(lease.lease, "mine"), "b").code == "E_AUTH_003"
    assert crew.refused(cmd.ForceRelease(lease.lease, " "), "boss").code == "E_VALIDATION_001"
    assert crew.refused(cmd.ForceRelease("nothing", "why not"), "boss").code == "E_LEASE_001"
    crew.ask(cmd.ForceRelease(lease.lease, "the build is broken"), "boss", cmd.Released)
    event = crew.happened(ev.LeaseReleased)[0]
    assert (event.reason, event.by, event.note) == ("forced", "boss", "the build is broken")
    ((kind, payload),) = told(crew, "a")
    assert (kind, payload["reason"], payload["by"]) == ("LEASE_LOST", "forced", "boss")
    assert holders(crew, "x") == ["b"]


def test_a_director_takes_a_place_in_line_away(crew: Team) -> None:
    acquire(crew, "a", "x")
    waiting = queue(crew, "b", "x")
    assert crew.ask(cmd.ForceRelease(waiting.lease, "no"), "boss", cmd.Released).cancelled == (waiting.lease,)
    assert told(crew, "b")[0][1]["reason"] == "forced"


def test_who_leaves_the_project_leaves_its_leases_and_places(crew: Team) -> None:
    acquire(crew, "a", "x")
    acquire(crew, "b", "y")
    queue(crew, "b", "x")
    queue(crew, "c", "y")
    crew.ask(cmd.RetireAgent("b"), "boss", cmd.Done)
    assert holders(crew, "y") == ["c"]
    assert not crew.exchange.state.leases.queue
    crew.ask(cmd.RetireAgent("a"), "boss", cmd.Done)
    assert holders(crew, "x") == []


def test_who_waits_lends_to_who_holds_through_chains(crew: Team) -> None:
    x = acquire(crew, "twin", "x")
    acquire(crew, "b", "y")
    queue(crew, "b", "x", priority="Info")
    queue(crew, "a", "y", priority="Critical")
    assert crew.exchange.state.inherited == {"b": Priority.CRITICAL, "twin": Priority.CRITICAL}
    release(crew, "twin", x.lease)
    assert crew.exchange.state.inherited == {"b": Priority.CRITICAL}
    assert crew.happened(ev.PriorityRestored)[-1].agent == "twin"


def test_what_is_inherited_counts_in_other_lines(crew: Team) -> None:
    x = acquire(crew, "boss", "x")
    queue(crew, "c", "x", priority="Coordinate")
    acquire(crew, "b", "y")
    queue(crew, "b", "x", priority="Info")
    assert crew.exchange.state.leases.waiting_for("x")[0].agent == "c"
    waiting = queue(crew, "a", "y", priority="Blocking")
    assert crew.exchange.state.leases.waiting_for("x")[0].agent == "b"
    crew.ask(cmd.ReleaseLease(waiting.lease), "a", cmd.Released)
    assert crew.exchange.state.leases.waiting_for("x")[0].agent == "c"
    release(crew, "boss", x.lease)
    assert holders(crew, "x") == ["c"]


def test_a_deadlock_is_refused_to_the_one_who_closes_it(crew: Team) -> None:
    acquire(crew, "a", "x")
    acquire(crew, "b", "y")
    queue(crew, "a", "y", priority="Blocking")
    problem = crew.refused(cmd.AcquireLease(("x",)), "b")
    assert (problem.code, sorted(problem.facts["cycle"])) == ("E_LEASE_004", ["a", "b"])
    assert holders(crew, "y") == ["a"], "what the victim held of the circle is released"
    assert holders(crew, "x") == ["a"]
    assert crew.happened(ev.LeaseReleased)[0].reason == "deadlock"
    assert {kind for kind, _ in told(crew, "b")} == {"ERROR_REPORT", "LEASE_REFUSED", "LEASE_LOST"}
    assert [kind for kind, _ in told(crew, "boss")] == ["ERROR_REPORT"]


def test_a_deadlock_is_broken_at_the_one_who_is_less_urgent(crew: Team) -> None:
    acquire(crew, "a", "x")
    acquire(crew, "b", "y")
    queue(crew, "a", "y", priority="Info")
    lease = acquire(crew, "b", "x", priority="Critical")
    assert holders(crew, "x") == ["b"]
    assert crew.happened(ev.DeadlockFound)[0].victim == "a"
    assert lease.lease in crew.exchange.state.leases.leases
    assert crew.exchange.state.inherited == {}


def test_two_sharers_who_both_want_it_alone_are_a_deadlock(crew: Team) -> None:
    acquire(crew, "a", shared=("x",))
    acquire(crew, "b", shared=("x",))
    queue(crew, "a", "x")
    assert crew.refused(cmd.AcquireLease(("x",)), "b").code == "E_LEASE_004"
    assert holders(crew, "x") == ["a", "a"]


def test_a_place_in_line_can_close_a_deadlock(crew: Team) -> None:
    acquire(crew, "a", shared=("x",))
    acquire(crew, "c", "y")
    queue(crew, "b", "x", priority="Blocking")
    queue(crew, "c", shared=("x",), priority="Blocking")
    assert not crew.happened(ev.DeadlockFound)
    assert crew.refused(cmd.AcquireLease(("y",), priority="Info"), "a").code == "E_LEASE_004"
    assert crew.happened(ev.DeadlockFound)[0].cycle == ("a", "c", "b")


def test_two_in_line_for_the_same_thing_are_told_once(crew: Team) -> None:
    lease = acquire(crew, "a", "x")
    for agent in ("b", "c", "d"):
        queue(crew, agent, "x")
    (event,) = crew.happened(ev.LeaseContended)
    assert (event.resource, event.depth, event.waiters, event.holders) == ("x", 2, ("b", "c"), ("a",))
    release(crew, "a", lease.lease)
    release(crew, "b", crew.exchange.state.leases.holding("x")[0].lease)
    queue(crew, "a", "x")
    assert len(crew.happened(ev.LeaseContended)) == 2


def contended(crew: Team) -> list[tuple[str, int]]:
    return [(event.resource, event.depth) for event in crew.happened(ev.LeaseContended)]


def test_a_glob_that_wants_what_several_wait_for_is_contention_of_each(crew: Team) -> None:
    """One request took the line from one to three, and only a line of exactly two was told of."""
    for resource in ("src/a", "src/b", "src/c"):
        acquire(crew, "a", resource)
    queue(crew, "b", "src/a")
    queue(crew, "c", "src/b")
    assert not contended(crew)
    queue(crew, "d", "src/**")
    assert contended(crew) == [("src/a", 2), ("src/b", 2)]


def test_those_who_wait_for_parts_of_one_glob_wait_for_the_same_thing(crew: Team) -> None:
    acquire(crew, "a", "src/**")
    for agent, resource in (("b", "src/x"), ("c", "src/y"), ("d", "src/z")):
        queue(crew, agent, resource)
    assert contended(crew) == [("src/**", 2)]


def test_one_who_waits_twice_is_one(crew: Team) -> None:
    acquire(crew, "a", "x")
    queue(crew, "b", "x")
    queue(crew, "b", "x")
    assert not contended(crew)
    queue(crew, "c", "x")
    assert contended(crew) == [("x", 2)]


def test_two_who_would_share_do_not_contend_with_each_other(crew: Team) -> None:
    acquire(crew, "a", "x")
    queue(crew, "b", shared=("x",))
    queue(crew, "c", shared=("x",))
    assert not contended(crew)
    queue(crew, "d", "x")
    assert contended(crew) == [("x", 2)]
    assert crew.happened(ev.LeaseContended)[0].waiters == ("b", "c", "d")


def test_a_clone_waits_at_its_cap_and_a_primary_may_not_override(crew: Team) -> None:
    acquire(crew, "a", "x")
    assert queue(crew, "twin", "x", priority="Critical").priority == "Coordinate"
    assert crew.refused(cmd.AcquireLease(("x",), priority="DirectorOverride"), "b").code == "E_ADMISSION_004"
    assert queue(crew, "boss", "x", priority="DirectorOverride").place == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (cmd.AcquireLease(), "E_LEASE_005"),
        (cmd.AcquireLease(("a//b",)), "E_LEASE_005"),
        (cmd.AcquireLease(("x",), ("x",)), "E_LEASE_005"),
        (cmd.AcquireLease(("x" * 600,)), "E_LEASE_005"),
        (cmd.AcquireLease(("/".join("x" * 40),)), "E_LEASE_005"),
        (cmd.AcquireLease(tuple(f"x{n}" for n in range(65))), "E_ADMISSION_008"),
        (cmd.AcquireLease(("x",), ttl_s=0), "E_VALIDATION_004"),
        (cmd.AcquireLease(("x",), ttl_s=float("nan")), "E_VALIDATION_004"),
        (cmd.AcquireLease(("x",), ttl_s=1e9), "E_VALIDATION_004"),
        (cmd.AcquireLease(("x",), wait_s=-1), "E_VALIDATION_004"),
        (cmd.AcquireLease(("x",), priority="Loud"), "E_VALIDATION_003"),
        (cmd.AcquireLease(("x",), lease="no spaces"), "E_VALIDATION_004"),
    ],
)
def test_what_cannot_be_asked_is_refused(crew: Team, command: cmd.AcquireLease, code: str) -> None:
    assert crew.refused(command, "a").code == code
    assert not crew.exchange.state.leases.leases


def test_an_unknown_priority_is_refused_with_the_choices(crew: Team) -> None:
    problem = crew.refused(cmd.AcquireLease(("x",), priority="Loud"), "a")
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_003", "$.priority", "Loud")
    assert problem.expected == "one of Info, Coordinate, Blocking, Critical, DirectorOverride"


@pytest.mark.parametrize(("name", "level"), [("Blocking", "Blocking"), ("ASK", "Blocking"), ("LOW", "Info")])
def test_a_priority_is_a_name_of_any_vocabulary(crew: Team, name: str, level: str) -> None:
    assert acquire(crew, "a", "x", priority=name).priority == level


def test_times_in_replies_are_utc_datetimes(crew: Team) -> None:
    held = acquire(crew, "a", "x", ttl_s=1.5)
    assert held.expires_at == datetime(2025, 11, 12, 10, 0, 1, 500_000, tzinfo=UTC)
    assert (held.place, held.wait_until) == (None, None)
    waiting = queue(crew, "b", "x", wait_s=20)
    assert waiting.wait_until == datetime(2025, 11, 12, 10, 0, 20, tzinfo=UTC)
    assert waiting.expires_at is None


def test_a_stranger_holds_nothing(crew: Team) -> None:
    assert crew.refused(cmd.AcquireLease(("x",)), "nobody").code == "E_AUTH_007"


def test_there_is_a_limit_to_what_one_holds_and_how_many_wait(new_team: NewTeam) -> None:
    team = crew_of(new_team("leases: {per_agent_max: 2, waiters_max: 1, leases_max: 4}"))
    acquire(team, "a", "x")
    acquire(team, "a", "y")
    assert team.refused(cmd.AcquireLease(("z",)), "a").code == "E_ADMISSION_008"
    queue(team, "b", "x")
    assert team.refused(cmd.AcquireLease(("x",)), "c").code == "E_ADMISSION_008"
    acquire(team, "c", "z")
    assert team.refused(cmd.AcquireLease(("w",)), "d").code == "E_ADMISSION_008"


def test_only_so_many_lapsed_leases_are_remembered(new_team: NewTeam) -> None:
    team = crew_of(new_team("leases: {lapsed_max: 2}"))
    leases = [acquire(team, "a", name, ttl_s=10).lease for name in ("x", "y", "z")]
    team.advance(11)
    assert [team.refused(cmd.RenewLease(lease), "a").code for lease in leases] == [
        "E_LEASE_001",
        "E_LEASE_003",
        "E_LEASE_003",
    ]


def test_a_new_policy_keeps_leases_and_lines(crew: Team) -> None:
    acquire(crew, "a", "x", ttl_s=100)
    queue(crew, "b", "x", wait_s=1000)
    crew.adopt("leases: {warn_before_s: 5}")
    crew.advance(94)
    assert not crew.happened(ev.LeaseExpiring)
    crew.advance(7)
    assert holders(crew, "x") == ["b"]


def test_a_grant_can_close_a_deadlock_and_is_refused_then(crew: Team) -> None:
    acquire(crew, "a", shared=("x",))
    acquire(crew, "b", "y")
    queue(crew, "b", "x", priority="Blocking")
    queue(crew, "c", "y", priority="Info")
    problem = crew.refused(cmd.AcquireLease((), ("x",), priority="Critical"), "c")
    assert (problem.code, sorted(problem.facts["cycle"])) == ("E_LEASE_004", ["b", "c"])
    assert crew.happened(ev.DeadlockFound)[0].victim == "c"
    assert holders(crew, "x") == ["a"]


def test_places_alone_can_close_a_deadlock(crew: Team) -> None:
    acquire(crew, "a", "x", "y")
    for agent, resource in (("b", "x"), ("c", "y"), ("b", "y")):
        queue(crew, agent, resource)
    assert not crew.happened(ev.DeadlockFound)
    assert crew.refused(cmd.AcquireLease(("x",)), "c").code == "E_LEASE_004"
