"""The Spark session: what it leaves when its command ends."""

from pathlib import Path

from tests.pipeline.cluster_run import LIMIT_S
from tests.pipeline.clusters import QUICK_WORDS, tocsin_pipeline
from tests.pipeline.test_message_life import STORY
from tests.pipeline.traffic import write_segment


def test_a_stream_ends_without_a_word(tmp_path: Path) -> None:
    """Threads of Spark's callbacks that were still running let DuckDB report leaks when Python exits."""
    write_segment(tmp_path / "segments", "p", 1, STORY)
    (tmp_path / "pipeline.yaml").write_text("class_archive: false")
    job = tocsin_pipeline("--data", str(tmp_path), "--master", "local[1]", *QUICK_WORDS, "stream", "--once")
    try:
        out, err = job.communicate(timeout=LIMIT_S)
    finally:
        job.kill()
    assert (job.returncode, err) == (0, ""), out
    assert f"{len(STORY)} events" in out
