"""Recommendations are tried on the history that they come from, and shown with their effect or not at all."""

from pathlib import Path

import msgspec
import pytest

from tests.lab.histories import Past, bare, settings
from tests.pipeline.rows import events, folded, lives, opened
from tests.pipeline.traffic import simulated, write_segments
from tocsin.cli.pipeline.advising import advice_from
from tocsin.cli.pipeline.options import OPTIONS
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.waiting.waits import BREAKERS
from tocsin.lab.figures.measures import measured_parts
from tocsin.lab.replays.replay import Replay
from tocsin.lab.traces.event_sources import Source, find_source
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.trace import RefusedSend
from tocsin.lab.trial import try_advice
from tocsin.pipeline.advice import Advice, Advised, Goal
from tocsin.policies import parse_policy

#: Three senders, each of which may send one Info message every ten seconds, and tries it every other second.
POLICY = parse_policy("bucket: {capacity: 1, refill_per_s: 0.1}")
FASTER = Advice("quota_too_tight", "bucket", "Faster.", (), "bucket: {refill_per_s: 1}\n", Goal("rate_limited"))
USELESS = Advice("aging_threshold", "Info", "Wait.", (), "aging: {threshold_s: 77}\n", Goal("rate_limited"))
HARMFUL = Advice("quota_too_tight", "bucket", "Slower.", (), "bucket: {refill_per_s: 0.01}\n", Goal("rate_limited"))


@pytest.fixture(scope="module")
def history() -> list[Event]:
    past = Past(POLICY)
    past.join("bob", kind="push")
    senders = [past.join(name, kind=None) for name in ("ann", "cem", "dee")]
    for _ in range(60):
        for sender in senders:
            past.note(sender, "bob", "StatusUpdate")
        past.advance(2)
    return [bare(event) for event in past.events]


@pytest.fixture(scope="module")
def landing(history: list[Event], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial") / "segments"
    write_segments(folder, "p", history, 1000)
    return folder


@pytest.fixture(scope="module")
def source(landing: Path) -> Source:
    (found,) = find_source(landing)
    return found


def tried(source: Source, history: list[Event], *found: Advice, **changed: object) -> Advised:
    return try_advice(source, 1, len(history), POLICY, found, settings(bootstrap_draws=300, **changed))


def test_a_change_is_shown_with_its_effect_and_its_spread(source: Source, history: list[Event]) -> None:
    advised = tried(source, history, FASTER)
    (piece,) = advised.advice
    assert (piece.patch, advised.note) == (FASTER.patch, "")
    assert piece.verdict.startswith(
        f"In a replay of {len(history)} events the change brings sends of messages refused by a bucket or quota from"
    )
    refused = sum(type(event).__name__ == "SendRefused" for event in history)
    assert f" from {refused} to 0 (change with 95 % confidence: \N{MINUS SIGN}" in piece.verdict


def test_a_change_without_effect_or_with_harm_is_not_shown(source: Source, history: list[Event]) -> None:
    advised = tried(source, history, USELESS, HARMFUL)
    assert advised.advice == []
    assert advised.note == "2 recommendations are not shown: in a replay the change had no clear effect."


def test_few_parts_show_nothing(source: Source, history: list[Event]) -> None:
    assert tried(source, history, FASTER, trial_parts=2).advice == []


def test_a_limit_on_the_events_is_said_when_it_cuts(source: Source, history: list[Event]) -> None:
    advised = tried(source, history, FASTER, trial_events_max=150)
    (piece,) = advised.advice
    assert "Only the last 1" in advised.note
    assert "(trial_events_max: 150)" in advised.note
    assert "In a replay of 1" in piece.verdict
    unread = tried(source, history, FASTER, trial_read_max=100)
    assert unread.advice == []
    assert f"the history has {len(history)} events; at most 100 are read" in unread.note


@pytest.mark.parametrize(
    ("kind", "field", "value", "reason"),
    [
        # The recorded hub gave other priorities than the exchange does, or its events contradict each other.
        (ev.MessageAccepted, "priority", 2, "its replay does not reproduce the history"),
        (ev.MessageOffered, "message", 1, "its events cannot be applied"),
    ],
)
def test_a_history_that_cannot_be_reproduced_gives_no_advice(
    history: list[Event], tmp_path: Path, kind: type, field: str, value: object, reason: str
) -> None:
    other = [msgspec.structs.replace(one, **{field: value}) if type(one) is kind else one for one in history]
    write_segments(tmp_path, "p", other, 1000)
    (source,) = find_source(tmp_path)
    advised = tried(source, other, FASTER)
    assert advised.advice == []
    assert f"could not try them: {reason}" in advised.note


@pytest.mark.parametrize("events_max", [100_000, 100])
def test_a_history_with_an_unknown_kind_of_wait_gives_no_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events_max: int
) -> None:
    """The simulator has a kind of wait of its own; a replay without it cannot break its deadlocks."""
    past, _ = simulated(seed=5, steps=400)
    monkeypatch.delitem(BREAKERS, "simulated")
    write_segments(tmp_path, "p", past, 1000)
    (source,) = find_source(tmp_path)
    advised = tried(source, past, FASTER, trial_events_max=events_max)
    assert advised.advice == []
    assert "could not try them: p: there are waits of kind simulated, which this version cannot replay" in advised.note


def test_advice_from_tables_is_tried_on_their_segments(
    landing: Path, history: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OPTIONS, "landing", landing)
    monkeypatch.setattr(OPTIONS, "data", landing.parent)
    happened = events(*history)
    with opened(happened, lives(*folded(happened))) as tables:
        advised = advice_from(tables, landing / "none", "p", None, None)
    assert "quota_too_tight" in {piece.rule for piece in advised.advice}
    assert all(piece.verdict for piece in advised.advice)


def slow_acks(seconds: float) -> list[Event]:
    """Of ninety jobs, whose ACKs are awaited for ten seconds, every third is acknowledged after some more."""
    past = Past(parse_policy("contracts: {CUSTOM_JOB: {ack: required, timeout_s: 10, retries_max: 5, backoff_s: [1]}}"))
    bob, ann = past.join("bob"), past.join("ann", kind=None)
    for number in range(90):
        past.note(ann, "bob", "CUSTOM_JOB")
        job = past.last_id
        past.tell(cmd.Confirm((job,)), bob)
        past.advance(8)
        if number % 3 == 0:
            past.advance(seconds - 8)
            past.tell(cmd.Confirm((job,)), bob)
        past.tell(cmd.Acknowledge(job, "processed"), bob)
        past.advance(20)
        past.tell(cmd.Heartbeat(past.session(bob)), bob)
    return [bare(event) for event in past.events]


@pytest.mark.parametrize(("seconds", "shown"), [(14, True), (24, False)])
def test_a_longer_timeout_is_shown_if_it_is_long_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, shown: bool
) -> None:
    """The recipient works on through the timeout: twice its time is enough for the first history only."""
    past = slow_acks(seconds)
    write_segments(tmp_path / "segments", "p", past, 1000)
    monkeypatch.setattr(OPTIONS, "landing", tmp_path / "segments")
    monkeypatch.setattr(OPTIONS, "data", tmp_path)
    happened = events(*past)
    with opened(happened, lives(*folded(happened))) as tables:
        advised = advice_from(tables, tmp_path / "none", "p", None, None)
    found = [piece for piece in advised.advice if piece.rule == "ack_timeout_short"]
    if shown:
        assert "brings retries of CUSTOM_JOB messages from 30 to 0 (change with 95 % confidence" in found[0].verdict
    else:
        assert (found, advised.note.partition(":")[0]) == ([], "1 recommendation is not shown")


def test_parts_are_counted_by_the_time_of_sending() -> None:
    def message(at: int, requested: int = 1, kind: str = "T", **more: object) -> MessageHistory:
        return MessageHistory("m", "ann", "bob", kind, requested, 0, at, "queued", **more)  # type: ignore[arg-type]

    replay = Replay(
        [message(5), message(10), message(19, first_offered_at=29), message(12, requested=2), message(13, kind="U")],
        [RefusedSend("x", 1, "E_ADMISSION_001", 19, "T"), RefusedSend("y", 2, "E_ADMISSION_001", 19, "T")],
        0, 0, 0, 0, 0, rate_changes=[11, 20],
    )  # fmt: skip
    goal = Goal("lowered", priority=1, message_type="T")
    first, second = measured_parts(replay, 10, 20, 2, 5, goal.covers)
    assert (first.accepted, first.lowered, first.rate_changes) == (1, 1, 1)
    assert (second.accepted, second.rate_limited, second.starved, second.rate_changes) == (1, 1, 1, 1)
    assert sum(second.histogram) == 1


def test_a_goal_names_its_messages() -> None:
    assert Goal("p95_s").covers(0, "T")
    assert Goal("p95_s", above=1).covers(2, "T")
    assert not Goal("p95_s", above=1).covers(1, "T")
    assert not Goal("p95_s", priority=2, other_than="T").covers(2, "T")
    assert Goal("p95_s", priority=2, other_than="T").covers(2, "U")
