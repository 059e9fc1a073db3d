"""A bounded search over policies: fill the space, then refine what was best, and stop when nothing better comes.

Theory of operation. Points live in a cube, one side for each dimension. The first are a Latin hypercube: in every
dimension each slice is visited once. The others are steps away from points of the Pareto front, drawn from those with
the most room around them, and shrinking from round to round. Everything is drawn from one seed and every replay leaves
its file, so a search that was stopped goes through the same points again, finds them done, and goes on where it was.
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
_STEP, _SHRINK = 0.25, 0.75
#: Draws of one point before the search gives up on finding one that is a possible policy.
_TRIES = 50


class Objective(msgspec.Struct, frozen=True):
    """A figure that should be low."""

    name: str
    metric: str
    level: int = ALL

    def of(self, figures: Sequence[Figures]) -> float:
        """Return the figure; one that is not there counts as the worst."""
        found = next(row for row in figures if row.level == self.level).values.get(self.metric)
        return float("inf") if found is None else found


class Evaluation(msgspec.Struct):
    """One policy that was tried."""

    number: int
    #: By dimension.
    values: dict[str, Any]
    #: By objective.
    objectives: dict[str, float]
    #: `base`, `filling` or `refining`.
    phase: str
    #: Whether nothing else is better in one objective and no worse in the others.
    on_front: bool = False


class Search(msgspec.Struct):
    """What a search found."""

    objectives: list[str]
    dimensions: list[str]
    evaluations: list[Evaluation]
    #: Why it stopped: `evaluations` used up, or no better point for long.
    stopped: str


def parse_objective(text: str) -> Objective:
    """Read an objective: `p99_s`, or `Critical.p99_s` of one priority."""
    level_name, _, metric = text.rpartition(".")
    if metric not in METRICS:
        raise refusal("E_LAB_003", f"{metric!r} is no figure", found=metric, expected="one of " + ", ".join(METRICS))
    if not level_name:
        return Objective(text, metric)
    if level_name not in VOCABULARY:
        raise refusal("E_LAB_003", f"{level_name!r} is no priority", expected="one of " + ", ".join(VOCABULARY))
    if METRICS[metric].whole:
        raise refusal("E_LAB_003", f"{metric} is of the whole project, not of one priority")
    return Objective(text, metric, int(VOCABULARY[level_name]))


def hypercube(points: int, dimensions: int, random: np.random.Generator) -> _FloatArray:
    """Return points that visit each slice of each dimension once."""
    columns = [(random.permutation(points) + random.random(points)) / points for _ in range(dimensions)]
    return np.stack(columns, axis=1)


def front_of(scores: Sequence[Sequence[float]]) -> list[int]:
    """Return the numbers of those that nothing dominates; of equals the first."""
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
    """Search from a base policy; return what was tried, and the policies of the front by their numbers."""
    return _SearchRun(experiment, base, document, dimensions, objectives, progress, found).run()


class _SearchRun:
    """One search under way."""

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
                self._search.stopped = f"nothing better in {idle} refinements"
                break
        front = [one.number for one in self._search.evaluations if one.on_front]
        return self._search, {number: self._policies[number] for number in front}

    def _fill(self, count: int) -> None:
        places = hypercube(count, len(self._dimensions), self._random)
        points = [(policy, place) for place in places if (policy := self._policy(place)) is not None]
        for start in range(0, len(points), self._settings.batch):
            self._evaluate(points[start : start + self._settings.batch], "filling")

    def _refined(self, count: int, step: float) -> list[tuple[Policy, _FloatArray]]:
        """Step away from points of the front, those with the most room first."""
        parents = self._roomiest()
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

    def _roomiest(self) -> list[int]:
        """Return the front, those first that are farthest from their neighbours."""
        front = [one.number for one in self._search.evaluations if one.on_front]
        scores = np.asarray([self._scores(number) for number in front], dtype=np.float64)
        scores = np.where(np.isfinite(scores), scores, np.nan)
        spread = np.nanmax(scores, axis=0) - np.nanmin(scores, axis=0)
        scaled = np.nan_to_num(scores / np.where(spread > 0, spread, 1.0))
        apart = np.sqrt(((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=-1))
        np.fill_diagonal(apart, np.inf)
        room = apart.min(axis=1)
        return [front[place] for place in np.argsort(-room, kind="stable")]

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
