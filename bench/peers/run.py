"""Process for one system's work: reads its task as JSON and writes its results as JSON."""

import importlib
import sys
import tempfile
from pathlib import Path

import msgspec
import uvloop

from bench.peers.peer import Peer
from bench.peers.work import BACKLOG, Checked, Found, Sizes, check, measure

__all__ = ["PEERS", "Task", "peer_of"]

#: Name, module and class of every system, in the order of the table.
PEERS: dict[str, tuple[str, str]] = {
    "tocsin_embedded": ("tocsin_embedded", "TocsinEmbedded"),
    "tocsin_ws": ("tocsin_socket", "TocsinSocket"),
    "postgres": ("postgres_queue", "PostgresQueue"),
    "redis_always": ("redis_streams", "RedisAlways"),
    "redis_everysec": ("redis_streams", "RedisEverySecond"),
    "nats_always": ("nats_jetstream", "NatsAlways"),
    "nats": ("nats_jetstream", "Nats"),
    "rabbitmq": ("rabbitmq", "RabbitMq"),
    "huey": ("sqlite_huey", "HueyQueue"),
    "persistqueue": ("sqlite_persistqueue", "PersistQueue"),
    "floor_file": ("floor_file", "File"),
    "floor_memory": ("floor_memory", "Memory"),
}


class Task(msgspec.Struct, frozen=True):
    """The task."""

    peer: str
    sizes: Sizes
    #: Whether to look at the promises instead of measuring.
    check: bool = False


def peer_of(name: str) -> type[Peer]:
    """Import a system's module, which needs its client library."""
    module, kind = PEERS[name]
    found: type[Peer] = getattr(importlib.import_module(f"bench.peers.{module}"), kind)
    return found


async def run(task: Task, folder: Path) -> Found | Checked:
    """Start a system, run the work, and stop the system in any case."""
    peer = peer_of(task.peer)()
    try:
        await peer.start(folder, BACKLOG + 1)
        return await (check(peer, task.sizes) if task.check else measure(peer, task.sizes))
    finally:
        await peer.close()


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    with tempfile.TemporaryDirectory(prefix="tocsin-peer-") as folder:
        found = uvloop.run(run(task, Path(folder)))
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
