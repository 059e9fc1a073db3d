"""Columns of `event`: derived from the events; conflicts are detected."""

import msgspec
import pytest

from tocsin.core.errors import InvariantViolation
from tocsin.core.events import EVENT_TYPES
from tocsin.core.events.base import EventBase
from tocsin.pipeline.tables.schemas import EVENT, column_types, columns_of, event_columns


class Weighed(EventBase, frozen=True):
    weight: int
    note: str | None = None
    parts: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    done: bool = False
    payload: bytes = b""


class WeighedFinely(EventBase, frozen=True):
    weight: float


class WeighedInWords(EventBase, frozen=True):
    weight: str


class Nested(EventBase, frozen=True):
    inner: dict[str, msgspec.Raw]


def test_every_field_has_a_column() -> None:
    names = [column.name for column in EVENT]
    assert len(names) == len(set(names))
    for kind in EVENT_TYPES:
        assert set(columns_of(kind).values()) <= set(names)
        assert list(columns_of(kind)) == list(kind.__struct_fields__)
    assert names[:5] == ["project", "date", "seq", "kind", "at"]


def test_annotations_become_columns() -> None:
    columns = {column.name: column.type for column in event_columns((Weighed,))}
    assert columns == {
        "project": "string",
        "date": "date",
        "seq": "bigint",
        "kind": "string",
        "at": "bigint",
        "weight": "bigint",
        "note": "string",
        "parts": "array<string>",
        "sizes": "array<bigint>",
        "done": "boolean",
        "payload": "string",
    }
    assert [(column.name, column.type) for column in event_columns((Weighed,))][-2:] == [
        ("done", "boolean"),
        ("payload", "string"),
    ]


def test_an_integer_that_is_elsewhere_a_float_is_a_double() -> None:
    assert column_types((Weighed, WeighedFinely))["weight"] == "double"


def test_a_clash_of_types_is_an_error() -> None:
    with pytest.raises(InvariantViolation, match=r"WeighedInWords\.weight is string, elsewhere bigint"):
        column_types((Weighed, WeighedInWords))


def test_what_fits_no_column_is_an_error() -> None:
    with pytest.raises(InvariantViolation, match="no column type"):
        column_types((Nested,))
