"""Refusals of lease commands: every field of each problem, and the limits at their bounds."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.refusals import LONG, Refusal, check, ids_of
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import Problem


def acquire(*exclusive: str, **parts: object) -> cmd.AcquireLease:
    return cmd.AcquireLease(exclusive, **parts)  # type: ignore[arg-type]


def hold(team: Team, agent: str, *exclusive: str, **parts: object) -> str:
    return team.hold(acquire(*exclusive, **parts), agent).lease


def refused(command: cmd.Command, agent: str = "impl_001") -> "Ask":
    return Ask(command, agent)


class Ask:
    """Ask one thing of a fresh team."""

    def __init__(self, command: cmd.Command, agent: str) -> None:
        self.command, self.agent = command, agent

    def __call__(self, team: Team) -> Problem:
        return team.refused(self.command, self.agent)


def one_resource_more(team: Team) -> Problem:
    hold(team, "impl_001", "a", "b")
    return team.refused(acquire("c", "d", "e"), "impl_001")


def one_character_more(team: Team) -> Problem:
    hold(team, "impl_001", "x" * 200)
    return team.refused(acquire("x" * 201), "impl_001")


def one_character_more_in_a_segment(team: Team) -> Problem:
    hold(team, "impl_001", "a/" + "x" * 255)
    return team.refused(acquire("a/" + "x" * 256), "impl_001")


def one_segment_more(team: Team) -> Problem:
    hold(team, "impl_001", "a/b")
    return team.refused(acquire("x" * 150 + "/b/c"), "impl_001")


def wildcards_of_an_agent(team: Team) -> Problem:
    """Those that it waits for count with those that it holds; those of plain patterns do not count."""
    hold(team, "impl_002", "c/**/x")
    hold(team, "impl_001", "a/**/x", "a/**", "a/*.py")
    team.wait_for_lease(acquire("c/**/?"), "impl_001")
    hold(team, "impl_001", "d?")
    return team.refused(acquire("e?"), "impl_001")


def wildcards_of_all(team: Team) -> Problem:
    hold(team, "impl_001", "a/**/x")
    team.wait_for_lease(acquire("a/**/?"), "impl_002")
    hold(team, "manager_001", "c/**", "c/*.py", "c.py", "d?")
    return team.refused(acquire("e?"), "manager_001")


def too_far(team: Team) -> Problem:
    """It is compared with what is in use in its folder, not with itself where somebody uses it already.

    The characters count once for each of its wildcards.
    """
    hold(team, "impl_001", "a/b/c", "z/b/c")
    hold(team, "impl_001", "z/**/d")
    hold(team, "impl_002", "a/**/d")
    team.hold(acquire("z/b/?", wait_s=60), "impl_001")
    hold(team, "impl_001", "a/" + "b" * 40)
    return team.refused(acquire("a/?*?"), "impl_001")


def seconds(field: str, value: float) -> "Ask":
    return refused(acquire("a", **{field: value}))


def within_bounds(team: Team) -> Problem:
    """The bounds themselves are allowed."""
    hold(team, "impl_001", "a", ttl_s=0.001, wait_s=0)
    hold(team, "impl_001", "b", ttl_s=86400, wait_s=86400)
    return team.refused(acquire("c", ttl_s=86401), "impl_001")


def id_of_another(team: Team) -> Problem:
    hold(team, "impl_001", "a", lease="mine")
    return team.refused(acquire("b", lease="mine"), "impl_001")


def id_of_another_agent(team: Team) -> Problem:
    hold(team, "impl_001", "a", lease="mine")
    return team.refused(acquire("a", lease="mine"), "impl_002")


def one_lease_more(team: Team) -> Problem:
    hold(team, "impl_001", "a")
    return team.refused(acquire("b"), "impl_001")


def one_request_more(team: Team) -> Problem:
    hold(team, "impl_001", "a")
    team.wait_for_lease(acquire("a"), "impl_002")
    return team.refused(acquire("b"), "manager_001")


def not_free(team: Team) -> Problem:
    hold(team, "impl_001", "a")
    team.hold(cmd.AcquireLease((), ("b",)), "manager_001")
    return team.refused(acquire("a", "b", "c", "d", wait_s=0), "impl_002")


def reserved(team: Team) -> Problem:
    """Sharers hold it, and somebody waits for it alone: another sharer comes after that one."""
    team.hold(cmd.AcquireLease((), ("a",)), "impl_001")
    team.wait_for_lease(acquire("a"), "impl_002")
    return team.refused(cmd.AcquireLease((), ("a",), wait_s=0), "manager_001")


def one_waiter_more(team: Team) -> Problem:
    hold(team, "impl_001", "a")
    team.wait_for_lease(acquire("a"), "impl_002")
    return team.refused(acquire("a"), "manager_001")


def deadlock(team: Team) -> Problem:
    hold(team, "impl_001", "a")
    hold(team, "impl_002", "b")
    team.wait_for_lease(acquire("b"), "impl_001")
    return team.refused(acquire("a"), "impl_002")


def lapsed(team: Team) -> Problem:
    lease = hold(team, "impl_001", "a", ttl_s=1, lease="mine")
    team.advance(2)
    return team.refused(cmd.RenewLease(lease), "impl_001")


def lapsed_of_another(team: Team) -> Problem:
    lease = hold(team, "impl_001", "a", ttl_s=1, lease="mine")
    team.advance(2)
    return team.refused(cmd.RenewLease(lease), "impl_002")


NAMES = "Info, Coordinate, Blocking, Critical, DirectorOverride"
LEASE_ID = "up to 128 letters, digits, dots, dashes, underscores"

ROWS = [
    Refusal(
        "nothing named", refused(acquire()), "E_LEASE_005", ("name",), "$.exclusive", None, "at least one resource"
    ),
    Refusal(
        "one resource more",
        one_resource_more,
        "E_ADMISSION_008",
        ("3 ", "at most 2"),
        found="3",
        retryable=False,
        policy="leases: {resources_max: 2}",
    ),
    Refusal(
        "characters together",
        refused(acquire("x" * 30, "a/b/c/d")),
        "E_ADMISSION_008",
        ("94 ", "at most 93"),
        found="94",
        retryable=False,
        policy="leases: {characters_max: 93}",
    ),
    Refusal(
        "one wildcard more in all open patterns",
        refused(acquire("a?", "b/*/c", "**/*.d", "e/**", "*.py")),
        "E_ADMISSION_008",
        ("4 wildcards", "at most 3"),
        found="4",
        retryable=False,
        policy="leases: {wildcards_per_lease_max: 3}",
    ),
    Refusal(
        "one wildcard more",
        refused(acquire("a/**/?*[a-cx]")),
        "E_LEASE_005",
        ("'a/**/?*[a-cx]'", "5 wildcards", "at most 4"),
        found="a/**/?*[a-cx]",
        policy="leases: {wildcards_max: 4}",
    ),
    Refusal(
        "one glob more between two",
        refused(acquire("**/a*/b/*c/**")),
        "E_LEASE_005",
        ("'**/a*/b/*c/**'", "2 segments", "at most 1"),
        found="**/a*/b/*c/**",
    ),
    Refusal(
        "a long open pattern",
        refused(acquire("x" * 100 + "/**/" + "y" * 62)),
        "E_LEASE_005",
        ("65 characters", "at most 64"),
        found="x" * 100 + "/**/" + "y" * 16,
        policy="leases: {open_length_max: 64}",
    ),
    Refusal(
        "the wildcards of an agent",
        wildcards_of_an_agent,
        "E_ADMISSION_008",
        ("impl_001", "limit of 4 wildcards in open patterns"),
        policy="leases: {wildcards_per_agent_max: 4}",
    ),
    Refusal(
        "the wildcards of all",
        wildcards_of_all,
        "E_ADMISSION_008",
        ("the project", "limit of 4 wildcards in open patterns"),
        policy="leases: {wildcards_in_all_max: 4}",
    ),
    Refusal(
        "an open pattern that reaches too far",
        too_far,
        "E_ADMISSION_008",
        ("'a/?*?'", "too many resources"),
        found="a/?*?",
        policy="leases: {reach_max: 223}",
    ),
    Refusal("named twice", refused(acquire("a", "b", "a")), "E_LEASE_005", ("'a'", "twice"), found="a"),
    Refusal(
        "one character more",
        one_character_more,
        "E_LEASE_005",
        ("201 ", "200"),
        found="x" * 120,
        policy="leases: {resource_length_max: 200}",
    ),
    Refusal(
        "one segment more",
        one_segment_more,
        "E_LEASE_005",
        (f"'{'x' * 120}'", "2 segments"),
        found="x" * 120,
        policy="leases: {segments_max: 2}",
    ),
    Refusal(
        "one character more in a segment",
        one_character_more_in_a_segment,
        "E_LEASE_005",
        (f"'a/{'x' * 118}'", "256 ", "at most 255"),
        found="a/" + "x" * 118,
    ),
    Refusal(
        "too short",
        seconds("ttl_s", 0.0001),
        "E_VALIDATION_004",
        ("$.ttl_s", "0.0001", "0.001 to 86400"),
        "$.ttl_s",
        "0.0001",
        "0.001 to 86400",
    ),
    Refusal(
        "too long",
        within_bounds,
        "E_VALIDATION_004",
        ("$.ttl_s", "86401", "0.001 to 86400"),
        "$.ttl_s",
        "86401",
        "0.001 to 86400",
    ),
    Refusal(
        "not a number",
        seconds("wait_s", float("nan")),
        "E_VALIDATION_004",
        ("$.wait_s", "nan"),
        "$.wait_s",
        "nan",
        "0 to 86400",
    ),
    Refusal(
        "a wait that is too long",
        seconds("wait_s", 86401),
        "E_VALIDATION_004",
        ("$.wait_s", "86401"),
        "$.wait_s",
        "86401",
        "0 to 86400",
    ),
    Refusal(
        "an unknown priority",
        refused(acquire("a", priority="Urgent")),
        "E_VALIDATION_003",
        ("'Urgent'", NAMES),
        "$.priority",
        "Urgent",
        f"one of {NAMES}",
    ),
    Refusal(
        "a priority over the role",
        refused(acquire("a", priority="DirectorOverride")),
        "E_ADMISSION_004",
        ("impl_001", "primary", "Critical"),
        "$.priority",
        "DirectorOverride",
        "at most Critical",
    ),
    Refusal(
        "an invalid id",
        refused(acquire("a", lease=LONG)),
        "E_VALIDATION_004",
        (LONG[:128],),
        "$.lease",
        LONG[:128],
        LEASE_ID,
    ),
    Refusal("the id of another lease", id_of_another, "E_ADMISSION_007", ("mine",), "$.lease", "mine"),
    Refusal("the id of another agent", id_of_another_agent, "E_ADMISSION_007", ("mine",), "$.lease", "mine"),
    Refusal(
        "one lease more",
        one_lease_more,
        "E_ADMISSION_008",
        ("impl_001", "limit of 1 "),
        policy="leases: {per_agent_max: 1}",
    ),
    Refusal(
        "one request more", one_request_more, "E_ADMISSION_008", ("limit of 2 ",), policy="leases: {leases_max: 2}"
    ),
    Refusal(
        "not free",
        not_free,
        "E_LEASE_002",
        ("a, b, c is held by impl_001, manager_001",),
        facts={"holders": ["impl_001", "manager_001"], "ahead": []},
    ),
    Refusal(
        "reserved",
        reserved,
        "E_LEASE_002",
        ("a is reserved for impl_002",),
        facts={"holders": [], "ahead": ["impl_002"]},
    ),
    Refusal("one waiter more", one_waiter_more, "E_ADMISSION_008", ("1 ", "for a"), policy="leases: {waiters_max: 1}"),
    Refusal("a deadlock", deadlock, "E_LEASE_004", ("impl_001", "impl_002"), facts={"cycle": ["impl_002", "impl_001"]}),
    Refusal("release nothing", refused(cmd.ReleaseLease()), "E_VALIDATION_004", ("lease", "resources"), "$.lease"),
    Refusal(
        "release a lease and resources",
        refused(cmd.ReleaseLease("a", ("b",))),
        "E_VALIDATION_004",
        ("lease", "resources"),
        "$.lease",
    ),
    Refusal(
        "release what is not held",
        refused(cmd.ReleaseLease(None, (LONG,))),
        "E_LEASE_001",
        ("impl_001", LONG[:120]),
        found=LONG[:120],
    ),
    Refusal(
        "release an unknown lease",
        refused(cmd.ReleaseLease(LONG)),
        "E_LEASE_001",
        ("impl_001", LONG[:128]),
        found=LONG[:128],
    ),
    Refusal("renew a lapsed lease", lapsed, "E_LEASE_003", ("mine", "lapsed"), found="mine"),
    Refusal("renew the lapsed lease of another", lapsed_of_another, "E_LEASE_001", ("impl_002", "mine"), found="mine"),
    Refusal(
        "take a lease away as a primary",
        refused(cmd.ForceRelease("mine", "because")),
        "E_AUTH_003",
        ("impl_001", "take a lease away"),
    ),
    Refusal(
        "take a lease away without a reason",
        refused(cmd.ForceRelease("mine", " "), "boss"),
        "E_VALIDATION_001",
        ("reason",),
        "$.reason",
    ),
    Refusal(
        "take an unknown lease away",
        refused(cmd.ForceRelease(LONG, "because"), "boss"),
        "E_LEASE_001",
        (LONG[:128],),
        found=LONG[:128],
    ),
    *(
        Refusal(
            f"the resource {resource!r}", refused(acquire(resource)), "E_LEASE_005", says, found=found, expected=want
        )
        for resource, says, found, want in (
            ("", ("resource: it is empty",), "", "a name, or a path with globs"),
            (" a", ("' a'", "resource: it "), " a", "a name, or a path with globs"),
            ("a\x7f", ("resource: it ", "printable"), "a\x7f", "printable characters"),
            ("a/../b", ("resource: it ", "`..`"), "a/../b", "a path from the project's root, such as src/api/**"),
            ("a//b", ("resource: it ", "empty segment"), "a//b", "a path from the project's root, such as src/api/**"),
            ("x" * 130 + "]", ("resource: `]`",), "x" * 120, "`[]]` for the character itself"),
            ("a**/b", ("'a**/b'", "resource: `**`"), "a**/b", "`**` between slashes, or a single `*`"),
            ("a[b", ("'a[b'", "resource: `[`"), "a[b", "`[abc]`, or `[[]` for the character itself"),
            ("a]b", ("'a]b'", "resource: `]`"), "a]b", "`[]]` for the character itself"),
            ("a[z-b]", ("'a[z-b]'", "[z-b]"), "a[z-b]", "`[a-z]`"),
            ("a[/]", ("resource: `[`",), "a[/]", "`[abc]`, or `[[]` for the character itself"),
        )
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids_of(ROWS))
def test_a_refusal_names_what_is_wrong(new_team: NewTeam, row: Refusal) -> None:
    check(new_team, row)


def test_a_request_that_finds_no_room_is_recorded(new_team: NewTeam) -> None:
    """One that is not well-formed is not; the event has what was asked for, and why it was refused."""
    team = new_team("leases: {per_agent_max: 1}")
    team.register("one")
    team.refused(acquire(), "one")
    hold(team, "one", "a")
    problem = team.refused(cmd.AcquireLease(("b", "c"), ("d",)), "one")
    assert team.happened(ev.LeaseRefused) == [
        ev.LeaseRefused(team.now, "one", ("b", "c"), ("d",), "E_ADMISSION_008", problem.detail)
    ]
