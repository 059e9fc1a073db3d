"""The journal in SQLite: one directory per project, one hub at a time.

`journal.db` takes only the commits. `tables.db` is written separately: SQLite has one writer per file, so in a single
file a projection would block every commit. `lock.db` is locked while a hub has the project open.
"""

from tocsin.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
