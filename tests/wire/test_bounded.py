"""Arrays of a limited number of items: the items, and what is refused without being read."""

import msgspec
import pytest

from tocsin.wire.bounded import TooMany, read_items
from tocsin.wire.socket import Fault, read_frame


@pytest.mark.parametrize("items", [[], ["1"], ["[]", '{"a":[1,2]}', '"x"'], ["null"] * 5])
def test_the_items_are_read_as_they_are(items: list[str]) -> None:
    read = read_items(f" [{' , '.join(items)}] ", 5)
    assert [bytes(item).decode() for item in read] == items


def test_an_item_over_the_limit_is_refused_before_the_rest_is_read() -> None:
    with pytest.raises(TooMany):
        read_items("[1,1,1,1,1,1]", 5)
    with pytest.raises(msgspec.DecodeError) as found:
        read_items("[1,1,1,1,1,,]", 5)
    assert "malformed" in str(found.value)
    (fault,) = read_frame("[0,0,0,0,0,0,0]", 5)
    assert isinstance(fault, Fault)
    assert fault.problem.code == "E_ADMISSION_008"


@pytest.mark.parametrize("text", ["{}", "5", '"x"', "null"])
def test_what_is_not_an_array_is_not_valid(text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="array"):
        read_items(text, 5)


@pytest.mark.parametrize("text", ["[1", "[1,]", "", "[" * 100_000])
def test_what_is_not_json_is_malformed(text: str) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)) as found:
        read_items(text, 5)
    assert not isinstance(found.value, msgspec.ValidationError)


def test_a_large_array_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(msgspec.structs, "astuple", made.append)
    with pytest.raises(TooMany):
        read_items(b"[" + b"0," * 100_000 + b"0]", 500)
    assert not made
