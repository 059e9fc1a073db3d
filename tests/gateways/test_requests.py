"""Requests to the hub: their headers are those that Starlette would return."""

from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from tocsin.gateways.requests import HubRequest

NAMES = st.sampled_from(["accept", "host", "mcp-name", "tocsin-receipt"])
HEADERS = st.lists(st.tuples(NAMES.map(str.encode), st.binary(max_size=4)), max_size=8)


@given(HEADERS, st.one_of(NAMES, NAMES.map(str.upper)))
def test_headers_are_those_of_starlette(headers: list[tuple[bytes, bytes]], name: str) -> None:
    scope = {"type": "http", "headers": headers}
    found, expected = HubRequest(scope).headers, Request(scope).headers
    assert found.get(name, "none") == expected.get(name, "none")
    assert found.getlist(name) == expected.getlist(name)
    assert (name in found) == (name in expected)
    assert found.items() == expected.items()
    assert dict(found) == dict(expected)
