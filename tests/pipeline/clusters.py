"""Spark services from the pip package, on loopback: a standalone cluster and a Connect server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pyspark

from tocsin.pipeline.engine.java import find_java, launcher

__all__ = ["QUICK", "QUICK_JVM", "QUICK_WORDS", "Cluster", "Service", "connect_server", "tocsin_pipeline"]

#: Options for a JVM that runs for seconds: without the second compiler and the parallel collector it takes less of the
#: processor.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Spark options for few rows: code generation and adaptive planning cost more than they save.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": QUICK_JVM,
}
#: The same as words of the command line.
QUICK_WORDS = tuple(word for name, value in QUICK.items() for word in ("--conf", f"{name}={value}"))

_START_S = 180.0
_SPARK = Path(pyspark.__file__).parent


class Service:
    """One Spark process, with its children."""

    def __init__(self, folder: Path, name: str, *command: str) -> None:
        self._log = folder / f"{name}.log"
        environment = {
            **os.environ,
            "JAVA_HOME": str(launcher(find_java())),
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "768m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
            "SPARK_LAUNCHER_OPTS": QUICK_JVM,
        }
        with self._log.open("wb") as log:
            arguments = [str(_SPARK / "bin" / "spark-class"), *command]
            self._process = subprocess.Popen(  # noqa: S603
                arguments, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def port_of(self, name: str) -> int:
        """Wait until a server of the process listens, and return the port that it got."""
        told = re.compile(rf"Successfully started service '{re.escape(name)}' on port (\d+)")
        deadline = time.monotonic() + _START_S
        while not (found := told.search(log := self._log.read_text(errors="replace"))):
            assert self._process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.05)
        return int(found[1])

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._process.pid

    def kill(self) -> None:
        """Kill it with all its children."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Cluster:
    """A master and two workers."""

    def __init__(self, folder: Path) -> None:
        arguments = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self._master = Service(folder, "master", "org.apache.spark.deploy.master.Master", *arguments)
        self.workers: list[Service] = []
        try:
            self.url = f"spark://127.0.0.1:{self._master.port_of('sparkMaster')}"
            self._web = self._master.port_of("MasterUI")
            for number in (1, 2):
                options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
                place = ("--work-dir", str(folder / f"worker-{number}"), self.url)
                main = "org.apache.spark.deploy.worker.Worker"
                self.workers.append(Service(folder, f"worker-{number}", main, *options, *place))
            self._wait_for_workers(2)
        except BaseException:
            self.stop()
            raise

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            if len(self._alive()) >= count:
                return
            assert time.monotonic() < deadline, "the workers do not come up"
            time.sleep(0.05)

    def _alive(self) -> list[str]:
        """Return the workers that are registered.

        Before the master has attached this page, nothing or another page answers.
        """
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=10) as answer:
                return [worker["id"] for worker in json.load(answer)["workers"] if worker["state"] == "ALIVE"]
        except (urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError):
            return []

    def stop(self) -> None:
        for service in (*self.workers, self._master):
            service.kill()


def connect_server(folder: Path) -> tuple[Service, str]:
    """Start a Connect server; return it with its address."""
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "768m",
        **QUICK,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
    }
    said = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = ("org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", *said, "--class", main, "spark-internal")
    server = Service(folder, "connect", *command)
    try:
        port = server.port_of("org.apache.spark.sql.connect.service.SparkConnectService")
    except BaseException:
        server.kill()
        raise
    return server, f"sc://127.0.0.1:{port}"


def tocsin_pipeline(*arguments: str) -> subprocess.Popen[str]:
    """Start the command line in a separate process."""
    command = [sys.executable, "-m", "tocsin", "pipeline", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
