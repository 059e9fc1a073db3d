"""Gold: the tables that people look at."""

from tocsin.pipeline.tables import Table

__all__ = ["TABLES"]

#: In the order in which they are made.
TABLES: tuple[Table, ...] = ()
