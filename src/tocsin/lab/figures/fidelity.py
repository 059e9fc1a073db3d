"""How far a replay under the policy in force is from what was recorded, and whether that is near enough to trust it.

Open loop: every message must end as it did, with the same stamps. Closed loop: the same outcome for nearly all, and
waiting times of the same distribution. Below the bound no policies are compared: a model that does not know the past
has nothing to say about what might have been.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.core.errors import refusal
from tocsin.lab.figures.measures import waits_of
from tocsin.lab.replays.replay import Replay
from tocsin.lab.settings import Settings
from tocsin.lab.traces.message_tracker import MessageHistory
from tocsin.lab.traces.trace import Trace

__all__ = ["Fidelity", "FidelitySummary", "fidelity_of", "require_fidelity", "summarised"]


class Fidelity(msgspec.Struct, array_like=True):
    """One replay beside its recording."""

    #: Messages in either.
    messages: int
    #: Of them, those with the same outcome; in the open loop, with the same stamps too.
    same: int
    #: Commands, and of them those whose events came out bit for bit; open loop only.
    steps: int
    exact: int
    #: Largest distance between the two distributions of waiting times.
    distance: float
    #: The first command that came out otherwise.
    differs: str = ""


class FidelitySummary(msgspec.Struct):
    """Fidelity over all windows, against the bounds."""

    open_outcomes: float
    open_steps: float
    closed_outcomes: float
    #: Of the window that is furthest off.
    latency_distance: float
    messages: int
    windows: int
    #: Windows that are below a bound, with the reason.
    unfaithful: list[str]
    faithful: bool


def fidelity_of(trace: Trace, replay: Replay, *, stamps: bool) -> Fidelity:
    """Hold a replay against its recording."""
    recorded = {history.signal: history for history in trace.histories}
    replayed = {history.signal: history for history in replay.histories}
    names = recorded.keys() | replayed.keys()
    same = sum(_same(recorded[name], replayed[name], stamps=stamps) for name in recorded.keys() & replayed.keys())
    return Fidelity(
        messages=len(names),
        same=same,
        steps=len(trace.steps) if stamps else 0,
        exact=replay.exact,
        distance=distance(waits_of(trace.histories), waits_of(replay.histories)),
        differs=replay.differs,
    )


def _same(recorded: MessageHistory, replayed: MessageHistory, *, stamps: bool) -> bool:
    return recorded == replayed if stamps else recorded.outcome == replayed.outcome


def distance(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> float:
    """Return the largest difference of two cumulative distributions (Kolmogorov and Smirnov)."""
    if not len(left) or not len(right):
        return 0.0 if len(left) == len(right) else 1.0
    values = np.concatenate((left, right))
    below_left = np.searchsorted(left, values, side="right") / len(left)
    below_right = np.searchsorted(right, values, side="right") / len(right)
    return float(np.abs(below_left - below_right).max())


def summarised(
    windows: Sequence[str], opens: Iterable[Fidelity], closeds: Iterable[Fidelity], settings: Settings
) -> FidelitySummary:
    """Judge all windows; each must be faithful by itself."""
    open_rows, closed_rows = list(opens), list(closeds)
    unfaithful: list[str] = []
    for name, one, other in zip(windows, open_rows, closed_rows, strict=True):
        if _share(one.same, one.messages) < settings.open_outcomes_min:
            unfaithful.append(
                f"{name}: {_share(one.same, one.messages):.2%} of the messages end the same when asked the same,"
                f" {settings.open_outcomes_min:.2%} are needed" + (f"; first at {one.differs}" if one.differs else "")
            )
        if _share(other.same, other.messages) < settings.closed_outcomes_min:
            unfaithful.append(
                f"{name}: {_share(other.same, other.messages):.2%} of the messages end the same with consumers that"
                f" react, {settings.closed_outcomes_min:.2%} are needed"
            )
        if other.distance > settings.latency_distance_max:
            unfaithful.append(
                f"{name}: waiting times are {other.distance:.3f} apart, at most {settings.latency_distance_max:g}"
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
    """Refuse to compare policies by a model that does not reproduce history."""
    if not fidelity.faithful:
        raise refusal(
            "E_LAB_001",
            f"the replay is not like history in {len(fidelity.unfaithful)} points: {fidelity.unfaithful[0]}",
            facts={"unfaithful": fidelity.unfaithful},
        )
