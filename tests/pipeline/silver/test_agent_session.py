from datetime import date

from tests.pipeline.rows import DAY, Given, Row, S, T, events, made
from tocsin.core import events as ev

NEXT = T + 86400 * S
TUESDAY = date(2026, 3, 3)

#: Two sessions over two days.
HAPPENED = (
    ev.SessionOpened(T, "s1", "ann", "daemon", 32),
    ev.SessionHeartbeat(T + 5 * S, "s1"),
    ev.SessionWentStale(T + 70 * S, "s1", "ann", T + 5 * S, 60),
    ev.SessionHeartbeat(T + 90 * S, "s1"),
    ev.SessionHeartbeat(T + 91 * S, "s1"),
    ev.SessionOpened(T + 80 * S, "s2", "bob", "push", 8),
    ev.SessionWentStale(NEXT - 10 * S, "s1", "ann", T + 91 * S, 60),
    # The first sign of another day ends a stale time, of whatever kind it is.
    ev.SessionHeartbeat(NEXT + 3 * S, "s1"),
    ev.SessionWentStale(NEXT + 63 * S, "s1", "ann", NEXT + 3 * S, 60),
    ev.SessionClosed(NEXT + 100 * S, "s1", "ann", "lapsed"),
    ev.SessionWentStale(NEXT + 200 * S, "s2", "bob", T + 80 * S, 60),
)
_NOT_OPENED: Row = {"window": None, "session_kind": None, "opened_us": None, "closed_us": None, "close_reason": None}
_QUIET: Row = {"heartbeats": 0, "first_heartbeat_us": None, "last_heartbeat_us": None}
#: What each day has of them.
DAYS: list[Row] = [
    {
        "project": "p",
        "date": DAY,
        "session": "s1",
        "first_seq": 1,
        "agent": "ann",
        "session_kind": "daemon",
        "window": 32,
        "opened_us": T,
        "closed_us": None,
        "close_reason": None,
        "heartbeats": 3,
        "first_heartbeat_us": T + 5 * S,
        "last_heartbeat_us": T + 91 * S,
        "stale_from_us": [T + 70 * S, NEXT - 10 * S],
        "stale_to_us": [T + 90 * S, None],
    },
    {
        "project": "p",
        "date": DAY,
        "session": "s2",
        "first_seq": 6,
        "agent": "bob",
        "session_kind": "push",
        "window": 8,
        "opened_us": T + 80 * S,
        "closed_us": None,
        "close_reason": None,
        **_QUIET,
        "stale_from_us": [],
        "stale_to_us": [],
    },
    {
        "project": "p",
        "date": TUESDAY,
        "session": "s1",
        "first_seq": 8,
        "agent": "ann",
        **_NOT_OPENED,
        "closed_us": NEXT + 100 * S,
        "close_reason": "lapsed",
        "heartbeats": 1,
        "first_heartbeat_us": NEXT + 3 * S,
        "last_heartbeat_us": NEXT + 3 * S,
        "stale_from_us": [NEXT + 63 * S],
        "stale_to_us": [NEXT + 100 * S],
    },
    {
        "project": "p",
        "date": TUESDAY,
        "session": "s2",
        "first_seq": 11,
        "agent": "bob",
        **_NOT_OPENED,
        **_QUIET,
        "stale_from_us": [NEXT + 200 * S],
        "stale_to_us": [None],
    },
]


def test_a_day_gathers_the_signs_of_each_session() -> None:
    assert made("session_part", events(*HAPPENED)) == DAYS


def test_sessions_are_put_together_from_their_days() -> None:
    assert made("agent_session", Given("session_part", DAYS)) == [
        {
            "project": "p",
            "date": DAY,
            "session": "s1",
            "agent": "ann",
            "session_kind": "daemon",
            "window": 32,
            "opened_at": T,
            "closed_at": NEXT + 100 * S,
            "close_reason": "lapsed",
            "state": "closed",
            "heartbeats": 4,
            "last_heartbeat_at": NEXT + 3 * S,
            "stales": 3,
            "stale_us": (20 + 13 + 37) * S,
            "stale_from": [T + 70 * S, NEXT - 10 * S, NEXT + 63 * S],
            "stale_to": [T + 90 * S, NEXT + 3 * S, NEXT + 100 * S],
        },
        {
            "project": "p",
            "date": DAY,
            "session": "s2",
            "agent": "bob",
            "session_kind": "push",
            "window": 8,
            "opened_at": T + 80 * S,
            "closed_at": None,
            "close_reason": None,
            "state": "stale",
            "heartbeats": 0,
            "last_heartbeat_at": None,
            "stales": 1,
            "stale_us": 0,
            "stale_from": [NEXT + 200 * S],
            "stale_to": [None],
        },
    ]


def session(name: str, agent: str, kind: str, opened_at: int, closed_at: int | None = None, **stale: object) -> Row:
    row = {"project": "p", "date": DAY, "session": name, "agent": agent, "session_kind": kind}
    return {**row, "opened_at": opened_at, "closed_at": closed_at, "stale_from": [], "stale_to": [], **stale}


def test_sessions_are_counted_at_the_end_of_each_minute_of_change() -> None:
    minute = 60 * S
    sessions = Given(
        "agent_session",
        [
            session("s1", "ann", "daemon", T, stale_from=[T + minute, T + 3 * minute], stale_to=[T + 2 * minute, None]),
            session("s2", "ann", "push", T + 1, T + 2 * minute),
            session("s3", "bob", "daemon", T + 5, T + 6),
            session(
                "s4", "bob", "piggyback", T + minute, T + 3 * minute, stale_from=[T + 2 * minute],
                stale_to=[T + 3 * minute],
            ),
        ],
    )  # fmt: skip
    here = {"project": "p", "date": DAY}

    def count(number: int, kind: str, opened: int, closed: int, went_stale: int, live: int, stale: int) -> Row:
        counts = {"opened": opened, "closed": closed, "went_stale": went_stale, "live": live, "stale": stale}
        return {**here, "minute": T + number * minute, "session_kind": kind, **counts}

    assert made("session_count", sessions) == [
        count(0, "daemon", 2, 1, 0, 1, 0),
        count(0, "push", 1, 0, 0, 1, 0),
        count(1, "daemon", 0, 0, 1, 0, 1),
        count(1, "piggyback", 1, 0, 0, 1, 0),
        count(2, "daemon", 0, 0, 0, 1, 0),
        count(2, "piggyback", 0, 0, 1, 0, 1),
        count(2, "push", 0, 1, 0, 0, 0),
        count(3, "daemon", 0, 0, 1, 0, 1),
        count(3, "piggyback", 0, 1, 0, 0, 0),
    ]

    def attached(number: int, agent: str, shims: int, daemons: int, stale: int, attachment: str) -> Row:
        counts = {"shims": shims, "daemons": daemons, "stale_daemons": stale, "attachment": attachment}
        return {**here, "minute": T + number * minute, "agent": agent, **counts}

    assert made("agent_attachment", sessions) == [
        attached(0, "ann", 1, 1, 0, "attached"),
        attached(0, "bob", 0, 0, 0, "absent"),
        attached(1, "ann", 1, 0, 1, "daemonless"),
        attached(1, "bob", 1, 0, 0, "daemonless"),
        attached(2, "ann", 0, 1, 0, "attached"),
        attached(2, "bob", 0, 0, 0, "absent"),
        attached(3, "ann", 0, 0, 1, "absent"),
        attached(3, "bob", 0, 0, 0, "absent"),
    ]
