"""The `status` job: progress of the pipeline, from the newest release and the landing zone, without Spark."""

import time
from datetime import UTC, datetime
from typing import Any

from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.bronze.segment_log import ingested_segments, new_segments, rereadable
from tocsin.pipeline.lake.intervals import count_of, gaps_of
from tocsin.pipeline.lake.storage import Place
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["status"]


def status(warehouse: Warehouse, landing: Place) -> dict[str, Any]:
    """Return lag, last batches, rows, quarantine and gaps."""
    state = warehouse.current()
    known = ingested_segments(warehouse, state)
    fresh = list(new_segments(landed_segments(landing), known).values())
    oldest = min((found.changed_at for found in fresh if found.changed_at is not None), default=None)
    projects = {
        name: {
            "events": count_of(mark.covered),
            "last_seq": mark.covered[-1][1] if mark.covered else 0,
            "last_event_at": _shown(mark.last_at),
            "gaps": [list(gap) for gap in gaps_of(mark.covered)],
            "retired": mark.retired,
        }
        for name, mark in sorted(state.projects.items())
    }
    tables = {
        name: {
            "rows": state.rows(name),
            "files": len(files),
            "bytes": sum(file.bytes for file in files),
            "days": len({file.date for file in files if file.date is not None}),
        }
        for name, files in ((name, state.files(name)) for name in state.tables)
    }
    marks = known.values()
    return {
        "version": state.version,
        "written_at": _shown(state.written_at),
        "lag": {
            "segments": len(fresh),
            "bytes": sum(found.bytes for found in fresh),
            "seconds": 0.0 if oldest is None else round(max(0.0, time.time() - oldest), 1),
            "events_not_in_tables": state.events_pending,
        },
        "segments": len(known),
        "quarantined": sum(mark.quarantined for mark in marks),
        "rereadable": len(rereadable(known)),
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
            for batch in warehouse.releases.batches(warehouse.settings.batches_max)
        ],
    }


def _shown(at: int) -> str | None:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat() if at else None
