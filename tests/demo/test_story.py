"""The story that `make demo` tells: one run, which all tests of this file look at."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.demo.running import QUICK, demo

#: What the page says in the end, by what happened.
TOLD = {
    "tasks are assigned": "14 tasks were assigned",
    "the urgent message is first": "bob received it as number 1 of 201",
    "a flood is refused": (
        r"600 messages at once: (?P<accepted>\d+) were accepted and (?P<refused>\d+) refused \(E_ADMISSION"
    ),
    "an unread message is recalled": r"\(recalled\); one that ada had already read was not \(already_delivered\)",
    "a message expires": "it had expired, unread",
    "a clone inherits the priority": "the clone inherited Blocking",
    "a deadlock is refused": r"bob was refused after \d+ ms \(.*bob → ada → bob.*\)",
    "a worker is preempted": "erin was at step 2 of 4",
    "no step is done twice": r"\(4 steps in the end, none twice\)",
    "a human resolves an escalation": r"in hugo's inbox at Critical, and hugo resolved it\.",
    "a message is retried": "processed on attempt 2",
    "an agent is woken": r"nora was not running \(reached by its waker\)",
    "a woken agent answers": r'dora had the answer: "I read your message of \d+ bytes, dora: I look at it now"',
    "a woken agent ends": r"Outcome of the wake: woken\. With nothing left to do the worker ended\.",
    "frames are shed": r"critical (?P<critical>\d+)%, normal (?P<normal>\d+)%, best effort (?P<best_effort>\d+)%",
}


class Told(NamedTuple):
    """A demo that has ended."""

    folder: Path
    #: All that it printed.
    page: str
    code: int

    def counts(self, pattern: str) -> dict[str, int]:
        """Return the numbers of a line of the page, by name."""
        found = re.search(pattern, self.page)
        assert found is not None, self.page
        return {name: int(number) for name, number in found.groupdict().items()}

    @property
    def tokens(self) -> list[Path]:
        """Return the files with the tokens of its agents."""
        return list((self.folder / ".demo" / "hub" / "tokens").iterdir())


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("story")
    with demo(folder, "--leave", "--port", "0", *QUICK) as running:
        page = running.rest()
    return Told(folder, page, running.process.returncode)


def test_a_demo_that_is_to_leave_ends_well(told: Told) -> None:
    assert told.code == 0, told.page


@pytest.mark.parametrize("what", list(TOLD))
def test_the_page_tells_what_happened(told: Told, what: str) -> None:
    assert re.search(TOLD[what], told.page), told.page


def test_every_message_of_the_flood_is_accepted_or_refused(told: Told) -> None:
    counts = told.counts(TOLD["a flood is refused"])
    assert counts["accepted"] + counts["refused"] == 600


def test_no_critical_message_is_shed_and_the_least_important_first(told: Told) -> None:
    counts = told.counts(TOLD["frames are shed"])
    assert 0 == counts["critical"] <= counts["normal"] <= counts["best_effort"]


def test_tokens_are_read_by_their_owner_only_and_none_is_shown(told: Told) -> None:
    assert len(told.tokens) == 10
    assert [token.name for token in told.tokens if token.stat().st_mode & 0o077] == []
    assert [token.name for token in told.tokens if token.read_text().strip() in told.page] == []
