"""The commands that read tables, with segments and tables on S3."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.pipeline.rows import DAY, Given, T, opened
from tocsin.cli.commands import app
from tocsin.cli.remote import Exit
from tocsin.pipeline.catalogue import COLUMNS, open_warehouse
from tocsin.pipeline.lake.parquet_writer import Target
from tocsin.pipeline.lake.release import Batch, ProjectMark
from tocsin.pipeline.settings import Settings


@pytest.fixture
def lake(s3: str, settings: Settings) -> str:
    """Tables on S3 with two recalls."""
    house = open_warehouse(f"{s3}/lake", settings)
    rows = [{"project": "p", "date": DAY, "seq": seq, "kind": "MessageRecalled", "us": T + seq} for seq in (1, 2)]
    with opened(Given("occurrence", rows), only=[]) as tables:
        target = Target(house.storage.url, house.new_batch())
        written = target.write(tables, "occurrence", COLUMNS["occurrence"], "SELECT * FROM occurrence")
    projects = {"p": ProjectMark(covered=[(1, 2)])}
    house.commit(house.current(), Batch(0, "refresh", 0, 0.1), {"occurrence": written}, projects=projects)
    return f"{s3}/lake"


def test_tables_on_s3_are_asked_and_extracted(lake: str, s3: str, tmp_path: Path) -> None:
    common = ["pipeline", "--data", str(tmp_path), "--segments", f"{s3}/segments", "--warehouse", lake]

    def told(*command: str) -> Any:
        answer = CliRunner().invoke(app, [*common, *command, "--json"])
        assert answer.exit_code == Exit.DONE, answer.stderr
        return json.loads(answer.stdout)

    assert told("query", "SELECT outcome, recalls FROM recall") == [{"outcome": "recalled", "recalls": 2}]
    status = told("status")
    assert (status["version"], status["tables"]["occurrence"]["rows"], status["lag"]["segments"]) == (1, 2, 0)
    assert told("extract")["rows"]["recall"] == 1
    assert (tmp_path / "warehouse" / "_extract" / "index.json").exists(), "the dashboard looks for it here"
    assert told("compact")["files_before"] == 0
    wrong = CliRunner().invoke(app, [*common, "query", "SELECT * FROM read_csv('/etc/passwd')"])
    assert wrong.exit_code == Exit.USAGE
