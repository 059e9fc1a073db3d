"""Exports of single projects by a hub: a backup that is made in its data folder and sent as an archive."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tocsin.core.errors import refusal
from tocsin.fleet.backups.archive import packed
from tocsin.fleet.backups.making import made_in, project_folders
from tocsin.fleet.backups.manifest import BackupError
from tocsin.hub.service import is_postgres

__all__ = ["PG_DUMP", "Exports"]

#: What to do with projects in PostgreSQL.
PG_DUMP = "use pg_dump --format=custom --schema='tocsin*', which copies consistently while hubs serve"
_AGAIN_S = 5.0


class Exports:
    """Makes exports of the projects of a data folder, one at a time."""

    def __init__(self, data: Path, store: str) -> None:
        self._data = data
        self._store = store
        self._busy = False

    @asynccontextmanager
    async def export(self, project: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Make a backup of a project, and yield it as the content of an archive file."""
        if is_postgres(self._store):
            raise refusal("E_STATE_002", f"the projects of this hub are in PostgreSQL: {PG_DUMP}")
        if self._busy:
            raise refusal("E_ADMISSION_008", "another project is being exported", retry_after_s=_AGAIN_S)
        self._busy = True
        try:
            folders = await asyncio.to_thread(project_folders, self._data)
            if project not in folders:
                raise refusal("E_STATE_005", f"there is no project {project[:64]}", found=project[:64])
            for path in self._data.glob(".export.partial-*"):  # of an export that a crash has ended
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            making = made_in(self._data, self._data, project)
            try:
                folder, _ = await asyncio.to_thread(making.__enter__)
            except BackupError as error:
                raise refusal("E_HUB_007", str(error), retry_after_s=_AGAIN_S) from error
            try:
                yield _read(folder)
            finally:
                await asyncio.to_thread(making.__exit__, None, None, None)
        finally:
            self._busy = False


async def _read(folder: Path) -> AsyncIterator[bytes]:
    chunks = packed(folder)
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk
