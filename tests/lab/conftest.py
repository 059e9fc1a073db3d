"""Fixtures of the lab's tests: the Spark session of the pipeline's tests, and a process that stays frozen."""

import gc
from types import SimpleNamespace

import pytest

from tests.pipeline.conftest import settings, spark
from tocsin.lab.replays import replay

__all__ = ["settings", "spark"]


@pytest.fixture(autouse=True)
def _stay_frozen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what `tests/conftest.py` has frozen out of the collection before each trace.

    A process of the lab has nothing frozen but its last trace. A worker of the tests has all modules and tests, and to
    collect among them takes almost half a second for each trace. `test_prepared_traces.py` tests what is frozen and
    freed, and so has the real thing.
    """
    if request.module.__name__.rpartition(".")[2] != "test_prepared_traces":
        collector = SimpleNamespace(unfreeze=lambda: None, collect=gc.collect, freeze=gc.freeze)
        monkeypatch.setattr(replay, "gc", collector)
