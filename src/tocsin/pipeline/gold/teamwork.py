"""Coordination: escalations, deadlocks, priority inheritance and lease waits (LIMINAL)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.balance import counts_all, counts_kinds
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["DEADLOCK", "ESCALATION_OUTCOME", "INVERSION", "LEASE_WAIT"]

_ESCALATION_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of opening, UTC."),
    ("hour", "timestamp", "Hour of opening."),
    ("rule", "string", "Name of the rule."),
    ("trigger", "string", "Trigger of the rule."),
    ("escalations", "bigint", "Number of escalations opened."),
    ("to_director", "bigint", "Of those, with a notification to a director."),
    ("to_human", "bigint", "Of those, with a notification to a human."),
    ("closed", "bigint", "Of those, closed; the times below are from opening to closing."),
    *DISTRIBUTION,
)


def escalation_outcome(escalation: DataFrame) -> DataFrame:
    """Count escalations per hour and rule, and measure their duration."""
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
    ("seq", "bigint", "Sequence number of the event."),
    ("found_at", "timestamp", "Time at which it was found and resolved."),
    ("cycle", "array<string>", "Agents in the cycle: each waits for the next, the last for the first."),
    ("agents", "bigint", "Number of agents in the cycle."),
    ("waits", "array<string>", "What each of them waits for, as `kind:ref`."),
    ("victim", "string", "Agent whose wait was refused."),
    ("refused", "string", "The refused wait, as `kind:ref`."),
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
    ("agent", "string", "Agent that inherited priority from agents that wait for it."),
    ("raised", "bigint", "Number of times its inherited priority rose."),
    ("restored", "bigint", "Number of times its inherited priority fell or ended."),
    ("highest", "int", "Highest inherited priority, 0 (Info) to 4 (DirectorOverride)."),
    ("messages", "bigint", "Number of messages raised with it; a message counts each time."),
)


def inversion(event: DataFrame) -> DataFrame:
    """Count changes of inherited priority per agent and minute."""
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
    ("date", "date", "Day of the requests, UTC."),
    ("hour", "timestamp", "Hour of the requests."),
    ("agent", "string", "Agent that requested the leases."),
    ("leases", "bigint", "Number of leases requested and not refused at once."),
    ("granted", "bigint", "Of those, granted."),
    ("in_line", "bigint", "Of those, that were queued."),
    ("given_up", "bigint", "Of those, that left the queue without a grant."),
    ("lost", "bigint", "Of those granted, that were forced, broken by a deadlock, lapsed or reclaimed."),
    ("held_us", "bigint", "Total holding time of the ended leases, microseconds."),
    *DISTRIBUTION,
)


def lease_wait(lease_span: DataFrame) -> DataFrame:
    """Measure the time in the queue of leases that were granted or given up."""
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
    about="Escalations of an hour per rule: number, notifications and duration.",
    columns=_ESCALATION_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("escalation", Reach.PROJECT),),
    transform=escalation_outcome,
    balance=counts_all("escalations"),
)
DEADLOCK = Table(
    name="deadlock",
    layer="gold",
    about="Every deadlock that was found and resolved.",
    columns=_DEADLOCK_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=("DeadlockFound",)),),
    transform=deadlock,
)
INVERSION = Table(
    name="inversion",
    layer="gold",
    about="Changes of the inherited priority of an agent in a minute.",
    columns=_INVERSION_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=("PriorityInherited", "PriorityRestored")),),
    transform=inversion,
    balance=counts_kinds("raised", "PriorityInherited"),
)
LEASE_WAIT = Table(
    name="lease_wait",
    layer="gold",
    about="Waiting times for the leases that an agent requested in an hour.",
    columns=_LEASE_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("lease_span", Reach.PROJECT),),
    transform=lease_wait,
    balance=counts_all("leases"),
)
