"""Schema migrations of a SQLite file."""

from pathlib import Path

import apsw

from tocsin.journal.errors import JournalDamaged, JournalUnavailable
from tocsin.journal.migrations import migrations, pending
from tocsin.journal.sqlite.connection import pragma, translated
from tocsin.journal.token_table import checksum_of

__all__ = ["migrate"]

#: Function of a step of the tokens that makes the checksum of a row.
_CHECKSUM = "token_checksum"


def migrate(
    connection: apsw.Connection, folder: str, upto: int | None = None, damaged: type[JournalDamaged] = JournalDamaged
) -> int:
    """Apply the numbered steps that a file lacks, each in one transaction; return its version."""
    name = Path(connection.filename).name
    with translated(JournalUnavailable, name, damaged):
        steps = migrations("tocsin.journal.sqlite", f"migrations/{folder}")
        version = int(str(pragma(connection, "user_version")))
        connection.create_scalar_function(_CHECKSUM, checksum_of, deterministic=True)
        for step in pending(steps, version, name)[: None if upto is None else max(0, upto - version)]:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(step.sql)
                pragma(connection, f"user_version={step.number}")
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            version = step.number
    return version
