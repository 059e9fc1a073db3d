"""The `stream` job: what `run` does, for each micro-batch of new segments, driven by Structured Streaming.

The stream's source finds new segments and records them in its checkpoint; only the manifest decides whether a segment
is in bronze. A micro-batch that is replayed after a kill finds its segments in the manifest, or ingests them from the
beginning: in both cases each counts once. Segments may arrive in any order and at any time.
"""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.pipeline.bronze.ingest import ingest
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.refresh import refresh
from tocsin.pipeline.lake.manifest import Manifest
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings

__all__ = ["CHECKPOINT", "advance", "start_stream"]

#: Folder of the stream's checkpoint, below the warehouse.
CHECKPOINT = "_checkpoint"
_SOURCE = "path string, modificationTime timestamp, length bigint, content binary"
#: Longest age of a segment that the source still reports; practically unlimited.
_AGE_MAX = "36500d"


def advance(
    spark: SparkSession, root: Path, settings: Settings, landing: Path, paths: list[str], *, wait_s: float | None = None
) -> Manifest:
    """Ingest some segments and refresh all tables."""
    warehouse = open_warehouse(root, settings)
    names = sorted(_relative(path, landing) for path in paths)
    with warehouse.writing(wait_s=wait_s):
        ingest(spark, warehouse, landing, names)
        return refresh(spark, warehouse)


def start_stream(
    spark: SparkSession,
    warehouse: Warehouse,
    landing: Path,
    *,
    every_s: float | None,
    on_commit: Callable[[int, Manifest], None] | None = None,
) -> StreamingQuery:
    """Start a stream over the landing zone: every `every_s` seconds, or without it only the segments there now."""
    root, settings, landing = warehouse.root, warehouse.settings, landing.absolute()

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        paths = [row.path for row in frame.select("path").collect()]
        after = advance(frame.sparkSession, root, settings, landing, paths)
        if on_commit is not None:
            on_commit(batch_id, after)

    segments = (
        spark.readStream.format("binaryFile")
        .schema(_SOURCE)
        .option("pathGlobFilter", "*.ndjson.zst")
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", settings.stream_segments_max)
        .option("maxFileAge", _AGE_MAX)
        .load(str(landing))
    )
    writer = (
        segments.select("path").writeStream.foreachBatch(on_batch).option("checkpointLocation", str(root / CHECKPOINT))
    )
    if every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds").start()


def _relative(path: str, landing: Path) -> str:
    """Return a segment's path below the landing zone from Spark's URL."""
    return Path(unquote(urlsplit(path).path)).relative_to(landing).as_posix()
