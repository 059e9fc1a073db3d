"""Differential test: every table compared with plain Python, and each day compared with the whole."""

import json
import os
from collections import Counter
from datetime import date
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.pipeline.gold.latencies import spread
from tests.pipeline.gold.oracle import ORACLE
from tests.pipeline.history import History, played, simulated
from tests.pipeline.rows import Row, day_of, frame, in_order, records, rows
from tocsin.core.events import MessageBoosted
from tocsin.core.policy import policy_from
from tocsin.pipeline.advice import Thresholds, advise, gather
from tocsin.pipeline.catalogue import DERIVED
from tocsin.pipeline.gold.histogram import added
from tocsin.pipeline.tables.schemas import EVENT, MESSAGE_LIFE
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table
from tocsin.policies import parse_policy

SCALE = 10 if os.environ.get("TOCSIN_SOAK") else 1
#: Tables that are computed from other tables, which are checked.
PARTS = {"session_day", "thread_day"}
#: Tables from events that the simulation does not produce; they have only literal tests.
UNPLAYED = {"frame_drop", "load_shedding"}


class Warehouse:
    """The tables of some histories, computed on first use."""

    def __init__(self, spark: SparkSession, histories: list[History]) -> None:
        self.histories = histories
        self._tables = {table.name: table for table in DERIVED}
        numbered = [record for one in histories for record in records(one.project, enumerate(one.events, 1))]
        lives = [life for one in histories for life in one.lives.values()]
        self._made: dict[str, DataFrame] = {
            "event": frame(spark, EVENT, numbered).cache(),
            "message_life": frame(spark, MESSAGE_LIFE, lives).cache(),
        }
        days = Counter((one.project, day_of(event.at)) for one in histories for event in one.events)
        #: Days of projects, the fullest first.
        self.days = [day for day, _ in days.most_common()]

    def whole(self, name: str) -> DataFrame:
        """Return a table computed from all data."""
        if name not in self._made:
            table = self._tables[name]
            inputs = [self._kinds(item, self.whole(item.table)) for item in table.inputs]
            self._made[name] = table.transform(*inputs).cache()
        return self._made[name]

    def of_day(self, table: Table, project: str, day: date) -> DataFrame:
        """Return a table computed from the inputs that the engine passes for one day."""
        shown = []
        for item in table.inputs:
            source = self._kinds(item, self.whole(item.table)).where(F.col("project") == project)
            if item.reach is Reach.DAY:
                source = source.where(F.col("date") == day)
            elif item.reach is Reach.ALIVE:
                source = self._alive(item.table, source, project, day)
            shown.append(source)
        return table.transform(*shown).where((F.col("project") == project) & (F.col("date") == day))

    def _alive(self, name: str, source: DataFrame, project: str, day: date) -> DataFrame:
        """Keep messages that were open on a day, and the events since the acceptance of the first of them."""
        living = [
            life
            for one in self.histories
            for life in one.lives.values()
            if one.project == project and life["date"] <= day <= day_of(life["last_at"])
        ]
        if name == "message_life":
            return source.where(F.col("message").isin([life["message"] for life in living]))
        often = ("requeues", "redrives", "held")
        others = [life for life in living if life["level"] != life["priority"] or any(life[name] for name in often)]
        first = min((life["date"] for life in others), default=day)
        return source.where(F.col("date").between(first, day))

    @staticmethod
    def _kinds(item: Input, source: DataFrame) -> DataFrame:
        return source.where(F.col("kind").isin(*item.kinds)) if item.kinds else source


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession) -> Warehouse:
    worlds = [History(f"world{seed}", simulated(seed, 600 * SCALE)) for seed in (5, 11)]
    return Warehouse(spark, [*worlds, History("team", played(11, 900 * SCALE))])


def test_the_histories_have_something_of_everything(warehouse: Warehouse) -> None:
    kinds = {type(event).__name__ for history in warehouse.histories for event in history.events}
    assert {"MessageBoosted", "DeadLetterRedriven", "MessageReady", "RecallRefused", "DecayRateChanged"} <= kinds
    assert {"GamingDetected", "SessionWentStale", "BroadcastAccepted", "DeadLetterPurged", "MessageExpired"} <= kinds
    assert {"LeaseReclaimed", "LeaseWaitEnded", "EscalationMoved", "DeadlockFound", "PriorityRestored"} <= kinds
    assert {"MessageReleased", "PriorityInherited", "PolicyAdopted"} <= kinds
    raised = {event.rule for one in warehouse.histories for event in one.events if isinstance(event, MessageBoosted)}
    assert raised == {"aging", "escalation"}
    assert len({day for project, day in warehouse.days if project == "team"}) > 1


def test_every_table_has_an_oracle() -> None:
    assert {table.name for table in DERIVED} == ORACLE.keys() | PARTS | UNPLAYED


@pytest.mark.parametrize("name", list(ORACLE))
def test_a_table_is_what_a_plain_fold_makes(warehouse: Warehouse, name: str) -> None:
    columns = next(table.columns for table in DERIVED if table.name == name)
    names = [column.name for column in columns]
    wanted: list[Row] = []
    for history in warehouse.histories:
        wanted += [{column: row[column] for column in names} for row in ORACLE[name](history)]
    found = rows(warehouse.whole(name))
    assert found == sorted(wanted, key=in_order)
    assert [field.name for field in warehouse.whole(name).schema.fields] == names
    assert found, "nothing to compare"


@pytest.mark.parametrize(
    "table", [table for table in DERIVED if table.grain is Grain.DAY], ids=lambda table: table.name
)
def test_a_day_made_by_itself_is_that_day_of_the_whole(warehouse: Warehouse, table: Table) -> None:
    project, day = next((project, day) for project, day in warehouse.days if project == "team" and day != MIDNIGHT)
    whole = warehouse.whole(table.name).where((F.col("project") == project) & (F.col("date") == day))
    assert rows(warehouse.of_day(table, project, day)) == rows(whole)


#: The first day of the team's history; the next has messages of it still waiting.
MIDNIGHT = date(2026, 3, 1)


BALANCED = [table for table in DERIVED if table.balance is not None]


@pytest.mark.parametrize("table", BALANCED, ids=lambda table: table.name)
def test_a_table_balances_and_a_lost_row_is_noticed(warehouse: Warehouse, table: Table) -> None:
    assert table.balance is not None
    inputs = [warehouse.whole(item.table) for item in table.inputs]
    whole = warehouse.whole(table.name)
    sums = table.balance(whole, *inputs).collect()
    assert all(row["expected"] == row["found"] for row in sums), sums
    if table.name not in UNPLAYED:
        assert sum(row["found"] for row in sums)
        broken = table.balance(whole.where(F.col("project") != "world11"), *inputs).collect()
        assert any(row["expected"] != row["found"] for row in broken)


def test_the_figures_of_advice_are_sums_of_the_tables(warehouse: Warehouse) -> None:
    history = next(one for one in warehouse.histories if one.project == "team")
    figures = gather(warehouse.whole, "team")
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
    last = gather(warehouse.whole, "team", since=day_of(day))
    assert sum(last.accepted.values()) == sum(life["date"] == day_of(day) for life in lives)
    policy = policy_from(json.loads(history.policies[-1].policy))
    for advice in advise(figures, policy, Thresholds(messages_min=5)):
        parse_policy(advice.patch)
