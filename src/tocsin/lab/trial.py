"""Trials of recommendations: each is replayed on the history that it comes from, and shown with its measured effect.

Theory of operation. The last events of a project, at most `trial_events_max`, are recorded as one trace. If the lab can
reproduce them, they are replayed in the closed loop under the policy in force and under each changed policy. The goal
of a recommendation is a figure that the change is to lower. The replayed time is split into `trial_parts` parts, by
when messages were sent, and the parts of both replays are compared in pairs; a recommendation whose interval does not
lie below zero is not given. Everything runs in this process.
"""

import gc
from collections.abc import Sequence
from typing import Any

import yaml

from tocsin.core.errors import InvariantViolation, TocsinError
from tocsin.core.policy import Policy, document_of
from tocsin.core.protocol.priority import priority_name
from tocsin.lab.figures.comparison import Difference, compare_rows
from tocsin.lab.figures.fidelity import fidelity_of, summarise
from tocsin.lab.figures.measures import Row, measured_parts
from tocsin.lab.replays.closed_loop import closed_loop
from tocsin.lab.replays.open_loop import open_loop
from tocsin.lab.replays.replay import PreparedTrace, Replay, without_schemas
from tocsin.lab.settings import Settings
from tocsin.lab.traces.event_sources import Source, read_events
from tocsin.lab.traces.recorder import record_span
from tocsin.lab.traces.trace import Trace
from tocsin.pipeline.advice import Advice, Advised, Goal
from tocsin.pipeline.report.formatting import duration, number
from tocsin.policies import parse_policy

__all__ = ["try_advice"]

_WHAT = {
    "expired": "{} messages that expire unread",
    "stale": "{} messages that go stale",
    "boosts": "boosts of {} messages",
    "retries": "retries of {} messages",
    "lowered": "{} messages at a lower priority than requested",
    "rate_limited": "sends of {} messages refused by a bucket or quota",
    "refused": "refused sends of {} messages",
    "dead": "{} dead letters",
    "starved": "{} messages that starve",
    "rate_changes": "changes of the decay rate",
    "p95_s": "the 95th percentile of the waiting time of {} messages",
    "p99_s": "the 99th percentile of the waiting time of {} messages",
}
#: Figures of all messages that a change must not make worse without a word.
_PRICES = ("expired", "dead", "starved", "refused", "p99_s")


def try_advice(
    source: Source, first_seq: int, last_seq: int, policy: Policy, found: Sequence[Advice], settings: Settings
) -> Advised:
    """Replay a project's events from `first_seq` to `last_seq` with and without each change; keep those that help."""
    if not found:
        return Advised()
    if last_seq > settings.trial_read_max:
        return _untried(found, f"the history has {last_seq:,} events; at most {settings.trial_read_max:,} are read")
    first = max(first_seq, last_seq - settings.trial_events_max + 1)
    enabled = gc.isenabled()
    gc.disable()
    try:
        trace = record_span(source.project, read_events(source), settings, first, last_seq)
        if trace is None:
            return _untried(found, "there are no events to replay")
        return _Trial(trace, policy, settings, cut=first > first_seq).tried(found)
    except TocsinError as error:
        return _untried(found, error.problem.detail)
    except InvariantViolation as error:
        return _untried(found, f"its events cannot be applied ({error})")
    finally:
        if enabled:
            gc.enable()


def _untried(found: Sequence[Advice], reason: str) -> Advised:
    return Advised(note=f"{_recommendations(len(found))} not shown, because the lab could not try them: {reason}.")


def _recommendations(count: int) -> str:
    return "1 recommendation is" if count == 1 else f"{count} recommendations are"


class _Trial:
    """The replays of one trace."""

    def __init__(self, trace: Trace, policy: Policy, settings: Settings, *, cut: bool) -> None:
        self._trace, self._prepared = trace, PreparedTrace(trace)
        self._policy, self._settings = policy, settings
        self._cut = cut

    def tried(self, found: Sequence[Advice]) -> Advised:
        """Return the advice that helps, with its effect, and how many do not."""
        opened, closed = open_loop(self._prepared), self._closed(None)
        fidelity = summarise(
            [self._trace.project],
            [fidelity_of(self._prepared, opened, stamps=True)],
            [fidelity_of(self._prepared, closed, stamps=False)],
            self._settings,
        )
        if not fidelity.faithful:
            return _untried(found, f"its replay does not reproduce the history ({fidelity.unfaithful[0]})")
        true = without_schemas(self._policy)
        before = closed if self._steady(true) else self._closed(true)
        kept = [advice for advice in (self._judged(advice, before) for advice in found) if advice is not None]
        dropped = len(found) - len(kept)
        notes = []
        if dropped:
            notes.append(f"{_recommendations(dropped)} not shown: in a replay the change had no clear effect.")
        if self._cut:
            limit = self._settings.trial_events_max
            notes.append(f"Only the last {self._trace.events:,} events were replayed (trial_events_max: {limit:,}).")
        return Advised(kept, " ".join(notes))

    def _steady(self, true: dict[str, Any]) -> bool:
        """Return whether the policy in force now was in force all the time."""
        adopted = [step.body["policy"] for step in self._trace.steps if step.ask == "AdoptPolicy"]
        known = [document_of(self._policy), true]
        return all(one in known for one in ([self._trace.policy] if self._trace.policy else []) + adopted)

    def _closed(self, policy: dict[str, Any] | None) -> Replay:
        return closed_loop(self._prepared, policy, self._settings.seed, self._settings.clock_us)

    def _judged(self, advice: Advice, before: Replay) -> Advice | None:
        """Replay a change; return the advice with its effect, or None if there is no clear one."""
        changed = parse_policy(_merged(self._policy, advice.patch))
        after = self._closed(without_schemas(changed))
        (effect,) = self._compared(before, after, advice.goal, [advice.goal.metric])
        if not self._matters(effect) or (effect.change or 0.0) > 0:
            return None
        whole = self._compared(before, after, Goal("all"), _PRICES)
        worse = [one for one in whole if self._matters(one) and (one.change or 0.0) > 0]
        return Advice(
            advice.rule, advice.subject, advice.text, advice.evidence, advice.patch, advice.goal,
            self._verdict(advice.goal, effect, worse),
        )  # fmt: skip

    def _compared(self, before: Replay, after: Replay, goal: Goal, metrics: Sequence[str]) -> list[Difference]:
        return compare_rows(self._rows(before, goal), self._rows(after, goal), metrics, self._settings)

    def _rows(self, replay: Replay, goal: Goal) -> list[Row]:
        settings, trace = self._settings, self._trace
        starved_us = round(settings.starved_after_s * 1_000_000)
        return measured_parts(replay, trace.begins_at, trace.ends_at, settings.trial_parts, starved_us, goal.covers)

    def _matters(self, one: Difference) -> bool:
        return one.sure and abs(one.change or 0.0) >= self._settings.trial_effect_min * abs(one.before or 0.0)

    def _verdict(self, goal: Goal, effect: Difference, worse: Sequence[Difference]) -> str:
        text = (
            f"In a replay of {number(self._trace.events)} events the change brings "
            f"{_named(goal.metric, _scope(goal))} from {_shown(effect.metric, effect.before)} to "
            f"{_shown(effect.metric, effect.after)} (change with "
            f"{self._settings.confidence * 100:g} % confidence: {_shown(effect.metric, effect.low)} to "
            f"{_shown(effect.metric, effect.high)})"
        )
        prices = [
            f"{_named(one.metric, '')} from {_shown(one.metric, one.before)} to {_shown(one.metric, one.after)}"
            for one in worse
        ]
        return text + (f"; it also brings {' and '.join(prices)}" if prices else "") + "."


def _merged(policy: Policy, patch: str) -> str:
    """Return a policy with a change, as YAML."""

    def merge(base: Any, change: Any) -> Any:
        if not isinstance(base, dict) or not isinstance(change, dict):
            return change
        return base | {name: merge(base.get(name), value) for name, value in change.items()}

    text: str = yaml.safe_dump(merge(document_of(policy), yaml.safe_load(patch)))
    return text


def _scope(goal: Goal) -> str:
    if goal.message_type is not None:
        return goal.message_type
    if goal.above is not None:
        return "higher-priority"
    if goal.priority is None:
        return ""
    return ("other " if goal.other_than is not None else "") + priority_name(goal.priority)


def _named(metric: str, scope: str) -> str:
    """Return a figure in words."""
    return " ".join(_WHAT[metric].format(scope).split())


def _shown(metric: str, value: float | None) -> str:
    """Return a value with its unit and sign."""
    sign = "\N{MINUS SIGN}" if (value or 0.0) < 0 else ""
    if value is None:
        return number(None)
    return sign + (duration(abs(value) * 1_000_000) if metric.endswith("_s") else number(round(abs(value))))
