"""Colours, headings and times: on a terminal only, and not where `NO_COLOR` is set."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tocsin.cli.output import say, table
from tocsin.cli.output.replies import cell, show
from tocsin.cli.style import heading, painted, relative, width
from tocsin.core.commands import Receipt

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the output be a wide terminal."""
    for module in ("style", "output"):
        monkeypatch.setattr(f"tocsin.cli.{module}.is_terminal", lambda stream=None: True)
    monkeypatch.setattr("tocsin.cli.output.terminal_columns", lambda: 200)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_shows_priorities_in_colour(capsys: pytest.CaptureFixture[str]) -> None:
    table([{"signal_id": "m1", "level": "Critical"}], "signal_id", "level")
    head, row = capsys.readouterr().out.splitlines()
    assert head == "\x1b[1m message id  level    \x1b[0m"
    assert row == " m1          \x1b[31mCritical\x1b[0m "


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "")])
@pytest.mark.usefixtures("terminal")
def test_colours_are_left_out_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert painted("x", "red") == "x"
    table([{"level": "Critical"}], "level")
    assert "\x1b" not in capsys.readouterr().out


def test_a_pipe_gets_neither_colours_nor_relative_times(capsys: pytest.CaptureFixture[str]) -> None:
    table([{"level": "Critical", "expires_at": cell(NOW)}], "level", "expires_at")
    assert capsys.readouterr().out.splitlines()[1] == " Critical  2026-01-01T12:00:00.000Z "


@pytest.mark.usefixtures("terminal")
def test_times_are_relative_on_a_terminal() -> None:
    assert cell(datetime.now(UTC) + timedelta(hours=5, seconds=9)) == "in 5 h"
    assert cell(datetime.now(UTC) - timedelta(seconds=42)) == "42 s ago"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "now"), (-1, "1 s ago"), (59, "in 59 s"), (-90, "2 min ago"), (7200, "in 2 h"), (-86400 * 3, "3 d ago")],
)
def test_a_relative_time(seconds: float, text: str) -> None:
    assert relative(NOW + timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("name", "words"),
    [("last_failed_at", "last failed"), ("signal_id", "message id"), ("ttl_s", "ttl (s)"), ("recipient", "recipient")],
)
def test_headings_are_words(name: str, words: str) -> None:
    assert heading(name) == words


def test_values_are_not_python_literals() -> None:
    assert [cell(value) for value in (True, None, 60.0, 0.25, (), {"a": 1, "b": None})] == [
        *("yes", "", "60", "0.25", "", "a: 1")
    ]


def test_the_width_of_a_text() -> None:
    assert [width(text) for text in ("abc", "漢字", "é", "e\u0301")] == [3, 4, 1, 1]


@pytest.mark.usefixtures("terminal")
def test_a_text_is_painted_and_brings_no_codes_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    say("✓", "green", end=" ")
    say("\x1b[31mdone")
    assert capsys.readouterr().out == "\x1b[32m✓\x1b[0m [31mdone\n"


def test_presence_and_path_are_words() -> None:
    assert [cell(value) for value in ("not_available_stale", "not_available_offline", "pushed_to_ws")] == [
        *("stale", "offline", "push")
    ]


def test_a_receipt_says_what_its_sender_did_not_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    fields: dict[str, Any] = {
        "signal_id": "msg_1_ada",
        "message_id": "msg_1_ada",
        "recipient": "bob",
        "resolved_to_session": None,
    }
    fields |= {"delivered": False, "queued": True, "recipient_state": "available", "delivery_class": "async"}
    fields |= {"expires_at": NOW, "publish_path": "queued_offline"}
    fields |= {"priority": "Blocking", "requested_priority": "Blocking"}
    sent = msgspec.convert(fields, Receipt)
    show(sent, as_json=False)
    assert "instead of" not in capsys.readouterr().out
    show([msgspec.structs.replace(sent, priority="Info", held=True)], as_json=False)
    told = capsys.readouterr().out
    assert "msg_1_ada was accepted at Info instead of Blocking: `tocsin trace msg_1_ada` shows why" in told
    assert "msg_1_ada is held until a director or a human approves it: `tocsin approvals list`" in told
