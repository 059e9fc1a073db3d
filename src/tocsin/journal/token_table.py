"""The table of tokens (`grants`): its columns, and a checksum over all of them.

The rows belong to `tocsin.hub.auth`. The table is defined here because the migrations and the verification of both
stores read it, too. Every row has a checksum: the rows of earlier versions got theirs when the table was brought up to
date. A row without one is therefore damaged.
"""

from tocsin.journal.checksums import FROM_BEFORE, sealed, sealer, verifier
from tocsin.journal.columns import Column, Kind, Row, Table, Update

__all__ = ["GRANTS", "checksum_of", "damage_of"]

#: Only the times, the MAC and the checksum of a row change after it was written.
GRANTS = Table(
    "grants",
    "token_id",
    sealed(
        (
            Column("token_id", Kind.TEXT, Update.KEEP),
            Column("project", Kind.TEXT, Update.KEEP),
            Column("agent", Kind.TEXT, Update.KEEP),
            Column("role", Kind.TEXT, Update.KEEP),
            Column("admin", Kind.BOOL, Update.KEEP),
            Column("digest", Kind.BYTES, Update.KEEP),
            Column("created_at", Kind.TIME, Update.KEEP),
            Column("expires_at", Kind.TIME),
            Column("revoked_at", Kind.TIME),
            Column("types", Kind.TEXT, Update.KEEP),
            Column("issued_by", Kind.TEXT, Update.KEEP),
            # Null in a token of a version without MACs. The checksum covers the null as it covers a MAC.
            Column("mac", Kind.BYTES),
        )
    ),
)
_ADMIN = GRANTS.names.index("admin")
_SEALED = sealer(GRANTS)
_VERDICT = verifier(GRANTS)


def checksum_of(*values: object) -> int:
    """Return the checksum of a row, from the values of its other columns as a store returns them."""
    return int(_SEALED((*values[:_ADMIN], bool(values[_ADMIN]), *values[_ADMIN + 1 :]))[-1])


def damage_of(row: Row) -> str | None:
    """Return what is wrong with a row; null if it is what was written."""
    wrong = _VERDICT(row)
    if wrong is FROM_BEFORE:
        return "its checksum is missing"
    return None if wrong is None else f"the checksum of {wrong} does not match"
