"""Contents of the report, read from views over literal and simulated histories."""

from tests.pipeline.history import History, played
from tests.pipeline.rows import DAY, S, T, events, folded, life, lives, opened
from tocsin.core import events as ev
from tocsin.pipeline.advice import Advised
from tocsin.pipeline.report.contents import read_contents
from tocsin.pipeline.report.page import render


def test_the_contents_are_sums_of_the_history() -> None:
    history = History("team", played(11, 900))
    happened = events(*history.events, project="team")
    with opened(happened, lives(*folded(happened, project="team"))) as tables:
        contents = read_contents(tables, "team", Advised())
        page = render([contents], None, T)
        quiet = read_contents(tables, "nobody", Advised())
    found = list(history.lives.values())
    states = {state: sum(counts) for state, counts in contents.states.items()}
    assert sum(states.values()) - states["undeliverable"] == len(found)
    assert states["dead"] == contents.totals["dead"] == sum(one["state"] == "dead" for one in found)
    assert sum(contents.traffic.values()) == len(found)
    assert contents.totals["requeues"] == sum(one["requeues"] for one in found)
    assert sum(row["messages"] for row in contents.waits) == len(found)
    assert contents.leads
    assert contents.sessions
    assert "team" in page
    assert quiet.bars == []
    names = ("requeues", "dead", "escalations", "to_human", "deadlocks", "wakes", "woken", "given_up")
    assert quiet.totals == dict.fromkeys(names, 0)


def test_totals_count_what_the_table_of_the_page_cuts_off() -> None:
    """The line over the dead letters was a sum over the twenty largest groups."""
    dead = {"state": "dead", "reason": "rejected", "code": "E_TASK_001", "dead_at": T + 9 * S}
    with opened(lives(*(life(number, T, recipient=f"agent{number}", **dead) for number in range(1, 31)))) as tables:
        contents = read_contents(tables, "p", Advised(), DAY, DAY)
    assert len(contents.letters) == 20
    assert contents.totals["dead"] == sum(contents.states["dead"]) == 30
    assert "30 dead letters" in render([contents], None, T)


def test_messages_that_waited_count_as_late() -> None:
    """A tile said that all Critical messages were in time: it counted only those to connected agents."""
    at_once = life(1, T, priority=3, first_waited_us=100, first_offered_at=T + 100, offers=1)
    hour = life(2, T, priority=3, first_waited_us=3600 * S, first_offered_at=T + 3600 * S, offers=1)
    away = {"recipient_state": "not_available_offline", "publish_path": "queued_offline"}
    with opened(lives(at_once, hour | away, life(3, T, priority=3, **away))) as tables:
        contents = read_contents(tables, "p", Advised(), DAY, DAY)
    (row,) = contents.sla
    assert (row["messages"], row["within_target"], row["pushed"], row["pushed_within"]) == (3, 1, 1, 1)
    page = render([contents], None, T)
    assert "<b>33.33 %</b><span>Critical offered in time</span><small>of 3, target" in page


def test_pending_pickup_is_a_word_of_the_dashboard_only() -> None:
    """There it means agents that are away now; the report knows who was away when a message was sent."""
    away = {"recipient_state": "not_available_offline", "publish_path": "queued_offline"}
    with opened(lives(life(1, T, **away))) as tables:
        page = render([read_contents(tables, "p", Advised(), DAY, DAY)], None, T)
    assert "pending pickup" not in page
    assert "1 messages to agents that were away are not delivered yet" in page


def test_wakes_are_shown_by_agent_with_the_times_from_the_acceptance() -> None:
    taken = {"delivered_at": T + 9 * S, "first_offered_at": T + 8 * S, "state": "delivered"}
    happened = events(
        ev.AgentWakeRequested(T + 5 * S, "bob", "w1", 1, 1, 2, 5 * S, 5.0, T + 65 * S),
        ev.AgentWoken(T + 8 * S, "bob", "w1", 1, "s1", 1, 3 * S),
        ev.AgentWakeRequested(T + 5 * S, "cleo", "w2", 2, 3, 2, 5 * S, 5.0, T + 65 * S),
        ev.AgentWakeFailed(T + 65 * S, "cleo", "w2", 2, 3, 3, "not_attached", "", 60.0, 0, True),
        ev.AgentWakeRequested(T + 90 * S, "bob", "w3", 3, 1, 2, 5 * S, 5.0, T + 150 * S),
    )
    with opened(happened, lives(life(1, T, **taken), life(2, T), life(3, T + 85 * S))) as tables:
        contents = read_contents(tables, "p", Advised(), DAY, DAY)
    page = render([contents], None, T)
    assert "3 wakes of agents that were not running: 1 worked, 1 were the last attempt and failed." in page
    for agent in (["bob", 2, 1, 0, "5 s / 5 s", "8 s / 8 s", "9 s / 9 s"], ["cleo", 1, 0, 1, "5 s / 5 s", "", ""]):
        assert "".join(f"<td>{cell}</td>" for cell in agent) in page
    with opened(lives(life(1, T))) as tables:
        assert "Wakes" not in render([read_contents(tables, "p", Advised(), DAY, DAY)], None, T)
