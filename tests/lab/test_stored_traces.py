"""Traces as they are stored: the same commands, callers and histories as when they were recorded."""

from pathlib import Path

import msgspec
import pytest

from tests.lab.histories import SETTINGS, Past, busy
from tests.pipeline.traffic import write_segments
from tocsin.core import commands as cmd
from tocsin.core.protocol.envelope import NO_METADATA
from tocsin.lab import experiment
from tocsin.lab.replays.replay import PreparedTrace
from tocsin.lab.runners import LocalRunner
from tocsin.lab.traces.recorder import record
from tocsin.lab.traces.trace import Trace, decoded, encoded
from tocsin.policies import parse_policy


def recorded(past: Past | None = None) -> Trace:
    events = busy(3000) if past is None else past.events
    (trace,) = record("p", list(enumerate(events, 1)), SETTINGS)
    return trace


def test_a_stored_trace_gives_the_same_commands() -> None:
    trace = recorded()
    made, stored = PreparedTrace(trace), PreparedTrace(decoded(encoded(trace)))
    assert stored.commands == made.commands
    assert stored.callers == made.callers
    assert (stored.plain, stored.roots, stored.applied) == (made.plain, made.roots, made.applied)
    assert (stored.offers, stored.waiting, stored.drains) == (made.offers, made.waiting, made.drains)
    assert [step.delay_us for step in stored.steps] == [step.delay_us for step in trace.steps]
    kinds = {type(command) for command in made.commands}
    assert {cmd.Send, cmd.Confirm, cmd.Acknowledge, cmd.Reject, cmd.Drain, cmd.Heartbeat, cmd.Redrive} <= kinds


def test_a_stored_trace_has_the_same_histories_and_consumers() -> None:
    trace = recorded()
    stored = decoded(encoded(trace))
    assert len(trace.histories) == trace.messages > 100
    assert stored.histories == trace.histories
    assert stored.consumers == trace.consumers
    for history, message in zip(stored.histories, stored.recorded_messages, strict=True):
        assert history.values()[:7] == message


def test_a_trace_can_be_stored_again() -> None:
    once = decoded(encoded(recorded()))
    assert decoded(encoded(once)) == once


def test_envelopes_keep_what_their_senders_set() -> None:
    past = Past(parse_policy(""))
    ann, bob = past.join("ann"), past.join("bob")
    past.note(ann, bob)
    past.note(ann, bob, metadata={"ttl": 5})
    past.note(ann, bob, qos={"importance": 9})
    past.note(ann, bob, priority="Blocking", correlation_id="thread_1")
    stored = PreparedTrace(decoded(encoded(recorded(past))))
    plain, brief, important, named = [one.envelope for one in stored.commands if isinstance(one, cmd.Send)]
    # The exchange reads metadata unless they are this object.
    assert plain.metadata is NO_METADATA
    assert (plain.sender.agent_id, plain.receiver.agent_id, plain.qos) == ("ann", "bob", None)
    assert msgspec.json.decode(bytes(brief.metadata)) == {"ttl": 5}
    assert important.qos is not None
    assert (important.qos.importance, bytes(important.metadata)) == (9, b"{}")
    assert (named.priority, named.correlation_id) == ("Blocking", "thread_1")


def test_traces_of_another_format_are_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segments(tmp_path / "segments", "p", busy(300), 1000)
    lab = experiment.Experiment(tmp_path / "lab", LocalRunner(), SETTINGS)
    for version in (experiment.TRACES, experiment.TRACES, experiment.TRACES + 1):
        monkeypatch.setattr(experiment, "TRACES", version)
        lab.record(tmp_path / "segments")
    assert len(list((tmp_path / "lab" / "traces").glob("*.json"))) == 2
