"""`stream`: the same as `run`, over and over, driven by Structured Streaming over the landing zone.

The stream's source says which segments are new, and its checkpoint remembers them; whether a segment is in bronze, the
manifest alone decides. A micro-batch that is replayed after a kill finds its segments in the manifest, or does them
again from nothing: either way each counts once. Late segments come whenever they come.
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

#: Where the stream remembers how far it is, below the warehouse.
CHECKPOINT = "_checkpoint"
_SOURCE = "path string, modificationTime timestamp, length bigint, content binary"
#: Segments may come as late as they like.
_AGE_MAX = "36500d"


def advance(
    spark: SparkSession, root: Path, settings: Settings, landing: Path, paths: list[str], *, wait_s: float | None = None
) -> Manifest:
    """Take some segments through all tables."""
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
    told: Callable[[int, Manifest], None] | None = None,
) -> StreamingQuery:
    """Start following the landing zone: every so many seconds, or only what is there now and then stop."""
    root, settings, landing = warehouse.root, warehouse.settings, landing.absolute()

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        paths = [row.path for row in frame.select("path").collect()]
        after = advance(frame.sparkSession, root, settings, landing, paths)
        if told is not None:
            told(batch_id, after)

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
    """Return a segment's name below the landing zone, out of what Spark calls it."""
    return Path(unquote(urlsplit(path).path)).relative_to(landing).as_posix()
