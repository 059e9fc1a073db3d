"""The pipeline's commands, as far as they need no Spark; those that do are in tests/pipeline."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.pipeline.rows import DAY, Given, T, opened
from tests.pipeline.test_message_life import STORY
from tests.pipeline.traffic import write_segment
from tocsin.cli.commands import app
from tocsin.cli.remote import Exit
from tocsin.pipeline.catalogue import COLUMNS, VIEWS, open_warehouse
from tocsin.pipeline.lake.parquet_writer import Target
from tocsin.pipeline.lake.release import Batch, ProjectMark
from tocsin.pipeline.settings import load_settings

runner = CliRunner()


def test_status_of_nothing(tmp_path: Path) -> None:
    told = runner.invoke(app, ["pipeline", "--data", str(tmp_path), "status", "--json"])
    assert told.exit_code == Exit.DONE
    answer = json.loads(told.stdout)
    assert (answer["version"], answer["lag"]["segments"], answer["tables"]) == (0, 0, {})


@pytest.mark.parametrize("command", [("pipeline", "--data", "{}"), ("--data", "{}", "pipeline")])
def test_status_says_what_waits(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = write_segment(tmp_path / "segments", "p", 1, STORY)
    told = runner.invoke(app, [*(word.format(tmp_path) for word in command), "status"])
    assert told.exit_code == Exit.DONE
    assert f"lag: 1 segments ({path.stat().st_size} bytes)" in told.stdout


@pytest.mark.parametrize("command", ["run", "stream"])
def test_a_setting_for_spark_has_a_name_and_a_value(tmp_path: Path, command: str) -> None:
    told = runner.invoke(app, ["pipeline", "--data", str(tmp_path), "--conf", "spark.x", command])
    assert told.exit_code == Exit.USAGE
    assert "NAME=VALUE" in told.stderr


def test_wrong_settings_are_told(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text("hot: 3")
    told = runner.invoke(app, ["pipeline", "--data", str(tmp_path), "status"])
    assert told.exit_code == Exit.FAILED
    assert "hot" in told.stderr


def test_no_java_is_told(tmp_path: Path) -> None:
    told = runner.invoke(app, ["pipeline", "--data", str(tmp_path), "--java", "/nowhere", "run"])
    assert told.exit_code == Exit.FAILED
    assert "/nowhere is not a Java" in told.stderr


@pytest.mark.parametrize("command", ["report", "advise"])
def test_a_day_is_written_as_one(tmp_path: Path, command: str) -> None:
    told = runner.invoke(app, ["pipeline", "--data", str(tmp_path), command, "--since", "yesterday"])
    assert told.exit_code == Exit.USAGE
    assert "--since yesterday is not a date: use YYYY-MM-DD" in told.stderr


@pytest.mark.parametrize("option", ["--segments", "--warehouse"])
def test_a_storage_that_is_not_known_is_an_error(tmp_path: Path, option: str) -> None:
    told = runner.invoke(app, ["pipeline", "--data", str(tmp_path), option, "s4://bucket/tables", "status"])
    assert told.exit_code == Exit.USAGE
    assert "there is no storage s4://" in told.stderr
    here = runner.invoke(app, ["pipeline", "--data", str(tmp_path), option, f"file://{tmp_path}/x", "status"])
    assert here.exit_code == Exit.DONE


@pytest.fixture
def recalled(tmp_path: Path) -> Path:
    """A data directory whose tables have two recalls."""
    warehouse = open_warehouse(tmp_path / "warehouse", load_settings())
    rows = [{"project": "p", "date": DAY, "seq": seq, "kind": "MessageRecalled", "us": T + seq} for seq in (1, 2)]
    with opened(Given("occurrence", rows), only=[]) as tables:
        target = Target(warehouse.storage.url, warehouse.new_batch())
        written = target.write(tables, "occurrence", COLUMNS["occurrence"], "SELECT * FROM occurrence")
    projects = {"p": ProjectMark(covered=[(1, 2)])}
    warehouse.commit(warehouse.current(), Batch(0, "refresh", 0, 0.1), {"occurrence": written}, projects=projects)
    return tmp_path


def test_tables_and_views_are_asked_by_name(recalled: Path) -> None:
    def asked(*arguments: str) -> Any:
        told = runner.invoke(app, ["pipeline", "--data", str(recalled), "query", *arguments, "--json"])
        assert told.exit_code == Exit.DONE, told.stderr
        return json.loads(told.stdout)

    assert asked("SELECT outcome, recalls FROM recall;") == [{"outcome": "recalled", "recalls": 2}]
    assert asked("SELECT count(*) AS rows FROM occurrence") == [{"rows": 2}]
    assert asked("SELECT seq FROM occurrence ORDER BY seq", "--limit", "1") == [{"seq": 1}]
    assert {row["name"] for row in asked()} == {*COLUMNS, *(view.name for view in VIEWS)}
    shown = runner.invoke(app, ["pipeline", "--data", str(recalled), "query", "--show", "recall"])
    assert "FROM occurrence" in shown.stdout


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM nothing", "nothing"),
        ("DROP VIEW recall", "the query failed"),
        ("SELECT * FROM read_csv('/etc/passwd')", "the query failed"),
    ],
)
def test_a_query_reads_tables_and_nothing_else(recalled: Path, query: str, reason: str) -> None:
    told = runner.invoke(app, ["pipeline", "--data", str(recalled), "query", query])
    assert told.exit_code == Exit.USAGE
    assert reason in told.stderr


@pytest.mark.parametrize("command", [["report", "{}/out.html"], ["advise"], ["verify"], ["extract"]])
def test_readers_start_no_java(recalled: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.pipeline.engine.spark.find_java", lambda *_: pytest.fail("Java was looked for"))
    told = runner.invoke(app, ["pipeline", "--data", str(recalled), *(word.format(recalled) for word in command)])
    assert told.exit_code in (Exit.DONE, Exit.FAILED if command == ["verify"] else Exit.DONE), told.stderr


def test_a_report_without_a_file_is_one_of_the_dashboards(recalled: Path) -> None:
    told = runner.invoke(app, ["pipeline", "--data", str(recalled), "report"])
    assert told.exit_code == Exit.DONE, told.stderr
    assert "History, Reports" in told.stdout
    folder = recalled / "reports"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    about = json.loads((folder / "report.json").read_text())
    assert (about["title"], about["kind"], about["projects"]) == ("Report of p", "report", ["p"])
