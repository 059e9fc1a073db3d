"""How the pipeline works: memory, sizes of batches and files, how long tables are kept.

No part of a project's policy, since no history depends on it. The defaults are the packaged `pipeline.yaml`; a file of
the same name beside the landing zone changes some of them.
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
    """What the pipeline is run by."""

    #: Memory of Spark's JVM, MiB. Python workers come on top, about 200 MiB each.
    driver_memory_mib: Count
    #: Partitions of a shuffle before Spark joins the small ones.
    shuffle_partitions: Count
    #: Events up to which plans are carried out as they stand, since to compile them would take longer than to run them.
    few_rows_max: Annotated[int, Meta(ge=0, le=10**12)]
    #: Bytes of files that one task reads; a little file counts as 4 MiB.
    scan_bytes_per_task: Count
    #: Bytes of a shuffle up to which its rows are handed to every task instead of being laid beside the other side's.
    broadcast_bytes_max: Count
    #: Files that are listed here; more are listed by a Spark job.
    listing_threshold: Count
    #: Whether to make a class-data archive once, so that Spark starts faster.
    class_archive: bool
    #: Compressed bytes of new segments that become one bronze commit.
    ingest_bytes_max: Count
    #: Segments that one micro-batch of the stream takes.
    stream_segments_max: Count
    #: Bytes of a line that quarantine keeps.
    quarantine_text_max: Count
    #: Quarantined lines of one segment that are kept one by one; the rest is counted.
    quarantine_lines_max: Count
    #: Different words of one column that are kept by number while a message's life is folded.
    words_max: Count
    #: How long a message that has not ended for good stays among those that later batches ask for, seconds.
    hot_s: Annotated[float, Meta(gt=0, le=3.2e9)]
    #: Derived tables that are made at a time.
    tables_at_a_time: Count
    #: Rows of one file.
    file_rows_max: Count
    #: Bytes of rows that a task keeps, until enough of one part are together for a row group.
    waiting_bytes_max: Count
    #: A partition with at least this many files is compacted.
    compact_files_min: Count
    #: Time that files which no longer count are kept for readers, seconds.
    vacuum_after_s: Annotated[float, Meta(ge=0, le=3.2e9)]
    #: Manifests that are kept.
    manifests_max: Count
    #: Batches that `status` remembers.
    batches_max: Count
    #: Rows of one table and day, or project, that the extract for readers without Spark has.
    extract_rows_max: Count
    #: Time between two extracts of a stream, seconds.
    extract_every_s: Annotated[float, Meta(gt=0, le=3.2e9)]
    #: Days that tables are kept, by table; `default` for the rest, null for ever.
    retention_days: dict[str, Days | None]

    def retention_of(self, table: str) -> int | None:
        """Return the days that a table is kept."""
        return self.retention_days.get(table, self.retention_days.get("default"))


def load_settings(path: Path | None = None) -> Settings:
    """Lay a file over the defaults."""
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
