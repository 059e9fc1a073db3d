"""The `status` job: progress of the pipeline, from the manifest and the landing zone, without Spark."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tocsin.pipeline.bronze.landing_zone import landed_segments, new_segments
from tocsin.pipeline.lake.intervals import count_of, gaps_of
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["status"]


def status(warehouse: Warehouse, landing: Path) -> dict[str, Any]:
    """Return lag, last batches, rows, quarantine and gaps."""
    manifest = warehouse.current()
    segments = landed_segments(landing)
    fresh = new_segments(segments, manifest.segments)
    oldest = min((_mtime(landing / name) for name in fresh), default=None)
    projects = {
        name: {
            "events": count_of(mark.covered),
            "last_seq": mark.covered[-1][1] if mark.covered else 0,
            "last_event_at": _shown(mark.last_at),
            "gaps": [list(gap) for gap in gaps_of(mark.covered)],
            "retired": mark.retired,
        }
        for name, mark in sorted(manifest.projects.items())
    }
    tables = {
        name: {
            "rows": manifest.rows(name),
            "files": len(files),
            "bytes": sum(file.bytes for file in files),
            "days": len({file.date for file in files if file.date is not None}),
        }
        for name, files in sorted(manifest.tables.items())
    }
    marks = manifest.segments.values()
    return {
        "version": manifest.version,
        "written_at": _shown(manifest.written_at),
        "lag": {
            "segments": len(fresh),
            "bytes": sum(fresh.values()),
            "seconds": 0.0 if oldest is None else round(max(0.0, time.time() - oldest), 1),
            "events_not_in_tables": sum(f.rows for f in manifest.files("event") if f.path in manifest.pending),
        },
        "segments": len(manifest.segments),
        "quarantined": sum(mark.quarantined for mark in marks),
        "duplicates": sum(mark.duplicates for mark in marks),
        "projects": projects,
        "tables": tables,
        "batches": [
            {
                "version": batch.version,
                "what": batch.what,
                "at": _shown(batch.at),
                "seconds": round(batch.seconds, 2),
                "segments": batch.segments,
                "events": batch.events,
                "events_per_s": round(batch.events / batch.seconds) if batch.seconds else 0,
                "rows": batch.rows,
            }
            for batch in reversed(manifest.batches)
        ],
    }


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _shown(at: int) -> str | None:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat() if at else None
