"""A short run of the simulator in every test run; `TOCSIN_SOAK=1` makes it long, `make simulate` endless."""

import pytest
from msgspec.structs import replace

from tests.simulation.ledger import Ledger, Violation
from tests.simulation.waiting import check_deadlock
from tests.simulation.world import World
from tests.soak import scaled
from tocsin.core import events as ev
from tocsin.core.state import Session

SEEDS = range(scaled(2, 120))
STEPS = scaled(600, 3000)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_holds(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.finish()


def test_the_same_seed_is_the_same_run() -> None:
    first, second = World(7), World(7)
    for _ in range(300):
        first.step()
        second.step()
    assert first.journal.batches == second.journal.batches


def test_a_run_meets_every_kind_of_event() -> None:
    # What a frame bus has shed is reported by the hub alone, and changes nothing.
    missing = {kind.__name__ for kind in ev.EVENT_TYPES} - {"FramesShed"}
    # These few meet all of them, as things are; the others are there for when they no longer do.
    for seed in (1, 5, 20, 29, *range(100)):
        world = World(seed)
        for _ in range(500):
            world.step()
        missing -= world.ledger.counts.keys()
        if not missing:
            break
    assert not missing


def test_runs_decide_sends_and_receipts_by_plan() -> None:
    found: dict[str, int] = {}
    # The first two meet all of them, as things are; the others are there for when they no longer do.
    for seed in (14, 19, *range(100)):
        world = World(seed)
        for _ in range(300):
            world.step()
        counts = world.twin.by_plan | world.twin.with_more
        found = {kind: found.get(kind, 0) + count for kind, count in counts.items()}
        if all(found.values()):
            break
    assert all(found.values()), found


def test_the_twin_notices_a_plan_that_is_out_of_date() -> None:
    world = World(0)

    def step_with_wrong_plans() -> None:
        for _ in range(2000):
            world.step()
            for plan in filter(None, world.exchange.state.plans.values()):
                plan.ttl_us += 1

    with pytest.raises(Violation, match="a plan "):
        step_with_wrong_plans()


def test_the_ledger_notices_a_delivery_after_recall() -> None:
    """A check that cannot fail proves nothing: hand the ledger a broken history."""
    world = World(3)
    while not world.ledger.counts.get("MessageRecalled"):
        world.step()
    recalled = next(seq for seq, fate in world.ledger.fate.items() if fate == "recalled")
    with pytest.raises(Violation, match="was recalled, then"):
        world.ledger.follow([ev.MessageDelivered(world.now, recalled, "receipt")])


def test_the_ledger_notices_a_lost_message() -> None:
    world = World(3)
    while "queued" not in world.ledger.fate.values():
        world.step()
    lost = next(seq for seq, fate in world.ledger.fate.items() if fate == "queued")
    for exchange in (world.exchange, world.ledger.shadow):
        state = exchange.state
        state.drop(state.messages[lost])
    with pytest.raises(Violation, match="disappeared while queued"):
        world.ledger.check_state(world.exchange.state, world.now)


def test_the_ledger_notices_a_state_that_no_event_explains() -> None:
    world = World(3)
    ledger: Ledger = world.ledger
    next(iter(world.exchange.state.agents.values())).tokens += 1
    with pytest.raises(Violation, match="differs from the live one"):
        ledger.check_state(world.exchange.state, world.now)


def test_the_ledger_notices_an_asker_who_was_not_told() -> None:
    world = World(3)
    while not world.exchange.state.approvals:
        world.step()
    approval = next(iter(world.exchange.state.approvals.values()))
    word = ev.ApprovalEnded(world.now, approval.approval, approval.asker, "refused", "boss", "no", approval.subject)
    with pytest.raises(Violation, match=f"{approval.asker} was not told of {approval.approval}"):
        world.ledger.follow([word])


def test_the_ledger_notices_a_wait_for_the_wrong_ones() -> None:
    world = World(3)
    while not (waits := [wait for wait in world.exchange.state.waits.waits.values() if wait.kind == "discussion"]):
        world.step()
    for exchange in (world.exchange, world.ledger.shadow):
        exchange.apply(ev.WaitEnded(world.now, waits[0].waiter, waits[0].kind, waits[0].ref, "served"))
    with pytest.raises(Violation, match="somebody waits for the wrong ones"):
        world.ledger.check_state(world.exchange.state, world.now)


def test_the_ledger_notices_one_who_is_in_no_circle_and_one_who_gave_way_for_another() -> None:
    world = World(3)
    waits = [("a", "b", 2), ("b", "a", 1), ("c", "a", 0)]
    for waiter, on, level in waits:
        world.ledger.shadow.apply(ev.WaitBegan(world.now, waiter, "simulated", waiter, (on,), False, level))
    found = ev.DeadlockFound(world.now, ("a", "b"), ("simulated:a", "simulated:b"), (2, 1), "b", "simulated:b")
    check_deadlock(found, world.ledger.shadow.state)
    with pytest.raises(Violation, match="a gave way for b"):
        check_deadlock(replace(found, victim="a", refused="simulated:a"), world.ledger.shadow.state)
    more = {"cycle": ("a", "b", "c"), "waits": (*found.waits, "simulated:c"), "levels": (2, 1, 0)}
    with pytest.raises(Violation, match="of the deadlock"):
        check_deadlock(replace(found, **more), world.ledger.shadow.state)


def woken(world: World) -> ev.AgentWakeRequested:
    """Step until a wake is under way, and return its request."""
    while not world.ledger.wakes.under_way:
        world.step()
    return next(iter(world.ledger.wakes.under_way.values()))


def test_the_ledger_notices_two_wakes_at_once() -> None:
    world = World(3)
    with pytest.raises(Violation, match="was woken twice at once"):
        world.ledger.follow([replace(woken(world), wake="wak_other")])


def test_the_ledger_notices_a_wake_without_a_waiting_message() -> None:
    world = World(3)
    request = woken(world)
    checks, state = world.ledger.wakes, world.ledger.shadow.state
    del checks.under_way[request.agent]
    ended = next(m.seq for m in state.messages.values() if m.state == "delivered")
    with pytest.raises(Violation, match="for a message that does not wait"):
        checks.follow(replace(request, message=ended), state)


def test_the_ledger_notices_more_wakes_than_the_limits_allow() -> None:
    world = World(3)
    request = woken(world)
    checks, state = world.ledger.wakes, world.ledger.shadow.state
    del checks.under_way[request.agent]
    checks.under_way.update({f"other_{number}": request for number in range(state.policy.wake.processes_max)})
    with pytest.raises(Violation, match="more wakes are under way"):
        checks.follow(request, state)
    checks.under_way.clear()
    checks.requested[request.agent] = [request.at] * state.policy.wake.per_hour_max
    with pytest.raises(Violation, match="more often than the policy allows"):
        checks.follow(request, state)


def test_the_ledger_notices_a_wake_that_never_ends_and_one_that_never_begins() -> None:
    world = World(3)
    request = woken(world)
    state = world.exchange.state
    with pytest.raises(Violation, match="never ends"):
        world.ledger.wakes.check_times(state, state.wakes[request.agent].due_at + 1_000_000)
    del state.wakes[request.agent]
    world.ledger.wakes.under_way.clear()
    with pytest.raises(Violation, match="should have been woken"):
        world.ledger.wakes.check_needed(state, request.at + 1_000_000)


def ignoring(world: World) -> str:
    """Step until a channel is ignored, and return its session."""
    while not world.ledger.wakes.ignored:
        world.step()
    return next(iter(world.ledger.wakes.ignored))


def test_the_ledger_notices_a_channel_that_is_ignored_too_early_or_never() -> None:
    world = World(101)
    session = ignoring(world)
    checks, state = world.ledger.wakes, world.ledger.shadow.state
    ignored, since = state.ignored[session], checks.ignored.pop(session)
    late = ev.ChannelIgnored(since, ignored.agent, session, ignored.message, 1, 0, 0.0)
    with pytest.raises(Violation, match="unnoticed"):
        checks.check_channels(state, since + 1_000_000)
    with pytest.raises(Violation, match="was not yet notified as often"):
        checks.follow(replace(late, at=state.messages[ignored.message].enqueued_at), state)
    checks.follow(late, state)
    with pytest.raises(Violation, match="is ignored twice"):
        checks.follow(late, state)


def test_the_ledger_notices_a_channel_that_is_ignored_although_its_agent_calls() -> None:
    world = World(101)
    session = ignoring(world)
    checks, state = world.ledger.wakes, world.ledger.shadow.state
    agent = state.agents[state.sessions[session].agent]
    agent.sessions["ses_calls"] = Session("ses_calls", agent.agent, "piggyback", 0, 0, 1)
    checks.called["ses_calls"] = checks.ignored[session] + 1
    with pytest.raises(Violation, match="has made a call, and its channel is still ignored"):
        checks.check(state)
