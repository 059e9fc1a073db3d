"""Fixtures of the cases with real clients, and what is run of them.

`make clients` sets TOCSIN_CLIENTS_ALL: then every case runs with every version of its clients. Without it, as in `make
test`, only cases that are marked `short` run, each with the newest pinned version of its clients.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.cache import Installed, clients, is_there
from tests.clients.drivers import Client, client_of
from tests.clients.ground import Ground
from tests.clients.table import Table

_ALL = bool(os.environ.get("TOCSIN_CLIENTS_ALL"))
_HERE = Path(__file__).parent
_seen = Table()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "short: a case with real clients that `make test` runs too")
    config.addinivalue_line("markers", "capability(name): the row of the table that a case with real clients fills")
    config.addinivalue_line("markers", "only(*clients): the clients that a case is run with; all by default")


def _chosen(names: tuple[str, ...]) -> list[Installed]:
    """Return the versions of some clients that a case is run with."""
    by_client: dict[str, list[Installed]] = defaultdict(list)
    for one in clients():
        if not names or one.client in names:
            by_client[one.client].append(one)
    return [one for some in by_client.values() for one in (some if _ALL else some[-1:])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a case that takes a client with each of its clients and versions."""
    if "installed" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        metafunc.parametrize("installed", _chosen(only.args if only else ()), ids=str)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not run now; without any client, all cases are skipped."""
    ours = [item for item in items if item.path.is_relative_to(_HERE) and "ground" in getattr(item, "fixturenames", ())]
    left = [] if _ALL else [item for item in ours if item.get_closest_marker("short") is None]
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=left)
    if not is_there():
        for item in ours:
            item.add_marker(pytest.mark.skip(reason="no client in the cache: make clients-install"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note what a case has shown."""
    report = yield
    mark = item.get_closest_marker("capability")
    if mark is not None and report.when == "call" and isinstance(item, pytest.Function):
        outcome = "yes" if report.passed else "no" if hasattr(report, "wasxfail") else "fails"
        installed = item.funcargs["installed"]
        assert isinstance(installed, Installed)
        _seen.note(mark.args[0], installed, outcome, getattr(report, "wasxfail", ""))
    return report


def pytest_sessionfinish() -> None:
    if os.environ.get("TOCSIN_CLIENTS_TABLE"):
        _seen.write()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """A hub with a lead and a developer, who are not connected yet."""
    with Ground(tmp_path) as ground:
        ground.add("lead", "director", "Manager")
        ground.add("dev")
        yield ground
        print(ground.model.summary())  # noqa: T201


@pytest.fixture
def dev(ground: Ground, installed: Installed) -> Client:
    """The developer's client, in the folder of the project."""
    return client_of(installed, ground, "dev")
