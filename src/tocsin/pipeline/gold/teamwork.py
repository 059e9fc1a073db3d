"""Coordination: escalations, deadlocks, lent priority and waits for leases (LIMINAL's monitoring)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.balance import counts_all, counts_kinds
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["DEADLOCK", "ESCALATION_OUTCOME", "INVERSION", "LEASE_WAIT"]

_ESCALATION_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which they were opened, UTC."),
    ("hour", "timestamp", "Hour in which they were opened."),
    ("rule", "string", "Name of the rule that opened them."),
    ("trigger", "string", "What it looks for."),
    ("escalations", "bigint", "Escalations opened."),
    ("to_director", "bigint", "Of those, that a director was told of."),
    ("to_human", "bigint", "Of those, that a human was told of."),
    ("closed", "bigint", "Of those, that are over; the times below are from opening to that."),
    *DISTRIBUTION,
)


def escalation_outcome(escalation: DataFrame) -> DataFrame:
    """Count escalations per hour and rule, and measure how long they took."""
    measured = distribution(
        escalation.withColumn("hour", F.date_trunc("hour", "opened_at")),
        ("project", "date", "hour", "rule", "trigger"),
        F.col("open_us"),
        escalations=F.count(F.lit(1)),
        to_director=F.count("director_at"),
        to_human=F.count("human_at"),
        closed=F.count("closed_at"),
    )
    return conform(measured, _ESCALATION_COLUMNS)


_DEADLOCK_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "The day, UTC."),
    ("seq", "bigint", "Sequence number of the finding."),
    ("found_at", "timestamp", "When it was found, and broken."),
    ("cycle", "array<string>", "Who waited for whom: each for the next, the last for the first."),
    ("agents", "bigint", "How many that are."),
    ("waits", "array<string>", "The wait of each, as `kind:ref`."),
    ("victim", "string", "Whose wait was refused."),
    ("refused", "string", "That wait, as `kind:ref`."),
)


def deadlock(event: DataFrame) -> DataFrame:
    """List the deadlocks."""
    found = event.where(F.col("kind") == "DeadlockFound").withColumns(
        {"found_at": F.timestamp_micros("at"), "agents": F.size("cycle")}
    )
    return conform(found, _DEADLOCK_COLUMNS)


_INVERSION_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "The day, UTC."),
    ("minute", "timestamp", "The minute."),
    ("agent", "string", "Who was lent priority by those who wait for it."),
    ("raised", "bigint", "Times that it was lent more."),
    ("restored", "bigint", "Times that it was lent less, or nothing any more."),
    ("highest", "int", "Most that it was lent, 0 (Info) to 4 (DirectorOverride)."),
    ("messages", "bigint", "Messages that rose with it, each time that they did."),
)


def inversion(event: DataFrame) -> DataFrame:
    """Count how often waiting lent an agent priority, per minute."""
    lent = F.col("kind") == "PriorityInherited"
    counted = (
        event.where(F.col("kind").isin("PriorityInherited", "PriorityRestored"))
        .withColumn("minute", F.date_trunc("minute", F.timestamp_micros("at")))
        .withColumn("rising", F.when(lent, F.size("raised")).otherwise(0))
        .groupBy("project", "date", "minute", "agent")
        .agg(
            F.count_if(lent).alias("raised"),
            F.count_if(~lent).alias("restored"),
            F.max(F.when(lent, F.col("new_level"))).alias("highest"),
            F.sum("rising").alias("messages"),
        )
    )
    return conform(counted, _INVERSION_COLUMNS)


_LEASE_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which they were asked for, UTC."),
    ("hour", "timestamp", "Hour in which they were asked for."),
    ("agent", "string", "Who asked."),
    ("leases", "bigint", "Leases asked for and not refused at once."),
    ("granted", "bigint", "Of those, granted."),
    ("in_line", "bigint", "Of those, that had to wait in line."),
    ("given_up", "bigint", "Of those, that left the line without."),
    ("lost", "bigint", "Of those granted, that ended against the holder's will or without its word."),
    ("held_us", "bigint", "Time that those that ended were held in all, microseconds."),
    *DISTRIBUTION,
)


def lease_wait(lease_span: DataFrame) -> DataFrame:
    """Measure how long agents waited for leases: those that were granted, and those that gave up."""
    against = F.col("end_reason").isin("forced", "deadlock", "lapsed", "reclaimed")
    measured = distribution(
        lease_span.withColumn("hour", F.date_trunc("hour", "asked_at")),
        ("project", "date", "hour", "agent"),
        F.col("waited_us"),
        leases=F.count(F.lit(1)),
        granted=F.count("granted_at"),
        in_line=F.count("place"),
        given_up=F.count_if(F.col("state") == "given_up"),
        lost=F.count_if(F.col("granted_at").isNotNull() & against),
        held_us=F.sum(F.coalesce("held_us", F.lit(0))),
    )
    return conform(measured, _LEASE_COLUMNS)


ESCALATION_OUTCOME = Table(
    name="escalation_outcome",
    layer="gold",
    about="Escalations of an hour per rule: how many, who was told, and how long they took.",
    columns=_ESCALATION_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("escalation", Reach.PROJECT),),
    transform=escalation_outcome,
    balance=counts_all("escalations"),
)
DEADLOCK = Table(
    name="deadlock",
    layer="gold",
    about="Every deadlock that was found and broken.",
    columns=_DEADLOCK_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=("DeadlockFound",)),),
    transform=deadlock,
)
INVERSION = Table(
    name="inversion",
    layer="gold",
    about="Priority that an agent was lent in a minute by those who wait for it.",
    columns=_INVERSION_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=("PriorityInherited", "PriorityRestored")),),
    transform=inversion,
    balance=counts_kinds("raised", "PriorityInherited"),
)
LEASE_WAIT = Table(
    name="lease_wait",
    layer="gold",
    about="How long an agent waited for the leases that it asked for in an hour.",
    columns=_LEASE_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("lease_span", Reach.PROJECT),),
    transform=lease_wait,
    balance=counts_all("leases"),
)
