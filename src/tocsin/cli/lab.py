"""The `tocsin lab` commands: replay history or a scenario under other policies. Only `apply` needs a running hub."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from tocsin.cli.context import HERE, DataHere, data_of, remote_of
from tocsin.cli.interruption import interruptible, on_interrupt
from tocsin.cli.output import fail, refusals_told, say, show_json, table
from tocsin.cli.remote import Exit

if TYPE_CHECKING:
    from tocsin.core.policy import Policy
    from tocsin.lab.experiment import Candidate, Experiment
    from tocsin.lab.figures.comparison import Figures
    from tocsin.lab.report.document import Report
    from tocsin.lab.runners import Runner

__all__ = ["lab"]

lab = typer.Typer(help="Replay recorded history or a scenario under other policies.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Events = Annotated[
    str | None,
    typer.Option(help="Data directory, warehouse, folder of segments, journal.db, or postgresql://…. Default: DATA."),
]
Policies = Annotated[list[Path] | None, typer.Option("--policy", help="Policy file to try. Can be repeated.")]
Projects = Annotated[list[str] | None, typer.Option("--project", help="Project. Can be repeated. Default: all.")]
Since = Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD.")]
Until = Annotated[str | None, typer.Option(help="Last day, YYYY-MM-DD.")]
Page = Annotated[Path | None, typer.Option("--html", help="Also write the HTML page to this file.")]


#: Last line of a command that was interrupted.
_INTERRUPTED = "interrupted; finished replays are kept"


class _Options:
    """Options of all commands, set before a command runs."""

    data = HERE
    folder = HERE / "lab"
    settings: Path | None = None
    seed: int | None = None
    here = False
    master = "local[*]"
    remote: str | None = None
    java = "auto"


_options = _Options()


@lab.callback()
def _common(
    context: typer.Context,
    data: DataHere = None,
    folder: Annotated[Path | None, typer.Option(help="Folder for results and reports. Default: DATA/lab.")] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings file. Default: DATA/lab.yaml.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: the one in the settings.")] = None,
    here: Annotated[bool, typer.Option("--here", help="Run everything in this process, without Spark.")] = False,
    master: Annotated[str, typer.Option(help="Spark master, for example local[4] or spark://host:7077.")] = "local[*]",
    remote: Annotated[str | None, typer.Option(help="Spark Connect server, sc://host:port.")] = None,
    java: Annotated[str, typer.Option(envvar="TOCSIN_JAVA", help="Java to use: auto, bundled, or a path.")] = "auto",
) -> None:
    data = data_of(context, data)
    _options.data = data
    _options.folder = folder or data / "lab"
    _options.settings = settings or data / "lab.yaml"
    _options.seed, _options.here = seed, here
    _options.master, _options.remote, _options.java = master, remote, java


@lab.command()
@interruptible(_INTERRUPTED)
def replay(
    events: Events = None,
    policy: Policies = None,
    change: Annotated[
        bool, typer.Option("--change", help="The policy files are changes to the policy in force, not whole policies.")
    ] = False,
    project: Projects = None,
    since: Since = None,
    until: Until = None,
    html: Page = None,
    as_json: Json = False,
) -> None:
    """Replay recorded days under other policies and compare them; without a policy, only check the fidelity."""
    _day(since, "--since")
    _day(until, "--until")
    with _errors_reported(as_json), _experiment() as experiment:
        from tocsin.lab.figures.fidelity import require_fidelity
        from tocsin.lab.report.document import compare

        with _progress("replaying", quiet=as_json) as progress:
            experiment.record(events or _options.data, project, progress)
            experiment.between(since, until)
            base = experiment.policy_in_force() if change else None
            report = compare(experiment, _candidates(policy, base), progress)
        _output_report(report, html, as_json)
        if report.fidelity is not None:
            require_fidelity(report.fidelity)


@lab.command()
@interruptible(_INTERRUPTED)
def scenario(
    file: Annotated[Path | None, typer.Argument(help="Scenario file; see --example.")] = None,
    policy: Policies = None,
    example: Annotated[bool, typer.Option("--example", help="Print an example scenario.")] = False,
    html: Page = None,
    as_json: Json = False,
) -> None:
    """Simulate a scenario under policies; the others are compared with the first, or with the defaults."""
    if example or file is None:
        if not example:
            raise fail("no scenario file given; for an example run: tocsin lab scenario --example", Exit.USAGE)
        sys.stdout.write(_example())
        return
    with _errors_reported(as_json), _experiment() as experiment:
        from tocsin.lab.report.document import report_of

        _add_scenario(experiment, file)
        candidates = _candidates(policy)
        if len(candidates) < 2:
            candidates.insert(0, _default())
        with _progress("simulating", quiet=as_json) as progress:
            results = experiment.replays(candidates, progress=progress)
        _output_report(report_of(experiment, candidates, results, None, "scenario"), html, as_json)


@lab.command()
@interruptible(_INTERRUPTED)
def search(
    objective: Annotated[list[str], typer.Option(help="Figure to minimise, e.g. Critical.p99_s. Can be repeated.")],
    vary: Annotated[list[str], typer.Option(help="NAME=LOW..HIGH or NAME=A|B|C, e.g. ttl.StatusUpdate=60..86400.")],
    events: Events = None,
    described: Annotated[Path | None, typer.Option("--scenario", help="Use a scenario instead of history.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy to start from. Default: the one in force.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Largest number of policies to try.", min=2)] = None,
    project: Projects = None,
    since: Since = None,
    until: Until = None,
    html: Page = None,
    as_json: Json = False,
) -> None:
    """Search for better policies; a search that was stopped continues where it was."""
    _day(since, "--since")
    _day(until, "--until")
    with _errors_reported(as_json), _experiment(evaluations) as experiment:
        from tocsin.core.policy import document_of
        from tocsin.lab.experiment import Candidate
        from tocsin.lab.figures.fidelity import require_fidelity
        from tocsin.lab.parameters import parse_dimension
        from tocsin.lab.report.document import check_fidelity, report_of
        from tocsin.lab.search import parse_objective
        from tocsin.lab.search import search as search_for
        from tocsin.policies import default_policy, load_policy

        fidelity = None
        with _progress("searching", quiet=as_json) as progress:
            if described is not None:
                _add_scenario(experiment, described)
                base = default_policy() if policy is None else load_policy(policy)
            else:
                experiment.record(events or _options.data, project, progress)
                experiment.between(since, until)
                base = experiment.policy_in_force() if policy is None else load_policy(policy)
            document = document_of(base)
            dimensions = [parse_dimension(text, document) for text in vary]
            objectives = [parse_objective(text) for text in objective]
            if described is None:
                fidelity, _ = check_fidelity(experiment, progress)
                require_fidelity(fidelity)
            found, policies = search_for(experiment, base, document, dimensions, objectives, progress)
        front = [Candidate.of(f"point-{number}", one) for number, one in policies.items() if number]
        candidates = [Candidate.of("base", base), *front]
        report = report_of(experiment, candidates, experiment.replays(candidates), fidelity, "search")
        report.search = found
        _output_report(report, html, as_json)


@lab.command()
def apply(
    context: typer.Context,
    report: Annotated[str, typer.Argument(help="Id of the report, lab-….")],
    name: Annotated[str, typer.Argument(help="Name of the policy in the report.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Adopt a policy of a report at the hub; the report's id is recorded as the reason."""
    with _errors_reported(as_json):
        from tocsin.lab.report.store import load_report

        found = load_report(_options.folder, report)
        changes = found.changes.get(name)
        if changes is None:
            raise fail(f"{report} has no policy {name}; known policies: {', '.join(found.changes)}", Exit.NOT_FOUND)
    if not as_json:
        say(yaml.safe_dump(changes, sort_keys=False))
    if not yes and not typer.confirm(f"Adopt this policy at {context.find_root().params['url']}?", err=True):
        raise typer.Exit(Exit.DONE)
    with refusals_told(as_json):
        body = {"policy": changes, "reason": f"{found.id}: {name}", "scope": "whole"}
        answer = remote_of(context).call("PUT", ("v1", "policy"), body, {})
    if as_json:
        show_json(answer)
    else:
        say(f"policy version {answer['version']} is in force; reason: {found.id}")


def _day(text: str | None, option: str) -> None:
    try:
        if text is not None:
            date.fromisoformat(text)
    except ValueError:
        raise fail(f"{option} {text} is not a date: use YYYY-MM-DD", Exit.USAGE) from None


def _candidates(paths: list[Path] | None, base: "Policy | None" = None) -> "list[Candidate]":
    """Read policy files, as changes to a base or as whole policies; each policy is named after its file."""
    from tocsin.lab.experiment import Candidate
    from tocsin.policies import load_policy

    names = [path.stem for path in paths or []]
    if len(set(names)) < len(names):
        raise fail("two policy files have the same name; policies are named after their files", Exit.USAGE)
    return [Candidate.of(name, load_policy(path, base)) for name, path in zip(names, paths or [], strict=True)]


def _default() -> "Candidate":
    from tocsin.lab.experiment import Candidate
    from tocsin.policies import default_policy

    return Candidate.of("defaults", default_policy())


def _add_scenario(experiment: "Experiment", file: Path) -> None:
    from tocsin.lab.scenario import load_scenario
    from tocsin.lab.scenario_traces import build_traces

    for trace in build_traces(load_scenario(file), experiment.settings):
        experiment.add(trace)


def _example() -> str:
    from importlib import resources

    return resources.files("tocsin.lab").joinpath("example.yaml").read_text(encoding="utf-8")


def _output_report(report: "Report", html: Path | None, as_json: bool) -> None:
    """Save a report and print it."""
    from tocsin.lab.report.store import save_report

    path = save_report(_options.folder, report)
    if html is not None:
        html.write_text((path.parent / "report.html").read_text(encoding="utf-8"), encoding="utf-8")
    if as_json:
        sys.stdout.write(path.read_text(encoding="utf-8"))
        return
    _show(report)
    say(f"\n{report.id}: {path.parent / 'report.html'}")


def _show(report: "Report") -> None:
    from tocsin.lab.figures.measures import METRICS
    from tocsin.lab.report.page import shown

    fidelity = report.fidelity
    if fidelity is not None:
        say(
            f"{fidelity.messages:,} messages in {fidelity.windows} windows, replayed under the policies in force:\n"
            f"  open loop: {fidelity.open_outcomes:.3%} of the messages have the same outcome"
            f" ({fidelity.open_steps:.3%} of the decisions are identical)\n"
            f"  closed loop: {fidelity.closed_outcomes:.3%} of the messages have the same outcome;"
            f" the distributions of waiting times differ by at most {fidelity.latency_distance:.4f}"
        )
    for policy in report.policies:
        say(f"\n{policy.name}")
        if not policy.differences:
            _show_figures(policy.figures)
            continue
        interval = f"{report.confidence * 100:g} % interval"
        rows = [
            {
                "priority": one.priority,
                "figure": METRICS[one.metric].title,
                "before": shown(one.metric, one.before),
                "after": shown(one.metric, one.after),
                interval: "" if one.low is None else f"{shown(one.metric, one.low)} … {shown(one.metric, one.high)}",
                "sure": "yes" if one.sure else "",
            }
            for one in policy.differences
            if one.change
        ]
        if rows:
            table(rows, *rows[0])
        else:
            say("no differences")


def _show_figures(figures: "Sequence[Figures]") -> None:
    """Print a policy's figures: one line each, one column per priority, so that the width does not grow with them."""
    from tocsin.lab.figures.measures import METRICS
    from tocsin.lab.report.page import shown

    used = [one for one in figures if one.sent]
    rows = [{"figure": "sent"} | {one.priority: f"{one.sent:,}" for one in used}]
    for name, metric in METRICS.items():
        values = {one.priority: shown(name, one.values[name]) for one in used if name in one.values}
        if any(one.values.get(name) for one in used):
            rows.append({"figure": metric.title} | values)
    table(rows, "figure", *(one.priority for one in used))


@contextmanager
def _experiment(evaluations: int | None = None) -> Iterator["Experiment"]:
    """Open an experiment with the options, on Spark unless `--here` is set."""
    import msgspec

    from tocsin.lab.experiment import Experiment
    from tocsin.lab.settings import load_settings

    overrides = {"seed": _options.seed, "evaluations": evaluations}
    settings = msgspec.structs.replace(
        load_settings(_options.settings), **{name: value for name, value in overrides.items() if value is not None}
    )
    with _runner() as runner:
        yield Experiment(_options.folder, runner, settings)


@contextmanager
def _runner() -> Iterator["Runner"]:
    from tocsin.lab.runners import LocalRunner, SparkRunner

    if _options.here:
        yield LocalRunner()
        return
    from tocsin.pipeline.engine.processes import PROCESSES
    from tocsin.pipeline.engine.spark import SparkOptions, spark_session
    from tocsin.pipeline.settings import load_settings

    on_interrupt(PROCESSES.kill)
    with spark_session(SparkOptions(_options.master, _options.remote, java=_options.java), load_settings()) as spark:
        yield SparkRunner(spark)


@contextmanager
def _errors_reported(as_json: bool) -> Iterator[None]:
    """Turn errors of the lab into a message and an exit code."""
    try:
        from tocsin.core.errors import TocsinError
        from tocsin.journal.errors import JournalError
        from tocsin.pipeline.errors import PipelineError

        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        extra = "postgres" if error.name.startswith("psycopg") else "pipeline"
        raise fail(f"the lab needs {error.name}: pip install 'tocsin[{extra}]'", Exit.FAILED) from None
    except TocsinError as error:
        if as_json and error.code != "E_LAB_001":
            show_json({"code": error.code, "detail": error.problem.detail})
        raise fail(str(error), Exit.NOT_FOUND if error.status == 404 else Exit.REFUSED) from None
    except (PipelineError, JournalError, OSError) as error:
        raise fail(str(error), Exit.FAILED) from None


@contextmanager
def _progress(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on a terminal."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
