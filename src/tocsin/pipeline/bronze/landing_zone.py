"""The landing zone: the folder or URL of segment files that a hub writes and the pipeline reads."""

import re

from tocsin.pipeline.lake.storage import Place, StoredFile, open_storage

__all__ = ["landed_segments", "segment_name"]

_NAME = re.compile(r"project=([^/]+)/date=(\d{4}-\d{2}-\d{2})/(\d{20})\.ndjson\.zst")


def segment_name(path: str) -> tuple[str, str, int] | None:
    """Return the project, day and first sequence number in a segment's path; None if it is not a segment's path."""
    match = _NAME.search(path)
    return None if match is None else (match[1], match[2], int(match[3]))


def landed_segments(landing: Place) -> dict[str, StoredFile]:
    """Return the segments of a landing zone, sorted by name."""
    return {name: found for name, found in open_storage(landing).listed().items() if _NAME.fullmatch(name)}
