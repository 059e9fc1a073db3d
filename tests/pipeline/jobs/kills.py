"""A small history, its tables, and the check of tables that were made by jobs that were killed."""

from pathlib import Path

import pytest

from tests.pipeline.jobs.tables import contents
from tests.pipeline.jobs.test_run import wrong
from tests.pipeline.traffic import simulated, write_segments
from tests.pipeline.without_spark import without_spark
from tocsin.pipeline.catalogue import VIEWS, open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.verify import verify
from tocsin.pipeline.lake.compaction import Housekeeping, compact, vacuum
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings

__all__ = ["check", "expected", "segments"]

#: Stored tables whose rows do not depend on how events came, and a view of each subject.
NAMES = ("event", "message_life", "occurrence", "traffic", "delivery_sla", "agent_session", "thread", "policy_span")
assert set(NAMES[3:]) <= {view.name for view in VIEWS}


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landing zone with a history of two days."""
    landing = tmp_path_factory.mktemp("segments")
    write_segments(landing, "p", simulated(31, 250)[0], 400)
    return landing


@pytest.fixture(scope="module")
def expected(settings: Settings, segments: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The tables that a run in a folder makes, without a kill."""
    warehouse = open_warehouse(tmp_path_factory.mktemp("expected"), settings)
    with without_spark() as nothing:
        run(nothing, warehouse, segments)
    return contents(warehouse, *NAMES)


def check(house: Warehouse, zone: str, expected: dict[str, list[str]]) -> None:
    """Check the tables after compaction, and that nothing is left over."""
    assert wrong(verify(house, zone, ())) == []
    done = Housekeeping()
    compact(house, done)
    vacuum(house, done)
    state = house.current()
    assert sorted(house.data_files()) == sorted(file.path for name in state.tables for file in state.files(name))
    assert house.storage.listed("_partial") == {}
    assert contents(house, *NAMES) == expected
