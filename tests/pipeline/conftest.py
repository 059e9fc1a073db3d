"""One local Spark for all tests of a process, and one S3 server for those that ask for it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.conftest import S3_SOCKET
from tests.pipeline.clusters import QUICK
from tests.pipeline.s3 import S3Server
from tests.pipeline.without_spark import without_spark
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.engine.spark import SparkOptions, spark_session
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings, load_settings


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The default settings, reduced for tests."""
    return msgspec.structs.replace(load_settings(), driver_memory_mib=1024, class_archive=False, vacuum_after_h=0)


@pytest.fixture(scope="session")
def s3_server(pytestconfig: pytest.Config) -> Iterator[S3Server]:
    server = S3Server(pytestconfig.stash[S3_SOCKET])
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, tmp_path: Path) -> str:
    """A URL below which there is nothing yet."""
    return f"{s3_server.url}/{tmp_path.name}"


@pytest.fixture(scope="session")
def spark(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    options = SparkOptions(master="local[2]", conf=QUICK, scratch=tmp_path_factory.mktemp("spark"))
    with spark_session(options, settings) as session:
        yield session


@pytest.fixture
def no_spark() -> Iterator[SparkSession]:
    """Stands for a session: the tasks of jobs run in this process."""
    with without_spark() as nothing:
        yield nothing


@pytest.fixture
def warehouse(tmp_path: Path, settings: Settings) -> Warehouse:
    return open_warehouse(tmp_path / "warehouse", settings)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "segments"
    folder.mkdir()
    return folder
