"""Refusals of commands about agents, sessions and work: every field of each problem, and the limits at their bounds."""

from functools import partial

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.refusals import LONG, Refusal, check, ids_of, refused_as
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem


def offered(team: Team, count: int = 1) -> list[str]:
    """Offer some messages to impl_001."""
    team.attach("impl_001")
    return [team.send("impl_002", "impl_001").message_id for _ in range(count)]


def begin(team: Team, message: str) -> None:
    team.ask(cmd.BeginWork(message), "impl_001", cmd.Attending)


def aside(team: Team, saved: str = "") -> None:
    team.ask(cmd.PutAside(saved), "impl_001", cmd.Attending)


def begin_ended(team: Team) -> Problem:
    (message,) = offered(team)
    team.done("impl_001", message)
    return team.refused(cmd.BeginWork(message), "impl_001")


def begin_another(team: Team) -> Problem:
    first, second = offered(team, 2)
    begin(team, first)
    begin(team, first)
    return team.refused(cmd.BeginWork(second), "impl_001")


def begin_aside(team: Team) -> Problem:
    (message,) = offered(team)
    begin(team, message)
    aside(team)
    return team.refused(cmd.BeginWork(message), "impl_001")


def save_too_much(team: Team) -> Problem:
    begin(team, offered(team)[0])
    problem = team.refused(cmd.PutAside("ü" * 4 + "x"), "impl_001")
    aside(team, "ü" * 4)
    return problem


def put_aside_too_often(team: Team) -> Problem:
    first, second = offered(team, 2)
    begin(team, first)
    aside(team)
    begin(team, second)
    return team.refused(cmd.PutAside(), "impl_001")


def begin_with_too_many_aside(team: Team) -> Problem:
    """A session that ends puts work aside in any case; then there is one more than an agent may put aside."""
    session = team.attach("impl_001")
    first, second, third = [team.send("impl_002", "impl_001").message_id for _ in range(3)]
    begin(team, first)
    aside(team)
    begin(team, second)
    team.detach(session)
    team.attach("impl_001")
    return team.refused(cmd.BeginWork(third), "impl_001")


def resume_another(team: Team) -> Problem:
    first, second = offered(team, 2)
    begin(team, first)
    return team.refused(cmd.ResumeWork(second), "impl_001")


def resume_unknown(team: Team) -> Problem:
    begin(team, offered(team)[0])
    aside(team)
    return team.refused(cmd.ResumeWork(LONG), "impl_001")


def too_many(team: Team, command: cmd.RegisterAgent) -> Problem:
    most = tuple(f"CUSTOM_{number}" for number in range(500))
    team.ask(cmd.RegisterAgent("AdHoc", ("1.1.0", *most[1:]), most), "other", cmd.Registered)
    return team.refused(command, "newcomer")


def one_agent_more(team: Team) -> Problem:
    team.register("impl_001", "AdHoc")
    return team.refused(cmd.RegisterAgent("AdHoc"), "newcomer")


def one_session_more(team: Team) -> Problem:
    team.attach("impl_001")
    return team.refused(cmd.OpenSession("push"), "impl_001")


def credit_for_a_channel(team: Team) -> Problem:
    session = team.attach("impl_001", "channel")
    team.ask(cmd.GrantCredit(session, 0), "impl_001", cmd.SessionReady)
    return team.refused(cmd.GrantCredit(session, 1), "impl_001")


def window_of(team: Team, window: int) -> Problem:
    for allowed in (0, 1024):
        team.attach("impl_001", window=allowed)
    return team.refused(cmd.OpenSession("push", window), "impl_001")


def session_of_another(team: Team) -> Problem:
    team.attach("impl_002")
    return team.refused(cmd.Heartbeat(LONG), "impl_001")


def text_too_long(team: Team) -> Problem:
    problem = team.refused(cmd.RetireAgent("impl_001", "x" * 4097), "impl_001")
    team.ask(cmd.RetireAgent("impl_001", "x" * 4096), "impl_001", cmd.Done)
    return problem


KINDS = "one of daemon, piggyback, push, channel"
GRANTED = Caller("newcomer", "primary", ("AdHoc", "Reviewer"))
MANY = tuple(f"CUSTOM_{number}" for number in range(501))

ROWS = [
    Refusal(
        "work on an unknown message",
        lambda team: team.refused(cmd.BeginWork(LONG), "impl_001"),
        "E_STATE_001",
        (LONG[:128],),
        found=LONG[:128],
    ),
    Refusal("work on an ended message", begin_ended, "E_STATE_002", ("msg_000001_impl_002", "processed")),
    Refusal(
        "work on a second message",
        begin_another,
        "E_STATE_002",
        ("impl_001", "msg_000001_impl_002"),
        found="msg_000001_impl_002",
    ),
    Refusal(
        "begin work that was put aside",
        begin_aside,
        "E_STATE_002",
        ("msg_000001_impl_002", "resume"),
        found="msg_000001_impl_002",
    ),
    Refusal(
        "save too much",
        save_too_much,
        "E_VALIDATION_005",
        ("9 bytes", "at most 8"),
        "$.saved",
        "9 bytes",
        "at most 8 bytes",
        policy="attention: {saved_bytes_max: 8}",
    ),
    Refusal(
        "put aside too often",
        put_aside_too_often,
        "E_ADMISSION_008",
        ("impl_001", "limit of 1 "),
        retryable=False,
        policy="attention: {aside_max: 1}",
    ),
    Refusal(
        "begin with too many put aside",
        begin_with_too_many_aside,
        "E_ADMISSION_008",
        ("impl_001", "limit of 1 "),
        retryable=False,
        policy="attention: {aside_max: 1}",
    ),
    Refusal(
        "resume without work",
        lambda team: team.refused(cmd.ResumeWork(), "impl_001"),
        "E_STATE_002",
        ("impl_001",),
    ),
    Refusal("resume another work", resume_another, "E_STATE_002", ("impl_001", "msg_000001_impl_002")),
    Refusal("resume unknown work", resume_unknown, "E_STATE_001", ("impl_001",), found=LONG[:128]),
    Refusal(
        "pause without work",
        lambda team: team.refused(cmd.ReachPausePoint(), "impl_001"),
        "E_STATE_002",
        ("impl_001", "idle"),
    ),
    Refusal(
        "register under an invalid name",
        lambda team: team.refused(cmd.RegisterAgent(), LONG),
        "E_VALIDATION_004",
        (LONG[:64],),
        "$.agentId",
        LONG[:64],
        "up to 64 letters, digits, dots, dashes, underscores, other than the bus's own name",
    ),
    Refusal(
        "register with an invalid type",
        lambda team: team.refused(cmd.RegisterAgent(LONG), "newcomer"),
        "E_VALIDATION_004",
        (LONG[:64],),
        "$.type",
        LONG[:64],
        "a name of up to 64 letters, digits, dashes, underscores",
    ),
    Refusal(
        "register with a type that is not granted",
        lambda team: refused_as(team, cmd.RegisterAgent("Manager"), GRANTED),
        "E_AUTH_003",
        ("newcomer", "Manager"),
        "$.type",
        "Manager",
        "one of AdHoc, Reviewer",
    ),
    Refusal(
        "register with an unknown role",
        lambda team: refused_as(team, cmd.RegisterAgent(), Caller("newcomer", LONG)),
        "E_AUTH_003",
        (f"'{LONG[:64]}'",),
        expected="clone, director, human, primary",
    ),
    Refusal(
        "register with too many capabilities",
        lambda team: too_many(team, cmd.RegisterAgent("AdHoc", ("1.1.0",), MANY)),
        "E_ADMISSION_008",
        ("500",),
        retryable=False,
    ),
    Refusal(
        "register with too many versions",
        lambda team: too_many(team, cmd.RegisterAgent("AdHoc", ("1.1.0", *MANY[1:]))),
        "E_ADMISSION_008",
        ("500",),
        retryable=False,
    ),
    Refusal("one agent more", one_agent_more, "E_ADMISSION_008", ("5 agents",), policy="limits: {agents_max: 5}"),
    Refusal(
        "retire an unknown agent",
        lambda team: team.refused(cmd.RetireAgent(LONG), "boss"),
        "E_ROUTING_001",
        (LONG[:64],),
        found=LONG[:64],
    ),
    Refusal(
        "retire another agent",
        lambda team: team.refused(cmd.RetireAgent("impl_002"), "impl_001"),
        "E_AUTH_003",
        ("impl_001", "retire another agent"),
    ),
    Refusal(
        "open an unknown kind of session",
        lambda team: team.refused(cmd.OpenSession(LONG), "impl_001"),  # type: ignore[arg-type]
        "E_VALIDATION_003",
        (LONG[:32],),
        "$.kind",
        LONG[:32],
        KINDS,
    ),
    Refusal(
        "one session more",
        one_session_more,
        "E_ADMISSION_008",
        ("impl_001", "limit of 1 "),
        policy="limits: {sessions_per_agent_max: 1}",
    ),
    Refusal("credit for a channel", credit_for_a_channel, "E_VALIDATION_004", ("channel",), "$.window", "1", "0"),
    *(
        Refusal(
            f"a window of {window}",
            partial(window_of, window=window),
            "E_VALIDATION_004",
            (f"of {window} ", "0 to 1024"),
            "$.window",
            str(window),
            "0 to 1024",
        )
        for window in (-1, 1025)
    ),
    Refusal("an unknown session", session_of_another, "E_STATE_003", (LONG[:64], "impl_001"), found=LONG[:64]),
    Refusal(
        "a text that is too long",
        text_too_long,
        "E_VALIDATION_004",
        ("$.reason", "4097", "4096"),
        "$.reason",
        "4097 characters",
        "at most 4096 characters",
    ),
    Refusal(
        "a caller that is not registered",
        lambda team: team.refused(cmd.OpenSession("push"), "stranger"),
        "E_AUTH_007",
        ("stranger", "register"),
    ),
    Refusal(
        "a caller with another role than it registered with",
        lambda team: refused_as(team, cmd.OpenSession("push"), Caller("impl_001", "clone")),
        "E_AUTH_007",
        ("impl_001", "primary", "clone"),
    ),
    Refusal(
        "a report on wakers by an agent",
        lambda team: team.refused(cmd.DeclareWakers(("impl_001",)), "boss"),
        "E_AUTH_003",
        ("boss",),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids_of(ROWS))
def test_a_refusal_names_what_is_wrong(new_team: NewTeam, row: Refusal) -> None:
    check(new_team, row)


def test_a_session_belongs_to_its_agent(team: Team) -> None:
    session = team.attach("impl_002")
    for command in (cmd.Heartbeat(session), cmd.CloseSession(session), cmd.GrantCredit(session, 1)):
        assert team.refused(command, "impl_001").code == "E_STATE_003"
