"""A Spark session that takes nothing from the user: Java, Python, host, time zone, logs and scratch space are set here.

`local` Spark runs in this process's own JVM. With `master` or `remote` the same jobs run on a cluster, or through Spark
Connect; whatever is said as `conf` goes through unchanged and wins over what is set here. Nothing in the pipeline uses
`sparkContext`, which Connect does not have.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.engine.java import class_archive, find_java, launcher
from tocsin.pipeline.settings import Settings

__all__ = ["SparkOptions", "few_rows", "spark_session"]

_LOOPBACK = "127.0.0.1"
#: How plans are carried out that see few rows: as they stand and in one part. Compiling them, and planning them anew as
#: they run, costs more than it saves.
_FEW = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
#: What those are otherwise, where nobody has said anything.
_MANY = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


class SparkOptions(msgspec.Struct, frozen=True):
    """Where Spark runs, and what was said about it."""

    #: A Spark master, such as `local[4]` or `spark://host:7077`.
    master: str = "local[*]"
    #: A Spark Connect server, `sc://host:port`; it wins over `master`.
    remote: str | None = None
    #: Configuration that goes through as it is.
    conf: dict[str, str] = {}
    #: `auto`, `bundled`, or where a Java is.
    java: str = "auto"
    #: Where Spark keeps what it spills and shuffles; a folder of its own is made and removed in it.
    scratch: Path | None = None


@contextmanager
def spark_session(options: SparkOptions, settings: Settings) -> Iterator[SparkSession]:
    """Open a session, and close it with all that it left in scratch."""
    if options.remote is not None:
        builder = SparkSession.builder.remote(options.remote)
        for name, value in {**_query_conf(settings), **options.conf}.items():
            builder = builder.config(name, value)
        spark = builder.create()
        try:
            yield spark
        finally:
            spark.stop()
        return
    scratch = Path(tempfile.mkdtemp(prefix="tocsin-spark-", dir=options.scratch))
    try:
        spark = _local(options, settings, scratch)
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def few_rows(spark: SparkSession, settings: Settings, rows: int) -> Iterator[None]:
    """Carry out plans without preparations for a while, if few rows are to be seen; what a user has set stays."""
    usual = {**_MANY, **_query_conf(settings)}
    ours = [name for name in _FEW if rows <= settings.few_rows_max and spark.conf.get(name, usual[name]) == usual[name]]
    for name in ours:
        spark.conf.set(name, _FEW[name])
    try:
        yield
    finally:
        for name in ours:
            spark.conf.set(name, usual[name])


def _local(options: SparkOptions, settings: Settings, scratch: Path) -> SparkSession:
    java = find_java(options.java)
    os.environ["JAVA_HOME"] = str(launcher(java))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.pop("SPARK_REMOTE", None)
    os.environ["SPARK_LOCAL_DIRS"] = str(scratch)
    quiet = resources.files("tocsin.pipeline.engine").joinpath("log4j2.properties")
    jvm = [f"-Dlog4j2.configurationFile=file:{quiet}", f"-Djava.io.tmpdir={scratch}", "-XX:-UsePerfData"]
    # Spark writes long methods for wide tables; without this, Java would interpret them for ever.
    jvm.append("-XX:-DontCompileHugeMethods")
    jvm += class_archive(java, jvm, make=settings.class_archive)
    conf = {
        "spark.app.name": "tocsin",
        "spark.master": options.master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.memory": f"{settings.driver_memory_mib}m",
        "spark.driver.extraJavaOptions": " ".join(jvm),
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.shuffle.compress": "true",
        "spark.io.compression.codec": "lz4",
        **_query_conf(settings),
    }
    if options.master.startswith("local") or f"//{_LOOPBACK}" in options.master:
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
        conf |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    said = options.conf.get("spark.driver.extraJavaOptions")
    conf |= options.conf
    if said is not None:
        conf["spark.driver.extraJavaOptions"] = " ".join([*jvm, said])
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _query_conf(settings: Settings) -> dict[str, str]:
    """Return what can be set for one session, on any Spark."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.files.maxPartitionBytes": str(settings.scan_bytes_per_task),
        "spark.sql.adaptive.enabled": "true",
        # How large a table is that comes out of compressed columns, only its shuffle tells: files of a few megabytes
        # have been seen to fill the driver's memory. What is known to be small says so itself.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": str(settings.broadcast_bytes_max),
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": str(settings.listing_threshold),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
