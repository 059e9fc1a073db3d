"""Report cards on the team: sessions, traffic, threads, escalations, leases, wakes and frames."""

from tocsin.core.protocol.priority import priority_name
from tocsin.pipeline.report.contents import Contents, Row
from tocsin.pipeline.report.elements import PALETTE, card, details, quantiles, table
from tocsin.pipeline.report.formatting import duration, moment, number, share
from tocsin.pipeline.report.svg import Series, legend, matrix, over_time, ranges

__all__ = ["team_cards"]

_MEASURES = {
    "to_delivery": "delivered",
    "to_first_update": "first update",
    "to_response": "first response",
    "to_completion": "completed",
}


def team_cards(contents: Contents) -> list[str]:
    """Return the cards."""
    return [
        card("Sessions", _sessions_line(contents), _sessions(contents)),
        card("Traffic", "Rows send, columns receive.", matrix(contents.traffic, title="Traffic matrix")),
        card("Threads", _threads_line(contents), _threads(contents)),
        card("Escalations", _escalation_line(contents), _escalations(contents)),
        card("Leases", _lease_line(contents), _leases(contents)),
        card("Wakes", _wake_line(contents), _wakes(contents)),
        card("Frames", "Dropped frames by subscriber priority.", _frames(contents)),
    ]


def _sessions_line(contents: Contents) -> str:
    texts = {"attached": "with a live daemon", "daemonless": "with other sessions", "absent": "not attached"}
    parts = [
        f"{number(contents.attachments[name])} {text}" for name, text in texts.items() if name in contents.attachments
    ]
    return "Agents at the end: " + ", ".join(parts) + "." if parts else "No agent was attached."


def _sessions(contents: Contents) -> str:
    series = [
        Series(name, PALETTE[index % len(PALETTE)], counts)
        for index, (name, counts) in enumerate(contents.sessions.items())
    ]
    plot = over_time(contents.bars, contents.width_s, series, stacked=False, steps=True, title="Sessions")
    return plot + legend(series) if plot else ""


def _threads_line(contents: Contents) -> str:
    texts = [
        f"{number(row['completed'])} of {number(row['threads'])} {row['thread_kind']}s completed"
        for row in contents.outcomes
    ]
    return "; ".join(texts) + "." if texts else "No threads."


def _threads(contents: Contents) -> str:
    order = {measure: index for index, measure in enumerate(_MEASURES)}
    rows = sorted(contents.leads, key=lambda row: (row["thread_kind"], order[row["measure"]]))
    return ranges(
        [quantiles(f"{row['thread_kind']}: {_MEASURES[row['measure']]}", row) for row in rows], title="Lead times"
    )


def _escalation_line(contents: Contents) -> str:
    opened, to_human, deadlocks = (contents.totals.get(name, 0) for name in ("escalations", "to_human", "deadlocks"))
    return f"{number(opened)} escalations, {number(to_human)} of them to a human; {number(deadlocks)} deadlocks."


def _escalations(contents: Contents) -> str:
    rows = [
        (
            row["rule"],
            row["trigger"],
            number(row["escalations"]),
            number(row["to_director"]),
            number(row["to_human"]),
            number(row["closed"]),
            duration(row["p50_us"]),
        )
        for row in contents.escalations
    ]
    broken = [
        (moment(row["found_us"]), " → ".join(row["cycle"]), row["victim"], row["refused"]) for row in contents.deadlocks
    ]
    deadlocks = table(("found", "cycle", "victim", "refused wait"), broken)
    head = ("rule", "trigger", "opened", "to a director", "to a human", "closed", "median duration")
    return table(head, rows) + (details("Deadlocks", deadlocks) if rows else deadlocks)


def _lease_line(contents: Contents) -> str:
    inherited = sum(row["raised"] for row in contents.inversions)
    return f"Time in the lease queue per agent. Waiting agents passed on priority {number(inherited)} times."


def _leases(contents: Contents) -> str:
    rows = [
        (
            row["agent"],
            number(row["leases"]),
            number(row["granted"]),
            number(row["in_line"]),
            number(row["given_up"]),
            number(row["lost"]),
            duration(row["p95_us"]),
        )
        for row in contents.leases
    ]
    inherited = [
        (row["agent"], number(row["raised"]), priority_name(row["highest"] or 0), number(row["messages"]))
        for row in contents.inversions
    ]
    more = details("Inherited priority", table(("agent", "times", "highest", "messages raised"), inherited))
    return table(("agent", "leases", "granted", "queued", "given up", "lost", "p95 wait"), rows) + more


def _wake_line(contents: Contents) -> str:
    wakes, woken, given_up = (contents.totals.get(name, 0) for name in ("wakes", "woken", "given_up"))
    return (
        f"{number(wakes)} wakes of agents that were not running: {number(woken)} worked, {number(given_up)} were the "
        "last attempt and failed. Times are from the acceptance of the message, median and p95."
    )


def _wakes(contents: Contents) -> str:
    rows = [
        (
            row["agent"],
            number(row["wakes"]),
            number(row["woken"]),
            number(row["given_up"]),
            *(_both(row, name) for name in ("to_request_us", "to_woken_us", "to_delivered_us")),
        )
        for row in contents.wakes
    ]
    return table(("agent", "wakes", "worked", "given up", "requested", "woken", "delivered"), rows) if rows else ""


def _both(row: Row, name: str) -> str:
    """Return median and 95th percentile of a time; empty if there is none."""
    median, high = row[f"{name}_p50"], row[f"{name}_p95"]
    return "" if median is None else f"{duration(median)} / {duration(high)}"


def _frames(contents: Contents) -> str:
    order = {name: index for index, name in enumerate(("critical", "high", "normal", "best_effort"))}
    rows = [
        (
            row["subscriber_priority"].replace("_", " "),
            number(row["offered"]),
            number(row["dropped"]),
            share(row["dropped"], row["offered"]),
            number(row["shed"]),
        )
        for row in sorted(contents.frames, key=lambda row: order[row["subscriber_priority"]])
    ]
    return table(("subscribers", "frames", "dropped", "share", "shed to protect others"), rows) if rows else ""
