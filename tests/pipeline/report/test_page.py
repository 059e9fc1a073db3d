"""The report page: self-contained, complete, and safe with any names."""

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.rows import S, T
from tests.pipeline.views.latencies import spread
from tocsin.pipeline.advice import Advice, Advised, Evidence, Goal
from tocsin.pipeline.report import write_report
from tocsin.pipeline.report.contents import STATES, Contents
from tocsin.pipeline.report.page import render
from tocsin.pipeline.report.style import STYLE

EVIL = '"><img src=x onerror=alert(1)>'
BARS = [T, T + 60 * S]


def contents(**known: object) -> Contents:
    latency = spread(5_000, 20_000)
    whole = Contents(
        project=EVIL,
        since=T,
        until=T + 120 * S,
        width_s=60,
        bars=BARS,
        states={state: [1, 2] for state in STATES},
        latency={3: [{"p50_us": 1, "p95_us": 2, "p99_us": 3, "samples": 4}, None]},
        sla=[
            {
                "priority": 3, "messages": 4, "within_target": 1, "target_us": 10_000, "pushed": 1, "pushed_within": 1,
                **latency,
            }
        ],
        breaches=[
            {"priority": 3, "began_us": T, "lasted_us": 60 * S, "messages": 9, "late": 8, "worst_us": 90_000}
        ],
        depth={1: [3, 4]},
        drain=[{"message_type": EVIL, "publish_path": "unknown", "messages": 2, **latency}],
        recalls={"already_delivered": [1, 0], "recalled": [0, 1]},
        refusals={EVIL: [1, 0]},
        mixes=[{"agent": EVIL, "over": 1, "windows": 2, "highest": 0.75, "lowered": 3}],
        retries=[
            {
                "message_type": EVIL, "messages": 4, "offers": 6, "requeues": 2, "rejections": 1,
                "dead": 1, "redrives": 0, "purged": 0,
            }
        ],
        letters=[{"reason": "rejected", "code": "E_TASK_001", "recipient": EVIL, "letters": 1, "attempts": 3}],
        processing=[5_000, None],
        decay=[0.0, 0.05],
        sessions={"daemon live": [1, 2]},
        attachments={"attached": 3, "daemonless": 1},
        traffic={(EVIL, "bob"): 7},
        leads=[{"thread_kind": "task", "measure": "to_completion", **latency}],
        outcomes=[{"thread_kind": "task", "threads": 3, "completed": 2, "lost": 0, "open": 1, "updates": 5}],
        frames=[{"subscriber_priority": "best_effort", "offered": 10, "dropped": 9, "shed": 8}],
        waits=[
            {
                "priority": 0, "messages": 2, "boosted": 1, "over_bound_available": 0, "bound_us": 240 * S,
                **latency,
            }
        ],
        escalations=[
            {
                "rule": EVIL, "trigger": "deadlock", "escalations": 2, "to_director": 1, "to_human": 1, "closed": 0,
                **spread(),
            }
        ],
        deadlocks=[{"found_us": T, "victim": EVIL, "refused": "lease:x", "cycle": [EVIL, "bob"], "waits": []}],
        inversions=[{"agent": EVIL, "raised": 1, "highest": 3, "messages": 2}],
        leases=[
            {"agent": EVIL, "leases": 3, "granted": 2, "in_line": 1, "given_up": 1, "lost": 0, **latency},
        ],
        wakes=[
            {
                "agent": EVIL, "wakes": 3, "woken": 1, "given_up": 1,
                "to_request_us_p50": 5 * S, "to_request_us_p95": 6 * S, "to_woken_us_p50": 7 * S,
                "to_woken_us_p95": 8 * S, "to_delivered_us_p50": None, "to_delivered_us_p95": None,
            }
        ],
        advised=Advised(
            [
                Advice(
                    rule="ttl_too_short",
                    subject=EVIL,
                    text="Give them more.",
                    evidence=(Evidence("ttl_use", f"p95_us where {EVIL}", 90 * S, 100),),
                    patch="a: 1\n",
                    goal=Goal("expired"),
                    verdict="In a replay it helps.",
                )
            ]
        ),
    )  # fmt: skip
    return msgspec.structs.replace(whole, **known)


STATUS = {
    "lag": {"segments": 3, "seconds": 61.0, "bytes": 10, "events_not_in_tables": 0},
    "quarantined": 2,
    "duplicates": 1,
    "projects": {"p": {"gaps": [[4, 6]]}},
}


class Page(HTMLParser):
    """Which elements and attributes a page has, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_asks_nobody_for_anything_and_runs_nothing() -> None:
    text = render([contents()], STATUS, T)
    page = Page(text)
    assert page.open == []
    assert not {"script", "img", "link", "iframe", "object", "image", "use"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")]
    assert all((value or "").startswith("#") for name, value in page.attributes if name == "href")
    assert not re.search(r"url\(|@import|https?:", text)
    assert "default-src 'none'" in text


def test_names_are_data_wherever_they_stand() -> None:
    text = render([contents(), contents(project="other")], None, T)
    assert "<img" not in text
    assert text.count("&lt;img") > 10


def test_the_state_of_the_pipeline_is_said() -> None:
    words = " ".join(Page(render([contents()], STATUS, T)).words)
    assert "2026-03-02 00:00 to 2026-03-02 00:02 UTC" in words
    for fact in (
        "lag 3 segments, 1.02 min",
        "quarantined 2 lines",
        "gaps in sequence numbers 1",
        "duplicates dropped 1",
    ):
        assert fact in words, fact


def test_the_figures_are_said() -> None:
    words = " ".join(Page(render([contents()], None, T)).words)
    # Three of each state: eight of them accepted messages.
    assert "24 accepted" in words
    assert "25 % delivered" in words
    assert "25 % Critical offered in time" in words
    assert "1 sustained breaches for connected agents" in words
    assert "2 recalls; 50 % came after delivery" in words
    assert "3 sends had an unknown recipient" in words
    assert words.index("1 change to the policy helped in a replay") < words.index("In a replay it helps.")
    assert words.index("In a replay it helps.") < words.index("Give them more."), "the verdict stands on top"
    assert "1.5 min  (of 100)" in words


def test_a_project_without_history_says_so() -> None:
    empty = contents(bars=[], until=T)
    assert "No events in this time range." in render([empty], None, T)
    assert "There are no projects yet." in render([], None, T)


def test_advice_that_cannot_be_given_says_why() -> None:
    page = render([contents(advised=Advised(note="No policy."))], None, T)
    assert "No policy." in page
    assert "No changes to the policy are recommended" in render([contents(advised=Advised())], None, T)


def test_every_colour_that_is_used_is_defined_in_light_and_dark() -> None:
    text = render([contents()], STATUS, T)
    light, dark = STYLE.split("@media(prefers-color-scheme:dark)")[:2]
    for name in set(re.findall(r"var\(--(\w+)\)", text)):
        assert f"--{name}:" in light, name
        assert f"--{name}:" in dark, name


def test_a_report_replaces_the_one_before_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, "one")
    write_report(path, "two")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("missing", ["frames", "escalations", "leases", "mixes", "retries", "drain", "leads", "sla"])
def test_a_card_without_content_is_left_out(missing: str) -> None:
    beside = {"escalations": "deadlocks", "leases": "inversions"}
    without: dict[str, object] = {missing: [], beside.get(missing, missing): []}
    whole, less = render([contents()], None, T), render([contents(**without)], None, T)
    assert whole.count("<article") == less.count("<article") + 1
