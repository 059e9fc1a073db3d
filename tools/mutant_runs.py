"""Run mutants against the tests that reach them: collect once, then fork a process for each mutant.

`tools/mutants.py` starts this in the folder in which mutmut has put the mutants and its statistics, with the names of
the mutants on standard input, one on each line. The quickest tests run first, and the first failure ends a run. The
last line of the output is one JSON object: the exit code of each mutant, as mutmut has them.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Runs"]

#: mutmut asks here which mutant to run; it is installed only where mutants are made.
TRAMPOLINE: Any = import_module("mutmut.mutation.trampoline")

SURVIVED, KILLED, UNTESTED = 0, 1, 33
#: Processor time that a test may take beside ten times what it took before, seconds; then the mutant is in a loop.
CPU_S = 20
#: Name of no mutant, and number of tests that are run without one.
CONTROL, CONTROL_TESTS = "", 300
#: Memory that a run may take: a loop that adds to a list ends there.
MEMORY_BYTES = 4 << 30


class Runs:
    """Pytest plugin that runs mutants in place of the collected tests."""

    def __init__(self, mutants: list[str], statistics: Path, jobs: int) -> None:
        found = json.loads(statistics.read_text(encoding="utf-8"))
        self._reached: dict[str, list[str]] = found["tests_by_mangled_function_name"]
        self._took: dict[str, float] = found["duration_by_test"]
        self._mutants = mutants
        self._jobs = jobs
        self._running: dict[int, str] = {}
        #: Exit code of each mutant.
        self.codes: dict[str, int] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run every mutant, after a control without a mutant, which must pass."""
        items = {item.nodeid: item for item in session.items}
        reached = {item.nodeid: item for mutant in self._mutants for item in self._chosen(mutant, items)}
        quickest = sorted(reached.values(), key=lambda item: self._took.get(item.nodeid, 0.0))[:CONTROL_TESTS]
        self._start(session, CONTROL, quickest)
        self._wait()
        if self.codes.pop(CONTROL) != SURVIVED:
            pytest.exit("the tests fail without a mutant", returncode=1)
        for mutant in self._mutants:
            chosen = list(self._chosen(mutant, items))
            if not chosen:
                self.codes[mutant] = UNTESTED
                continue
            if len(self._running) >= self._jobs:
                self._wait()
            self._start(session, mutant, chosen)
        while self._running:
            self._wait()
        return True

    def _start(self, session: pytest.Session, mutant: str, chosen: list[pytest.Item]) -> None:
        process = os.fork()
        if not process:
            self._run(session, mutant, chosen)
        self._running[process] = mutant

    def _chosen(self, mutant: str, items: dict[str, pytest.Item]) -> Iterator[pytest.Item]:
        """Yield the tests that reach the function of a mutant, the quickest first."""
        reached = self._reached.get(mutant.rpartition("__mutmut_")[0], [])
        for name in sorted(reached, key=lambda name: (self._took.get(name, 0.0), name)):
            if name in items:
                yield items[name]

    def _wait(self) -> None:
        process, status = os.wait()
        mutant = self._running.pop(process)
        self.codes[mutant] = os.waitstatus_to_exitcode(status)
        print(f"{len(self.codes)} of {len(self._mutants)}: {mutant} {self.codes[mutant]}", file=sys.stderr, flush=True)

    def _run(self, session: pytest.Session, mutant: str, chosen: list[pytest.Item]) -> None:
        """Run tests against a mutant until one fails; this process ends then."""
        code = KILLED
        try:
            TRAMPOLINE.get_mutant_under_test = lambda: mutant
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                self._limit_processor(self._took.get(item.nodeid, 0.0))
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
            else:
                code = SURVIVED
        finally:
            os._exit(code)

    def _limit_processor(self, took_s: float) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + CPU_S + 10 * took_s)
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def main(tests: list[str]) -> int:
    """Run the mutants that standard input names."""
    here = Path.cwd()
    sys.path[:0] = [str(here), str(here / "src")]
    runs = Runs(sys.stdin.read().split(), here / "mutmut-stats.json", os.cpu_count() or 1)
    options = ["-q", "-x", "-s", "--rootdir=.", "-p", "no:xdist", "-p", "no:cacheprovider"]
    ended = pytest.main([*options, *tests], plugins=[runs])
    if ended:
        return int(ended)
    source = Path(str(sys.modules["tocsin"].__file__))
    if not source.is_relative_to(here):
        print(f"the tests ran against {source}, which is not mutated", file=sys.stderr)
        return 1
    print(json.dumps(runs.codes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
