"""One local Spark for all tests of a process, with one shuffle partition."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.engine.spark import SparkOptions, spark_session
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings, load_settings

#: Spark options for few rows: code generation and adaptive planning cost more than they save.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The default settings, reduced for tests."""
    return msgspec.structs.replace(
        load_settings(), driver_memory_mib=1024, shuffle_partitions=1, class_archive=False, vacuum_after_s=0
    )


@pytest.fixture(scope="session")
def spark(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    options = SparkOptions(master="local[2]", conf=QUICK, scratch=tmp_path_factory.mktemp("spark"))
    with spark_session(options, settings) as session:
        yield session


@pytest.fixture
def warehouse(tmp_path: Path, settings: Settings) -> Warehouse:
    return open_warehouse(tmp_path / "warehouse", settings)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "segments"
    folder.mkdir()
    return folder
