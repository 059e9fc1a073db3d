"""How tests are given to workers, and the databases that they share."""

import gc
import json
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests import soak
from tests.pipeline.s3 import reserve, s3_environment
from tests.postgres import Server
from tocsin.form import package_form

# How long one example takes depends on the machine.
settings.register_profile("any_speed", deadline=None)
settings.load_profile("any_speed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs tests in the background lets them ignore Ctrl-C, and so would every process that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = Path(__file__).resolve().parent.parent
#: What one worker gets as a whole, because it is slow to start and heavy, and the fixtures that start it.
_SHARED = {"Spark": {"spark"}, "Chromium": {"chromium"}, "clients": {"installed"}}
#: Parameters or imports of a test file that uses it. Files are given to workers whole, before they are imported.
_PARAMETERS = {
    "Spark": re.compile(r"\bspark: SparkSession\b"),
    "Chromium": re.compile(r"\b(chromium|browser|tool_call): "),
    "clients": re.compile(r"^from tests\.clients\.", re.MULTILINE),
}
#: Folders and files whose tests share nothing: each test goes to a worker by itself.
_SPREAD = (
    *("tests/simulation/", "tests/cli/test_nonsense.py", "tests/cli/test_pipeline_run.py", "tests/demo/test_demo.py"),
    *("tests/fleet/test_machines.py", "tests/fleet/test_workers.py", "tests/acceptance/test_crash"),
    *("tests/acceptance/test_failover", "tests/acceptance/test_faults", "tests/acceptance/test_history"),
)
#: What takes longest, which is begun first. While Spark and Chromium compute, the others of these mostly wait.
_LONGEST = (
    *("Spark", "Chromium", "clients", "tests/pipeline/test_cluster", "tests/fleet/test_machines", "tests/demo/"),
    *("tests/cli/test_pipeline_run", "tests/acceptance/test_pairs", "tests/gateways/websocket/test_many"),
    *("tests/gateways/test_fuzz", "tests/core/leases/test_lease_model", "tests/bench/test_hub"),
)
#: What waits for sockets, processes and timers, longer first.
_WAITING = (
    *("tests/acceptance/", "tests/cli/test_storage", "tests/gateways/mcp/", "tests/operations/"),
    *("tests/hub/test_failover", "tests/hub/test_wakers", "tests/fleet/", "tests/cli/", "tests/client/"),
    *("tests/gateways/", "tests/hub/"),
)
#: What computes, longer first; all others do too, and follow by their number of tests.
_COMPUTING = (
    *("tests/pipeline/views/", "tests/pipeline/jobs/", "tests/cli/test_pipeline", "tests/simulation/", "tests/docs/"),
    *("tests/packaging/", "tests/lab/", "tests/stores/", "tests/pipeline/", "tests/bench/"),
)

#: Inputs that a property was tried with, in the words of Hypothesis.
TRIED = re.compile(r"(\d+) (?:passing|failing|invalid)\b")
#: What had been counted before a test.
_BEFORE = pytest.StashKey[int]()

#: The socket of the S3 server of this process.
S3_SOCKET = pytest.StashKey[socket.socket]()


@cache
def _scope_of_file(path: str) -> str:
    text = (_ROOT / path).read_text(encoding="utf-8")
    return next((what for what, pattern in _PARAMETERS.items() if pattern.search(text)), path)


def scope_of(nodeid: str) -> str:
    """Name what one worker gets as a whole: all tests of something heavy, a file, or a test."""
    return nodeid if nodeid.startswith(_SPREAD) else _scope_of_file(nodeid.partition("::")[0])


class _LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker one scope after the other, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """Name the S3 server of this process in the environment: Spark's workers inherit what there is when it starts.

    TOCSIN_FORM names the form of the package that is to be tested, so that another one is not tested by mistake.
    """
    form, wanted = package_form(), os.environ.get("TOCSIN_FORM")
    if wanted and wanted != form:
        raise pytest.UsageError(f"the {wanted} form was to be tested, and the {form} one was imported")
    reserved = config.stash[S3_SOCKET] = reserve()
    config.add_cleanup(reserved.close)
    os.environ.update(s3_environment(reserved))


class _Group:
    """Scopes that begin with some names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.scopes: list[str] = []

    def has(self, scope: str) -> bool:
        return scope.startswith(self._names)

    def turns(self, sizes: Mapping[str, int]) -> list[tuple[float, str]]:
        """Return the scopes in the order of the names and of their sizes, with turns from 0 to 1."""

        def place(scope: str) -> tuple[int, int]:
            ranks = (rank for rank, name in enumerate(self._names) if scope.startswith(name))
            return next(ranks, len(self._names)), -sizes[scope]

        return [((turn + 0.5) / len(self.scopes), scope) for turn, scope in enumerate(sorted(self.scopes, key=place))]


def ordered(sizes: Mapping[str, int]) -> list[str]:
    """Return scopes, given with their numbers of tests, in the order in which they are begun.

    After the longest, what waits and what computes take turns: while one worker waits, another needs its processor.
    """
    longest, waiting, computing = _Group(_LONGEST), _Group(_WAITING), _Group(_COMPUTING)
    for scope in sizes:
        waits = waiting.has(scope) and not computing.has(scope)
        (longest if longest.has(scope) else waiting if waits else computing).scopes.append(scope)
    turns = [turn for group in (computing, waiting) for turn in group.turns(sizes)]
    return [scope for _, scope in (*longest.turns(sizes), *sorted(turns))]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the scopes in their order, and refuse a test that would start something heavy on a second worker."""
    scopes = {item: scope_of(item.nodeid) for item in items}
    places = {scope: place for place, scope in enumerate(ordered(Counter(scopes.values())))}
    for item in items:
        for what, fixtures in _SHARED.items():
            if fixtures & set(getattr(item, "fixturenames", ())) and scopes[item] != what:
                raise pytest.UsageError(f"{item.nodeid} uses {what}, which its file does not show")
    items.sort(key=lambda item: places[scopes[item]])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Exempt what is imported from garbage collection: it stays until the end, and each collection would visit it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Say how tests are given to workers."""
    config.option.loadscopereorder = False
    return _LongestFirst(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Count the inputs that Hypothesis tried, and the tests that counted something and failed."""
    report = yield
    if call.when == "setup":
        item.stash[_BEFORE] = soak.COUNTS.total()
    elif call.when == "call":
        tried = TRIED.findall(getattr(item, "hypothesis_statistics", ""))
        soak.tally("inputs_tried", sum(int(number) for number in tried))
        if report.failed and soak.COUNTS.total() > item.stash[_BEFORE]:
            soak.tally("losses")
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a worker to the process that prints them.

    What was exempt from garbage collection is collected when Python exits: DuckDB reports types that are left as leaks.
    """
    gc.unfreeze()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counts"] = dict(soak.COUNTS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the counts of a worker that has ended."""
    soak.COUNTS.update(getattr(node, "workeroutput", {}).get("counts", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was tried: a table, and one line of JSON."""
    if soak.COUNTS.total():
        terminalreporter.section("tried")
        terminalreporter.write_line("\n".join(soak.summary(soak.COUNTS)))
        terminalreporter.write_line(json.dumps({kind: soak.COUNTS[kind] for kind in soak.KINDS}))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutine tests on asyncio, as the hub and the SDK do."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server that tests share; each makes a database of its own."""
    server = Server()
    try:
        yield server.create()
    finally:
        server.remove()


@pytest.fixture
def replicated() -> Iterator[tuple[Server, Server]]:
    """A primary and its synchronous standby, for one test to break."""
    primary = Server()
    standby: Server | None = None
    try:
        primary.create()
        standby = primary.standby("standby1")
        yield primary, standby
    finally:
        for server in (standby, primary):
            if server is not None:
                server.remove()
