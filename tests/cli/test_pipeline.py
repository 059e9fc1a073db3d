"""The pipeline's commands, as far as they need no Spark; those that do are in tests/pipeline."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.pipeline.test_message_life import STORY
from tests.pipeline.traffic import write_segment
from tocsin.cli.commands import app
from tocsin.cli.remote import Exit

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


@pytest.mark.parametrize("command", ["run", "stream", "verify", "compact"])
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
