"""The journal in PostgreSQL: many projects in one database, each owned by one hub at a time.

Needs the `postgres` extra. Everything is in the schema `tocsin`; `tocsin.projects` lists the owners.
"""

from tocsin.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]
