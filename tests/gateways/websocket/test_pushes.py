"""Pushes of a session."""

from pathlib import Path
from typing import Any

import pytest

from tests.envelopes import envelope
from tests.gateways.websocket.sockets import socket_team
from tocsin.core.commands import messages
from tocsin.core.protocol import rendering


async def test_an_envelope_is_written_once_for_each_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    render = rendering.render_envelope

    def counted(*arguments: Any) -> bytes:
        nonlocal written
        written += 1
        return render(*arguments)

    async with socket_team(tmp_path) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob", window=10)
        monkeypatch.setattr(messages, "render_envelope", counted)
        for number in (1, 2):
            await ada.ok("send_message", envelope=envelope(number))
        assert await bob.take(2) == ["msg_1_x", "msg_2_x"]
        assert written == 2
