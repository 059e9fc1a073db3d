"""HTML page of a report: fidelity, policies side by side, and differences with their confidence intervals."""

from html import escape

import yaml

from tocsin.lab.figures.comparison import Difference, Figures
from tocsin.lab.figures.measures import ALL, METRICS
from tocsin.lab.report.document import PolicyReport, Report
from tocsin.lab.report.plots import Mark, Point, front, intervals
from tocsin.pipeline.report.elements import card, details, table
from tocsin.pipeline.report.formatting import NOTHING, duration, number
from tocsin.pipeline.report.style import STYLE
from tocsin.pipeline.report.svg import Range, ranges

__all__ = ["render", "shown", "verdict"]

_SECOND_US = 1_000_000


def render(report: Report) -> str:
    """Return the whole page; it loads nothing from elsewhere."""
    body = _fidelity(report) + _search(report) + _side_by_side(report)
    body += "".join(_changes(report, policy) for policy in report.policies[1:])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Tocsin lab: {escape(report.id)}</title><style>{STYLE}</style></head><body>"
        f'<header class="top"><h1>Tocsin lab</h1><span>{escape(report.id)}</span></header>'
        f'{_facts(report)}{_verdicts(report)}<div class="cards">{body}</div></body></html>'
    )


def _verdicts(report: Report) -> str:
    """Return a sentence per policy: what it makes better and worse for all messages, as far as that is sure."""
    if report.fidelity is not None and not report.fidelity.faithful:
        text = "No policies are compared: the replay does not reproduce the history well enough."
        return f'<p class="line">{text}</p>'
    return "".join(f'<p class="line">{escape(verdict(report, policy))}</p>' for policy in report.policies[1:])


def verdict(report: Report, policy: PolicyReport) -> str:
    """Return what a policy makes better and worse than the first, in a sentence; lower is better for every figure."""
    sure = [one for one in policy.differences if one.sure and one.level == ALL]
    parts = []
    for word, some in (
        ("better", [one for one in sure if (one.change or 0.0) < 0]),
        ("worse", [one for one in sure if (one.change or 0.0) > 0]),
    ):
        named = [
            f"{METRICS[one.metric].title} ({shown(one.metric, one.before)} → {shown(one.metric, one.after)})"
            for one in some
        ]
        if named:
            parts.append(f"{word}: {', '.join(named)}")
    if not parts:
        return f"{policy.name} differs from {report.policies[0].name} in no figure of all messages for sure."
    return f"{policy.name} compared with {report.policies[0].name}, for sure {'; '.join(parts)}."


def _facts(report: Report) -> str:
    windows = report.windows
    span = windows[0] if len(windows) == 1 else f"{windows[0]} to {windows[-1]}"
    items = [
        ("kind", report.kind, ""),
        ("projects", ", ".join(report.projects), ""),
        ("windows", f"{span} ({len(windows)})", ""),
        ("seed", str(report.seed), ""),
    ]
    if report.fidelity is not None:
        verdict = "sufficient" if report.fidelity.faithful else "insufficient: policies are not compared"
        items.append(("fidelity", verdict, "" if report.fidelity.faithful else "bad"))
    cells = "".join(
        f'<div class="{tone}"><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>' for name, text, tone in items
    )
    return f'<dl class="facts">{cells}</dl>'


def _fidelity(report: Report) -> str:
    fidelity = report.fidelity
    if fidelity is None:
        return ""
    rows = [
        ("messages", number(fidelity.messages)),
        ("identical decisions, open loop", f"{fidelity.open_steps:.3%}"),
        ("messages with the same outcome and timestamps, open loop", f"{fidelity.open_outcomes:.3%}"),
        ("messages with the same outcome, closed loop", f"{fidelity.closed_outcomes:.3%}"),
        ("largest distance of waiting-time distributions", f"{fidelity.latency_distance:.4f}"),
    ]
    content = table(["", ""], rows)
    if fidelity.unfaithful:
        items = "".join(f"<li>{escape(text)}</li>" for text in fidelity.unfaithful)
        content += f"<ul>{items}</ul>"
    return card("Fidelity", "Replay of history under the policies in force, compared with the recording.", content)


def _search(report: Report) -> str:
    search = report.search
    if search is None:
        return ""
    names = search.objectives
    content = ""
    if len(names) > 1:
        points = [
            Point(
                f"point-{one.number}: " + ", ".join(f"{name}={value}" for name, value in one.values.items()),
                one.objectives[names[0]],
                one.objectives[names[1]],
                one.on_front,
                base=one.phase == "base",
            )
            for one in search.evaluations
        ]
        content = front(points, x_label=names[0], y_label=names[1], title="Pareto front")
    tried = sorted(search.evaluations, key=lambda one: (not one.on_front, *one.objectives.values()))
    rows = [
        [f"point-{one.number}", one.phase, *one.values.values(), *(f"{v:.4g}" for v in one.objectives.values())]
        for one in tried
    ]
    head = ["policy", "phase", *search.dimensions, *names]
    best = rows[: sum(one.on_front for one in tried)]
    content += table(head, best) + details("all evaluated policies", table(head, rows))
    line = f"{len(search.evaluations)} policies evaluated; stopped: {search.stopped}. Lower is better on both axes."
    return card("Pareto front", line, content)


def _side_by_side(report: Report) -> str:
    cards = []
    for level in [figures.level for figures in report.policies[0].figures] if report.policies else []:
        chosen = [(policy.name, _of(policy, level)) for policy in report.policies]
        if not any(figures.sent for _, figures in chosen):
            continue
        names = [name for name, metric in METRICS.items() if level == ALL or not metric.whole]
        rows = [
            ["sent", *(number(figures.sent) for _, figures in chosen)],
            ["accepted", *(number(figures.accepted) for _, figures in chosen)],
            *([METRICS[m].title, *(shown(m, figures.values.get(m)) for _, figures in chosen)] for m in names),
        ]
        plot = ranges(
            [
                Range(name, _us(figures, "p50_s"), _us(figures, "p95_s"), _us(figures, "p99_s"), figures.accepted)
                for name, figures in chosen
                if figures.values.get("p50_s") is not None
            ],
            title=f"Waiting times, {chosen[0][1].priority}",
        )
        line = "Time from acceptance to the first offer (median, 95th and 99th percentile), and all figures."
        content = plot + table(["figure", *(name for name, _ in chosen)], rows)
        cards.append(card(f"Priority: {chosen[0][1].priority}", line, content))
    return "".join(cards)


def _of(policy: PolicyReport, level: int) -> Figures:
    return next(figures for figures in policy.figures if figures.level == level)


def _us(figures: Figures, metric: str) -> int:
    return round((figures.values.get(metric) or 0.0) * _SECOND_US)


def _changes(report: Report, policy: PolicyReport) -> str:
    moved = [one for one in policy.differences if one.change]
    marks = [_mark(one) for one in moved if one.sure or abs(one.change or 0.0) > 0]
    head = ["priority", "figure", "before", "after", "change", f"{report.confidence * 100:g} % interval", "sure"]
    rows = [
        [
            one.priority,
            METRICS[one.metric].title,
            shown(one.metric, one.before),
            shown(one.metric, one.after),
            shown(one.metric, one.change),
            NOTHING if one.low is None else f"{shown(one.metric, one.low)} … {shown(one.metric, one.high)}",
            "yes" if one.sure else "",
        ]
        for one in moved
    ]
    text = yaml.safe_dump(report.changes.get(policy.name) or {}, sort_keys=False)
    content = intervals(marks[:24], title=f"Changes under {policy.name}") + table(head, rows)
    content += details("differences to the default policy", f"<pre>{escape(text)}</pre>")
    line = (
        f"Compared with {report.policies[0].name}. Filled marks: the interval excludes zero. "
        f"{number(policy.missed)} recorded commands were refused in the replay."
    )
    return card(f"Differences under {policy.name}", line, content)


def _mark(one: Difference) -> Mark:
    scale = abs(one.before or 0.0) or abs(one.after or 0.0) or 1.0
    return Mark(
        f"{one.priority} {METRICS[one.metric].title}",
        f"{shown(one.metric, one.before)} → {shown(one.metric, one.after)}",
        (one.change or 0.0) / scale,
        None if one.low is None else one.low / scale,
        None if one.high is None else one.high / scale,
        one.sure,
    )


def shown(metric: str, value: float | None) -> str:
    """Format a figure."""
    if value is None:
        return NOTHING
    if metric.endswith("_s"):
        return ("-" if value < 0 else "") + duration(abs(value) * _SECOND_US)
    return number(float(f"{value:.4g}"))
