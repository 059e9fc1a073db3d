"""Comparison of Tocsin with other systems: the same work in one run on this machine.

Each system runs in its own process, with its own server if it has one. Rounds are interleaved and figures are medians
over them, because other load on the machine varies. A message counts as done when it is confirmed to its sender and
acknowledged by its consumer; the time ends with the last one. Only systems whose confirmation means "on disk" are
compared with Tocsin, whose confirmation always does; the floors are not peers. The floor is a bare file with one
`fdatasync` per group: with 64 senders for throughput, with one sender for the time of a single send.
"""

import statistics
import subprocess
import sys
from typing import Any

import msgspec

from bench.peers.peer import LEVELS
from bench.peers.run import PEERS, Task, peer_of
from bench.peers.servers import Missing
from bench.peers.work import MAILBOXES, MESSAGE_BYTES, SENDERS, Checked, Found, Sizes
from bench.report import Aim, Run, options, table

TOCSIN = "tocsin_"
FLOOR = "floor_file"
ROUNDS = 5
#: Systems that are measured by default: those that the aims name.
USUAL = ("tocsin_embedded", "tocsin_ws", "postgres", "redis_always", FLOOR)
QUICK = Sizes(crowd=1000, alone=50, load=2000, backlog=2000)
AIMS = (
    Aim("ratio_embedded_to_best_fsynced_peer", ">=", 2, "embedded, 64 senders that wait, over the best such peer"),
    Aim("ratio_ws_to_best_fsynced_peer", ">=", 1.2, "the same over WebSocket"),
    Aim("embedded_over_floor", ">=", 0.6, "embedded over the floor, 64 senders that wait"),
    Aim("embedded_send_many_over_floor", ">=", 0.9, "embedded, a sender that does not wait, over the same floor"),
    Aim("loop_over_floor_loop", "<=", 1.8, "processor time of the event loop per message, over the floor's"),
    Aim("single_p50_over_floor_embedded", "<=", 1.5, "one sender, p50 of a send, over the floor's"),
    Aim("single_p50_over_floor_ws", "<=", 2.5, "the same over WebSocket"),
    Aim("load_embedded_over_best_peer", ">=", 1, "embedded, sent at once, over the best peer that fsyncs"),
)

Results = dict[str, dict[str, Any]]


def start(task: Task, patience_s: float) -> bytes | str:
    """Run one system's work; return its result, or the reason as text if it cannot run here."""
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
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a message"])[-1]
        return last.removeprefix(f"{Missing.__module__}.{Missing.__qualname__}: ")
    return done.stdout.splitlines()[-1]


def middle(rounds: list[Found]) -> dict[str, Any]:
    """Combine rounds: medians of figures, and the most messages that were missing."""
    told: dict[str, Any] = {}
    for field in Found.__struct_fields__:
        values = [getattr(found, field) for found in rounds]
        told[field] = max(values) if field == "missing" else statistics.median(values)
    return told


def cells(name: str, told: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    peer = peer_of(name)
    return [
        peer.title,
        "yes" if peer.fsynced else "no",
        f"{told['per_s']:,.0f}",
        f"{told['crowd_p99_ms']:.1f}",
        f"{told['loop_us']:.0f}",
        f"{told['many_per_s']:,.0f}",
        f"{told['alone_p50_ms']:.2f}",
        f"{told['alone_p99_ms']:.2f}",
        f"{told['end_p50_ms']:.2f}",
        f"{told['load_per_s']:,.0f}",
        f"{told['drained_per_s']:,.0f}",
    ]


def best_of(results: Results, field: str) -> str | None:
    """Return the best system that is neither Tocsin nor a floor and whose confirmation means "on disk"."""
    peers = {name for name in results if not name.startswith((TOCSIN, "floor_")) and peer_of(name).fsynced}
    return max(peers, key=lambda name: float(results[name][field]), default=None)


def figures(results: Results) -> dict[str, Any]:
    """Return the figures for the last line; a ratio is that of the medians."""
    said: dict[str, Any] = {}
    for field in ("per_s", "many_per_s", "load_per_s", "drained_per_s"):
        said |= {f"{name}_{field}": round(told[field], 1) for name, told in results.items()}

    def over(name: str, above: str, field: str, below: str | None, other_field: str = "") -> None:
        if above in results and below in results:
            said[name] = round(results[above][field] / results[below][other_field or field], 3)

    said["best_fsynced_peer"] = best = best_of(results, "per_s")
    over("ratio_embedded_to_best_fsynced_peer", "tocsin_embedded", "per_s", best)
    over("ratio_ws_to_best_fsynced_peer", "tocsin_ws", "per_s", best)
    over("embedded_over_floor", "tocsin_embedded", "per_s", FLOOR)
    over("ws_over_floor", "tocsin_ws", "per_s", FLOOR)
    over("embedded_send_many_over_floor", "tocsin_embedded", "many_per_s", FLOOR, "per_s")
    over("embedded_send_many_over_floor_send_many", "tocsin_embedded", "many_per_s", FLOOR)
    over("loop_over_floor_loop", "tocsin_embedded", "loop_us", FLOOR)
    over("single_p50_over_floor_embedded", "tocsin_embedded", "alone_p50_ms", FLOOR)
    over("single_p50_over_floor_ws", "tocsin_ws", "alone_p50_ms", FLOOR)
    said["best_fsynced_peer_load"] = best = best_of(results, "load_per_s")
    over("load_embedded_over_best_peer", "tocsin_embedded", "load_per_s", best)
    over("load_ws_over_best_peer", "tocsin_ws", "load_per_s", best)
    over("load_embedded_over_floor", "tocsin_embedded", "load_per_s", FLOOR)
    said["best_fsynced_peer_drained"] = best = best_of(results, "drained_per_s")
    over("drained_embedded_over_best_peer", "tocsin_embedded", "drained_per_s", best)
    for field in ("alone_p50_ms", "alone_p99_ms", "end_p50_ms", "crowd_p99_ms", "loop_us", "many_loop_us"):
        said[field] = {name: round(told[field], 3) for name, told in results.items()}
    said["missing"] = {name: told["missing"] for name, told in results.items()}
    return said


def promises(checked: dict[str, Checked]) -> dict[str, Any]:
    """Return the figures of the checks."""
    return {
        "critical_under_backlog_ms": {
            name: found.critical_under_backlog_ms and round(found.critical_under_backlog_ms, 3)
            for name, found in checked.items()
        },
        "priorities_honoured": {
            name: found.priorities_honoured and found.oldest_first for name, found in checked.items()
        },
    }


def checked_table(checked: dict[str, Checked]) -> str:
    """Return the table of the checks."""
    rows = []
    for name, found in checked.items():
        critical_ms = found.critical_under_backlog_ms
        honoured = "yes" if found.priorities_honoured and found.oldest_first else "NO"
        shown = "not in time" if critical_ms is None else f"{critical_ms:.2f}"
        rows.append([peer_of(name).title, shown, f"{honoured}, {peer_of(name).priorities}"])
    return table(["", "Critical ms", "priorities honoured"], rows)


def main() -> None:
    parser = options("bench-peers", __doc__, rounds=ROUNDS)
    default = Sizes()
    parser.add_argument("--messages", type=int, default=None, help=f"messages per round (default: {default.crowd})")
    parser.add_argument("--load", type=int, default=None, help=f"messages sent at once (default: {default.load})")
    parser.add_argument("--backlog", type=int, default=None, help=f"messages before a Critical one ({default.backlog})")
    parser.add_argument("--patience", type=float, default=600.0, help="time limit for one system in one round, seconds")
    parser.add_argument("--only", nargs="*", choices=[*PEERS], default=None, help=f"systems (default: {USUAL})")
    parser.add_argument("--all", action="store_true", help="all systems")
    chosen = parser.parse_args()
    base = QUICK if chosen.quick else default
    sizes = Sizes(chosen.messages or base.crowd, base.alone, chosen.load or base.load, chosen.backlog or base.backlog)
    names = chosen.only or ([*PEERS] if chosen.all else [*USUAL])
    rounds: dict[str, list[Found]] = {}
    checked: dict[str, Checked] = {}
    left_out: dict[str, str] = {}
    with Run("bench-peers", chosen, rounds=ROUNDS) as run:
        for number in range(run.rounds):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                if name in left_out:
                    continue
                print(f"round {number + 1} of {run.rounds}: {name}", file=sys.stderr)
                found = start(Task(name, sizes), chosen.patience)
                if isinstance(found, str):
                    left_out[name] = found
                else:
                    rounds.setdefault(name, []).append(msgspec.json.decode(found, type=Found))
        for name in [name for name in names if name not in left_out]:
            print(f"promises: {name}", file=sys.stderr)
            found = start(Task(name, sizes, check=True), chosen.patience)
            if isinstance(found, str):
                left_out[name] = found
            else:
                checked[name] = msgspec.json.decode(found, type=Checked)
    results = {name: middle(rounds[name]) for name in names if name not in left_out}
    head = [
        *("", "fsynced", "messages/s", "p99 ms", "loop µs", "not waiting/s"),
        *("alone p50", "p99 ms", "to consumer", "loaded/s", "drained/s"),
    ]
    text = (
        f"{SENDERS} senders that wait for their confirmation, or one that does not; {MESSAGE_BYTES} bytes, {MAILBOXES}"
        f" mailboxes with a\nconsumer each, {LEVELS} priorities; {sizes.crowd:,} messages per round; {sizes.load:,}"
        f" loaded at once, then drained\n\n" + table(head, [cells(name, told) for name, told in results.items()])
    )
    text += f"\n\nCritical, sent behind a backlog of {sizes.backlog:,}:\n" + checked_table(checked)
    guarantees = ["guarantees of a confirmation"]
    guarantees += [f"  {peer_of(name).title}: {peer_of(name).promise}" for name in results]
    notes = [
        f"{peer_of(name).title}: up to {told['missing']} confirmed messages had not been consumed at the end"
        for name, told in results.items()
        if told["missing"]
    ]
    notes += [f"left out: {name}: {why}" for name, why in left_out.items()]
    said = figures(results) | promises(checked) | {"left_out": left_out}
    run.finish("\n".join([text, *notes]), said, AIMS, details=["\n".join(guarantees)])


if __name__ == "__main__":
    main()
