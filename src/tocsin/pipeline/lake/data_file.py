"""Data files: the Parquet files that the tables consist of."""

import msgspec

__all__ = ["DataFile", "chunks_of"]


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """One Parquet file of a table."""

    #: Path below the warehouse.
    path: str
    project: str
    #: The day, if the table is partitioned by day.
    date: str | None
    rows: int
    bytes: int
    #: Lowest and highest `seq` of `event`, `message` of `message_life`, or `policy_version` of `occurrence`; 0 without.
    low: int = 0
    high: int = 0
    #: Whether it holds messages that are open or may change, which later batches have to merge.
    hot: bool = False


def chunks_of(files: list[DataFile], rows_max: int) -> list[list[DataFile]]:
    """Split files, in the order of their numbers, into chunks of a number of rows; a file is never split."""
    chunks: list[list[DataFile]] = []
    filled = 0
    for file in sorted(files, key=lambda file: (file.low, file.path)):
        if not chunks or filled + file.rows > rows_max:
            chunks.append([])
            filled = 0
        chunks[-1].append(file)
        filled += file.rows
    return chunks
