"""Rows of tables and views of a warehouse, for comparison."""

from typing import Any

from tests.pipeline.rows import rows
from tests.pipeline.test_message_life import timed
from tests.soak import SOAK
from tocsin.pipeline.catalogue import COLUMNS, VIEWS, open_tables, stored_inputs
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["EVERYTHING", "contents", "found_lives"]

#: Stored tables whose rows do not depend on how events came.
SAME = ("event", "quarantine", "message_life", "occurrence")
#: Those tables, and all views that read others, or how messages moved; the others follow from them. In soak, all views.
EVERYTHING = (
    *SAME,
    *(view.name for view in VIEWS if SOAK or "moves" in view.sql or not set(stored_inputs(view.name)) <= set(SAME)),
)


def contents(warehouse: Warehouse, *names: str) -> dict[str, list[str]]:
    """Return tables and views as sorted rows."""
    chosen = names or EVERYTHING
    with open_tables(warehouse, names=[name for name in chosen if name not in COLUMNS]) as tables:
        found = {name: rows(tables, name) for name in chosen}
    for row in found.get("message_life", []):
        # What is kept of a message's way through its mailbox depends on how its events came; the views do not.
        del row["moves"]
    return {name: [repr(row) for row in known] for name, known in found.items()}


def found_lives(warehouse: Warehouse) -> dict[tuple[str, int], dict[str, Any]]:
    """Return `message_life` by project and message."""
    with open_tables(warehouse, names=()) as tables:
        found = rows(tables, "message_life")
    keyed = {(row["project"], row["message"]): timed(row) for row in found}
    assert len(keyed) == len(found)
    return keyed
