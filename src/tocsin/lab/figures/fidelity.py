"""Fidelity of a replay: comparison of a replay under the policies in force with the recording.

Open loop: every message must have the same outcome and the same timestamps. Closed loop: nearly all messages must have
the same outcome, and waiting times the same distribution. Below the bounds no policies are compared, because the
result would not be reliable.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.core.errors import refusal
from tocsin.lab.figures.tallies import recorded_waits, same_histories, same_outcomes, waits_until_offered
from tocsin.lab.replays.replay import PreparedTrace, Replay
from tocsin.lab.settings import Settings

__all__ = ["Fidelity", "FidelitySummary", "fidelity_of", "require_fidelity", "summarise"]


class Fidelity(msgspec.Struct, array_like=True):
    """Comparison of one replay with its recording."""

    #: Number of messages in either.
    messages: int
    #: Messages with the same outcome; in the open loop also with the same timestamps.
    same: int
    #: Number of commands; open loop only.
    steps: int
    #: Commands whose events are identical to the recorded ones; open loop only.
    exact: int
    #: Largest distance between the two distributions of waiting times.
    distance: float
    #: Description of the first command whose events differ.
    differs: str = ""


class FidelitySummary(msgspec.Struct):
    """Fidelity over all windows, compared with the bounds."""

    #: Share of messages with the same outcome in the open loop.
    open_outcomes: float
    #: Share of commands with identical events in the open loop.
    open_steps: float
    #: Share of messages with the same outcome in the closed loop.
    closed_outcomes: float
    #: Largest distance of the waiting times of a window.
    latency_distance: float
    messages: int
    windows: int
    #: Windows that miss a bound, with the reason.
    unfaithful: list[str]
    faithful: bool


def fidelity_of(prepared: PreparedTrace, replay: Replay, *, stamps: bool) -> Fidelity:
    """Compare a replay with its recording."""
    recorded, replayed = prepared.known, replay.histories
    messages, same = same_histories(prepared.trace.histories, replayed) if stamps else same_outcomes(recorded, replayed)
    return Fidelity(
        messages=messages,
        same=same,
        steps=len(prepared.trace.steps) if stamps else 0,
        exact=replay.exact,
        distance=distance(_sorted(recorded_waits(recorded.values())), _sorted(waits_until_offered(replayed))),
        differs=replay.differs,
    )


def _sorted(waits: list[int]) -> npt.NDArray[np.int64]:
    return np.sort(np.asarray(waits, dtype=np.int64))


def distance(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> float:
    """Return the Kolmogorov-Smirnov distance of two sorted samples."""
    if not len(left) or not len(right):
        return 0.0 if len(left) == len(right) else 1.0
    values = np.concatenate((left, right))
    below_left = np.searchsorted(left, values, side="right") / len(left)
    below_right = np.searchsorted(right, values, side="right") / len(right)
    return float(np.abs(below_left - below_right).max())


def summarise(
    windows: Sequence[str], opens: Iterable[Fidelity], closeds: Iterable[Fidelity], settings: Settings
) -> FidelitySummary:
    """Summarise the fidelity of all windows; each window must meet the bounds."""
    open_rows, closed_rows = list(opens), list(closeds)
    unfaithful: list[str] = []
    for name, one, other in zip(windows, open_rows, closed_rows, strict=True):
        if _share(one.same, one.messages) < settings.open_outcomes_min:
            unfaithful.append(
                f"{name}: {_share(one.same, one.messages):.2%} of the messages have the same outcome in the open loop,"
                f" {settings.open_outcomes_min:.2%} are required"
                + (f"; first difference: {one.differs}" if one.differs else "")
            )
        if _share(other.same, other.messages) < settings.closed_outcomes_min:
            unfaithful.append(
                f"{name}: {_share(other.same, other.messages):.2%} of the messages have the same outcome in the closed"
                f" loop, {settings.closed_outcomes_min:.2%} are required"
            )
        if other.distance > settings.latency_distance_max:
            unfaithful.append(
                f"{name}: the distance of the waiting times is {other.distance:.3f},"
                f" at most {settings.latency_distance_max:g} is allowed"
            )
    return FidelitySummary(
        open_outcomes=_share(sum(row.same for row in open_rows), sum(row.messages for row in open_rows)),
        open_steps=_share(sum(row.exact for row in open_rows), sum(row.steps for row in open_rows)),
        closed_outcomes=_share(sum(row.same for row in closed_rows), sum(row.messages for row in closed_rows)),
        latency_distance=max((row.distance for row in closed_rows), default=0.0),
        messages=sum(row.messages for row in closed_rows),
        windows=len(windows),
        unfaithful=unfaithful,
        faithful=not unfaithful,
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def require_fidelity(fidelity: FidelitySummary) -> None:
    """Raise `E_LAB_001` if the replay does not reproduce history."""
    if not fidelity.faithful:
        raise refusal(
            "E_LAB_001",
            f"the replay does not reproduce history in {len(fidelity.unfaithful)} points: {fidelity.unfaithful[0]}",
            facts={"unfaithful": fidelity.unfaithful},
        )
