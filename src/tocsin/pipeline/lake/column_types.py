"""The types of columns in DuckDB, Arrow and Delta Lake."""

from typing import Any

import pyarrow as pa

__all__ = ["arrow_type", "delta_type", "sql_type"]

#: Column type, with the type in DuckDB, Arrow and Delta Lake.
_TYPES: dict[str, tuple[str, pa.DataType, str]] = {
    "string": ("VARCHAR", pa.string(), "string"),
    "int": ("INTEGER", pa.int32(), "integer"),
    "bigint": ("BIGINT", pa.int64(), "long"),
    "double": ("DOUBLE", pa.float64(), "double"),
    "boolean": ("BOOLEAN", pa.bool_(), "boolean"),
    "date": ("DATE", pa.date32(), "date"),
    "timestamp": ("TIMESTAMPTZ", pa.timestamp("us", tz="UTC"), "timestamp"),
}


def _fields(name: str) -> list[tuple[str, str]]:
    """Return the fields of a `struct<…>`, each with its type."""
    pairs = (part.split(":") for part in name[7:-1].split(","))
    return [(field, kind) for field, kind in pairs]


def sql_type(name: str) -> str:
    """Return DuckDB's type for a column type."""
    if name.startswith("array<"):
        return f"{sql_type(name[6:-1])}[]"
    if name.startswith("struct<"):
        return "STRUCT(" + ", ".join(f'"{field}" {sql_type(kind)}' for field, kind in _fields(name)) + ")"
    return _TYPES[name][0]


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type for a column type."""
    if name.startswith("array<"):
        return pa.list_(arrow_type(name[6:-1]))
    if name.startswith("struct<"):
        return pa.struct([(field, arrow_type(kind)) for field, kind in _fields(name)])
    return _TYPES[name][1]


def delta_type(name: str) -> Any:
    """Return the type in a Delta Lake schema, as in its JSON form."""
    if name.startswith("array<"):
        return {"type": "array", "elementType": delta_type(name[6:-1]), "containsNull": True}
    if name.startswith("struct<"):
        return {"type": "struct", "fields": [delta_field(field, kind) for field, kind in _fields(name)]}
    return _TYPES[name][2]


def delta_field(name: str, kind: str) -> dict[str, Any]:
    """Return a column of a Delta Lake schema, as in its JSON form."""
    return {"name": name, "type": delta_type(kind), "nullable": True, "metadata": {}}
