"""The `tocsin lab` commands."""

import json
import secrets
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench.traffic import POLICY as TRAFFIC
from typer.testing import CliRunner

from tests.cli.processes import RunningHub
from tests.lab.histories import busy
from tests.pipeline.traffic import write_segments
from tests.postgres import Server
from tocsin.cli.commands import app
from tocsin.cli.remote import Exit
from tocsin.core import events as ev
from tocsin.journal.log import EventLog
from tocsin.journal.postgres import PostgresJournal
from tocsin.lab.scenario import parse_scenario
from tocsin.lab.traces.event_sources import find_source, read_events

runner = CliRunner()
TINY = """
name: tiny
duration_s: 120
runs: 2
teams:
  ann: {}
  bob: {window: 1, handles: {"*": {receipt_s: 1.5}}}
loads: [{from: ann, to: bob, per_s: 0.7, priority: Coordinate}, {from: ann, to: bob, per_s: 0.2, type: StatusUpdate}]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    write_segments(folder / "segments", "p", busy(1500, per_day=30_000), 2000)
    (folder / "lab.yaml").write_text("window_s: 1800\nevaluations: 4\nbatch: 2\nbootstrap_draws: 100\n")
    (folder / "quick.yaml").write_text("aging: {threshold_s: 5}\n")
    (folder / "strict.yaml").write_text(TRAFFIC + "aging: {enabled: false}\n")
    (folder / "tiny.yaml").write_text(TINY)
    return folder


def lab(data: Path, *arguments: str) -> list[str]:
    return ["lab", "--data", str(data), "--here", *arguments]


class Tags(HTMLParser):
    """Parser that checks that every tag is closed, and collects tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        for name, value in attrs:
            assert name not in ("src", "href"), value

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(path: Path) -> Tags:
    tags = Tags()
    tags.feed(path.read_text())
    assert tags.open == []
    return tags


def test_history_is_replayed_and_compared(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    arguments = ("replay", "--events", str(data), "--policy", str(data / "strict.yaml"), "--html", str(out))
    result = runner.invoke(app, lab(data, *arguments, "--json"))
    assert result.exit_code == Exit.DONE, result.stderr
    report = json.loads(result.stdout)
    assert report["fidelity"]["faithful"]
    assert [policy["name"] for policy in report["policies"]] == ["in force", "strict"]
    changed = {(one["priority"], one["metric"]): one for one in report["policies"][1]["differences"]}
    assert changed["Info", "boosts"]["before"] > 0
    assert changed["Info", "boosts"]["after"] == 0
    tags = page(out)
    assert "svg" in tags.seen
    assert "Differences under strict" in tags.text
    again = runner.invoke(app, lab(data, *arguments))
    assert again.exit_code == Exit.DONE
    assert report["id"] in again.stdout
    assert "boosts" in again.stdout
    kept = data / "lab" / "reports" / report["id"]
    assert yaml.safe_load((kept / "policies" / "strict.yaml").read_text())["aging"] == {"enabled": False}


def test_history_is_searched(data: Path) -> None:
    wishes = ("--objective", "Info.boosts", "--objective", "Critical.p99_s", "--vary", "aging.threshold_s=10..3000")
    before = ("--data", str(data), "lab", "--here")
    result = runner.invoke(app, [*before, "search", *wishes, "--evaluations", "3", "--json"])
    assert result.exit_code == Exit.DONE, result.stderr
    report = json.loads(result.stdout)
    assert report["fidelity"]["faithful"]
    rare = max(report["search"]["evaluations"], key=lambda one: one["values"]["aging.threshold_s"])
    often = min(report["search"]["evaluations"], key=lambda one: one["values"]["aging.threshold_s"])
    assert rare["objectives"]["Info.boosts"] < often["objectives"]["Info.boosts"], (
        "who has to wait longer is raised less often"
    )


def test_an_unfaithful_replay_is_refused_with_a_report(data: Path, tmp_path: Path) -> None:
    strict = tmp_path / "strict.yaml"
    strict.write_text("window_s: 1800\nlatency_distance_max: 0\nclosed_outcomes_min: 1\nclock_s: 600\nthink_max_s: 1\n")
    arguments = ("--settings", str(strict), "replay", "--events", str(data), "--policy", str(data / "quick.yaml"))
    result = runner.invoke(app, lab(data, *arguments, "--json"))
    assert result.exit_code == Exit.REFUSED
    assert "E_LAB_001" in result.stderr
    report = json.loads(result.stdout)
    assert not report["fidelity"]["faithful"]
    assert len(report["policies"]) == 1


def test_a_scenario_is_played(data: Path) -> None:
    arguments = ("scenario", str(data / "tiny.yaml"), "--policy", str(data / "quick.yaml"), "--json")
    result = runner.invoke(app, lab(data, *arguments))
    assert result.exit_code == Exit.DONE, result.stderr
    report = json.loads(result.stdout)
    assert report["fidelity"] is None
    assert [policy["name"] for policy in report["policies"]] == ["defaults", "quick"]
    assert report["windows"] == ["run-1", "run-2"]


def test_the_tables_of_a_scenario_fit_and_name_no_unit_that_their_values_do_not_have(data: Path) -> None:
    arguments = ("scenario", str(data / "tiny.yaml"), "--policy", str(data / "quick.yaml"))
    result = runner.invoke(app, lab(data, *arguments))
    assert result.exit_code == Exit.DONE, result.stderr
    *lines, _ = result.stdout.rstrip().splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert "_s" not in "".join(lines)
    first = [line.split() for line in lines[lines.index("defaults") + 1 :]]
    assert first[0] == ["figure", "Coordinate", "Info", "all"]
    assert [row[0] for row in first[1:4]] == ["sent", "median", "p95"]


def test_the_example_is_a_scenario(data: Path) -> None:
    result = runner.invoke(app, lab(data, "scenario", "--example"))
    assert parse_scenario(result.stdout).agents == 12


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("teams: {ann: {agent: 3}}", "agent"),
        ("loads: [{from: eve, to: bob}]", "there is no team or agent eve"),
        ("loads: [{from: ann, to: bob, priority: LOUD}]", "'LOUD' is not a priority"),
        ("teams: {ann: {agents: 200000}, bob: {}}", "the limit is 100000"),
        ("loads: [{from: ann, to: bob, per_s: 1000000}]", "messages are too many"),
    ],
)
def test_a_wrong_scenario_is_told(data: Path, tmp_path: Path, changed: str, said: str) -> None:
    document = yaml.safe_load(TINY) | yaml.safe_load(changed)
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(document))
    result = runner.invoke(app, lab(data, "scenario", str(tmp_path / "wrong.yaml")))
    assert result.exit_code == Exit.REFUSED
    assert said in result.stderr.replace("\n", " ")


def test_a_search_draws_its_front(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = runner.invoke(
        app,
        lab(
            data,
            *("search", "--scenario", str(data / "tiny.yaml"), "--html", str(out), "--json"),
            *("--objective", "Coordinate.p99_s", "--objective", "Info.expired"),
            *("--vary", "aging.threshold_s=2..60", "--vary", "ttl.StatusUpdate=5..600"),
        ),
    )
    assert result.exit_code == Exit.DONE, result.stderr
    report = json.loads(result.stdout)
    assert len(report["search"]["evaluations"]) == 4
    assert any(one["on_front"] for one in report["search"]["evaluations"])
    assert "Pareto front" in page(out).text


def test_a_mistake_is_told(data: Path) -> None:
    search = ("search", "--scenario", str(data / "tiny.yaml"), "--objective", "p99_s")
    result = runner.invoke(app, lab(data, *search, "--vary", "aging.treshold_s=1..2"))
    assert (result.exit_code, "did you mean aging.threshold_s" in result.stderr) == (Exit.REFUSED, True)
    result = runner.invoke(app, lab(data, "replay", "--events", str(data / "nothing")))
    assert (result.exit_code, "no events in" in result.stderr) == (Exit.NOT_FOUND, True)
    result = runner.invoke(app, lab(data, "replay", "--since", "yesterday"))
    assert result.exit_code == Exit.USAGE
    result = runner.invoke(app, lab(data, "scenario"))
    assert result.exit_code == Exit.USAGE
    result = runner.invoke(app, lab(data, "apply", "lab-000000000000", "quick"))
    assert result.exit_code == Exit.NOT_FOUND
    result = runner.invoke(app, lab(data, "apply", "../../etc", "quick"))
    assert result.exit_code == Exit.NOT_FOUND


def test_a_policy_of_a_report_is_applied_with_its_id_as_the_reason(data: Path, tmp_path: Path) -> None:
    arguments = ("scenario", str(data / "tiny.yaml"), "--policy", str(data / "quick.yaml"), "--json")
    result = runner.invoke(app, lab(data, *arguments))
    report = json.loads(result.stdout)
    home = tmp_path / "hub"
    home.mkdir(mode=0o700)
    with RunningHub(home) as hub:
        before = hub.json("policy", "show")["version"]
        folder = str(data / "lab")
        unknown = hub.run("lab", "--folder", folder, "apply", report["id"], "nosuch", "--yes")
        assert unknown.returncode == Exit.NOT_FOUND
        assert hub.json("lab", "--folder", folder, "apply", report["id"], "quick", "--yes")["version"] == before + 1
        shown = hub.json("policy", "show")
        assert (shown["version"], shown["policy"]["aging"]["threshold_s"]) == (before + 1, 5)
    (source,) = find_source(next(home.rglob("journal.db")))
    adopted = [event for _, event in read_events(source) if isinstance(event, ev.PolicyAdopted)]
    assert adopted[-1].reason == f"{report['id']}: quick"


def test_a_project_in_postgresql_is_replayed(data: Path, postgres: Server, tmp_path: Path) -> None:
    name = f"lab_{secrets.token_hex(6)}"
    journal = PostgresJournal(postgres.database(name), "p", hub="owner")
    log = EventLog(journal)
    events = busy(1500, per_day=30_000)
    for start in range(0, len(events), 100):
        log.append(events[start : start + 100])
    url = f"postgresql://tocsin@/{name}?host={postgres.folder}"
    try:
        reports: list[dict[str, Any]] = []
        for source in (url, str(data)):
            asked = lab(data, "replay", "--events", source, "--project", "p", "--json")
            asked[3:3] = ["--folder", str(tmp_path / str(len(reports)))]
            done = runner.invoke(app, asked)
            assert done.exit_code == Exit.DONE, done.output
            reports.append(json.loads(done.stdout))
        assert reports[0]["fidelity"]["messages"] > 100
        assert reports[0]["fidelity"] == reports[1]["fidelity"]
        assert reports[0]["policies"] == reports[1]["policies"]
        done = runner.invoke(app, lab(data, "replay", "--events", url, "--project", "q"))
        assert done.exit_code == Exit.NOT_FOUND
        assert "there is no project q; known projects: p" in done.output
    finally:
        journal.close()
