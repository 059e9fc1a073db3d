"""The lab's tests use the pipeline's Spark: one for all tests of a process."""

from tests.pipeline.conftest import settings, spark

__all__ = ["settings", "spark"]
