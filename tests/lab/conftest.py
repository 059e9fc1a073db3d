"""Fixtures of the lab's tests: the Spark session of the pipeline's tests."""

from tests.pipeline.conftest import settings, spark

__all__ = ["settings", "spark"]
