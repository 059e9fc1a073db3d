"""Pushes of one session, apart from their socket."""

from typing import Any

import msgspec
import pytest

from tests.hub.hosting.test_outgoing import push
from tocsin.core.commands import messages
from tocsin.core.protocol import rendering
from tocsin.gateways.websocket.pushes import Pushes
from tocsin.hub.observability.counters import Count


class Sizes:
    """An outbox that keeps the items and their sizes."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        self.items: list[tuple[Any, int]] = []

    def put(self, item: Any, size: int) -> None:
        self.items.append((item, size))


def test_an_envelope_is_written_once_for_each_push(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    render = rendering.render_envelope

    def counted(*arguments: Any) -> bytes:
        nonlocal written
        written += 1
        return render(*arguments)

    monkeypatch.setattr(messages, "render_envelope", counted)
    outbox = Sizes()
    pushes = Pushes(None, outbox, 1 << 20, Count())  # type: ignore[arg-type]
    pushes.begin()
    pushes.take(push("msg_1"))
    assert written == 1
    ((item, size),) = outbox.items
    assert size > len(bytes(item.deliver.envelope)) > 0
    assert msgspec.json.decode(item.deliver.envelope)["messageId"] == "msg_1"
