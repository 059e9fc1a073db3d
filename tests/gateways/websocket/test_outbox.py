"""The outgoing queue of one socket: urgent items leave before those that wait."""

import asyncio
from typing import Any

import msgspec

from tocsin.gateways.websocket.outbox import Outbox
from tocsin.hub.observability.counters import Count
from tocsin.wire.socket import Answer, Item


class Wire:
    """Keeps the frames that are written."""

    def __init__(self) -> None:
        self.frames: list[list[int]] = []

    def send(self, data: bytes) -> None:
        self.frames.append([item["re"] for item in msgspec.json.decode(data)])


def outbox_to(wire: Any) -> Outbox:
    outbox = Outbox(8, 1 << 20, Count(), lambda: None, lambda reason: None)
    outbox.open(wire)
    return outbox


def item(number: int) -> Item:
    return Answer(number, {})


async def test_an_urgent_item_is_written_at_once() -> None:
    wire = Wire()
    outbox = outbox_to(wire)
    for number in (1, 2):
        outbox.put(item(number), 10)
    outbox.put_urgent(item(3), 10)
    assert wire.frames == [[3]]
    assert outbox.queued_bytes == 20
    await asyncio.sleep(0)
    assert wire.frames == [[3], [1, 2]]
    assert outbox.queued_bytes == 0


async def test_urgent_items_are_first_when_the_client_reads_again() -> None:
    wire = Wire()
    outbox = outbox_to(wire)
    outbox.writable(now=False)
    outbox.put(item(1), 10)
    outbox.put_urgent(item(2), 10)
    outbox.put_urgent(item(3), 10)
    await asyncio.sleep(0)
    assert wire.frames == []
    outbox.writable(now=True)
    await asyncio.sleep(0)
    assert wire.frames == [[2, 3], [1]]
    outbox.abandon()
    outbox.put_urgent(item(4), 10)
    assert (wire.frames, outbox.queued_bytes) == ([[2, 3], [1]], 0)
