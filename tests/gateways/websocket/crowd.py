"""A process that opens many plain socket connections, one per agent, for load tests.

Each connection uses the token of its agent, one line of the given file. The process prints `up` when all sessions are
open, `got N` when each agent has received a message, and then waits for a line of input.
"""

import json
import select
import socket
import struct
import sys
import time
from pathlib import Path

#: Connections that are made at a time; as many more say hello, and as many are welcomed, meanwhile.
BATCH = 100
#: A sign of life is shown this often, seconds.
BEAT_S = 15


def frame(operations: list[object]) -> bytes:
    body = json.dumps(operations).encode()
    size = bytes([0x80 | len(body)]) if len(body) < 126 else bytes([0x80 | 126]) + struct.pack("!H", len(body))
    return b"\x81" + size + b"\0\0\0\0" + body


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        some = connection.recv(count - len(data))
        if not some:
            raise SystemExit("the hub hung up")
        data += some
    return data


def items(connection: socket.socket) -> list[dict[str, object]]:
    """Read one frame and return its items; answer a ping and return no items."""
    first, second = exactly(connection, 2)
    size = second & 127
    if size == 126:
        (size,) = struct.unpack("!H", exactly(connection, 2))
    body = exactly(connection, size)
    if first & 15 == 9:
        connection.sendall(b"\x8a" + bytes([0x80 | len(body)]) + b"\0\0\0\0" + body)
        return []
    if first & 15 != 1:
        raise SystemExit(f"the hub closed: {body!r}")
    found: list[dict[str, object]] = json.loads(body)
    return found


def knock(port: int, token: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    lines = [
        "GET /v1/socket HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: tocsin.v1",
        f"Authorization: Bearer {token}",
    ]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return connection


def enter(connection: socket.socket) -> None:
    head = b""
    # The hub sends nothing more before hello.
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(4096) or exactly(connection, 1)
    if b" 101 " not in head:
        raise SystemExit(head.decode())
    connection.sendall(frame([{"op": "hello", "id": 1, "type": "AdHoc", "window": 4}]))


def welcome(connection: socket.socket) -> None:
    (answer,) = items(connection)
    if "ok" not in answer:
        raise SystemExit(str(answer))


def main() -> None:
    port, count = map(int, sys.argv[1:3])
    tokens = Path(sys.argv[3]).read_text(encoding="utf-8").split()
    agents = len(tokens)
    poll = select.poll()
    crowd: dict[int, socket.socket] = {}
    shown_at = time.monotonic()
    knocking: list[socket.socket] = []
    entering: list[socket.socket] = []
    start = 0
    while start < count or knocking or entering:
        some = [knock(port, tokens[number % agents]) for number in range(start, min(count, start + BATCH))]
        start += BATCH
        for connection in entering:
            welcome(connection)
            crowd[connection.fileno()] = connection
            poll.register(connection, select.POLLIN)
        for connection in knocking:
            enter(connection)
        knocking, entering = some, knocking
        if time.monotonic() - shown_at > BEAT_S:
            shown_at = time.monotonic()
            for connection in crowd.values():
                connection.sendall(frame([{"op": "ping", "id": 2}]))
        for number, _ in poll.poll(0):
            items(crowd[number])
    sys.stdout.write("up\n")
    sys.stdout.flush()
    got: set[str] = set()
    while len(got) < agents:
        for number, _ in poll.poll(60_000):
            for item in items(crowd[number]):
                push = item.get("deliver")
                if not isinstance(push, dict):
                    continue
                got.add(push["envelope"]["receiver"]["agentId"])
                crowd[number].sendall(frame([{"op": "confirm_messages", "message_ids": [push["signal_id"]]}]))
    sys.stdout.write(f"got {len(got)}\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    main()
