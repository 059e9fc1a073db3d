"""A bounded search over policies: sample the space evenly, then refine the best points, until nothing improves.

Theory of operation. Points are in a unit cube with one axis per dimension. The first are a Latin hypercube: each slice
of each dimension has one point. The others are random steps away from points of the Pareto front, beginning with those
farthest from their neighbours; the steps shrink from round to round. All random numbers come from one seed and every
replay stores its result in a file, so a search that was stopped generates the same points again, finds their results,
and continues. Libraries were considered in `docs/decisions/lab-search.md`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.core.errors import refusal
from tocsin.core.policy import Policy
from tocsin.core.protocol.priority import VOCABULARY
from tocsin.lab.experiment import Candidate, Experiment
from tocsin.lab.figures.comparison import Figures, figures_of
from tocsin.lab.figures.measures import ALL, METRICS
from tocsin.lab.parameters import Dimension, policy_at
from tocsin.lab.runners import Progress

__all__ = ["Evaluation", "Objective", "Search", "front_of", "hypercube", "parse_objective", "search"]

_FloatArray = npt.NDArray[np.float64]
#: Standard deviation of the first steps, and its factor from round to round.
_STEP, _SHRINK = 0.25, 0.75
#: Attempts per point to find one that is a valid policy.
_TRIES = 50


class Objective(msgspec.Struct, frozen=True):
    """A figure to minimise."""

    name: str
    metric: str
    level: int = ALL

    def of(self, figures: Sequence[Figures]) -> float:
        """Return the figure; infinity if it is missing."""
        found = next(row for row in figures if row.level == self.level).values.get(self.metric)
        return float("inf") if found is None else found


class Evaluation(msgspec.Struct):
    """One evaluated policy."""

    number: int
    #: Values by dimension.
    values: dict[str, Any]
    #: Figures by objective.
    objectives: dict[str, float]
    #: `base`, `filling` or `refining`.
    phase: str
    #: Whether it is on the Pareto front: no other is better in one objective and at least as good in the others.
    on_front: bool = False


class Search(msgspec.Struct):
    """Result of a search."""

    objectives: list[str]
    dimensions: list[str]
    evaluations: list[Evaluation]
    #: Reason of its end: `evaluations` if the budget is used up, or a sentence.
    stopped: str


def parse_objective(text: str) -> Objective:
    """Parse an objective: `p99_s`, or `Critical.p99_s` for one priority."""
    level_name, _, metric = text.rpartition(".")
    if metric not in METRICS:
        raise refusal("E_LAB_003", f"{metric!r} is not a figure", found=metric, expected="one of " + ", ".join(METRICS))
    if not level_name:
        return Objective(text, metric)
    if level_name not in VOCABULARY:
        raise refusal("E_LAB_003", f"{level_name!r} is not a priority", expected="one of " + ", ".join(VOCABULARY))
    if METRICS[metric].whole:
        raise refusal("E_LAB_003", f"{metric} exists only for the whole project: name it without a priority")
    return Objective(text, metric, int(VOCABULARY[level_name]))


def hypercube(points: int, dimensions: int, random: np.random.Generator) -> _FloatArray:
    """Return a Latin hypercube: points with one in each slice of each dimension."""
    columns = [(random.permutation(points) + random.random(points)) / points for _ in range(dimensions)]
    return np.stack(columns, axis=1)


def front_of(scores: Sequence[Sequence[float]]) -> list[int]:
    """Return the positions of the scores that no other dominates; of equal scores the first."""
    found: list[int] = []
    for number, score in enumerate(scores):
        better = (
            all(a <= b for a, b in zip(other, score, strict=True)) and (list(other) != list(score) or place < number)
            for place, other in enumerate(scores)
            if place != number
        )
        if not any(better):
            found.append(number)
    return found


def search(
    experiment: Experiment,
    base: Policy,
    document: Any,
    dimensions: Sequence[Dimension],
    objectives: Sequence[Objective],
    progress: Progress | None = None,
    found: Callable[[Search], None] | None = None,
) -> tuple[Search, dict[int, Policy]]:
    """Search from a base policy; return the evaluations, and the policies of the front by number."""
    return _SearchRun(experiment, base, document, dimensions, objectives, progress, found).run()


class _SearchRun:
    """The state of one search."""

    def __init__(
        self,
        experiment: Experiment,
        base: Policy,
        document: Any,
        dimensions: Sequence[Dimension],
        objectives: Sequence[Objective],
        progress: Progress | None,
        found: Callable[[Search], None] | None,
    ) -> None:
        self._experiment = experiment
        self._settings = experiment.settings
        self._document = document
        self._dimensions = dimensions
        self._objectives = objectives
        self._progress, self._found = progress, found
        self._random = np.random.default_rng(self._settings.seed)
        self._policies: list[Policy] = [base]
        self._places: list[_FloatArray] = [np.full(len(dimensions), 0.5)]
        self._search = Search([one.name for one in objectives], [one.name for one in dimensions], [], "evaluations")

    def run(self) -> tuple[Search, dict[int, Policy]]:
        budget = self._settings.evaluations
        self._evaluate([(self._policies[0], self._places[0])], "base")
        filling = max(1, round((budget - 1) * self._settings.initial_share))
        self._fill(filling)
        idle = step = 0
        while len(self._search.evaluations) < budget:
            before = self._front_scores()
            count = min(self._settings.batch, budget - len(self._search.evaluations))
            points = self._refined(count, _STEP * _SHRINK**step)
            if not points:
                break
            self._evaluate(points, "refining")
            step += 1
            idle = 0 if self._front_scores() != before else idle + len(points)
            if idle >= self._settings.patience:
                self._search.stopped = f"no improvement in {idle} refinements"
                break
        front = [one.number for one in self._search.evaluations if one.on_front]
        return self._search, {number: self._policies[number] for number in front}

    def _fill(self, count: int) -> None:
        places = hypercube(count, len(self._dimensions), self._random)
        points = [(policy, place) for place in places if (policy := self._policy(place)) is not None]
        for start in range(0, len(points), self._settings.batch):
            self._evaluate(points[start : start + self._settings.batch], "filling")

    def _refined(self, count: int, step: float) -> list[tuple[Policy, _FloatArray]]:
        """Return points near the front, first of those farthest from their neighbours."""
        parents = self._front_by_distance()
        points: list[tuple[Policy, _FloatArray]] = []
        for number in range(_TRIES * count):
            if len(points) == count:
                break
            place = self._places[parents[number % len(parents)]]
            moved = np.clip(place + self._random.normal(0.0, step, len(place)), 0.0, 1.0)
            policy = self._policy(moved)
            if policy is not None:
                points.append((policy, moved))
        return points

    def _policy(self, place: _FloatArray) -> Policy | None:
        values = [one.value(float(where)) for one, where in zip(self._dimensions, place, strict=True)]
        return policy_at(self._document, self._dimensions, values)

    def _front_by_distance(self) -> list[int]:
        """Return the front, sorted by the distance to the nearest neighbour, largest first."""
        front = [one.number for one in self._search.evaluations if one.on_front]
        scores = np.asarray([self._scores(number) for number in front], dtype=np.float64)
        scores = np.where(np.isfinite(scores), scores, np.nan)
        spread = np.nanmax(scores, axis=0) - np.nanmin(scores, axis=0)
        scaled = np.nan_to_num(scores / np.where(spread > 0, spread, 1.0))
        apart = np.sqrt(((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=-1))
        np.fill_diagonal(apart, np.inf)
        nearest = apart.min(axis=1)
        return [front[place] for place in np.argsort(-nearest, kind="stable")]

    def _scores(self, number: int) -> list[float]:
        return list(self._search.evaluations[number].objectives.values())

    def _front_scores(self) -> set[tuple[float, ...]]:
        return {tuple(one.objectives.values()) for one in self._search.evaluations if one.on_front}

    def _evaluate(self, points: Sequence[tuple[Policy, _FloatArray]], phase: str) -> None:
        first = len(self._search.evaluations)
        candidates = [Candidate.of(f"point-{first + number}", policy) for number, (policy, _) in enumerate(points)]
        for (policy, place), candidate, results in zip(
            points, candidates, self._experiment.replays(candidates), strict=True
        ):
            number = len(self._search.evaluations)
            if number:
                self._policies.append(policy)
                self._places.append(place)
            figures = figures_of([result.rows for result in results])
            scores = {one.name: one.of(figures) for one in self._objectives}
            document = msgspec.to_builtins(candidate.document)
            values = {one.name: _at(document, one.path) for one in self._dimensions}
            self._search.evaluations.append(Evaluation(number, values, scores, phase))
        front = set(front_of([self._scores(one.number) for one in self._search.evaluations]))
        for one in self._search.evaluations:
            one.on_front = one.number in front
        if self._progress is not None:
            self._progress(len(self._search.evaluations), self._settings.evaluations)
        if self._found is not None:
            self._found(self._search)


def _at(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document[part]
    return document
