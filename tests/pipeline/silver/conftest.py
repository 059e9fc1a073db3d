from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.quick import uncompiled


@pytest.fixture(autouse=True, scope="package")
def _quick(spark: SparkSession) -> Iterator[None]:
    with uncompiled(spark):
        yield
