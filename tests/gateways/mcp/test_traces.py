"""A trace goes on through the tools, and metadata goes with a message: over both ways, with the official client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, use_span

from tests.gateways.mcp.clients import Caller, Hub, Way, over_http, over_stdio
from tests.loopback import async_client
from tocsin.cli.remote import Remote
from tocsin.gateways.mcp.inbox import shown
from tocsin.wire.traces import trace_in

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
OTHER = f"00-{'1' * 32}-{'2' * 16}-01"


def span() -> NonRecordingSpan:
    """What an application is doing while it calls a tool."""
    state = TraceState([("vendor", "1")])
    trace, parent = int(TRACE, 16), int(PARENT, 16)
    return NonRecordingSpan(SpanContext(trace, parent, False, TraceFlags(1), state))


async def fetched(caller: Caller) -> list[dict[str, Any]]:
    """Take what waits, with what came along because it is urgent."""
    answer = await caller.do("fetch_inbox")
    return [*answer["messages"], *answer["inbox"]["urgent"]]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_a_client_is_doing_is_the_parent_of_what_it_sends(
    hub: Hub, way: Way, pair: tuple[str, str], mode: str
) -> None:
    """The client writes its trace into `_meta` of every request; whoever gets the message sees it."""
    one, two = pair
    async with way(hub, one, mode) as ada, over_http(hub, two) as bob:
        await bob.do("subscribe_topic", topic=f"{one}.news")
        with use_span(span()):
            await ada.do("post_message", to=two, text="hello")
            await ada.do("publish_topic", topic=f"{one}.news", text="news")
            await ada.do("post_message", to=two, text="mine", metadata={"traceparent": OTHER})
        await ada.do("post_message", to=two, text="without")
        found = {mail["payload"]["text"]: mail["metadata"] for mail in await fetched(bob)}
        assert {text: metadata.get("traceparent") for text, metadata in found.items()} == {
            "hello": TRACEPARENT,
            "news": TRACEPARENT,
            "mine": OTHER,
            "without": None,
        }
        assert found["hello"]["tracestate"] == "vendor=1"
        asked = (await bob.do("post_message", to=one, text="well?"))["message_id"]
        with use_span(span()):
            await ada.do("reply_message", message_id=asked, text="well.")
        (answer,) = await fetched(bob)
        assert answer["metadata"]["traceparent"] == TRACEPARENT


@asynccontextmanager
async def with_headers(hub: Hub, agent: str, **headers: str) -> AsyncIterator[Caller]:
    known = {"Authorization": f"Bearer {hub.token(agent)}"} | headers
    async with (
        async_client(headers=known, timeout=30) as http,
        Client(streamable_http_client(hub.url + "/mcp", http_client=http)) as client,
    ):
        yield Caller(client)


async def test_a_trace_may_come_as_a_header_and_the_nearer_one_counts(hub: Hub, pair: tuple[str, str]) -> None:
    one, two = pair
    async with with_headers(hub, one, traceparent=OTHER) as ada, over_http(hub, two) as bob:
        await ada.do("post_message", to=two, text="header")
        with use_span(span()):
            await ada.do("post_message", to=two, text="meta")
        found = {mail["payload"]["text"]: mail["metadata"]["traceparent"] for mail in await fetched(bob)}
        assert found == {"header": OTHER, "meta": TRACEPARENT}


@pytest.mark.parametrize(
    ("carrier", "found"),
    [
        ({}, {}),
        ({"traceparent": TRACEPARENT}, {"traceparent": TRACEPARENT}),
        ({"traceparent": TRACEPARENT, "tracestate": "a=1,b=2"}, {"traceparent": TRACEPARENT, "tracestate": "a=1,b=2"}),
        ({"traceparent": TRACEPARENT, "tracestate": "a=1\r\nHost: elsewhere"}, {"traceparent": TRACEPARENT}),
        ({"traceparent": TRACEPARENT, "tracestate": "a=ä"}, {"traceparent": TRACEPARENT}),
        ({"traceparent": TRACEPARENT, "tracestate": "a" * 513}, {"traceparent": TRACEPARENT}),
        ({"traceparent": TRACEPARENT, "tracestate": 7}, {"traceparent": TRACEPARENT}),
        ({"traceparent": TRACEPARENT + "\r\nHost: elsewhere"}, {}),
        ({"traceparent": ["x"]}, {}),
        ({"tracestate": "a=1"}, {}),
    ],
)
def test_only_a_trace_that_is_one_goes_on(carrier: dict[str, Any], found: dict[str, str]) -> None:
    assert trace_in(carrier) == found


async def test_what_is_no_trace_in_meta_breaks_nothing(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    one, two = pair
    async with way(hub, one) as ada, over_http(hub, two) as bob:
        garbage: Any
        for garbage in (7, "nonsense", [], TRACEPARENT + "\r\nX: y"):
            meta: Any = {"traceparent": garbage, "tracestate": garbage}
            arguments = {"to": two, "text": str(garbage)}
            assert not (await ada.client.call_tool("post_message", arguments, meta=meta)).is_error
        assert ["traceparent" in mail["metadata"] for mail in await fetched(bob)] == [False] * 4


async def test_metadata_goes_both_ways(hub: Hub, pair: tuple[str, str]) -> None:
    """What a tool sends arrives over HTTP, and what came over HTTP is shown by a tool."""
    one, two = pair
    async with over_stdio(hub, one) as ada, over_http(hub, two) as bob:
        facts = {"tags": ["build"], "run": {"number": 7}}
        sent = await ada.do("post_message", to=two, text="x", metadata=facts, ttl_s=60)
        (mail,) = await fetched(bob)
        assert mail["metadata"] == facts | {"ttl": 60.0, "retryCount": 0}
        assert "metadata_omitted" not in mail
        copies = Remote(hub.url, hub.token(one)).get("v1", "messages", sent["message_id"])
        assert copies[0]["metadata"] == facts | {"ttl": 60.0}
        problem = await ada.refused("post_message", to=two, text="x", metadata={"tags": "build"})
        assert (problem["code"], problem["field"]) == ("E_VALIDATION_002", "metadata.tags")


async def test_metadata_that_is_too_large_to_show_is_left_out_and_can_be_looked_up(
    hub: Hub, way: Way, pair: tuple[str, str]
) -> None:
    one, two = pair
    async with over_http(hub, one) as ada, way(hub, two) as bob:
        facts = {"large": "x" * 100_000, "traceparent": OTHER}
        await ada.do("post_message", to=two, text="x", metadata=facts, priority="Critical")
        (mail,) = await fetched(bob)
        assert (mail["metadata"]["traceparent"], mail["metadata_omitted"]) == (OTHER, 1)
        assert "large" not in mail["metadata"]
        (copy,) = (await bob.do("get_message", message_id=mail["message_id"]))["items"]
        assert copy["metadata"] == facts


def test_the_small_facts_are_shown_first() -> None:
    envelope = {"messageId": "m", "sender": {"agentId": "ada"}, "messageType": "t", "timestamp": "", "payload": {}}
    facts = {"middle": "x" * 20, "large": "x" * 90, "small": 1}
    view = shown(envelope | {"metadata": facts}, 60, "Info")
    assert (view.metadata, view.metadata_omitted) == ({"middle": "x" * 20, "small": 1}, 1)
    assert shown(envelope, 60, "Info").metadata == {}
