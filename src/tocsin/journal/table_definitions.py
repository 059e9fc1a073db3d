"""Definitions of the tables that follow the journal.

Each column is declared here and nowhere else: its name, its type, its behaviour on a second write, the struct field
that it stores and the codec between them. Projection rows, recovery and the statements of both stores are derived from
these declarations. Only the data definition is separate: each store has it in numbered migrations. Every table that a
recovery reads ends with its checksum columns (`tocsin.journal.checksums`).
"""

from enum import StrEnum
from sys import intern
from typing import Any

import msgspec

from tocsin.core.messages.model import NEVER, UNENDING, PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.journal.checksums import sealed
from tocsin.journal.columns import PLAIN, Codec, Column, Kind, Row, Shape, Table, Update, row_completer
from tocsin.journal.tables import LINES

__all__ = [
    "AGENTS",
    "AGENT_COLUMNS",
    "BROADCASTS",
    "BROADCAST_COLUMNS",
    "CHANGING_VALUES",
    "CONTENT_COLUMNS",
    "DETAIL_COLUMNS",
    "DOCUMENTS",
    "FAILURE_COLUMNS",
    "MESSAGES",
    "MESSAGE_COLUMNS",
    "ORDINARY",
    "POLICIES",
    "POLICY_COLUMNS",
    "RECOVERED",
    "SEALED",
    "SEGMENTS",
    "SESSIONS",
    "SESSION_COLUMNS",
    "THREADS",
    "THREAD_COLUMNS",
    "USUAL",
    "whole_message",
]


def _enum(members: type[StrEnum], null: StrEnum | None = None) -> Codec:
    """Return the codec of an enum; the column is null for the member `null`."""
    by_value = f"{members.__name__}_by_value"
    values = {None if member is null else member.value: member for member in members}
    names: dict[str, Any] = {by_value: values}
    if null is None:
        return Codec("{0}._value_", f"{by_value}[{{0}}]", names)
    # Compared, and not looked up in a dictionary: the hash of a member is a function of Python.
    nothing = f"{members.__name__}_{null.name}"
    return Codec(f"(None if {{0}} is {nothing} else {{0}}._value_)", f"{by_value}[{{0}}]", names | {nothing: null})


_JSON = msgspec.json.Encoder()
_PACK = msgspec.msgpack.Encoder()
#: Stored as an integer in SQLite.
_BOOL = Codec(read="bool({0})")
#: Times that may never have happened: null in the column, `NEVER` in the field.
_TIME_OR_NULL = Codec("{0} or None", "{0} or NEVER", {"NEVER": NEVER})
#: Times of expiry: null where the message does not expire, as in rows from before there was a TTL.
_UNENDING_IS_NULL = Codec(
    "(None if {0} == UNENDING else {0})", "(UNENDING if {0} is None else {0})", {"UNENDING": UNENDING}
)
#: Null in rows from before the column was filled.
_NULL_IS_ZERO = Codec(read="{0} or 0")
#: Text that many rows have in common: recovery keeps one string for all of them.
_SHARED = Codec(read="intern({0})", names={"intern": intern})
_SHARED_OR_NULL = Codec(read="{0} and intern({0})", names={"intern": intern})
_TEXTS = Codec(
    "json_encode({0}).decode()",
    "tuple(json_decode({0}))",
    {"json_encode": _JSON.encode, "json_decode": msgspec.json.decode},
)
_PACKED = Codec("pack({0})", "unpack({0})", {"pack": _PACK.encode, "unpack": msgspec.msgpack.decode})


def _columns(kind: Kind, names: str, update: Update = Update.SET, codec: Codec = PLAIN) -> tuple[Column, ...]:
    return tuple(Column(name, kind, update, codec) for name in names.split())


#: Columns that hold the fields of a `Message`.
MESSAGE_COLUMNS = (
    Column("seq", Kind.INT, Update.KEEP),
    Column("message_id", Kind.TEXT, Update.KEEP),
    *_columns(Kind.TEXT, "sender recipient", Update.KEEP, _SHARED),
    Column("message_type", Kind.TEXT, Update.KEEP, _SHARED, "type"),
    Column("priority", Kind.INT, Update.KEEP),
    Column("level", Kind.INT),
    *_columns(Kind.INT, "requested importance", Update.KEEP),
    Column("decay_rate", Kind.REAL, Update.KEEP),
    Column("delivery_class", Kind.TEXT, Update.KEEP, _enum(DeliveryClass)),
    Column("ack_required", Kind.BOOL, Update.KEEP, _BOOL),
    Column("state", Kind.TEXT, codec=_enum(State)),
    Column("created_at", Kind.TIME, Update.KEEP),
    Column("enqueued_at", Kind.TIME),
    Column("expires_at", Kind.TIME, codec=_UNENDING_IS_NULL),
    Column("sent_at", Kind.TIME, Update.KEEP),
    *_columns(Kind.TEXT, "correlation_id broadcast_id", Update.KEEP),
    Column("recipient_state", Kind.TEXT, codec=_enum(RecipientState)),
    Column("publish_path", Kind.TEXT, codec=_enum(PublishPath, PublishPath.UNKNOWN)),
    Column("resolved_session", Kind.TEXT, codec=_SHARED_OR_NULL),
    Column("pushed", Kind.BOOL, codec=_BOOL),
    *_columns(Kind.INT, "attempts offers boosts"),
    *_columns(Kind.BOOL, "overdue backing_off", codec=_BOOL),
    *_columns(
        Kind.TIME,
        "ready_at offered_at delivered_at acked_at processed_at expired_at recalled_at dead_at",
        codec=_TIME_OR_NULL,
    ),
    Column("session", Kind.TEXT, codec=_SHARED_OR_NULL),
    Column("digest", Kind.BYTES),
    Column("own_level", Kind.INT),
    Column("lent", Kind.INT, codec=_NULL_IS_ZERO),
)
#: Columns that hold the fields of a `Failure`; all are null where nothing went wrong.
FAILURE_COLUMNS = (
    Column("failures", Kind.INT, attribute="count"),
    Column("first_failed_at", Kind.TIME, attribute="first_at"),
    Column("last_failed_at", Kind.TIME, attribute="last_at"),
    Column("failure_reason", Kind.TEXT, attribute="reason"),
    Column("failure_code", Kind.TEXT, attribute="code"),
)


#: Columns that hold the content of a message; recovery reads them into the `Message`. They are null for a copy of a
#: broadcast, whose row has the content, and in a write that does not change them.
CONTENT_COLUMNS = _columns(Kind.BODY, "payload metadata", Update.IF_GIVEN)
#: Columns that no struct has a field for: their values follow from the events.
DETAIL_COLUMNS = (
    Column("signal_id", Kind.TEXT, Update.KEEP),
    *CONTENT_COLUMNS,
    # Event of the broadcast that the message is a copy of. Recovery checks it against `broadcast_id`; only the first
    # write knows it.
    Column("broadcast_seq", Kind.INT, Update.KEEP, sealed=False),
    # When nothing more was awaited of it.
    Column("ended_at", Kind.TIME),
    # Events of its last offer, and of its last death.
    *_columns(Kind.INT, "offered_seq dead_seq", Update.IF_GIVEN),
    # Whether the state holds it. Forgetting a message changes only this; recovery checks how many are remembered.
    Column("remembered", Kind.BOOL, sealed=False),
    # Its history since the last write, one JSON object per line.
    Column("life", Kind.BODY, Update.APPEND),
)
#: Values of columns in the rows of most new messages.
_USUAL_VALUES: dict[str, Any] = {
    **dict.fromkeys(("correlation_id", "broadcast_id", "broadcast_seq", "digest", "dead_seq", "dead_seq_checksum")),
    **dict.fromkeys(("attempts", "boosts", "lent"), 0),
    **dict.fromkeys(("overdue", "backing_off"), False),
    **dict.fromkeys(("ready_at", "acked_at", "processed_at", "expired_at", "recalled_at", "dead_at")),
    **dict.fromkeys(column.name for column in FAILURE_COLUMNS),
}


def _is_changing(column: Column) -> bool:
    """Tell whether a change of a message sets a column, or needs it as the key.

    `remembered` is set when the state forgets the message.
    """
    return column.name == "seq" or (column.update is not Update.KEEP and column.name != "remembered")


def _place(column: Column) -> int:
    """Sort the columns of messages so that each statement binds adjacent values of a row.

    The last ones have usual values, and in the middle are those that change.
    """
    if column.name in _USUAL_VALUES:
        return 2 if _is_changing(column) else 3
    return 1 if _is_changing(column) else 0


_MESSAGE_ROW = sealed((*MESSAGE_COLUMNS, *FAILURE_COLUMNS, *DETAIL_COLUMNS))
MESSAGES = Table(
    "signal_queue", "seq", tuple(sorted(_MESSAGE_ROW, key=_place)), tuple(column.name for column in _MESSAGE_ROW)
)
#: Rows of most new messages: a store need not bind the values that they have in common, which are the last of a row.
USUAL = Shape(MESSAGES, {name: _USUAL_VALUES[name] for name in MESSAGES.names if name in _USUAL_VALUES})
#: Rows of new messages that were offered once and have been delivered, without a thread, metadata, a retry or an ACK:
#: what an ordinary message is when the tables are brought up to date. They are made and written short.
ORDINARY = Shape(
    MESSAGES,
    {
        **USUAL.constants,
        "delivery_class": DeliveryClass.ASYNC.value,
        "ack_required": False,
        "state": State.DELIVERED.value,
        "recipient_state": RecipientState.AVAILABLE.value,
        "publish_path": PublishPath.PUSHED.value,
        "offers": 1,
        "session": None,
        "metadata": b"{}",
        "remembered": True,
    },
    {
        "signal_id": "message_id",
        **dict.fromkeys(("requested", "level", "own_level"), "priority"),
        "enqueued_at": "created_at",
        "ended_at": "delivered_at",
    },
)
_ORDINARY_WIDTH = len(ORDINARY.bound)
_completed = row_completer(ORDINARY)


def whole_message(row: Row) -> Row:
    """Return the row of a new message with all of its columns: it may be a short one."""
    return _completed(row) if len(row) == _ORDINARY_WIDTH else row


_PLACES = [place for place, column in enumerate(MESSAGES.columns) if _is_changing(column)]
#: Values of a message's row that a change of it sets, and its key.
CHANGING_VALUES = slice(_PLACES[0], _PLACES[-1] + 1)

#: Columns that hold the fields of an `AgentRow`.
AGENT_COLUMNS = (
    Column("agent", Kind.TEXT, Update.KEEP),
    *_columns(Kind.TEXT, "agent_type role version"),
    *_columns(Kind.TEXT, "supported capabilities", codec=_TEXTS),
    Column("registered_at", Kind.TIME),
    Column("tokens", Kind.REAL),
    Column("tokens_at", Kind.TIME, codec=_NULL_IS_ZERO),
    *_columns(Kind.REAL, "critical_quota blocking_quota"),
    Column("quotas_at", Kind.TIME, codec=_NULL_IS_ZERO),
    Column("usage", Kind.BYTES, codec=_PACKED),
    Column("gaming", Kind.BOOL, codec=_BOOL),
)
AGENTS = Table(
    "agents", "agent", sealed((*AGENT_COLUMNS, Column("registered_seq", Kind.INT), Column("retired_at", Kind.TIME)))
)

#: Columns that hold the fields of a `SessionRow`.
SESSION_COLUMNS = (
    Column("session", Kind.TEXT, Update.KEEP),
    *_columns(Kind.TEXT, "agent kind"),
    *_columns(Kind.TIME, "opened_at heartbeat_at"),
    Column("flight_window", Kind.INT, attribute="window"),
    Column("stale", Kind.BOOL, codec=_BOOL),
)
SESSIONS = Table(
    "sessions", "session", sealed((*SESSION_COLUMNS, Column("opened_seq", Kind.INT), Column("closed_at", Kind.TIME)))
)

#: Columns that hold the fields that a `BroadcastAccepted` and a `BroadcastRow` have in common.
BROADCAST_COLUMNS = (
    *_columns(Kind.TEXT, "broadcast sender message_type receiver_type", Update.KEEP),
    Column("failed", Kind.TEXT, Update.KEEP, _TEXTS),
    Column("accepted", Kind.INT, Update.KEEP),
    *_columns(Kind.BODY, "payload metadata", Update.KEEP),
)
BROADCASTS = Table(
    "broadcasts",
    "seq",
    sealed((*BROADCAST_COLUMNS, Column("seq", Kind.INT, Update.KEEP), Column("created_at", Kind.TIME, Update.KEEP))),
)

#: Columns that hold the fields of a `Thread`.
THREAD_COLUMNS = (
    Column("correlation_id", Kind.TEXT, Update.KEEP),
    *_columns(Kind.TEXT, "message_id message_type sender"),
    *_columns(Kind.TIME, "opened_at last_at"),
)
THREADS = Table("threads", "correlation_id", sealed((*THREAD_COLUMNS, Column("touched_seq", Kind.INT))))

#: Columns that hold the fields of a `PolicyAdopted`.
POLICY_COLUMNS = (
    Column("version", Kind.INT, Update.KEEP),
    Column("adopted_at", Kind.TIME, Update.KEEP, attribute="at"),
    Column("adopted_by", Kind.TEXT, Update.KEEP, attribute="by"),
    Column("reason", Kind.TEXT, Update.KEEP),
    Column("document", Kind.BODY, Update.KEEP, attribute="policy"),
)
POLICIES = Table("policies", "version", sealed((*POLICY_COLUMNS, Column("seq", Kind.INT, Update.KEEP))))

DOCUMENTS = Table(
    "documents", "kind, id", sealed((*_columns(Kind.TEXT, "kind id", Update.KEEP), Column("document", Kind.BODY)))
)

#: Tables that a recovery reads, each with the condition of the rows that it reads.
RECOVERED: dict[Table, str] = {
    POLICIES: "version = (SELECT max(version) FROM policies)",
    AGENTS: "retired_at IS NULL",
    SESSIONS: "closed_at IS NULL",
    BROADCASTS: (
        "seq IN (SELECT broadcast_seq FROM signal_queue WHERE broadcast_seq IS NOT NULL AND remembered IS TRUE)"
    ),
    MESSAGES: "remembered IS TRUE",
    DOCUMENTS: "",
    THREADS: "",
}

#: Tables whose rows have checksums since there are any.
SEALED: tuple[str, ...] = (*(table.name for table in RECOVERED), LINES)

#: Its columns hold the fields of a `Segment`.
SEGMENTS = Table(
    "segments",
    "first_seq",
    (
        *_columns(Kind.INT, "first_seq last_seq", Update.KEEP),
        Column("path", Kind.TEXT, Update.KEEP),
        Column("size", Kind.INT, Update.KEEP),
        Column("cut_at", Kind.TIME, Update.KEEP),
    ),
)
