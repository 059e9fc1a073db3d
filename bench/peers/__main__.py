"""Comparison of Tocsin with other systems: the same work in one run on this machine.

Each system runs in its own process, with its own server if it has one. Rounds are interleaved and figures are medians
over them, because other load on the machine varies. A message counts as done when it is confirmed to its sender and
acknowledged by its consumer; the time ends with the last one. Only systems whose confirmation means "on disk" are
compared with Tocsin, whose confirmation always does; the floors are not peers.
"""

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

import msgspec

from bench.peers.peer import LEVELS
from bench.peers.run import PEERS, Task, peer_of
from bench.peers.servers import Missing
from bench.peers.work import MAILBOXES, MESSAGE_BYTES, SENDERS, Found
from bench.report import table

TOCSIN = "tocsin_"
FLOOR = "floor_"


def measure(task: Task, patience_s: float) -> Found | str:
    """Run one system's work; return the reason as text if it cannot run here."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.peers.run"],
            input=msgspec.json.encode(task),
            capture_output=True,
            check=False,
            timeout=patience_s,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {patience_s:.0f} s"
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a word"])[-1]
        return last.removeprefix(f"{Missing.__module__}.{Missing.__qualname__}: ")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Found)


def middle(rounds: list[Found]) -> dict[str, Any]:
    """Combine rounds: medians of numbers; a condition holds if it held in all rounds; missing values stay missing."""
    told: dict[str, Any] = {}
    for field in Found.__struct_fields__:
        values = [getattr(found, field) for found in rounds]
        if isinstance(values[0], bool):
            told[field] = all(values)
        elif None in values:
            told[field] = None
        elif field == "missing":
            told[field] = max(values)
        else:
            told[field] = statistics.median(values)
    return told


def cells(name: str, told: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    peer, critical = peer_of(name), told["critical_under_backlog_ms"]
    honoured = "yes" if told["priorities_honoured"] and told["oldest_first"] else "NO"
    return [
        peer.title,
        "yes" if peer.fsynced else "no",
        f"{told['per_s']:,.0f}",
        f"{told['confirmed_per_s']:,.0f}",
        f"{told['crowd_p99_ms']:.1f}",
        f"{told['alone_p50_ms']:.2f}",
        f"{told['alone_p99_ms']:.2f}",
        f"{told['end_p50_ms']:.2f}",
        "not in time" if critical is None else f"{critical:.2f}",
        f"{honoured}, {peer.priorities}",
    ]


def figures(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures for the last line."""
    rates = {name: told["per_s"] for name, told in results.items()}
    peers = {
        name: rate for name, rate in rates.items() if not name.startswith((TOCSIN, FLOOR)) and peer_of(name).fsynced
    }
    best = max(peers, key=lambda name: peers[name], default=None)
    said: dict[str, Any] = {f"{name}_per_s": round(rate, 1) for name, rate in rates.items()}
    said["best_fsynced_peer"] = best
    for name, word in (("tocsin_embedded", "embedded"), ("tocsin_ws", "ws")):
        if best is not None and name in rates:
            said[f"ratio_{word}_to_best_fsynced_peer"] = round(rates[name] / peers[best], 3)
    for key in ("critical_under_backlog_ms", "alone_p50_ms", "end_p50_ms"):
        said[key] = {name: told[key] and round(told[key], 3) for name, told in results.items()}
    for key in ("priorities_honoured", "missing", "backlog"):
        said[key] = {name: told[key] for name, told in results.items()}
    return said


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="seconds of the crowd, per round; the single sender gets half"
    )
    parser.add_argument("--backlog", type=int, default=100_000, help="messages in the backlog before a Critical one")
    parser.add_argument("--patience", type=float, default=600.0, help="time limit for one system in one round, seconds")
    parser.add_argument("--only", nargs="*", choices=[*PEERS], default=[*PEERS])
    chosen = parser.parse_args()
    rounds: dict[str, list[Found]] = {}
    left_out: dict[str, str] = {}
    for number in range(chosen.rounds):
        for name in chosen.only:
            if name in left_out:
                continue
            print(f"round {number + 1} of {chosen.rounds}: {name}", file=sys.stderr)
            found = measure(Task(name, chosen.seconds, chosen.backlog), chosen.patience)
            if isinstance(found, str):
                left_out[name] = found
            else:
                rounds.setdefault(name, []).append(found)
    results = {name: middle(found) for name, found in rounds.items() if name not in left_out}
    print(
        f"{SENDERS} senders that wait for their confirmation, {MESSAGE_BYTES} bytes, {MAILBOXES} mailboxes with a"
        f" consumer each, {LEVELS} priorities;\nmedians of {chosen.rounds} rounds of {chosen.seconds:g} s;"
        f" Critical: sent last, with {chosen.backlog:,} before it\n"
    )
    head = [
        *("", "fsynced", "messages/s", "confirmed/s", "p99 ms"),
        *("alone p50", "p99 ms", "to consumer", "Critical ms", "priorities honoured"),
    ]
    print(table(head, [cells(name, told) for name, told in results.items()]))
    print("\nguarantees of a confirmation")
    for name in results:
        print(f"  {peer_of(name).title}: {peer_of(name).promise}")
    for name, told in results.items():
        if told["missing"]:
            print(
                f"  {peer_of(name).title}: up to {told['missing']} confirmed messages had not been consumed at the end"
            )
    for name, why in left_out.items():
        print(f"left out: {name}: {why}")
    print(json.dumps(figures(results) | {"left_out": left_out}))


if __name__ == "__main__":
    main()
