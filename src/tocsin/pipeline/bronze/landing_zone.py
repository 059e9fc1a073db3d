"""The landing zone: the folder of segment files that a hub writes and the pipeline reads."""

import re
from collections.abc import Container
from pathlib import Path

__all__ = ["landed_segments", "new_segments", "segment_name"]

_NAME = re.compile(r"project=([^/]+)/date=(\d{4}-\d{2}-\d{2})/(\d{20})\.ndjson\.zst")


def segment_name(path: str) -> tuple[str, str, int] | None:
    """Return the project, day and first sequence number in a segment's path; None if it is not a segment's path."""
    match = _NAME.search(path)
    return None if match is None else (match[1], match[2], int(match[3]))


def landed_segments(landing: Path) -> dict[str, int]:
    """Return the segments of a landing zone with their sizes in bytes, sorted by name."""
    found = {}
    for path in sorted(landing.glob("project=*/date=*/*.ndjson.zst")):
        name = path.relative_to(landing).as_posix()
        if segment_name(name) is not None:
            found[name] = path.stat().st_size
    return found


def new_segments(segments: dict[str, int], ingested: Container[str]) -> dict[str, int]:
    """Return the segments that are not ingested yet."""
    return {name: size for name, size in segments.items() if name not in ingested}
