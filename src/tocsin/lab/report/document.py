"""The report of an experiment, as one document."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.lab.experiment import IN_FORCE, Candidate, Experiment
from tocsin.lab.figures.comparison import Difference, Figures, compared, figures_of
from tocsin.lab.figures.fidelity import FidelitySummary, summarise
from tocsin.lab.runners import Progress
from tocsin.lab.search import Search
from tocsin.lab.tasks import ReplayResult

__all__ = ["PolicyReport", "Report", "check_fidelity", "compare"]


class PolicyReport(msgspec.Struct):
    """One policy: its figures, and their differences to the first policy's."""

    name: str
    hash: str
    figures: list[Figures]
    #: Differences to the first policy; empty for the first.
    differences: list[Difference]
    #: Commands that were refused in the replay, for example because their session had ended.
    missed: int
    #: Number of events.
    events: int


class Report(msgspec.Struct):
    """The whole report."""

    id: str
    #: `replay`, `scenario` or `search`.
    kind: str
    projects: list[str]
    windows: list[str]
    #: Null for a scenario, which has no recording.
    fidelity: FidelitySummary | None
    policies: list[PolicyReport]
    confidence: float
    seed: int
    #: Evaluations of a search.
    search: Search | None = None
    #: Differences to the defaults of each policy, by name; without the policies in force.
    changes: dict[str, Any] = {}


def check_fidelity(
    experiment: Experiment, progress: Progress | None = None
) -> tuple[FidelitySummary, list[ReplayResult]]:
    """Replay history under the policies in force, in both loops; return the fidelity and the closed-loop results."""
    baseline = Candidate(IN_FORCE)
    (opens,) = experiment.replays([baseline], "open", progress)
    (closeds,) = experiment.replays([baseline], "closed", progress)
    names = [f"{window.project} {window.window}" for window in experiment.windows]
    fidelity = summarise(
        names,
        (found.fidelity for found in opens if found.fidelity is not None),
        (found.fidelity for found in closeds if found.fidelity is not None),
        experiment.settings,
    )
    return fidelity, closeds


def compare(experiment: Experiment, candidates: Sequence[Candidate], progress: Progress | None = None) -> Report:
    """Compare policies on recorded history; without fidelity the report contains no comparison."""
    fidelity, baseline = check_fidelity(experiment, progress)
    if not fidelity.faithful:
        return report_of(experiment, [Candidate(IN_FORCE)], [baseline], fidelity, "replay")
    results = experiment.replays(candidates, "closed", progress)
    everything = [Candidate(IN_FORCE), *candidates]
    return report_of(experiment, everything, [baseline, *results], fidelity, "replay")


def report_of(
    experiment: Experiment,
    candidates: Sequence[Candidate],
    results: Sequence[Sequence[ReplayResult]],
    fidelity: FidelitySummary | None,
    kind: str,
) -> Report:
    """Build a report; the other candidates are compared with the first."""
    first = [result.rows for result in results[0]]
    policies = []
    for number, (candidate, found) in enumerate(zip(candidates, results, strict=True)):
        rows = [result.rows for result in found]
        policies.append(
            PolicyReport(
                candidate.name,
                candidate.hash,
                figures_of(rows),
                compared(first, rows, experiment.settings) if number else [],
                sum(result.missed for result in found),
                sum(result.events for result in found),
            )
        )
    return Report(
        id=experiment.id_of(candidates),
        kind=kind,
        projects=sorted({window.project for window in experiment.windows}),
        windows=sorted({window.window for window in experiment.windows}),
        fidelity=fidelity,
        policies=policies,
        confidence=experiment.settings.confidence,
        seed=experiment.settings.seed,
        changes={candidate.name: candidate.changes for candidate in candidates if candidate.changes is not None},
    )
