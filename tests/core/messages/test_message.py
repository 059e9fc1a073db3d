"""The message of the compiled form: the same fields as the rows, in the same order."""

import importlib.util
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.core.envelopes import letter
from tocsin.core.messages import model
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import MessageRow

SOURCE = Path(model.__file__).with_name("message.py")


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class that is compiled, read from its source as Python."""
    monkeypatch.setattr(model, "native_class", lambda **_: lambda declared: declared)
    spec = importlib.util.spec_from_file_location("native_message", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Message


def test_the_compiled_form_has_the_fields_of_a_row(native: Any) -> None:
    declared = msgspec.structs.fields(MessageRow)
    expected = {field.name: (field.type, Parameter.empty if field.required else field.default) for field in declared}
    parameters = signature(native).parameters
    assert list(parameters) == list(expected)
    assert {name: (each.annotation, each.default) for name, each in parameters.items()} == expected


def test_the_compiled_form_keeps_and_copies_every_field(native: Any) -> None:
    values = tuple(object() for _ in MessageRow.__struct_fields__)
    message = native(*values)
    assert tuple(getattr(message, name) for name in MessageRow.__struct_fields__) == values
    assert message.values() == values
    copy = message.copy()
    assert copy is not message
    assert copy.values() == values
    assert copy == message
    copy.lent = object()
    assert copy != message


def test_a_row_is_made_of_the_values_of_a_message() -> None:
    message = letter(level=3, session="ses_1", digest=b"d")
    row = MessageRow(*message.values())
    assert {name: getattr(message, name) for name in row.__struct_fields__} == msgspec.structs.asdict(row)


def test_a_copy_does_not_change_with_the_message() -> None:
    message = letter(level=1)
    copy = message.copy()
    assert copy == message
    message.level = 2
    assert copy != message
    assert (type(copy), copy.level) == (Message, 1)
