"""Other engines read the tables as they lie: the code of the how-to page, run on tables of a small history."""

import re
from pathlib import Path

import duckdb
import polars
import pytest

from tests.pipeline.traffic import simulated, write_segments
from tests.pipeline.without_spark import without_spark
from tocsin.pipeline.catalogue import open_tables, open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.lake.compaction import Housekeeping, compact
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "pipeline.md"


def documented() -> list[str]:
    """Return the examples of the page's section."""
    section = PAGE.read_text(encoding="utf-8").split("## Read the tables with other engines")[1].split("\n## ")[0]
    return re.findall(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def home(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data directory `.tocsin` and tables in it, of two batches."""
    home = tmp_path_factory.mktemp("home")
    landing, house = home / ".tocsin" / "segments", open_warehouse(home / ".tocsin" / "warehouse", settings)
    events, _ = simulated(41, 200)
    for part in write_segments(home / "away", "a b", events, len(events) // 2 + 1):
        target = landing / part.relative_to(home / "away")
        target.parent.mkdir(parents=True, exist_ok=True)
        part.rename(target)
        with without_spark() as nothing:
            run(nothing, house, landing)
    return home


@pytest.fixture
def house(home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.chdir(home)
    return open_warehouse(home / ".tocsin" / "warehouse", settings)


def run_example(code: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102
    return names


@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("number", range(3))
def test_the_examples_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    examples = documented()
    assert len(examples) == 3
    run_example(examples[number])
    assert ("message_type" in capsys.readouterr().out) == (number < 2)


@pytest.mark.parametrize("compacted", [False, True])
def test_the_numbers_are_those_of_our_own_reader(house: Warehouse, *, compacted: bool) -> None:
    if compacted:
        compact(house, Housekeeping())
    with open_tables(house, names=()) as tables:
        mine = tables.execute("SELECT sum(messages) FROM message_hour").fetchall()[0][0]
        states = sorted(
            tables.execute("SELECT message_type, state, count(*) FROM message_life GROUP BY ALL").fetchall()
        )
        kinds = sorted(tables.execute("SELECT kind, count(*) FROM event GROUP BY ALL").fetchall())
    hours = polars.scan_delta(house.storage.uri("message_hour")).collect()
    assert hours["messages"].sum() == mine
    assert set(hours["project"]) == {"a b"}
    messages = run_example(documented()[1])["messages"]  # noqa: F841
    counted = duckdb.sql("SELECT message_type, state, count(*) FROM messages GROUP BY ALL")
    assert counted is not None
    assert sorted(counted.fetchall()) == states
    events = polars.scan_delta(house.storage.uri("event")).group_by("kind").len().collect()
    assert sorted(events.rows()) == kinds
