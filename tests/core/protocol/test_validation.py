"""Explanations of invalid values: the code, the path, what was found and what is allowed, for each kind of type."""

import difflib
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from tocsin.core.errors import Problem, TocsinError
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.validation import explain, nearest

MISSING, TYPE, CHOICE, SCHEMA = (f"E_VALIDATION_{number:03d}" for number in range(1, 5))
TIMESTAMP = "an ISO 8601 UTC timestamp such as 2025-11-12T10:30:45.123Z"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    left_edge: int
    top_edge: float
    name: str = ""


class Loose(msgspec.Struct):
    name: str
    flag: bool
    colour: Colour
    choice: Literal["a", "b"]
    moment: Annotated[datetime, Meta(tz=True)]
    things: list[int]
    more: dict[str, Any]
    maybe: str | None
    either: int | list[int]


Short = Annotated[str, Meta(min_length=2, max_length=3)]
Word = Annotated[str, Meta(pattern="^[a-z]+$")]
Few = Annotated[list[int], Meta(min_length=1, max_length=2)]
Bounded = Annotated[int, Meta(ge=1, le=3)]
Positive = Annotated[float, Meta(gt=0)]
Moment = Annotated[datetime, Meta(tz=True)]
Described = Annotated[int, Meta(description="how many")]

INVALID: list[tuple[Any, object, str, str, str, str]] = [
    (str, 1, TYPE, "$", "1", "a string"),
    (bool, 1, TYPE, "$", "1", "true or false"),
    (int, True, TYPE, "$", "true", "a whole number"),
    (int, 1.5, TYPE, "$", "1.5", "a whole number"),
    (int, "1", TYPE, "$", '"1"', "a whole number"),
    (float, "1", TYPE, "$", '"1"', "a number"),
    (float, float("inf"), TYPE, "$", "null", "a number"),
    (int, 2**64, SCHEMA, "$", "18446744073709551616", "a smaller number"),
    (type(None), 1, TYPE, "$", "1", "null"),
    (Bounded, 0, SCHEMA, "$", "0", "at least 1"),
    (Bounded, 4, SCHEMA, "$", "4", "at most 3"),
    (Positive, 0, SCHEMA, "$", "0", "more than 0"),
    (Short, "a", SCHEMA, "$", '"a"', "at least 2 characters"),
    (Short, "abcd", SCHEMA, "$", "4 characters", "at most 3 characters"),
    (Word, "A", SCHEMA, "$", '"A"', "a string like ^[a-z]+$"),
    (Few, [], SCHEMA, "$", "0 items", "at least 1 items"),
    (Few, [1, 2, 3], SCHEMA, "$", "3 items", "at most 2 items"),
    (list[int], {}, TYPE, "$", "{}", "an array"),
    (list[int], [1, "x"], TYPE, "$[1]", '"x"', "a whole number"),
    (tuple[int, ...], [None], TYPE, "$[0]", "null", "a whole number"),
    (dict[str, int], [], TYPE, "$", "[]", "an object"),
    (dict[str, int], {"a": "x"}, TYPE, "$.a", '"x"', "a whole number"),
    (Literal["a", "b"], "c", CHOICE, "$", '"c"', "one of a, b"),
    (Literal["a", "b"], None, TYPE, "$", "null", "one of a, b"),
    (Colour, "green", CHOICE, "$", '"green"', "one of red, blue"),
    (Colour, [], TYPE, "$", "[]", "one of red, blue"),
    (Moment, 5, TYPE, "$", "5", TIMESTAMP),
    (Moment, "noon", SCHEMA, "$", '"noon"', TIMESTAMP),
    (Moment, "2025-11-12T10:30:45", SCHEMA, "$", '"2025-11-12T10:30:45"', TIMESTAMP),
    (Described, "x", TYPE, "$", '"x"', "a whole number"),
    (list[Described], ["x"], TYPE, "$[0]", '"x"', "a whole number"),
    (Described | list[int], "x", TYPE, "$", '"x"', "a whole number or an array"),
    (str | None, 1, TYPE, "$", "1", "a string"),
    (int | list[int], "x", TYPE, "$", '"x"', "a whole number or an array"),
    (int | str | None, [], TYPE, "$", "[]", "a whole number or a string"),
    (Point, [], TYPE, "$", "[]", "an object"),
    (Point, {"leftEdge": 1}, MISSING, "$.topEdge", "nothing", "a number"),
    (Point, {"leftEdge": "x", "topEdge": 1}, TYPE, "$.leftEdge", '"x"', "a whole number"),
    (Point, {"leftEdge": 1, "topEdge": 1, "nam": ""}, SCHEMA, "$.nam", "nam", "did you mean 'name'?"),
    (
        Point,
        {"leftEdge": 1, "topEdge": 1, "zz": ""},
        SCHEMA,
        "$.zz",
        "zz",
        "known keys: leftEdge, topEdge, name",
    ),
    (list[Point], [{"leftEdge": 1, "topEdge": None}], TYPE, "$[0].topEdge", "null", "a number"),
    (dict[str, Point], {"a": {"leftEdge": 1, "topEdge": "x"}}, TYPE, "$.a.topEdge", '"x"', "a number"),
]


@pytest.mark.parametrize("row", range(len(INVALID)))
def test_an_invalid_value_is_explained(row: int) -> None:
    shape, value, code, path, found, expected = INVALID[row]
    problem = explain(shape, value)
    assert problem == Problem(code, problem.detail, path, found, expected)
    assert path in problem.detail
    assert expected in problem.detail
    assert found in problem.detail or found == "nothing"


def test_all_missing_fields_are_named_with_their_types() -> None:
    problem = explain(Loose, {"name": "x"}, "$.payload")
    assert (problem.code, problem.field, problem.found) == (MISSING, "$.payload.flag", "nothing")
    kinds = {
        "flag": "true or false",
        "colour": "one of red, blue",
        "choice": "one of a, b",
        "moment": "an ISO 8601 UTC timestamp",
        "things": "an array",
        "more": "an object",
        "maybe": "a string or null",
        "either": "a whole number or an array",
    }
    assert problem.expected == "; ".join(f"$.payload.{name}: {kind}" for name, kind in kinds.items())
    assert problem.detail == ", ".join(f"$.payload.{name}" for name in kinds) + " are missing"


def test_another_problem_comes_before_a_missing_field() -> None:
    """The first problem counts: one of a field that is there does not hide the others of its kind."""
    problem = explain(Point, {"topEdge": "x"})
    assert (problem.code, problem.field) == (MISSING, "$.leftEdge")
    assert problem.expected == "a whole number"


@pytest.mark.parametrize(
    ("shape", "value"), [(Bounded, 1), (Bounded, 3), (Positive, 0.1), (Short, "ab"), (Short, "abc")]
)
def test_a_valid_value_has_no_problem_of_its_own(shape: Any, value: object) -> None:
    """What another reader refused is then explained in general terms."""
    problem = explain(shape, value, "$.x")
    assert problem.code == SCHEMA
    assert (problem.field, problem.expected) == ("$.x", "a value that matches")
    assert "$.x" in problem.detail


def test_a_long_value_is_shortened() -> None:
    for length, shown in ((58, '"' + "x" * 58 + '"'), (59, '"' + "x" * 58 + "…")):
        assert explain(int, "x" * length).found == shown


def test_a_value_that_is_no_json_is_shown_all_the_same() -> None:
    assert explain(int, object).found == "<class 'object'>"


@pytest.mark.parametrize(
    "receiver", [{}, {"agentId": ""}, {"agentId": "a b", "type": "*"}, {"agentId": "x", "type": ""}]
)
def test_a_receiver_that_names_nobody_is_an_invalid_receiver(receiver: object) -> None:
    """APM §9.2: E_ROUTING_002; a receiver that is no object at all is of the wrong type."""
    document = {
        "version": "1.1.0",
        "messageId": "msg_1_a",
        "timestamp": "2025-11-12T10:00:00Z",
        "sender": {"agentId": "one", "type": "AdHoc"},
        "receiver": receiver,
        "messageType": "StatusUpdate",
        "payload": {},
    }
    with pytest.raises(TocsinError) as refused:
        parse_envelope(msgspec.json.encode(document), 10_000)
    assert refused.value.code == "E_ROUTING_002"
    with pytest.raises(TocsinError) as refused:
        parse_envelope(msgspec.json.encode(document | {"receiver": 5}), 10_000)
    assert (refused.value.code, refused.value.problem.field) == (TYPE, "$.receiver")


def test_the_reason_is_looked_for_in_the_first_items_only() -> None:
    class Named(msgspec.Struct):
        names: list[str] | None
        more: dict[str, int]

    first = explain(Named, {"names": [""] * 999 + [1], "more": {}})
    assert (first.code, first.field) == (TYPE, "$.names[999]")
    late = explain(Named, {"names": [""] * 1000 + [1], "more": {}})
    assert (late.code, late.field) == (SCHEMA, "$")
    many = explain(Named, {"names": [], "more": {f"n{number}": 1 for number in range(1000)} | {"last": ""}})
    assert (many.code, many.field) == (SCHEMA, "$")


def test_a_long_name_is_cut_before_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(word: str, known: object, number: int) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    assert nearest("window" * 100_000, ["window"]) is None
    wrong = explain(Point, {"leftEdge": 1, "topEdge": 1, "name" * 100_000: 1})
    assert wrong.code == SCHEMA
    assert len(wrong.detail) < 200
    assert [len(word) for word in compared] == [64, 64]
