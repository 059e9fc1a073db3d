"""Settings of the pipeline: memory, sizes of batches and files, retention of tables.

They are not part of a project's policy, since no decision of the bus depends on them. The defaults are in the packaged
`pipeline.yaml`; a file of the same name beside the landing zone overrides some of them.
"""

from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta

from tocsin.core.protocol.validation import explain
from tocsin.pipeline.errors import SettingsWrong

__all__ = ["Settings", "load_settings"]

Count = Annotated[int, Meta(ge=1, le=10**12)]
Days = Annotated[int, Meta(ge=1, le=100_000)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings, with the packaged defaults filled in."""

    #: Memory of Spark's JVM, MiB. Python workers need about 200 MiB each in addition.
    driver_memory_mib: Count
    #: Whether to make a class-data archive on the first start, so that Spark starts faster.
    class_archive: bool
    #: Compressed bytes of new segments in one bronze commit.
    ingest_bytes_max: Count
    #: Segments in one micro-batch of the stream.
    stream_segments_max: Count
    #: Bytes of a quarantined line that are kept.
    quarantine_text_max: Count
    #: Quarantined lines of one segment that are kept; the others are only counted.
    quarantine_lines_max: Count
    #: Time after its last event for which a message that may still change is kept in the hot files, seconds.
    hot_s: Annotated[float, Meta(gt=0, le=3.2e9)]
    #: Memory of DuckDB in one task, MiB; what does not fit is written to temporary files.
    task_memory_mib: Count
    #: Events or messages that one task folds or counts; more are split, by file or by a hash of the message.
    task_rows_max: Count
    #: Memory of DuckDB in a process that reads tables (reports, queries, checks), MiB.
    reader_memory_mib: Count
    #: Threads of DuckDB in a process that reads tables.
    reader_threads: Count
    #: Size that compaction gives to files, bytes; a larger day becomes several files.
    compact_bytes_max: Count
    #: Memory of compaction, MiB; what does not fit is written to temporary files.
    compact_memory_mib: Count
    #: Time for which files and versions that are no longer part of a table are kept for readers, hours.
    vacuum_after_h: Annotated[int, Meta(ge=0, le=10**6)]
    #: Times that a batch is done again because another writer has committed meanwhile.
    commit_retries_max: Annotated[int, Meta(ge=0, le=100)]
    #: Number of batches that `status` can show.
    batches_max: Count
    #: Rows of one table and day (or project) in the extract for readers without Spark.
    extract_rows_max: Count
    #: Shortest time between two extracts of a stream, seconds.
    extract_every_s: Annotated[float, Meta(gt=0, le=3.2e9)]
    #: Shortest time between two pieces of advice of a stream, seconds.
    advice_every_s: Annotated[float, Meta(gt=0, le=3.2e9)]
    #: Days for which a table is kept, by table; `default` for the others, null for no limit.
    retention_days: dict[str, Days | None]

    def retention_of(self, table: str) -> int | None:
        """Return the number of days for which a table is kept; None for no limit."""
        return self.retention_days.get(table, self.retention_days.get("default"))


def load_settings(path: Path | None = None) -> Settings:
    """Read the defaults and apply the overrides of a file."""
    document = yaml.safe_load(resources.files("tocsin.pipeline").joinpath("pipeline.yaml").read_text(encoding="utf-8"))
    if path is not None and path.exists():
        try:
            own = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise SettingsWrong(f"{path.name} is not YAML: {error}") from None
        if not isinstance(own, dict | None):
            raise SettingsWrong(f"{path.name} must be a mapping")
        document |= own or {}
    try:
        return msgspec.convert(document, Settings)
    except msgspec.ValidationError:
        wrong = explain(Settings, document)
        expected = f" (expected {wrong.expected})" if wrong.expected else ""
        raise SettingsWrong(f"{wrong.field}: {wrong.detail}{expected}") from None
