"""States of the messages of each minute: the five states of SPEC-071 §11, and the others so that the sum is complete.

`undeliverable` is counted separately: such a send was refused before anything was stored, so it is not a message. It
does not resolve itself, unlike `pending_pickup`.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["SIGNAL_STATE"]

#: Publish path of refused sends.
_NO_PATH = "none"
#: Error code of an unknown recipient.
_UNKNOWN_RECIPIENT = "E_ROUTING_001"
_STATES = ("available_now", "drained", "pending_pickup", "waiting", "held", "expired", "recalled", "dead")

SIGNAL_STATE = View(
    name="signal_state",
    layer="gold",
    about="Messages of a minute by state, per type, sender and publish path.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("minute", "timestamp", "Minute of acceptance, or of the refusal."),
        ("message_type", "string", "Message type."),
        ("sender", "string", "Agent that sent them."),
        (
            "publish_path",
            "string",
            "Publish path at send time; `unknown` for rows older than the field, `none` for refused sends.",
        ),
        ("accepted", "bigint", "Number of messages accepted: the sum of all states except `undeliverable`."),
        ("available_now", "bigint", "Delivered by push, or as a copy of a broadcast."),
        ("drained", "bigint", "Delivered on another path: piggybacked or picked up later."),
        ("pending_pickup", "bigint", "Not delivered yet; the recipient was not available at send time."),
        ("waiting", "bigint", "Not delivered yet; the recipient was available at send time."),
        ("held", "bigint", "Held for an approval."),
        ("expired", "bigint", "Expired by TTL or decay."),
        ("recalled", "bigint", "Recalled by the sender."),
        ("dead", "bigint", "Dead letters, including purged ones."),
        ("undeliverable", "bigint", "Sends refused because the recipient is not registered."),
    ),
    reads=("message_minute", "occurrence"),
    sql=f"""
SELECT project, date, minute, message_type, sender, publish_path, sum(messages)::BIGINT AS accepted,
    {", ".join(f"sum({name})::BIGINT AS {name}" for name in _STATES)}, 0::BIGINT AS undeliverable
FROM message_minute GROUP BY ALL
UNION ALL
SELECT project, date, minute_of(us), message_type, sender, '{_NO_PATH}', 0, {", ".join("0" for _ in _STATES)}, count(*)
FROM occurrence WHERE kind = 'SendRefused' AND code = '{_UNKNOWN_RECIPIENT}' GROUP BY ALL
""",
    balance=Balance("accepted", "message"),
)
