"""A reader of `make demo` who signs in, tries the commands, acts on what is open and stops it.

One run, which all tests of this file look at.
"""

import json
import re
import shlex
from typing import NamedTuple

import httpx2
import pytest

from tests.demo.running import QUICK, STOPPED, Demo, demo


class Visit(NamedTuple):
    """What a reader saw."""

    #: The lines up to the link to sign in.
    first_lines: list[str]
    #: Answer to the sign-in.
    signed_in: httpx2.Response
    #: Process id of the demo.
    pid: int
    #: Output and exit code of a second demo in the same folder.
    second: tuple[str, int]
    #: Output of the commands that the page proposes.
    outputs: list[str]
    #: What the page said that the reader had done.
    done: list[str]
    #: Numbers of the last event, when the reader had done everything and later.
    seqs: tuple[int, int]
    #: Output after Ctrl-C.
    last_words: str


def act(running: Demo, outputs: list[str]) -> list[str]:
    """Try the commands of the page and settle what is open; return the lines that confirm it."""
    running.until("Try this")
    commands = [running.until(r"^  \.demo/tocsin (.+)  # ")[1] for _ in range(3)]
    outputs += [running.tocsin(*shlex.split(command)) for command in commands]
    done = [running.until("✓ You (approved the merge|redrove)")[1] for _ in range(2)]
    escalation = re.search(r"esc_\w+", running.tocsin("--as", "hugo", "escalations", "list"))
    assert escalation is not None
    running.tocsin("--as", "hugo", "escalations", "resolve", escalation[0], "ten years")
    done.append(running.until("✓ You (answered the escalation)")[1])
    lease = re.search(r"lse_\w+(?=.*src/billing/\*\*)", running.tocsin("--as", "hugo", "leases", "list"))
    assert lease is not None
    running.tocsin("--as", "hugo", "leases", "force-release", lease[0], "--reason", "bob-2 needs it")
    return [*done, running.until(r"✓ You (released src/billing/\*\*)")[1]]


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    folder = tmp_path_factory.mktemp("reader")
    with demo(folder, "--port", "0", *QUICK) as running:
        url, code, token_id = running.until(r"sign in +(http://[\d.:]+)/sign-in\?link#code=([\w-]+)\.(\w+)").groups()
        first_lines = list(running.lines)
        headers = {"Tocsin-Dashboard": "1", "Tocsin-Token-Id": token_id}
        signed_in = httpx2.post(f"{url}/sign-in", json={"code": code}, headers=headers)
        with demo(folder, *QUICK) as other:
            second = (other.rest(), other.process.returncode)
        outputs: list[str] = []
        done = act(running, outputs)
        before = after = json.loads(running.tocsin("status", "--json"))["seq"]
        while after == before:
            # The team works on, in the background; pytest's time limit ends a test in which it does not.
            after = json.loads(running.tocsin("status", "--json"))["seq"]
        last_words = running.interrupt()
    return Visit(first_lines, signed_in, running.process.pid, second, outputs, done, (before, after), last_words)


def test_the_link_is_the_first_thing_that_is_shown(visit: Visit) -> None:
    assert " 1 of 12" not in "\n".join(visit.first_lines)


def test_the_link_signs_in(visit: Visit) -> None:
    assert visit.signed_in.json()["agent"] == "hugo"


def test_a_second_demo_in_the_same_folder_is_refused(visit: Visit) -> None:
    said, code = visit.second
    assert f"a demo already runs in .demo (process {visit.pid})" in said
    assert code == 1


def test_the_proposed_commands_run(visit: Visit) -> None:
    assert len(visit.outputs) == 3
    assert "Critical" in visit.outputs[2]


def test_the_page_says_what_the_reader_has_done(visit: Visit) -> None:
    assert sorted(visit.done[:2]) == ["approved the merge", "redrove"]
    assert visit.done[2:] == ["answered the escalation", "released src/billing/**"]


def test_the_team_works_on_in_the_background(visit: Visit) -> None:
    assert visit.seqs[0] < visit.seqs[1]


def test_ctrl_c_stops_it(visit: Visit) -> None:
    assert visit.last_words == STOPPED
