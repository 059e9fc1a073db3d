"""Scenarios whose results can be computed by hand."""

import pytest

from tests.lab.histories import SETTINGS
from tocsin.lab.figures.measures import ALL, Row, measured
from tocsin.lab.replays.closed_loop import closed_loop
from tocsin.lab.replays.replay import PreparedTrace, Replay, without_schemas
from tocsin.lab.scenario import parse_scenario
from tocsin.lab.scenario_traces import build_traces
from tocsin.policies import parse_policy

FLOOD = """
name: flood
duration_s: 60
runs: 1
teams:
  flooder: {}
  worker: {session: push, window: 1000, handles: {"*": {receipt_s: 0.01}}}
loads:
  - {from: flooder-1, to: worker-1, pattern: steady, per_s: 50}
"""
STARVE = """
name: starve
duration_s: 600
runs: 1
teams:
  bulk: {role: director}
  asker: {}
  server: {session: push, window: 1, handles: {"*": {receipt_s: 1}}}
loads:
  - {from: bulk-1, to: server-1, priority: Blocking, pattern: steady, per_s: 1}
  - {from: bulk-1, to: server-1, priority: Blocking, pattern: burst, size: 20, every_s: 10000}
  - {from: asker-1, to: server-1, priority: Info, pattern: burst, size: 1, every_s: 10000, start_s: 0.5}
"""
LATE = """
name: late
duration_s: 600
runs: 1
teams:
  sender: {}
  sleeper: {session: piggyback, poll_s: 60, takes: 500, handles: {"*": {receipt_s: 0.01}}}
loads:
  - {from: sender-1, to: sleeper-1, pattern: steady, per_s: 1}
"""
POLLED = """
name: polled
duration_s: 600
runs: 1
teams:
  sender: {}
  poller: {session: piggyback, poll_s: 0.5, takes: 500, handles: {"*": {receipt_s: 0.01}}}
loads:
  - {from: sender-1, to: poller-1, pattern: burst, size: 1, every_s: 290, start_s: 1}
"""
DEADLOCK = """
name: deadlock
duration_s: 100
runs: 1
teams: {pair: {agents: 2}}
leases: [{agents: [pair-1, pair-2], every_s: 50, gap_s: 1, hold_s: 5}]
"""


def played(scenario: str, policy: str) -> tuple[Replay, dict[int, Row]]:
    (trace,) = build_traces(parse_scenario(scenario), SETTINGS)
    replay = closed_loop(PreparedTrace(trace), without_schemas(parse_policy(policy)), 1, SETTINGS.clock_us)
    return replay, {row.level: row for row in measured(replay, trace.ends_at, 300_000_000)}


def test_a_token_bucket_stops_a_flood() -> None:
    """3000 messages of 5 tokens: the bucket's 1000 and 60 s of 100 a second pay for (1000 + 6000) / 5 = 1400."""
    _, limited = played(FLOOD, "gaming: {messages_min: 1000}")
    assert limited[ALL].sent == pytest.approx(3000, abs=1)
    assert limited[ALL].accepted == pytest.approx(1400, abs=2)
    assert limited[ALL].rate_limited == limited[ALL].refused == limited[ALL].sent - limited[ALL].accepted
    _, free = played(FLOOD, "bucket: {capacity: 100000, refill_per_s: 10000}\ngaming: {messages_min: 1000}")
    assert (free[ALL].accepted, free[ALL].rate_limited) == (free[ALL].sent, 0)


def test_many_more_polls_than_recorded_commands_stay_in_order() -> None:
    """1200 polls, and three messages: each is taken by the next poll, the last one after 1160 of them."""
    replay, _ = played(POLLED, "")
    sent = [history for history in replay.histories if history.recipient == "poller-1"]
    assert [history.state for history in sent] == ["delivered"] * 3
    assert all(0 <= history.first_offered_at - history.accepted_at <= 600_000 for history in sent)


def test_aging_ends_starvation() -> None:
    """A server of one a second, one Blocking message a second, and twenty more: there is always one before Info.

    With aging Info is Coordinate after 60 s and Blocking after 120 s; it keeps its time, so it is the oldest there and
    goes next: at most one service later.
    """
    unboosted = """
escalation: {rules: {blocking_waits: {trigger: time_in_queue, level: Blocking, after_s: 9000, actions: [boost]}}}
"""
    _, strict = played(STARVE, "aging: {enabled: false}" + unboosted)
    assert (strict[0].offered, strict[0].starved, strict[0].boosts) == (0, 1, 0)
    assert strict[0].longest_us == pytest.approx(599.5e6, abs=1e6)
    replay, aged = played(STARVE, "aging: {threshold_s: 60}" + unboosted)
    assert (aged[0].offered, aged[0].starved, aged[0].boosts) == (1, 0, 2)
    assert 120e6 <= aged[0].longest_us <= 121.1e6
    assert replay.missed == 0


def test_a_ttl_shorter_than_the_pause_loses_what_came_early_in_it() -> None:
    """A message every second, a call every 60 s, nine of them: of each pause the last 31 live, 0 to 30 s old.

    The sweeper comes once more, a second before the end, and finds 28 of the last pause.
    """
    _, short = played(LATE, "custom_contract: {ttl_s: 30}")
    assert (short[1].accepted, short[1].offered, short[1].expired) == (599, 9 * 31, 9 * 29 + 28)
    _, enough = played(LATE, "custom_contract: {ttl_s: 120}")
    assert (enough[1].accepted, enough[1].offered, enough[1].expired) == (599, 9 * 60, 0)
    assert enough[1].longest_us == 59_000_000


def test_a_pair_that_takes_leases_crosswise_deadlocks_each_time() -> None:
    """Two rounds; in each, both hold one and want the other's: one gives way, and the other gets both."""
    replay, rows = played(DEADLOCK, "")
    assert replay.deadlocks == rows[ALL].deadlocks == 2


def test_scarce_tokens_do_not_stop_a_director() -> None:
    """The same flood by a director costs nothing, whatever the bucket."""
    _, rows = played(
        FLOOD.replace("flooder: {}", "flooder: {role: director}"), "bucket: {capacity: 10, refill_per_s: 1}"
    )
    assert rows[ALL].refused == 0
