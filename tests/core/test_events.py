"""Events: every type survives the journal, and the journal's form does not change by accident."""

import types
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import scaled
from tocsin.core import events as ev
from tocsin.core.events import EVENT_TYPES, Event, decode_events, encode_events
from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.protocol.contracts import DeliveryClass

TEXT = st.text(max_size=12)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    str: TEXT,
    bool: st.booleans(),
    bytes: st.binary(max_size=12),
    tuple[str, ...]: st.lists(TEXT, max_size=3).map(tuple),
    tuple[int, ...]: st.lists(st.integers(0, 2**63 - 1), max_size=3).map(tuple),
    DeliveryClass: st.sampled_from(DeliveryClass),
    RecipientState: st.sampled_from(RecipientState),
    PublishPath: st.sampled_from(PublishPath),
}


def strategy_for(hint: Any) -> st.SearchStrategy[Any]:
    if isinstance(hint, types.UnionType):
        return st.one_of([st.none() if part is type(None) else strategy_for(part) for part in get_args(hint)])
    return VALUES[hint]


def events_of(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    names = kind.__struct_fields__  # type: ignore[attr-defined]
    return st.builds(kind, **{name: strategy_for(hints[name]) for name in names})


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_event_survives_the_journal(kind: type) -> None:
    @settings(max_examples=scaled(20, 1500))
    @given(st.lists(events_of(kind), min_size=1, max_size=3))
    def check(events: list[Event]) -> None:
        assert decode_events(encode_events(events)) == events

    check()


@given(st.lists(st.one_of([events_of(kind) for kind in EVENT_TYPES]), max_size=8))
def test_a_batch_of_all_kinds_survives_the_journal(events: list[Event]) -> None:
    assert decode_events(encode_events(events)) == events


def test_the_union_names_every_type() -> None:
    assert set(get_args(Event)) == set(EVENT_TYPES)
    assert set(ev.__all__) >= {kind.__name__ for kind in EVENT_TYPES}


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_begins_with_its_name_and_its_time(kind: type) -> None:
    names = kind.__struct_fields__  # type: ignore[attr-defined]
    assert names[0] == "at"
    config = kind.__struct_config__  # type: ignore[attr-defined]
    assert (config.tag, config.array_like, config.frozen) == (kind.__name__, True, True)
    assert kind.__doc__


def test_the_form_on_disk() -> None:
    data = encode_events([ev.MessageRecalled(5, 7, "impl_001"), ev.MessageReady(6, 7)])
    assert msgspec.msgpack.decode(data) == [["MessageRecalled", 5, 7, "impl_001"], ["MessageReady", 6, 7]]


def test_a_field_that_a_later_version_added_is_let_through() -> None:
    data = msgspec.msgpack.encode([["MessageReady", 6, 7, "from the future"]])
    assert decode_events(data) == [ev.MessageReady(6, 7)]


@pytest.mark.parametrize(
    "rows", [[["MessageVanished", 6, 7]], [["MessageReady", 6]], [["MessageReady", "now", 7]], [{"at": 6}]]
)
def test_what_is_no_event_is_refused(rows: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_events(msgspec.msgpack.encode(rows))
