"""Requested priorities per agent in sliding windows, to find agents that request Blocking and above too often.

The bus's own notices are left out. Only windows with the minimum number of messages are kept: one blocking message out
of one is not significant. The hub checks at each send, over the window before it; here every agent is checked at fixed
steps, whatever its role, so that other thresholds can be evaluated. Windows are cut at midnight, so that each day is
computed on its own. (LIMINAL's gaming detector.)

It reads `message_life`: a fact by ten seconds and sender would have nearly as many rows.
"""

from tocsin.core.commands import SYSTEM
from tocsin.core.protocol.priority import Priority
from tocsin.pipeline.facts.policy_in_force import in_force
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["PRIORITY_MIX"]

_WINDOW_S = 60
_STEP_S = 10
_STEPS = _WINDOW_S // _STEP_S
_LEVELS = ("info", "coordinate", "blocking", "critical", "director_override")
_SUMS = ("messages", *(f"asked_{name}" for name in _LEVELS), "high", "lowered")
_ASKED = ", ".join(f"count(*) FILTER (WHERE requested = {level}) AS asked_{name}" for level, name in enumerate(_LEVELS))

PRIORITY_MIX = View(
    name="priority_mix",
    layer="gold",
    about="Requested priorities of an agent in a sliding window of a minute, for windows with enough messages.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("window_start", "timestamp", f"Start of the window of {_WINDOW_S} s; a window starts every {_STEP_S} s."),
        ("agent", "string", "Agent that sent the messages."),
        (
            "messages",
            "bigint",
            "Number of messages accepted, without confirmations; a broadcast counts once per copy.",
        ),
        *((f"asked_{name}", "bigint", f"Of those, requested at {name.replace('_', ' ')}.") for name in _LEVELS),
        ("high", "bigint", "Of those, requested at Blocking or above."),
        ("lowered", "bigint", "Of those, lowered to Info by gaming detection."),
        ("high_share", "double", "`high` divided by `messages`."),
        ("threshold", "double", "Largest share allowed by the policy in force at the end of the window."),
        ("over", "boolean", "Whether `high_share` is over the threshold."),
    ),
    reads=("message_life", "policy_span"),
    sql=f"""
WITH slots AS (
    SELECT project, date, sender AS agent, us(created_at) // {_STEP_S * 1_000_000} AS slot, count(*) AS messages,
        {_ASKED},
        count(*) FILTER (WHERE requested >= {int(Priority.BLOCKING)}) AS high,
        count(*) FILTER (WHERE rule = 'gaming') AS lowered
    FROM message WHERE rule <> 'confirmation' AND sender <> '{SYSTEM.agent}' GROUP BY ALL),
windows AS (
    SELECT project, date, agent, slot - back AS first, {", ".join(f"sum({name})::BIGINT AS {name}" for name in _SUMS)}
    FROM slots, range({_STEPS}) AS steps(back) GROUP BY ALL),
placed AS (
    SELECT *, stamp(first * {_STEP_S * 1_000_000}) AS window_start,
        stamp((first + {_STEPS}) * {_STEP_S * 1_000_000}) AS window_end
    FROM windows)
SELECT project, date, window_start, agent, {", ".join(_SUMS)}, high / messages AS high_share,
    gaming_ratio AS threshold, high > gaming_ratio * messages AS over
FROM {in_force("placed", "window_end")} WHERE messages >= coalesce(gaming_messages_min, 1)
""",
)
