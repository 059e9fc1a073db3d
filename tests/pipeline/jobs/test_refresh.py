"""The refresh: which days of a derived table are recomputed, and from which inputs."""

from datetime import date
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.pipeline.test_message_life import STORY, accepted
from tests.pipeline.traffic import DAY_US, START, day_of, write_segment
from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.events import Event
from tocsin.pipeline.bronze.ingest import ingest
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.catalogue import in_order
from tocsin.pipeline.engine.spark import few_rows
from tocsin.pipeline.jobs.refresh import refresh
from tocsin.pipeline.lake.manifest import Manifest
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import Column
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

COLUMNS = (Column("project", "string", "P."), Column("date", "date", "D."), Column("n", "bigint", "N."))


def counted(frame: DataFrame) -> DataFrame:
    return frame.groupBy("project", "date").agg(F.count("*").alias("n"))


def alive(lives: DataFrame, events: DataFrame) -> DataFrame:
    """Count events of messages that are known, by the day of the event."""
    known = lives.select("project", "message")
    return counted(events.join(known, ["project", "message"], "left_semi"))


def summed(days: DataFrame) -> DataFrame:
    return days.groupBy("project").agg(F.sum("n").alias("n"))


BEATS = Table(
    "beats", "gold", "Beats.", COLUMNS, Grain.DAY, (Input("event", Reach.DAY, ("SessionHeartbeat",)),), counted
)
BORN = Table("born", "gold", "Born.", COLUMNS, Grain.DAY, (Input("message_life"),), counted)
MOVES = Table(
    "moves", "gold", "Moves.", COLUMNS, Grain.DAY,
    (Input("message_life", Reach.ALIVE), Input("event", Reach.ALIVE, ("MessageOffered", "MessageExpired"))), alive,
)  # fmt: skip
TOTAL = Table(
    "total", "gold", "Total.", (COLUMNS[0], COLUMNS[2]), Grain.PROJECT, (Input("beats", Reach.PROJECT),), summed
)
TABLES = (BEATS, BORN, MOVES, TOTAL)


def day(number: int) -> date:
    return day_of(START + number * DAY_US)


def rows(spark: SparkSession, house: Warehouse, table: Table) -> list[tuple[object, ...]]:
    frame = house.read(spark, table.name, house.current().files(table.name), table.columns)
    return sorted(tuple(row)[1:] for row in frame.collect())


def paths(manifest: Manifest, name: str) -> dict[str | None, str]:
    return {file.date: file.path for file in manifest.files(name)}


def test_only_what_changed_is_made_anew(spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    def step(tables: tuple[Table, ...] = TABLES) -> Manifest:
        ingest(spark, warehouse, landing, landed_segments(landing))
        return refresh(spark, warehouse, tables=tables)

    beat = ev.SessionHeartbeat
    first: list[Event] = [
        beat(START, "s"),
        accepted(START, "waits"),
        accepted(START, "goes"),
        ev.MessageOffered(START, 3, "s", 1, 1, 0, False),
    ]
    write_segment(landing, "p", 1, first)
    write_segment(landing, "q", 1, [beat(START, "s"), beat(START, "s")])
    one = step()
    assert (rows(spark, warehouse, BEATS), rows(spark, warehouse, BORN)) == ([(day(0), 1), (day(0), 2)], [(day(0), 2)])
    assert (rows(spark, warehouse, MOVES), rows(spark, warehouse, TOTAL)) == ([(day(0), 1)], [(1,), (2,)])

    write_segment(landing, "p", 5, [beat(START + DAY_US, "s"), beat(START + DAY_US, "s")])
    two = step()
    assert rows(spark, warehouse, BEATS) == [(day(0), 1), (day(0), 2), (day(1), 2)]
    assert paths(two, "beats")[str(day(0))] == paths(one, "beats")[str(day(0))], "a day was made anew for nothing"
    assert paths(two, "born") == paths(one, "born")
    assert rows(spark, warehouse, TOTAL) == [(2,), (3,)]
    assert [f.path for f in two.files("total") if f.project == "q"] == [
        f.path for f in one.files("total") if f.project == "q"
    ]

    late = ev.MessageExpired(START + 8 * DAY_US, 2, "ttl", START + DAY_US, 5.0, 0.0)
    write_segment(landing, "p", 7, [late])
    three = step()
    assert rows(spark, warehouse, MOVES) == [(day(0), 1), (day(8), 1)], "a message that waited for a week was not seen"
    assert paths(three, "beats") == paths(two, "beats"), "kinds that do not matter touched a table"
    states = {row.message: row.state for row in warehouse.table(spark, "message_life").collect()}
    assert states == {2: "expired", 3: "offered"}
    assert step().version == three.version

    more = Table("born", "gold", "Born.", (*COLUMNS, Column("m", "bigint", "M.")), Grain.DAY, BORN.inputs, doubled)
    four = step((BEATS, more, MOVES, TOTAL))
    assert rows(spark, warehouse, more) == [(day(0), 2, 4)]
    assert paths(four, "beats") == paths(three, "beats")
    five = step((BEATS, TOTAL))
    assert set(five.tables) == {"event", "quarantine", "message_life", "beats", "total"} or five.version == four.version


def doubled(lives: DataFrame) -> DataFrame:
    return counted(lives).withColumn("m", F.col("n") * 2)


def test_messages_without_an_acceptance_are_not_shown(spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    write_segment(landing, "p", 2, STORY[1:5])
    ingest(spark, warehouse, landing, landed_segments(landing))
    refresh(spark, warehouse, tables=(BORN,))
    assert rows(spark, warehouse, BORN) == []
    assert warehouse.table(spark, "message_life").count() == 1
    write_segment(landing, "p", 1, STORY[:1])
    ingest(spark, warehouse, landing, landed_segments(landing))
    refresh(spark, warehouse, tables=(BORN,))
    assert rows(spark, warehouse, BORN) == [(day(0), 1)]
    assert warehouse.table(spark, "message_life").count() == 1


def test_plans_over_few_rows_are_not_prepared_and_what_a_user_has_set_stays(
    spark: SparkSession, settings: Settings
) -> None:
    compiled, parts = "spark.sql.codegen.factoryMode", "spark.sql.shuffle.partitions"

    def found() -> tuple[str | None, str | None]:
        return spark.conf.get(compiled), spark.conf.get(parts)

    limited = msgspec.structs.replace(settings, few_rows_max=10, shuffle_partitions=7)
    before = spark.conf.get(parts)
    assert before is not None
    spark.conf.set(parts, "7")
    try:
        usual = found()
        with few_rows(spark, limited, 11):
            assert found() == usual == ("FALLBACK", "7")
        with few_rows(spark, limited, 10):
            assert found() == ("NO_CODEGEN", "1")
        assert found() == usual
        spark.conf.set(parts, "5")
        with few_rows(spark, limited, 10):
            assert found() == ("NO_CODEGEN", "5"), "what a user has set was changed"
        assert found() == ("FALLBACK", "5")
    finally:
        spark.conf.set(parts, before)


def test_a_table_comes_after_its_inputs() -> None:
    assert in_order(TABLES) == TABLES
    with pytest.raises(InvariantViolation, match="total reads beats"):
        in_order((TOTAL, BEATS))
