"""Differential test: every view compared with plain Python, each day with the whole, and buckets with the whole."""

import json
from collections import Counter
from datetime import date
from itertools import pairwise

import pytest

from tests.pipeline.history import History, played, simulated
from tests.pipeline.rows import Given, Row, day_of, events, folded, in_order, made, opened, records, rows
from tests.pipeline.views.latencies import spread
from tests.pipeline.views.oracle import ORACLE
from tests.soak import scaled
from tocsin.core.events import MessageBoosted
from tocsin.core.policy import policy_from
from tocsin.pipeline.advice import Thresholds, advise, gather
from tocsin.pipeline.catalogue import TABLES, VIEWS, stored_inputs
from tocsin.pipeline.facts.histogram import added
from tocsin.pipeline.jobs.verify import balanced
from tocsin.pipeline.tables.table import View
from tocsin.policies import parse_policy

SCALE = scaled(1, 10)
#: Views of events that the simulation does not produce; they have only literal tests.
UNPLAYED = {"frame_drop", "load_shedding"}
#: Views without rows here, because no pushed message of these histories waits; literal tests have some.
QUIET = {"sla_breach"}


class Tables:
    """All tables and views of some histories."""

    def __init__(self, histories: list[History]) -> None:
        self.histories = histories
        self.events = Given("event", [r for one in histories for r in records(one.project, enumerate(one.events, 1))])
        self.lives = Given("message_life", [life for one in histories for life in self.lives_of(one)])
        #: Tables are stored, as tasks store them; views are computed when they are read.
        first = opened(self.events, self.lives, only=[table.name for table in TABLES])
        stored = [Given(table.name, rows(first, table.name)) for table in TABLES]
        self.all = opened(self.events, self.lives, *stored)
        days = Counter((one.project, day_of(event.at)) for one in histories for event in one.events)
        #: Days of projects, the fullest first.
        self.days = [day for day, _ in days.most_common()]

    @staticmethod
    def lives_of(one: History) -> list[Row]:
        """Return the messages of a plain fold, with the moves that only the SQL records."""
        moves = {row["message"]: row["moves"] for row in folded(events(*one.events, project=one.project))}
        return [life | {"moves": moves[number]} for number, life in one.lives.items()]


@pytest.fixture(scope="module")
def tables() -> Tables:
    worlds = [History(f"world{seed}", simulated(seed, 600 * SCALE)) for seed in (5, 11, 7)]
    return Tables([*worlds, History("team", played(11, 900 * SCALE))])


def test_the_histories_have_something_of_everything(tables: Tables) -> None:
    kinds = {type(event).__name__ for history in tables.histories for event in history.events}
    assert {"MessageBoosted", "DeadLetterRedriven", "MessageReady", "RecallRefused", "DecayRateChanged"} <= kinds
    assert {"GamingDetected", "SessionWentStale", "BroadcastAccepted", "DeadLetterPurged", "MessageExpired"} <= kinds
    assert {"LeaseReclaimed", "LeaseWaitEnded", "EscalationMoved", "DeadlockFound", "PriorityRestored"} <= kinds
    assert {"MessageReleased", "PriorityInherited", "PolicyAdopted", "AgentWoken", "AgentWakeFailed"} <= kinds
    raised = {event.rule for one in tables.histories for event in one.events if isinstance(event, MessageBoosted)}
    assert raised == {"aging", "escalation"}
    assert len({day for project, day in tables.days if project == "team"}) > 1


def test_every_view_has_an_oracle() -> None:
    assert {view.name for view in VIEWS} == ORACLE.keys() | UNPLAYED


@pytest.mark.parametrize("name", list(ORACLE))
def test_a_view_is_what_a_plain_fold_makes(tables: Tables, name: str) -> None:
    names = [column.name for column in next(view.columns for view in VIEWS if view.name == name)]
    wanted: list[Row] = []
    for history in tables.histories:
        wanted += [{column: row[column] for column in names} for row in ORACLE[name](history)]
    found = rows(tables.all, name)
    assert found == sorted(wanted, key=in_order)
    assert [row[0] for row in tables.all.execute(f"DESCRIBE {name}").fetchall()] == names
    assert found or name in QUIET, "nothing to compare"


@pytest.mark.parametrize("view", [view for view in VIEWS if view.by_day], ids=lambda view: view.name)
def test_a_day_made_by_itself_is_that_day_of_the_whole(tables: Tables, view: View) -> None:
    """A view by day needs no other day of the tables that it reads by day."""
    project, day = next((project, day) for project, day in tables.days if project == "team" and day != MIDNIGHT)
    here = f"project = '{project}' AND date = DATE '{day}'"
    given = [
        Given(name, rows(tables.all, name, here if by_day else f"project = '{project}'"))
        for name, by_day in stored_inputs(view.name).items()
    ]
    with opened(*given, only=[view.name]) as alone:
        assert rows(alone, view.name, here) == rows(tables.all, view.name, here)


@pytest.mark.parametrize("name", ["message_minute", "message_hour", "queue_second", "thread_day"])
def test_a_fact_in_buckets_adds_up_to_the_same_views(tables: Tables, name: str) -> None:
    """Tasks count a bucket of a project's messages each; views sum what they wrote."""
    key = "correlation_id" if name == "thread_day" else "message"
    halves: list[Row] = []
    policies = Given("policy_span", rows(tables.all, "policy_span"))
    for part in (0, 1):
        some = [life for life in tables.lives.rows if life[key] is not None and hash(life[key]) % 2 == part]
        halves += made(name, Given("message_life", some), policies)
    fed = [view.name for view in VIEWS if set(stored_inputs(view.name)) == {name}]
    with opened(Given(name, halves), only=fed) as split:
        for view in fed:
            assert rows(split, view) == rows(tables.all, view), view


#: The first day of the team's history; the next has messages of it still waiting.
MIDNIGHT = date(2026, 3, 1)


@pytest.mark.parametrize("view", [view for view in VIEWS if view.balance is not None], ids=lambda view: view.name)
def test_a_view_balances_and_a_lost_row_is_noticed(tables: Tables, view: View) -> None:
    sums = list(balanced(tables.all, view))
    assert all(check.balances for check in sums), sums
    if view.name not in UNPLAYED:
        assert sum(check.found for check in sums)
        kept = [row for row in rows(tables.all, view.name) if row["project"] != "world11"]
        assert view.balance is not None
        with opened(
            tables.events,
            tables.lives,
            Given(view.name, kept),
            only=[name for name in [view.balance.counted] if name != "message"],
        ) as broken:
            assert not all(check.balances for check in balanced(broken, view))


def test_the_figures_of_advice_are_sums_of_the_views(tables: Tables) -> None:
    history = next(one for one in tables.histories if one.project == "team")
    figures = gather(tables.all, "team")
    lives = list(history.lives.values())
    assert sum(row["messages"] for row in figures.waits) == len(lives) == sum(figures.accepted.values())
    assert sum(row["messages"] for row in figures.processing) == len(lives)
    assert sum(row["requeues"] for row in figures.retries) == sum(life["requeues"] for life in lives)
    refused = [row for row in ORACLE["refusal"](history) if row["scope"] == "send"]
    assert sum(row["refusals"] for row in figures.refusals) == sum(row["refusals"] for row in refused)
    expired = [life for life in lives if life["reason"] == "ttl" and not life["redrives"]]
    assert sum(row["expired"] for row in figures.ttls) == len(expired)
    pushed = [life["first_waited_us"] for life in lives if life["publish_path"] == "pushed_to_ws"]
    waited = [us for us in pushed if us is not None]
    assert added(row["histogram"] for row in figures.loads) == spread(*waited)["histogram"]
    (rates,) = figures.rates
    changes = ORACLE["decay_rate"](history)
    rises = [row["new_rate"] > row["old_rate"] for row in changes]
    assert rates["changes"] == len(changes)
    assert rates["reversals"] == sum(one != other for one, other in pairwise(rises))
    day = history.events[-1].at
    last = gather(tables.all, "team", since=day_of(day))
    assert sum(last.accepted.values()) == sum(life["date"] == day_of(day) for life in lives)
    policy = policy_from(json.loads(history.policies[-1].policy))
    for advice in advise(figures, policy, Thresholds(messages_min=5)):
        parse_policy(advice.patch)
