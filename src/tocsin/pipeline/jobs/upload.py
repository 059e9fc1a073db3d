"""The upload of segments: copy those of a hub's data directory to a URL, from where the pipeline reads them.

A segment never changes once it has its name, so what is to be copied follows from two listings: segments that are not
at the URL, or have another size there, because an upload was cut off or the segment was repaired. An upload that is
stopped at any moment continues with the next one; doing it again changes nothing.
"""

from collections.abc import Callable

import msgspec

from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.errors import UploadIncomplete
from tocsin.pipeline.lake.storage import Place, open_storage

__all__ = ["Uploaded", "upload_segments"]


class Uploaded(msgspec.Struct):
    """Result of an upload."""

    #: Segments copied, and their bytes.
    segments: int = 0
    bytes: int = 0
    #: Segments that were there already.
    known: int = 0
    #: Segments that the limit has left for the next time.
    left: int = 0


def upload_segments(
    source: Place, target: Place, limit: int | None = None, on_segment: Callable[[str], None] | None = None
) -> Uploaded:
    """Copy segments that are not at the target yet, oldest first and one at a time; at most `limit` of them."""
    origin, place = open_storage(source), open_storage(target)
    place.check()
    there = landed_segments(place)
    mine = landed_segments(origin)
    new = [name for name, found in mine.items() if name not in there or there[name].bytes != found.bytes]
    chosen = new if limit is None else new[:limit]
    done = Uploaded(known=len(mine) - len(new), left=len(new) - len(chosen))
    for name in chosen:
        content = origin.read(name)
        with place.create(name) as out:
            out.write(content)
        if place.size(name) != len(content):
            raise UploadIncomplete(f"{name} has another size at {place.url} than here: run the upload again")
        done.segments += 1
        done.bytes += len(content)
        if on_segment is not None:
            on_segment(name)
    return done
