"""The journal in SQLite: one directory per project, one hub at a time.

`journal.db` takes the commits and nothing else. `tables.db` follows at its own pace: SQLite has one writer per file, so
in one file a projection would stand in the way of every commit. `lock.db` says that somebody is here.
"""

from tocsin.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
