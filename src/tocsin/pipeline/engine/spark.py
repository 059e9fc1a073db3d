"""The Spark session, with Java, Python, host, time zone, logging and scratch space configured.

A `local` master runs Spark in a JVM that this process starts. With `master` or `remote` the same jobs run on a cluster,
or through Spark Connect. Options in `conf` are passed to Spark unchanged and override the ones set here. The pipeline
does not use `sparkContext`, which Connect does not have.
"""

import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from tocsin.pipeline.engine.java import class_archive, find_java, launcher
from tocsin.pipeline.engine.processes import PROCESSES
from tocsin.pipeline.settings import Settings

__all__ = ["SparkOptions", "spark_session"]

_LOOPBACK = "127.0.0.1"


class SparkOptions(msgspec.Struct, frozen=True):
    """Where Spark runs, and options for it."""

    #: A Spark master, such as `local[4]` or `spark://host:7077`.
    master: str = "local[*]"
    #: A Spark Connect server, `sc://host:port`; overrides `master`.
    remote: str | None = None
    #: Spark configuration, passed unchanged.
    conf: dict[str, str] = {}
    #: `auto`, `bundled`, or the path of a Java installation.
    java: str = "auto"
    #: Folder for Spark's temporary files; a folder is created in it and removed at the end.
    scratch: Path | None = None


@contextmanager
def spark_session(options: SparkOptions, settings: Settings) -> Iterator[SparkSession]:
    """Open a session; close it and delete its temporary files at the end of the block."""
    if options.remote is not None:
        builder = SparkSession.builder.remote(options.remote)
        for name, value in {**_query_conf(), **options.conf}.items():
            builder = builder.config(name, value)
        spark = builder.create()
        try:
            yield spark
        finally:
            spark.stop()
        return
    scratch = Path(tempfile.mkdtemp(prefix="tocsin-spark-", dir=options.scratch))
    PROCESSES.keep_until_end(scratch)
    try:
        spark = _local(options, settings, scratch)
        try:
            yield spark
        finally:
            spark.stop()
            _end_callbacks()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _local(options: SparkOptions, settings: Settings, scratch: Path) -> SparkSession:
    java = find_java(options.java)
    os.environ["JAVA_HOME"] = str(launcher(java))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.pop("SPARK_REMOTE", None)
    os.environ["SPARK_LOCAL_DIRS"] = str(scratch)
    quiet = resources.files("tocsin.pipeline.engine").joinpath("log4j2.properties")
    jvm = [f"-Dlog4j2.configurationFile=file:{quiet}", f"-Djava.io.tmpdir={scratch}", "-XX:-UsePerfData"]
    # Spark generates long methods for wide tables; without this option Java never compiles them.
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
        **_query_conf(),
    }
    if options.master.startswith("local") or f"//{_LOOPBACK}" in options.master:
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
        conf |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    java_options = options.conf.get("spark.driver.extraJavaOptions")
    conf |= options.conf
    if java_options is not None:
        conf["spark.driver.extraJavaOptions"] = " ".join([*jvm, java_options])
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    with _recorded_jvm():
        return builder.getOrCreate()


def _end_callbacks() -> None:
    """End the threads in which a stream's batches were called, and forget its functions.

    Threads that still run when Python exits keep DuckDB's types alive, which DuckDB reports as leaks. The next stream
    starts the callback server again.
    """
    gateway: Any = SparkContext._gateway
    server = vars(gateway).get("_callback_server")
    if server is None:
        return
    connections = list(server.connections)
    threads = [
        one for one in threading.enumerate() if getattr(vars(one).get("_target"), "__self__", None) in connections
    ]
    for connection in connections:
        # Py4J closes the stream first, and so waits for ever for the lock of the thread that reads it.
        with suppress(OSError, AttributeError):
            connection.socket.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    gateway.shutdown_callback_server()
    gateway._callback_server = None


@contextmanager
def _recorded_jvm() -> Iterator[None]:
    """Let PySpark start its JVM as one of `PROCESSES`."""
    popen = vars(java_gateway)["Popen"]
    vars(java_gateway)["Popen"] = PROCESSES.start
    try:
        yield
    finally:
        vars(java_gateway)["Popen"] = popen


def _query_conf() -> dict[str, str]:
    """Return the options that can be set per session, also through Spark Connect."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
