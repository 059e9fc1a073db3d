"""Previews of payloads: whole ones, cut ones, and those without a text."""

import json

import pytest

from tocsin.core.protocol.previews import preview


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"text": "the parser is on fire"}, "the parser is on fire"),
        ({"text": "  two\n\nlines\t"}, "two lines"),
        ({"id": 7, "question": "merge it?"}, "merge it?"),
        ({"summary": "second", "text": "first"}, "first"),
        ({"text": "", "title": "only a title"}, "only a title"),
        ({"taskId": "t-1", "taskRef": "T1", "taskDescription": "Port the parser"}, "Port the parser"),
        ({"taskId": "t-1", "status": "in_progress", "currentStep": "tests"}, "tests"),
        ({"done": 3, "of": 7}, '{"done":3,"of":7}'),
        ({"text": {"nested": True}}, '{"text":{"nested":true}}'),
        ({}, ""),
        ("a bare text", "a bare text"),
        (None, ""),
    ],
)
def test_a_preview_is_the_text_of_a_payload_in_one_line(payload: object, expected: str) -> None:
    assert preview(json.dumps(payload).encode(), 40) == expected


def test_a_long_text_is_shortened() -> None:
    line = preview(json.dumps({"text": "word " * 1000}).encode(), 40)
    assert len(line) <= 40
    assert line.startswith("word word")
    assert line.endswith("…")


@pytest.mark.parametrize("cut", [40, 47, 60, 200])
def test_the_text_is_found_in_the_beginning_of_a_large_payload(cut: int) -> None:
    payload = json.dumps({"id": 1, "text": 'say "hello" \u00e9 ' + "and more " * 500, "title": "no"})
    line = preview(payload[:cut].encode(), 30)
    assert line.startswith('say "hello"')


def test_a_cut_payload_without_a_text_is_shown_as_it_is() -> None:
    assert preview(b'{"figures":[1,2,3,4', 40) == '{"figures":[1,2,3,4'


def test_a_preview_of_no_payload_is_empty() -> None:
    assert preview(b"", 40) == ""
