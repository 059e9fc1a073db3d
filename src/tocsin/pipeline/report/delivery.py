"""Report cards on messages: states, latency, waiting, refusals, recalls, retries and decay."""

from tocsin.core.protocol.priority import priority_name
from tocsin.pipeline.report.contents import STATES, Contents
from tocsin.pipeline.report.elements import PALETTE, card, details, quantiles, table
from tocsin.pipeline.report.formatting import duration, moment, number, share
from tocsin.pipeline.report.svg import Series, legend, over_time, ranges

__all__ = ["delivery_cards"]

_STATE_LABELS = {
    "available_now": "delivered by push",
    "drained": "picked up",
    "waiting": "not delivered, recipient was available",
    "pending_pickup": "not delivered, recipient was away",
    "held": "held for approval",
    "expired": "expired",
    "recalled": "recalled",
    "dead": "dead",
    "undeliverable": "undeliverable",
}
#: Smaller latencies are drawn at this value, microseconds: a message offered within its own send has a latency of 0.
_FLOOR_US = 100
_PATHS = {
    "pushed_to_ws": "push",
    "buffered_for_piggyback": "piggyback",
    "queued_offline": "offline",
    "unknown": "unknown",
}


def delivery_cards(contents: Contents) -> list[str]:
    """Return the cards, the widest first."""
    return [
        card("Messages by state", _states_line(contents), _states(contents)),
        card("Delivery latency", _sla_line(contents), _latency(contents)),
        card("Messages waiting", _depth_line(contents), _depth(contents)),
        card(
            "Delivery targets",
            "Time from acceptance to first offer. A message that was not offered, or not yet, was not in time.",
            _sla(contents),
        ),
        card(
            "Time to drain",
            "Time to the first offer: median, 95th and 99th percentile by type and path.",
            _drain(contents),
        ),
        card("Refusals", _total_line(contents.refusals, "refused sends or copies"), _bars(contents, contents.refusals)),
        card("Recalls", _recall_line(contents), _bars(contents, contents.recalls)),
        card("Aging", "Waiting times, with the bound of each priority marked.", _aging(contents)),
        card("High priorities", _mix_line(contents), _mixes(contents)),
        card("Retries and dead letters", _letters_line(contents), _retries(contents)),
        card(
            "Processing and decay",
            "Processing latency of recipients, and decay rate of new messages.",
            _processing(contents),
        ),
    ]


def _states_line(contents: Contents) -> str:
    pending, lost = sum(contents.states["pending_pickup"]), sum(contents.states["undeliverable"])
    away = f"By time of acceptance. {number(pending)} messages to agents that were away are not delivered yet"
    return f"{away}; {number(lost)} sends had an unknown recipient." if lost else f"{away}; no send was undeliverable."


def _states(contents: Contents) -> str:
    series = [
        Series(_STATE_LABELS[state], state, contents.states[state]) for state in STATES if any(contents.states[state])
    ]
    plot = over_time(
        contents.bars, contents.width_s, series, stacked=True, title="Messages by state", width=1140, height=220
    )  # fmt: skip
    return plot + legend(series)


def _sla_line(contents: Contents) -> str:
    breaches = len(contents.breaches)
    if breaches:
        return f"99th percentile per priority, all paths. {number(breaches)} sustained breaches for connected agents."
    return "99th percentile per priority, all paths. No sustained breach of a target for connected agents."


def _latency(contents: Contents) -> str:
    series = [
        Series(
            priority_name(level), f"l{level}", [max(_FLOOR_US, point["p99_us"]) if point else None for point in points]
        )
        for level, points in contents.latency.items()
    ]
    plot = over_time(
        contents.bars, contents.width_s, series, stacked=False, log=True, shown=duration, title="Latency, p99"
    )  # fmt: skip
    return plot + legend(series) if plot else ""


def _depth_line(contents: Contents) -> str:
    peaks = {level: max(values, default=0) for level, values in contents.depth.items()}
    texts = [f"{priority_name(level)} {number(peak)}" for level, peak in sorted(peaks.items(), reverse=True) if peak]
    return "Largest depth by priority after boosts: " + ", ".join(texts) + "." if texts else "No message waited."


def _depth(contents: Contents) -> str:
    series = [Series(priority_name(level), f"l{level}", values) for level, values in contents.depth.items()]
    return over_time(contents.bars, contents.width_s, series, stacked=True, title="Queue depth") + legend(series)


def _sla(contents: Contents) -> str:
    known = [row for row in contents.sla if row["messages"]]
    offered = [row for row in known if row["samples"]]
    plot = ranges(
        [quantiles(priority_name(row["priority"]), row, row["target_us"]) for row in offered], title="Latency"
    )  # fmt: skip
    rows = [
        (
            priority_name(row["priority"]),
            duration(row["target_us"]),
            number(row["messages"]),
            share(row["within_target"], row["messages"]),
            number(row["pushed"]),
            share(row["pushed_within"], row["pushed"]),
            number(row["messages"] - row["samples"]),
            duration(row["max_us"]),
        )
        for row in known
    ]
    head = ("priority", "target", "messages", "in time", "to connected agents", "in time", "not offered", "longest")
    figures = table(head, rows)
    broken = [
        (
            moment(row["began_us"]),
            priority_name(row["priority"]),
            duration(row["lasted_us"]),
            f"{number(row['late'])} of {number(row['messages'])}",
            duration(row["worst_us"]),
        )
        for row in contents.breaches
    ]
    more = details("Sustained breaches", table(("from", "priority", "duration", "late", "longest"), broken))
    return plot + figures + more if known else ""


def _drain(contents: Contents) -> str:
    rows = [
        quantiles(f"{row['message_type']} · {_PATHS.get(row['publish_path'], row['publish_path'])}", row)
        for row in contents.drain
    ]
    return ranges(rows, title="Time to drain")


def _total_line(counts: dict[str, list[int]], what: str) -> str:
    return f"{number(sum(map(sum, counts.values())))} {what}."


def _recall_line(contents: Contents) -> str:
    total = {outcome: sum(counts) for outcome, counts in contents.recalls.items()}
    late = total.get("already_delivered", 0)
    return f"{number(sum(total.values()))} recalls; {share(late, sum(total.values()))} came after delivery."


def _bars(contents: Contents, counts: dict[str, list[int]]) -> str:
    ordered = sorted(counts, key=lambda name: -sum(counts[name]))
    series = [
        Series(f"{name} ({number(sum(counts[name]))})", PALETTE[index % len(PALETTE)], counts[name])
        for index, name in enumerate(ordered[: len(PALETTE)])
    ]
    plot = over_time(contents.bars, contents.width_s, series, stacked=True, title=", ".join(ordered))
    return plot + legend(series) if plot else ""


def _aging(contents: Contents) -> str:
    known = [row for row in contents.waits if row["samples"]]
    plot = ranges([quantiles(priority_name(row["priority"]), row, row["bound_us"]) for row in known], title="Waits")
    rows = [
        (
            priority_name(row["priority"]),
            number(row["messages"]),
            share(row["boosted"], row["messages"]),
            duration(row["bound_us"]),
            number(row["over_bound_available"]),
            duration(row["max_us"]),
        )
        for row in known
    ]
    head = ("priority", "messages", "boosted", "bound", "over bound, available recipient", "longest")
    return plot + table(head, rows) if known else ""


def _mix_line(contents: Contents) -> str:
    over = [row for row in contents.mixes if row["over"]]
    return f"{number(len(over))} agents requested Blocking or above more often than allowed in at least one window."


def _mixes(contents: Contents) -> str:
    rows = [
        (
            row["agent"],
            number(row["windows"]),
            number(row["over"]),
            f"{row['highest']:.0%}",
            number(row["lowered"]),
        )
        for row in contents.mixes
    ]
    return table(("agent", "windows checked", "over threshold", "highest share", "lowered"), rows) if rows else ""


def _letters_line(contents: Contents) -> str:
    requeues, dead = contents.totals.get("requeues", 0), contents.totals.get("dead", 0)
    return f"{number(requeues)} requeues; {number(dead)} dead letters."


def _retries(contents: Contents) -> str:
    rows = [
        (
            row["message_type"],
            number(row["messages"]),
            f"{row['offers'] / row['messages']:.2f}",
            number(row["requeues"]),
            number(row["rejections"]),
            number(row["dead"]),
            number(row["redrives"]),
        )
        for row in contents.retries
    ]
    head = ("type", "messages", "offers per message", "requeued", "rejected", "dead", "redriven")
    letters = [
        (row["recipient"], row["reason"], row["code"], number(row["letters"]), number(row["attempts"]))
        for row in contents.letters
    ]
    more = details("Dead letters", table(("recipient", "reason", "code", "dead letters", "retries used"), letters))
    return table(head, rows) + more if rows else ""


def _processing(contents: Contents) -> str:
    latency = over_time(
        contents.bars,
        contents.width_s,
        [Series("average processing latency", "waiting", contents.processing)],
        stacked=False,
        log=True,
        shown=duration,
        title="Processing latency",
        height=130,
    )
    rate = [Series("decay rate", "dead", contents.decay)] if any(contents.decay) else []
    decay = over_time(
        contents.bars, contents.width_s, rate, stacked=False, steps=True, shown=_rate, title="Decay rate", height=90
    )  # fmt: skip
    shown = [Series("average processing latency", "waiting", []), *(rate if decay else [])]
    return latency + decay + legend(shown)


def _rate(value: float | None) -> str:
    return f"{value or 0:.2f}"
