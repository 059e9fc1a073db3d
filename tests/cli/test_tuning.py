"""What `tocsin serve` sets in the interpreter."""

import subprocess
import sys

#: Decode a body of 100,000 lists, and print how often the garbage collector has looked at young objects meanwhile.
CODE = """
import asyncio, gc, msgspec
from tocsin.cli.serve import _tune
from tocsin.hub.config import load_config

async def collections():
    _tune(load_config())
    body = b"[" + b",".join([b"[1]"] * 100_000) + b"]"
    before = gc.get_stats()[0]["collections"]
    decoded = msgspec.json.decode(body)
    print(gc.get_stats()[0]["collections"] - before, len(decoded))

asyncio.run(collections())
"""


def test_the_garbage_collector_looks_seldom_at_a_body_of_many_lists() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)  # noqa: S603
    collections, lists = map(int, done.stdout.split())
    assert lists == 100_000
    assert 5 <= collections <= 15, "about 1 in 10,000 lists"
