"""The page of a report begins with the verdict on each policy."""

from tocsin.lab.figures.comparison import Difference
from tocsin.lab.figures.measures import ALL
from tocsin.lab.report.document import PolicyReport, Report
from tocsin.lab.report.page import render, verdict


def difference(metric: str, before: float, after: float, *, sure: bool = True, level: int = ALL) -> Difference:
    return Difference(level, "all", metric, before, after, after - before, None, None, sure)


def report(*differences: Difference) -> Report:
    policies = [PolicyReport("in force", "a", [], [], 0, 1), PolicyReport("longer", "b", [], list(differences), 0, 1)]
    return Report("r1", "scenario", ["p"], ["2026-01-01"], None, policies, 0.95, 1)


def test_what_is_sure_for_all_messages_is_said_on_top() -> None:
    found = report(
        difference("expired", 20, 5),
        difference("p95_s", 1.0, 2.0),
        difference("dead", 9, 1, sure=False),
        difference("retries", 7, 1, level=3),
    )
    text = verdict(found, found.policies[1])
    assert text == ("longer compared with in force, for sure better: expired (20 → 5); worse: p95 wait (1 s → 2 s).")
    page = render(found)
    assert page.index("for sure better: expired") < page.index("Differences under longer")


def test_differences_that_are_not_sure_are_no_verdict() -> None:
    found = report(difference("dead", 9, 1, sure=False))
    assert verdict(found, found.policies[1]) == "longer differs from in force in no figure of all messages for sure."
