"""Contents of the report, read from views over literal and simulated histories."""

from tests.pipeline.history import History, played
from tests.pipeline.rows import DAY, S, T, events, folded, life, lives, opened
from tocsin.pipeline.report.contents import read_contents
from tocsin.pipeline.report.page import render


def test_the_contents_are_sums_of_the_history() -> None:
    history = History("team", played(11, 900))
    happened = events(*history.events, project="team")
    with opened(happened, lives(*folded(happened, project="team"))) as tables:
        contents = read_contents(tables, "team")
        page = render([contents], None, T)
        quiet = read_contents(tables, "nobody")
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
    assert quiet.totals == dict.fromkeys(("requeues", "dead", "escalations", "to_human", "deadlocks"), 0)


def test_totals_count_what_the_table_of_the_page_cuts_off() -> None:
    """The line over the dead letters was a sum over the twenty largest groups."""
    dead = {"state": "dead", "reason": "rejected", "code": "E_TASK_001", "dead_at": T + 9 * S}
    with opened(lives(*(life(number, T, recipient=f"agent{number}", **dead) for number in range(1, 31)))) as tables:
        contents = read_contents(tables, "p", DAY, DAY)
    assert len(contents.letters) == 20
    assert contents.totals["dead"] == sum(contents.states["dead"]) == 30
    assert "30 dead letters" in render([contents], None, T)
