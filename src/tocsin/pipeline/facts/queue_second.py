"""Steps of messages into and out of the levels of mailboxes, by second.

Theory of operation. A message is in its mailbox from acceptance to offer, and again after each requeue; not during a
retry's backoff, nor while it is held for an approval. Its level is the priority granted plus boosts by aging or an
escalation; inherited priority is not counted (`inversion` has it). Most messages enter once and leave once, at the
priority granted: their times in `message_life` are enough. The others have the events that moved them in `moves`.

A row belongs to the day on which its messages were accepted, whenever the step was: so a message changes the rows of
its own day only. Views sum the days.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Table

__all__ = ["QUEUE_SECOND"]

QUEUE_SECOND = Table(
    name="queue_second",
    layer="facts",
    about="Messages of a day that entered and left a level of any mailbox in a second.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("second", "timestamp", "The second of the step, on that day or later."),
        ("level", "int", "Priority granted plus boosts, 0 (Info) to 4 (DirectorOverride)."),
        ("entered", "bigint", "Number of times that one of them entered this level of a mailbox."),
        ("left", "bigint", "Number of times that one of them left it."),
    ),
    reads=("message_life",),
    sql="""
WITH moved AS (
    SELECT project, date, message, priority::BIGINT AS granted, unnest(list_prepend(
        struct_pack(seq := message, us := us(created_at), level := priority::BIGINT, waits := coalesce(held, '') = ''),
        coalesce(moves, []))) AS move
    FROM message WHERE moves IS NOT NULL OR coalesce(held, '') <> ''),
placed AS (
    SELECT project, date, message, move.us AS us, move.seq AS seq,
        last_value(CASE WHEN move.level = -1 THEN granted ELSE move.level END IGNORE NULLS) OVER so_far AS at_level,
        last_value(move.waits IGNORE NULLS) OVER so_far AS waits
    FROM moved WINDOW so_far AS (
        PARTITION BY project, message ORDER BY move.seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)),
changed AS (
    SELECT *, lag(at_level) OVER in_order AS was_at_level, coalesce(lag(waits) OVER in_order, false) AS waited
    FROM placed WINDOW in_order AS (PARTITION BY project, message ORDER BY seq)),
crossed AS (SELECT * FROM changed WHERE waits <> waited OR (waits AND at_level <> was_at_level)),
simple AS (
    SELECT project, date, priority, us(created_at) AS created_us,
        us(coalesce(first_offered_at, delivered_at, expired_at, recalled_at, dead_at)) AS left_us
    FROM message WHERE moves IS NULL AND coalesce(held, '') = ''),
steps AS (
    SELECT project, date, us, was_at_level AS level, -1 AS step FROM crossed WHERE waited AND was_at_level IS NOT NULL
    UNION ALL SELECT project, date, us, at_level, 1 FROM crossed WHERE waits AND at_level IS NOT NULL
    UNION ALL SELECT project, date, created_us, priority, 1 FROM simple
    UNION ALL SELECT project, date, left_us, priority, -1 FROM simple WHERE left_us IS NOT NULL)
SELECT project, date, stamp(us - us % 1000000) AS second, level::INTEGER AS level,
    count(*) FILTER (WHERE step > 0) AS entered, count(*) FILTER (WHERE step < 0) AS "left"
FROM steps GROUP BY ALL
""",
)
