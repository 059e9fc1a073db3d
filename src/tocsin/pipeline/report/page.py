"""The HTML page: one document for light and dark mode that loads nothing from elsewhere."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tocsin.pipeline.report.contents import STATES, Contents
from tocsin.pipeline.report.delivery import delivery_cards
from tocsin.pipeline.report.formatting import duration, figure, moment, number, share
from tocsin.pipeline.report.style import STYLE
from tocsin.pipeline.report.team import team_cards

__all__ = ["render"]


def render(projects: Sequence[Contents], status: Mapping[str, Any] | None, made_at: int) -> str:
    """Return the whole page."""
    body = "".join(_project(contents) for contents in projects) or '<p class="empty">There are no projects yet.</p>'
    names = ", ".join(contents.project for contents in projects)
    jump = "".join(f'<a href="#{_anchor(c.project)}">{escape(c.project)}</a>' for c in projects)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Tocsin report: {escape(names)}</title><style>{STYLE}</style></head><body>"
        f'<header class="top"><h1>Tocsin report</h1><nav>{jump if len(projects) > 1 else ""}</nav></header>'
        f"{_state_of_pipeline(status, made_at)}{body}</body></html>"
    )


def _anchor(project: str) -> str:
    return "project-" + "".join(letter if letter.isalnum() else "-" for letter in project)


def _state_of_pipeline(status: Mapping[str, Any] | None, made_at: int) -> str:
    """Return the summary of the pipeline's progress: lag, quarantine, gaps, duplicates."""
    items = [("created", moment(made_at) + " UTC", "")]
    if status is not None:
        lag = status["lag"]
        behind = f"{number(lag['segments'])} segments, {duration(lag['seconds'] * 1_000_000)}"
        items.append(("lag", behind if lag["segments"] else "none", "warn" if lag["segments"] else ""))
        quarantined = status["quarantined"]
        items.append(("quarantined", f"{number(quarantined)} lines", "bad" if quarantined else ""))
        gaps = sum(len(project["gaps"]) for project in status["projects"].values())
        items.append(("gaps in sequence numbers", number(gaps), "bad" if gaps else ""))
        items.append(("duplicates dropped", number(status["duplicates"]), ""))
    cells = "".join(
        f'<div class="{tone}"><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>' for name, text, tone in items
    )
    return f'<dl class="facts">{cells}</dl>'


def _project(contents: Contents) -> str:
    head = (
        f'<section id="{_anchor(contents.project)}"><h2>{escape(contents.project)}</h2>'
        f'<p class="range">{moment(contents.since)} to {moment(contents.until)} UTC; one bar is '
        f"{duration(contents.width_s * 1_000_000)}</p>"
    )
    if not contents.bars:
        return head + '<p class="empty">No events in this time range.</p></section>'
    first, *rest = [*delivery_cards(contents), *team_cards(contents)]
    cards = f'{first}<div class="cards">{"".join(rest)}</div>'
    return f"{head}{_tiles(contents)}{_advice(contents)}{cards}</section>"


def _tiles(contents: Contents) -> str:
    total = {state: sum(contents.states[state]) for state in STATES}
    accepted = sum(total.values()) - total["undeliverable"]
    delivered = total["available_now"] + total["drained"]
    waiting = total["waiting"] + total["pending_pickup"] + total["held"]
    critical = next((row for row in contents.sla if row["priority"] == 3), None)
    tiles = [
        ("accepted", number(accepted), "messages", ""),
        ("delivered", share(delivered, accepted), number(delivered), ""),
        ("not delivered yet", number(waiting), f"{number(total['pending_pickup'])} to agents that were away", ""),
        ("expired", share(total["expired"], accepted), number(total["expired"]), ""),
        ("dead", number(total["dead"]), share(total["dead"], accepted), "bad" if total["dead"] else ""),
        ("undeliverable", number(total["undeliverable"]), "unknown recipient", "bad" if total["undeliverable"] else ""),
    ]
    if critical is not None and critical["messages"]:
        late = critical["messages"] - critical["within_target"]
        text = f"of {number(critical['messages'])}, target {duration(critical['target_us'])}"
        within = share(critical["within_target"], critical["messages"])
        tiles.append(("Critical offered in time", within, text, "bad" if late else ""))
    return '<div class="tiles">' + "".join(
        f'<div class="tile {tone}"><b>{escape(value)}</b><span>{escape(name)}</span><small>{escape(more)}</small></div>'
        for name, value, more, tone in tiles
    ) + "</div>"  # fmt: skip


def _advice(contents: Contents) -> str:
    advised, count = contents.advised, len(contents.advised.advice)
    verdict = "No changes to the policy are recommended."
    if count:
        verdict = f"{count} {'change' if count == 1 else 'changes'} to the policy helped in a replay of this history."
    head = f'<h3>Advice</h3><p class="line">{escape(" ".join([verdict, advised.note]).strip())}</p>'
    pieces = []
    for advice in advised.advice:
        evidence = "".join(
            f"<li><code>{escape(item.table)}</code> {escape(item.figure)}: "
            f"<b>{escape(figure(item.figure, item.value))}</b> (of {number(item.count)})</li>"
            for item in advice.evidence
        )
        pieces.append(
            f"<li><p><b>{escape(advice.subject)}: {escape(advice.verdict)}</b></p><p>{escape(advice.text)}</p>"
            f'<div class="both"><ul>{evidence}</ul><pre>{escape(advice.patch)}</pre></div></li>'
        )
    found = f"<ol>{''.join(pieces)}</ol>" if pieces else ""
    return f'<div class="advice">{head}{found}</div>'
