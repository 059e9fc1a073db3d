"""The `stream` job: what `run` does, whenever there are new segments, driven by Structured Streaming.

Theory of operation. The stream's source (`NewSegments`) lists the landing zone and counts a batch when there is a
segment that is not in bronze. The batch itself lists again and ingests what is new, in parts of `stream_segments_max`,
each with its own commits. Only the table `segment` decides whether a segment is in bronze, so a batch that is replayed
after a kill continues where it was, and each segment counts once. It makes the tables in any case: they may be what is
missing. The checkpoint holds the number of the batch and
nothing else; it does not grow. Segments may arrive in any order and at any time.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from tocsin.pipeline.bronze.ingest import ingest
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.bronze.segment_log import ingested_segments, new_segments
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.refresh import refresh
from tocsin.pipeline.lake.storage import Place, StoredFile, open_storage
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.settings import load_settings

__all__ = ["CHECKPOINT", "NewSegments", "SegmentWatch", "start_stream"]

#: Folder of the stream's checkpoint, below the local folder of the warehouse.
CHECKPOINT = "_checkpoint"


class SegmentWatch:
    """Finds the segments of a landing zone that are not in bronze; it remembers those that are."""

    def __init__(self, warehouse: Warehouse, landing: Place) -> None:
        self._warehouse = warehouse
        self._landing = open_storage(landing)
        #: Segments that are in bronze as they are.
        self._known: dict[str, StoredFile] = {}

    def new(self) -> dict[str, StoredFile]:
        """Return the segments that are new or were replaced, sorted by name."""
        landed = landed_segments(self._landing)
        unknown = {name: file for name, file in landed.items() if self._known.get(name) != file}
        self._known = {name: file for name, file in landed.items() if name not in unknown}
        if not unknown:
            return {}
        new = new_segments(unknown, ingested_segments(self._warehouse, self._warehouse.current(), unknown))
        self._known |= {name: file for name, file in unknown.items() if name not in new}
        return new


class _SegmentReader(SimpleDataSourceStreamReader):
    """Counts a batch whenever there are new segments."""

    def __init__(self, options: dict[str, str]) -> None:
        self._warehouse, self._landing = options["warehouse"], options["landing"]
        #: Made when the first batch is looked for: Spark pickles the reader before.
        self._watch: SegmentWatch | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_watch": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        if self._watch is None:
            self._watch = SegmentWatch(open_warehouse(self._warehouse, load_settings()), self._landing)
        found = len(self._watch.new())
        return (iter([(found,)]), {"batch": start["batch"] + 1}) if found else (iter([]), start)

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        return iter([(end["batch"] - start["batch"],)])


class NewSegments(DataSource):
    """The streaming source: a row with the number of new segments for each batch."""

    @classmethod
    def name(cls) -> str:
        """Return the name of its format."""
        return "tocsin_segments"

    def schema(self) -> str:
        """Return its columns."""
        return "segments int"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        """Return its reader."""
        return _SegmentReader(dict(self.options))


def start_stream(
    spark: SparkSession,
    warehouse: Warehouse,
    landing: Place,
    *,
    every_s: float | None,
    on_commit: Callable[[int, Snapshot], None] | None = None,
) -> StreamingQuery:
    """Start a stream over the landing zone: every `every_s` seconds, or without it only the segments there now."""
    place, settings, root, zone = warehouse.storage, warehouse.settings, warehouse.root, open_storage(landing)
    watches: list[tuple[Warehouse, SegmentWatch]] = []

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        if not watches:
            house = open_warehouse(place, settings, root)
            watches.append((house, SegmentWatch(house, zone)))
        house, watch = watches[0]
        session = frame.sparkSession

        def update(segments: dict[str, StoredFile]) -> Snapshot:
            ingest(session, house, zone, segments)
            return refresh(session, house)

        new = list(watch.new().items())
        # A batch that was killed after its last segment, and is replayed, has only the tables left to make.
        for begin in range(0, len(new) or 1, settings.stream_segments_max):
            part = dict(new[begin : begin + settings.stream_segments_max])
            after = house.written(lambda part=part: update(part))  # type: ignore[misc]
            if on_commit is not None:
                on_commit(batch_id, after)

    spark.dataSource.register(NewSegments)
    source = spark.readStream.format(NewSegments.name()).options(warehouse=place.url, landing=zone.url).load()
    writer = source.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(root / CHECKPOINT))
    if every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds").start()
