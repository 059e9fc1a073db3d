"""Silver: what happened to each thing, one row per message, session, lease, thread, escalation, policy."""

from tocsin.pipeline.tables import Table

__all__ = ["TABLES"]

#: In the order in which they are made.
TABLES: tuple[Table, ...] = ()
