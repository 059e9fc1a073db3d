"""How tests are given to workers: what is heavy to one worker, files whole, independent long tests one by one."""

import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import ordered, pytest_collection_modifyitems, scope_of


def item(nodeid: str, *fixtures: str) -> Any:
    return cast("Any", _Item(nodeid=nodeid, fixturenames=fixtures))


class _Item(SimpleNamespace):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.nodeid)


def test_scopes() -> None:
    assert scope_of("tests/lab/test_runners.py::test_one") == "Spark"
    assert scope_of("tests/dashboard/test_desk.py::test_one[a]") == "Chromium"
    assert scope_of("tests/lab/test_search.py::test_one") == "tests/lab/test_search.py"
    assert scope_of("tests/pipeline/jobs/test_reread.py::test_one") == "tests/pipeline/jobs/test_reread.py"
    for alone in ("tests/simulation/test_simulation.py::test_one[3]", "tests/fleet/test_machines.py::test_one"):
        assert scope_of(alone) == alone


def test_the_longest_scopes_come_first() -> None:
    names = ["tests/test_ids.py::a", "tests/lab/test_search.py::a", "tests/test_docs.py::a", "tests/test_docs.py::b"]
    items = [item(name) for name in [*names, "tests/lab/test_runners.py::a"]]
    pytest_collection_modifyitems(items)
    found = [one.nodeid for one in items]
    assert found == ["tests/lab/test_runners.py::a", names[1], names[2], names[3], names[0]]


def test_what_waits_and_what_computes_take_turns() -> None:
    waiting = ["tests/hub/test_lists.py", "tests/client/test_sync.py", "tests/client/test_parts.py"]
    computing = [
        "tests/test_ids.py",
        "tests/core/test_events.py",
        "tests/lab/test_search.py",
        "tests/cli/test_pipeline.py",
    ]
    sizes = dict.fromkeys([*waiting, *computing, "Spark"], 1)
    found = ordered(sizes | {"tests/client/test_parts.py": 9, "tests/core/test_events.py": 9})
    assert found[0] == "Spark"
    assert [scope for scope in found if scope in waiting] == waiting[::-1]
    assert [scope for scope in found if scope in computing] == computing[::-1]
    assert [scope in waiting for scope in found[1:]] == [False, True, False, True, False, True, False]


def test_a_file_that_hides_its_use_of_spark_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match="uses Spark"):
        pytest_collection_modifyitems([item("tests/test_ids.py::a", "tmp_path", "spark")])


def test_imported_modules_are_exempt_from_garbage_collection() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
