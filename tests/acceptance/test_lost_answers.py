"""Answers that are lost on a real socket: what nobody has read is never delivered, over HTTP and MCP.

A caller drains its inbox and resets the connection while the hub answers, many times. Then a caller that quotes cursors
takes what is left. Every message must have been read by it, however often its answer was lost before.
"""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.forks import MCP
from tests.patience import PATIENCE_S
from tocsin.cli.remote import Remote

MESSAGES = 60
#: Messages that one answer carries.
TAKEN = 4
LOST_MAX = 40
#: An answer counts as lost after a moment; quotas are no subject here.
POLICY = """
delivery: {receipt_timeout_s: {push: 30, piggyback: 0.3, daemon: 30}, poll_retries_max: 1000}
storage: {projection_interval_s: 0.02}
"""
#: How much of an answer arrives before the connection is reset: nothing, the first byte, the head.
CUTS = (0, 1, 64)


def drain(receipt: str = "") -> dict[str, Any]:
    return {"path": "/v1/inbox/drain", "body": {"limit": TAKEN, "receipt": receipt}}


def fetch(receipt: str = "") -> dict[str, Any]:
    arguments = {"limit": TAKEN} | ({"receipt": receipt} if receipt else {})
    params = {"name": "fetch_inbox", "arguments": arguments}
    return {"path": "/mcp", "body": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}}


def drained(answer: Any) -> tuple[list[str], str]:
    return [item["signal_id"] for item in answer["deliveries"]], answer["cursor"]


def fetched(answer: Any) -> tuple[list[str], str]:
    content = answer["result"]["structuredContent"]
    return [mail["message_id"] for mail in content["messages"]], content.get("inbox", {}).get("cursor", "")


@contextmanager
def connected(hub: RunningHub, token: str, path: str, body: Any) -> Iterator[socket.socket]:
    """Send a request over a socket of its own."""
    place = urlsplit(hub.url)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S) as line:
        line.sendall(head.encode() + content)
        yield line


def lose(hub: RunningHub, token: str, request: dict[str, Any], cut: int) -> None:
    """Make a request and reset the connection when so much of the answer has arrived."""
    with connected(hub, token, **request) as line:
        if cut:
            line.recv(cut)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def ask(hub: RunningHub, token: str, request: dict[str, Any]) -> Any:
    with connected(hub, token, **request) as line:
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), answer[:2000]
    return json.loads(content)


@pytest.mark.parametrize(("request_of", "read"), [(drain, drained), (fetch, fetched)], ids=["http", "mcp"])
def test_what_was_lost_on_the_way_is_handed_out_again(
    tmp_path: Path, request_of: Callable[..., dict[str, Any]], read: Callable[[Any], tuple[list[str], str]]
) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "tocsin.yaml").write_text(POLICY)
    with RunningHub(tmp_path / "data", imported=MCP) as hub:
        admin = Remote(hub.url, (hub.data / "admin.token").read_text().strip())
        tokens = {}
        for agent, role in (("boss", "director"), ("bob", "primary")):
            body = {"agent": agent, "role": role, "type": "AdHoc"}
            tokens[agent] = admin.post("v1", "admin", "tokens", body=body)["token"]
        boss = Remote(hub.url, tokens["boss"])
        sent = [f"msg_{number}_x" for number in range(MESSAGES)]
        for name in sent:
            boss.post("v1", "messages", body=envelope(name, "boss", "bob", sender_type="AdHoc", priority=None))

        seen: set[str] = set()
        for number in range(LOST_MAX):
            lose(hub, tokens["bob"], request_of(), CUTS[number % len(CUTS)])
            if number % 4 == 0:
                # An answer that arrives, whose cursor is not quoted.
                read(ask(hub, tokens["bob"], request_of()))
        states = {name: boss.get("v1", "messages", name)[0]["state"] for name in sent}
        assert set(states.values()) <= {"queued", "offered"}, "nothing was quoted, so nothing is delivered"

        cursor = ""
        while any(boss.get("v1", "messages", name)[0]["state"] != "delivered" for name in sorted(set(sent) - seen)):
            names, cursor = read(ask(hub, tokens["bob"], request_of(cursor)))
            seen.update(names)
        read(ask(hub, tokens["bob"], request_of(cursor)))
        assert seen == set(sent)
        assert {boss.get("v1", "messages", name)[0]["state"] for name in sent} == {"delivered"}
