"""SQL of `message_life`: one row per message, folded from its events and merged with what is known of it.

Theory of operation. `FOLD` turns any set of events into *partial lives*, one row per message, as complete as those
events allow. `MERGE` combines the partial lives of one message, however many there are. Folding all events at once, or
in parts in any order and merging, gives the same row, because every value is one of three things: taken from the
acceptance alone; a count; or taken from the *last* event of a step, whose sequence number is kept beside it. So late
and out-of-order events give the right result, and a message that stays open for a week is one row to merge, not a week
of events to read again. `SETTLE` turns partial lives into rows of the table, `UNSETTLE` a row of the table back into a
partial life.

A value that a later step cancels (`delivered_at` on a requeue, `dead_at` on a redrive) is cleared by `SETTLE`. This
loses nothing, because a cancelled value never becomes valid again. A redrive sets the level back to the priority
granted, which a row lacks until the acceptance is read. So `UNSETTLE` marks such a level as the granted one again,
instead of reading it from the row, where it may be null.

The texts read the relations `event`, `partial`, `merged` and `known`; `tocsin.pipeline.jobs.refresh_tasks` makes them.
"""

from typing import get_type_hints

from tocsin.core.messages.lifecycle import TRANSITIONS
from tocsin.core.messages.model import State
from tocsin.pipeline.tables.schemas import KINDS, MESSAGE_LIFE, STEPS

__all__ = ["FOLD", "FOLDED_KINDS", "MERGE", "PREPARE", "SETTLE", "UNSETTLE"]

_ACCEPTED = "MessageAccepted"
#: Kinds of events that are folded: the acceptance, and all kinds that refer to a message by its number.
FOLDED_KINDS: tuple[str, ...] = (
    _ACCEPTED,
    *(name for name, kind in KINDS.items() if get_type_hints(kind).get("message") is int),
)

_NUMBER = {step: number for number, step in enumerate(STEPS)}
_STEP_OF = {kind.__name__: step for step, kind in STEPS.items()}
_AFTER: dict[str, State] = {}
for _row in TRANSITIONS:
    _AFTER[_STEP_OF[_row.event.__name__]] = _row.after

#: Columns that come from the acceptance alone.
_ACCEPTANCE = (
    "message_id", "sender", "recipient", "message_type", "requested", "priority", "rule", "importance", "decay_rate",
    "delivery_class", "ack_required", "version", "correlation_id", "opens_thread", "broadcast", "recipient_state",
    "publish_path", "resolved_session", "held",
)  # fmt: skip
#: Steps whose time is a column, with the name of that column.
_STAMPS = {
    "offered": "offered_at",
    "delivered": "delivered_at",
    "acknowledged": "acked_at",
    "processed": "processed_at",
    "expired": "expired_at",
    "recalled": "recalled_at",
    "died": "dead_at",
    "redriven": "redriven_at",
    "purged": "purged_at",
}
#: Values taken from the last event of some steps, with those steps.
_LAST = {
    "level": ("boosted", "redriven"),
    "boosts": ("boosted", "redriven"),
    "attempts": ("requeued", "died", "redriven"),
    "renewed_us": ("redriven", "released"),
    "reason": ("died", "expired"),
    "code": ("died",),
    "delivered_how": ("delivered",),
    "ack_status": ("acknowledged",),
    "processed_how": ("processed",),
}
_COUNTS = {"requeued": "requeues", "rejected": "rejections", "redriven": "redrives"}
#: States in which a message is settled; `delivered` too if no ACK is required.
_ENDED = (State.ACKNOWLEDGED, State.PROCESSED, State.EXPIRED, State.RECALLED, State.DEAD)
#: Level in a partial life that stands for the priority granted.
_GRANTED = -1


def _of(*steps: str) -> str:
    return f"step IN ({', '.join(str(_NUMBER[step]) for step in steps)})"


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _key(*steps: str) -> str:
    """Return the number of the last event among some steps; null if there is none."""
    return "greatest(" + ", ".join(f"{step}_seq" for step in steps) + ")"


#: What an event means for its message's place in a mailbox: whether it waits there from then on; null for a boost.
_WAITS = """CASE kind
    WHEN 'MessageReleased' THEN true WHEN 'MessageReady' THEN true WHEN 'DeadLetterRedriven' THEN true
    WHEN 'MessageRequeued' THEN ready_at <= "at" WHEN 'MessageBoosted' THEN NULL
    WHEN 'MessageOffered' THEN false WHEN 'MessageDelivered' THEN false WHEN 'MessageExpired' THEN false
    WHEN 'MessageRecalled' THEN false WHEN 'MessageDied' THEN false END"""

#: Make `step_event`, the events after the acceptance with the columns that are folded.
PREPARE = f"""
CREATE OR REPLACE TEMP TABLE step_event AS
SELECT message, seq, "at" AS us, {_WAITS} AS waits, offer, waited_us, latency_us, ready_at,
    CASE kind {" ".join(f"WHEN '{kind}' THEN {_NUMBER[step]}" for kind, step in _STEP_OF.items())} END::TINYINT AS step,
    CASE kind WHEN 'MessageBoosted' THEN coalesce(own_level, new_level) WHEN 'DeadLetterRedriven' THEN {_GRANTED} END
        AS level,
    CASE WHEN kind = 'DeadLetterRedriven' THEN 0 ELSE boosts END AS boosts,
    CASE WHEN kind = 'DeadLetterRedriven' THEN 0 ELSE attempts END AS attempts,
    expires_at AS renewed_us, how, status, reason, code
FROM event WHERE kind IN ({_quoted(FOLDED_KINDS[1:])})
"""

_STEPS = f"""
SELECT message,
    {", ".join(f"max(seq) FILTER (WHERE {_of(step)}) AS {step}_seq" for step in STEPS)},
    {", ".join(f"arg_max(us, seq) FILTER (WHERE {_of(step)}) AS {step}_us" for step in _STAMPS)},
    max(offer) FILTER (WHERE {_of("offered")}) AS offers,
    max(us) FILTER (WHERE offer = 1) AS first_offered_us,
    max(waited_us) FILTER (WHERE offer = 1) AS first_waited_us,
    max(latency_us) FILTER (WHERE {_of("acknowledged")}) AS ack_latency_us,
    max(latency_us) FILTER (WHERE {_of("processed")}) AS processing_latency_us,
    arg_max(level, seq) FILTER (WHERE {_of(*_LAST["level"])}) AS level,
    arg_max(boosts, seq) FILTER (WHERE {_of(*_LAST["boosts"])}) AS boosts,
    arg_max(attempts, seq) FILTER (WHERE {_of(*_LAST["attempts"])}) AS attempts,
    arg_max(renewed_us, seq) FILTER (WHERE {_of(*_LAST["renewed_us"])}) AS renewed_us,
    arg_max(reason, seq) FILTER (WHERE {_of(*_LAST["reason"])}) AS reason,
    arg_max(code, seq) FILTER (WHERE {_of(*_LAST["code"])}) AS code,
    arg_max(how, seq) FILTER (WHERE {_of(*_LAST["delivered_how"])}) AS delivered_how,
    arg_max(status, seq) FILTER (WHERE {_of(*_LAST["ack_status"])}) AS ack_status,
    arg_max(how, seq) FILTER (WHERE {_of(*_LAST["processed_how"])}) AS processed_how,
    {", ".join(f"count(*) FILTER (WHERE {_of(step)}) AS {name}" for step, name in _COUNTS.items())},
    max(seq) AS last_seq, arg_max(us, seq) AS last_us, bool_or(waits) AS entered_again,
    count(waits) AS moved
FROM step_event GROUP BY message
"""
_LEAVING = ("first_offered", "delivered", "expired", "recalled", "died")
_STEP_LEFT = {"first_offered": "offered"}
#: Whether the events of a message's way through its mailbox are needed: it enters more than once, later than its
#: acceptance, or changes its level there; or its times do not tell every event, because some have not come yet.
_FOLLOWED = (
    "coalesce(held, '') <> '' OR requeued_seq IS NOT NULL OR redriven_seq IS NOT NULL OR boosted_seq IS NOT NULL"
    " OR released_seq IS NOT NULL OR coalesce(entered_again, false)"
    " OR (delivered_seq IS NOT NULL AND died_seq IS NOT NULL)"
    f" OR coalesce(moved, 0) <> {' + '.join(f'({name}_us IS NOT NULL)::INT' for name in _LEAVING)}"
)

#: Fold `event` into partial lives; `step_event` must be prepared. Wide rows are joined once, and not kept in between.
FOLD = f"""
WITH step AS MATERIALIZED ({_STEPS}),
accepted AS (
    SELECT seq AS accepted_seq, {", ".join(_ACCEPTANCE)}, sent_at AS sent_us, "at" AS created_us,
        expires_at AS expires_us
    FROM event WHERE kind = '{_ACCEPTED}'),
followed AS (
    SELECT step.message FROM step LEFT JOIN (
        SELECT seq AS message, message_id, held FROM event WHERE kind = '{_ACCEPTED}') USING (message)
    WHERE message_id IS NULL OR {_FOLLOWED}),
moved AS (
    SELECT message, list_sort(list(struct_pack(seq := seq, us := us, level := level, waits := waits))) AS moves
    FROM step_event WHERE (waits IS NOT NULL OR {_of("boosted")}) AND message IN (FROM followed)
    GROUP BY message)
SELECT coalesce(accepted_seq, message) AS message, accepted.* EXCLUDE (accepted_seq), stepped.* EXCLUDE (message)
FROM accepted FULL JOIN (SELECT step.*, moves FROM step LEFT JOIN moved USING (message)) AS stepped
    ON accepted_seq = message
"""

#: The ways out of its mailbox of a message that entered it once: what its moves are when they are not kept.
_WAYS_OUT = (
    "list_filter(["
    + ", ".join(
        f"CASE WHEN {name}_us IS NOT NULL THEN struct_pack(seq := {_STEP_LEFT.get(name, name)}_seq, us := {name}_us,"
        " level := NULL::BIGINT, waits := false) END"
        for name in _LEAVING
    )
    + "], lambda move: move IS NOT NULL)"
)

#: Merge the partial lives in `partial`. Most messages have one, which stays as it is.
MERGE = f"""
WITH several AS MATERIALIZED (SELECT message FROM partial GROUP BY message HAVING count(*) > 1)
SELECT * FROM partial ANTI JOIN several USING (message)
UNION ALL BY NAME
SELECT message,
    {", ".join(f"any_value({name}) AS {name}" for name in (*_ACCEPTANCE, "sent_us", "created_us", "expires_us"))},
    {", ".join(f"max({step}_seq) AS {step}_seq" for step in STEPS)},
    {", ".join(f"arg_max({step}_us, {step}_seq) AS {step}_us" for step in _STAMPS)},
    max(offers) AS offers,
    max(first_offered_us) AS first_offered_us,
    max(first_waited_us) AS first_waited_us,
    max(ack_latency_us) AS ack_latency_us,
    max(processing_latency_us) AS processing_latency_us,
    {", ".join(f"arg_max({name}, {_key(*steps)}) AS {name}" for name, steps in _LAST.items())},
    {", ".join(f"sum({name})::BIGINT AS {name}" for name in _COUNTS.values())},
    max(last_seq) AS last_seq, arg_max(last_us, last_seq) AS last_us,
    bool_or(entered_again) AS entered_again, sum(moved)::BIGINT AS moved,
    flatten(list(moves) FILTER (WHERE moves IS NOT NULL)) AS moves
FROM (SELECT * REPLACE (coalesce(moves, {_WAYS_OUT}) AS moves) FROM partial SEMI JOIN several USING (message))
GROUP BY message
"""

_TOP = "greatest(" + ", ".join(f"{step}_seq" for step in _AFTER) + ")"
_STATE = (
    f"CASE WHEN {_TOP} IS NULL THEN CASE WHEN held <> '' THEN '{State.HELD.value}' ELSE '{State.QUEUED.value}' END "
    + " ".join(f"WHEN {step}_seq = {_TOP} THEN '{state.value}'" for step, state in _AFTER.items())
    + " END"
)
_CHOSEN = {
    "project": "project",
    "date": "to_day(coalesce(created_us, last_us))",
    "message": "message",
    **{name: name for name in _ACCEPTANCE},
    "level": f"coalesce(nullif(level, {_GRANTED}), priority)",
    "created_at": "stamp(created_us)",
    "sent_at": "stamp(sent_us)",
    "expires_at": "stamp(coalesce(renewed_us, expires_us))",
    "first_offered_at": "stamp(first_offered_us)",
    **{column: f"stamp({step}_us)" for step, column in _STAMPS.items()},
    "delivered_at": (
        f"CASE WHEN coalesce({_key('requeued', 'died')}, 0) <= coalesce(delivered_seq, 0) THEN stamp(delivered_us) END"
    ),
    "dead_at": "CASE WHEN coalesce(redriven_seq, 0) <= coalesce(died_seq, 0) THEN stamp(died_us) END",
    "state": "state",
    **{name: name for name in ("reason", "code", "delivered_how", "ack_status", "processed_how")},
    **{name: f"coalesce({name}, 0)" for name in ("offers", "attempts", "requeues", "rejections", "boosts", "redrives")},
    **{name: name for name in ("first_waited_us", "ack_latency_us", "processing_latency_us")},
    "path": "struct_pack(" + ", ".join(f"{step} := {step}_seq" for step in STEPS) + ")",
    "last_seq": "greatest(CASE WHEN message_id IS NOT NULL THEN message END, last_seq)",
    "last_at": "stamp(coalesce(last_us, created_us))",
    "is_open": (
        f"NOT (state IN ({_quoted(tuple(state.value for state in _ENDED))})"
        f" OR (state = '{State.DELIVERED.value}' AND NOT coalesce(ack_required, false)))"
    ),
    "moves": f"CASE WHEN {_FOLLOWED} THEN moves END",
}
_SQL_TYPES = {"string": "VARCHAR", "int": "INTEGER", "bigint": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}


def _typed(name: str, kind: str) -> str:
    return f"({_CHOSEN[name]})::{_SQL_TYPES[kind]}" if kind in _SQL_TYPES else _CHOSEN[name]


#: Turn the partial lives in `merged`, of one project, into rows of the table. Takes the project as parameter.
SETTLE = f"""
SELECT {", ".join(f"{_typed(column.name, column.type)} AS {column.name}" for column in MESSAGE_LIFE)}
FROM (SELECT *, $project AS project, {_STATE} AS state FROM merged)
"""

_LEFT_AT = ("first_offered_at", "delivered_at", "expired_at", "recalled_at", "dead_at")
#: Turn the rows of the table in `known` into partial lives.
UNSETTLE = f"""
SELECT message, {", ".join(_ACCEPTANCE)}, us(sent_at) AS sent_us, us(created_at) AS created_us,
    CASE WHEN {_key("path.redriven", "path.released").replace("_seq", "")} IS NULL THEN us(expires_at) END
        AS expires_us,
    {", ".join(f"path.{step} AS {step}_seq" for step in STEPS)},
    {", ".join(f"us({column}) AS {step}_us" for step, column in _STAMPS.items())},
    offers::BIGINT AS offers, us(first_offered_at) AS first_offered_us, first_waited_us, ack_latency_us,
    processing_latency_us,
    CASE WHEN path.redriven > coalesce(path.boosted, 0) THEN {_GRANTED} ELSE level::BIGINT END AS level,
    boosts::BIGINT AS boosts, attempts::BIGINT AS attempts,
    us(expires_at) AS renewed_us, reason, code, delivered_how, ack_status, processed_how,
    requeues::BIGINT AS requeues, rejections::BIGINT AS rejections, redrives::BIGINT AS redrives,
    last_seq, us(last_at) AS last_us, moves IS NOT NULL AS entered_again,
    CASE WHEN moves IS NULL THEN {" + ".join(f"({column} IS NOT NULL)::INT" for column in _LEFT_AT)}
        ELSE len(moves) END AS moved, moves
FROM known
"""
