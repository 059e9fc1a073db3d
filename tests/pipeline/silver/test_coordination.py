"""Silver and gold tables of leases and escalations."""

from tests.pipeline.rows import DAY, Row, S, T, events, made
from tests.pipeline.views.latencies import spread
from tocsin.core import events as ev
from tocsin.core.messages.model import RecipientState

HERE: Row = {"project": "p", "date": DAY}


def test_a_lease_goes_from_asking_to_the_end() -> None:
    happened = events(
        # Granted at once, renewed, given back in two parts.
        ev.LeaseGranted(T, "l1", "ann", ("a", "b"), (), 1, 60.0, T + 60 * S, 0),
        ev.LeaseRenewed(T + 50 * S, "l1", "ann", 60.0, T + 110 * S),
        ev.LeaseReleased(T + 55 * S, "l1", "ann", ("a",), "released", "ann", ""),
        # In line, then granted, then lapsed.
        ev.LeaseQueued(T + S, "l2", "bob", ("b",), (), 2, 60.0, T + 99 * S, ("ann",), 1),
        ev.LeaseReleased(T + 70 * S, "l1", "ann", ("b",), "forced", "boss", "now"),
        ev.LeaseGranted(T + 70 * S, "l2", "bob", ("b",), (), 2, 60.0, T + 130 * S, 69 * S),
        ev.LeaseExpiring(T + 120 * S, "l2", "bob", T + 130 * S),
        ev.LeaseLapsed(T + 130 * S, "l2", "bob", ("b",), T + 130 * S, ()),
        # Gave up; still in line; held; taken from one who is gone.
        ev.LeaseQueued(T + 2 * S, "l3", "cem", ("b",), ("c",), 0, 60.0, T + 9 * S, ("ann",), 2),
        ev.LeaseWaitEnded(T + 9 * S, "l3", "cem", "timeout", 7 * S),
        ev.LeaseQueued(T + 140 * S, "l4", "cem", ("c",), (), 0, 60.0, T + 199 * S, ("bob",), 1),
        ev.LeaseGranted(T + 140 * S, "l5", "bob", (), ("c",), 0, 60.0, T + 200 * S, 0),
        ev.LeaseGranted(T + 3600 * S, "l6", "ann", ("d",), (), 0, 60.0, T + 3660 * S, 0),
        ev.LeaseReclaimed(T + 3660 * S, "l6", "ann", ("d",), T + 3660 * S, (), RecipientState.OFFLINE),
    )
    spans = made("lease_span", happened)
    none: Row = {"granted_at": None, "ended_at": None, "waited_us": None, "held_us": None, "end_reason": None}
    fresh: Row = {"renewals": 0, "warnings": 0}

    def span(
        lease: str, agent: str, exclusive: list[str], shared: list[str], level: int, at: int, **known: object
    ) -> Row:
        row = {**HERE, "lease": lease, "agent": agent, "exclusive": exclusive, "shared": shared, "level": level}
        order = ["asked_at", "granted_at", "ended_at", "waited_us", "held_us", "place", "renewals", "warnings"]
        filled = {"asked_at": at, **none, **fresh, "place": None, **known}
        return row | {name: filled[name] for name in [*order, "end_reason", "state"]}

    assert spans == [
        span("l1", "ann", ["a", "b"], [], 1, T, granted_at=T, ended_at=T + 70 * S, waited_us=0, held_us=70 * S,
             renewals=1, end_reason="forced", state="ended"),
        span("l2", "bob", ["b"], [], 2, T + S, granted_at=T + 70 * S, ended_at=T + 130 * S, waited_us=69 * S,
             held_us=60 * S, place=1, warnings=1, end_reason="lapsed", state="ended"),
        span("l3", "cem", ["b"], ["c"], 0, T + 2 * S, ended_at=T + 9 * S, waited_us=7 * S, place=2,
             end_reason="timeout", state="given_up"),
        span("l4", "cem", ["c"], [], 0, T + 140 * S, place=1, state="waiting"),
        span("l5", "bob", [], ["c"], 0, T + 140 * S, granted_at=T + 140 * S, waited_us=0, state="held"),
        span("l6", "ann", ["d"], [], 0, T + 3600 * S, granted_at=T + 3600 * S, ended_at=T + 3660 * S, waited_us=0,
             held_us=60 * S, end_reason="reclaimed", state="ended"),
    ]  # fmt: skip

    def waits(hour: int, agent: str, counts: tuple[int, int, int, int, int, int], *times: int) -> Row:
        names = ("leases", "granted", "in_line", "given_up", "lost", "held_us")
        row = {**HERE, "hour": T + hour * 3600 * S, "agent": agent, **dict(zip(names, counts, strict=True))}
        return {**row, **spread(*times)}

    assert made("lease_wait", happened) == [
        waits(0, "ann", (1, 1, 0, 0, 1, 70 * S), 0),
        waits(0, "bob", (2, 2, 1, 0, 1, 60 * S), 69 * S, 0),
        waits(0, "cem", (2, 0, 2, 1, 0, 0), 7 * S),
        waits(1, "ann", (1, 1, 0, 0, 1, 60 * S), 0),
    ]


def test_an_escalation_goes_from_its_cause_to_its_end() -> None:
    happened = events(
        ev.EscalationOpened(T, "e1", "time_in_queue 7", "blocking_waits", "time_in_queue", "m7", "late", 7, 60.0),
        ev.EscalationMoved(T, "e1", "age_over", "normal", "time_based_escalation", "tocsin", "", T + 60 * S),
        ev.EscalationMoved(T + S, "e1", "notified", "time_based_escalation", "director_notified", "tocsin", "", 0),
        ev.EscalationOpened(T + 2 * S, "e2", "deadlock 9", "deadlocks", "deadlock", "ann", "stuck", 0, 0.0),
        ev.EscalationMoved(T + 9 * S, "e1", "escalated", "director_notified", "human_escalation", "boss", "help", 0),
        ev.EscalationMoved(T + 20 * S, "e1", "human_acts", "human_escalation", "human_intervention", "hana", "", 0),
        ev.EscalationMoved(T + 30 * S, "e1", "returned", "human_intervention", "normal", "hana", "done", 0),
    )
    assert made("escalation", happened) == [
        {
            **HERE,
            "escalation": "e1",
            "rule": "blocking_waits",
            "trigger": "time_in_queue",
            "subject": "m7",
            "cause": "time_in_queue 7",
            "message": 7,
            "threshold": 60.0,
            "opened_at": T,
            "director_at": T + S,
            "human_at": T + 9 * S,
            "closed_at": T + 30 * S,
            "open_us": 30 * S,
            "moves": 5,
            "state": "normal",
            "resolved_by": "hana",
        },
        {
            **HERE,
            "escalation": "e2",
            "rule": "deadlocks",
            "trigger": "deadlock",
            "subject": "ann",
            "cause": "deadlock 9",
            "message": None,
            "threshold": 0.0,
            "opened_at": T + 2 * S,
            "director_at": None,
            "human_at": None,
            "closed_at": None,
            "open_us": None,
            "moves": 0,
            "state": "opened",
            "resolved_by": None,
        },
    ]
    key = {**HERE, "hour": T}
    assert made("escalation_outcome", happened) == [
        {
            **key,
            "rule": "blocking_waits",
            "trigger": "time_in_queue",
            "escalations": 1,
            "to_director": 1,
            "to_human": 1,
            "closed": 1,
            **spread(30 * S),
        },
        {
            **key,
            "rule": "deadlocks",
            "trigger": "deadlock",
            "escalations": 1,
            "to_director": 0,
            "to_human": 0,
            "closed": 0,
            **spread(),
        },
    ]


def test_deadlocks_are_listed_and_lent_priority_is_counted() -> None:
    happened = events(
        ev.DeadlockFound(T, ("ann", "bob"), ("lease:l1", "lease:l2"), (1, 2), "ann", "lease:l1"),
        ev.PriorityInherited(T + S, "ann", None, 2, "bob", "lease:l2", (4, 5)),
        ev.PriorityInherited(T + 2 * S, "ann", 2, 3, "cem", "lease:l3", (4, 5, 6)),
        ev.PriorityRestored(T + 3 * S, "ann", 3, None, (4, 5, 6)),
        ev.PriorityRestored(T + 60 * S, "bob", 3, 1, ()),
    )
    assert made("deadlock", happened) == [
        {
            **HERE,
            "seq": 1,
            "found_at": T,
            "cycle": ["ann", "bob"],
            "agents": 2,
            "waits": ["lease:l1", "lease:l2"],
            "victim": "ann",
            "refused": "lease:l1",
        }
    ]
    assert made("inversion", happened) == [
        {**HERE, "minute": T, "agent": "ann", "raised": 2, "restored": 1, "highest": 3, "messages": 5},
        {**HERE, "minute": T + 60 * S, "agent": "bob", "raised": 0, "restored": 1, "highest": None, "messages": 0},
    ]
