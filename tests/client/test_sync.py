"""The sync face: the same verbs without await, from any thread, on the embedded bus and against a real hub."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.client.grounds import KINDS, PATIENCE_S, SyncGround, sync_ground_of, take_all_sync
from tocsin.client import ConnectionState, Draft, NoResponse, Receipt, SyncAgent
from tocsin.client.loop_thread import LoopThread
from tocsin.core.errors import LeaseConflict, NotPermitted, RoutingFailed, StateConflict

NOTE = "CUSTOM_NOTE"


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SyncGround]:
    with sync_ground_of(request.param, tmp_path) as ground:
        yield ground


def threads() -> list[str]:
    """Name the threads that somebody has to end; those that a loop lends work to end with it, a moment later."""
    return sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_"))


def test_a_message_is_rejected_acknowledged_processed_and_traced(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:
        receipt = ada.send(to="bob", type="CUSTOM_TRIED", payload={"n": 1}, priority="Critical")
        assert isinstance(receipt, Receipt)
        inbox = bob.inbox(timeout_s=PATIENCE_S)
        message = next(inbox)
        assert (message.payload, message.sender, message.priority) == ({"n": 1}, "ada", "Critical")
        assert message.reject("busy", can_retry=True).state == "queued"
        message = next(inbox)
        assert (message.attempt, message.acknowledge().state) == (1, "acknowledged")
        message.mark_processed()
        assert ada.get_message(receipt.message_id)[0].state == "processed"
        assert ada.trace_message(receipt.message_id)[0].history[0].kind == "MessageAccepted"


def test_a_recalled_message_does_not_come(ground: SyncGround) -> None:
    with ground.join("ada") as ada:
        kept, taken_back = ada.send(to="ada", type=NOTE), ada.send(to="ada", type=NOTE)
        assert ada.recall_message(taken_back.message_id).outcome == "recalled"
        assert [message.message_id for message in take_all_sync(ada, 1)] == [kept.message_id]


def test_many_messages_are_sent_with_one_call_and_come_in_order(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:
        outcomes = ada.send_many([Draft(to="bob", type=NOTE, payload={"n": n}) for n in range(40)])
        assert len([outcome for outcome in outcomes if isinstance(outcome, Receipt)]) == 40
        assert [message.payload["n"] for message in take_all_sync(bob, 40)] == list(range(40))


def test_agents_are_listed_and_looked_up(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob"):
        assert {peer.agent for peer in ada.list_agents()} >= {"ada", "bob"}
        assert ada.get_agent("bob").presence == "available"


def test_what_is_not_there_is_not_found(ground: SyncGround) -> None:
    with ground.join("ada") as ada:
        found = (ada.list_thread("thr_none").items, ada.search_messages(q="nothing like it").items)
        assert found == ([], [])


def test_a_director_lists_and_redrives_dead_letters(ground: SyncGround) -> None:
    with ground.join("ada", "director") as ada:
        sent = ada.send(to="ada", type="CUSTOM_TRIED")
        # The hub of the module may have other messages for her, such as notices to directors.
        received = (message for message in ada.inbox(timeout_s=PATIENCE_S) if message.message_id == sent.message_id)
        next(received).reject("never", can_retry=False)
        # Other tests of this process may have left more dead letters than a page holds.
        page = ada.list_dead_letters()
        letters = {letter.message.message_id: letter for letter in page.items}
        while page.next is not None:
            page = ada.list_dead_letters(after=page.next)
            letters |= {letter.message.message_id: letter for letter in page.items}
        assert letters[sent.message_id].failures == 1
        assert ada.redrive_dead_letters([sent.message_id]).redriven == (sent.message_id,)


def test_an_agent_knows_its_name_its_connection_and_the_levels_of_what_waits(ground: SyncGround) -> None:
    with ground.join("ada") as ada:
        assert (ada.name, ada.state, bool(ada.session)) == ("ada", ConnectionState.CONNECTED, True)
        assert set(ada.waiting) == {"Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"}


def test_a_refusal_is_raised(ground: SyncGround) -> None:
    with ground.join("ada") as ada, pytest.raises(RoutingFailed):
        ada.send(to="nobody", type=NOTE)


def test_a_request_from_one_thread_to_another(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:

        def answer() -> None:
            for message in bob.inbox():
                message.reply({"doubled": message.payload["n"] * 2})
                if message.payload["n"] == 2:
                    return

        answering = threading.Thread(target=answer)
        answering.start()
        assert [ada.request(to="bob", type=NOTE, payload={"n": n}).payload["doubled"] for n in range(3)] == [0, 2, 4]
        answering.join()
        with pytest.raises(NoResponse):
            ada.request(to="bob", type=NOTE, timeout_s=0.05)


def test_a_handler_that_fails_sees_its_message_again(ground: SyncGround) -> None:
    with ground.join("ada") as ada:
        *sent, last = [ada.send(to="ada", type=NOTE).message_id for _ in range(4)]
    seen: list[str] = []
    for attempt in range(2):
        with contextlib.suppress(RuntimeError), ground.join("ada") as ada:
            for message in ada.inbox(receipts="handled", timeout_s=PATIENCE_S):
                if message.message_id == last:
                    break
                seen.append(message.message_id)
                if attempt == 0 and len(seen) == 2:
                    raise RuntimeError("handler failed")
    assert seen == [sent[0], sent[1], sent[1], sent[2]]


def test_manual_receipts(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:
        sent = [ada.send(to="bob", type=NOTE).message_id for _ in range(2)]
        first, _second = islice(bob.inbox(receipts="manual"), 2)
        first.confirm()
        bob.close()
        assert [ada.get_message(one)[0].state for one in sent] == ["delivered", "queued"]


def test_many_threads_share_one_agent(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:
        threads = [
            threading.Thread(target=lambda: [ada.send(to="bob", type=NOTE) for _ in range(25)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({message.message_id for message in take_all_sync(bob, 200)}) == 200


def test_leaving_ends_the_thread(ground: SyncGround) -> None:
    before = threads()
    ada = ground.join("ada")
    states: list[ConnectionState] = []
    ada.on_state(states.append)
    read: list[str] = []
    reading = threading.Event()

    def read_all() -> None:
        for message in ada.inbox():
            read.append(message.message_id)
            reading.set()

    reader = threading.Thread(target=read_all)
    reader.start()
    sent = ada.send(to="ada", type=NOTE)
    assert reading.wait(PATIENCE_S)
    ada.close()
    ada.close()
    reader.join()
    assert (read, states) == ([sent.message_id], [ConnectionState.CLOSED])
    assert threads() == before
    with pytest.raises(StateConflict, match="E_STATE_003"):
        ada.send(to="ada", type=NOTE)


def test_a_refused_connection_leaves_no_thread(ground: SyncGround) -> None:
    before = threads()
    with pytest.raises(NotPermitted):
        SyncAgent.connect(ground.target, token="tcs_" + "0" * 16 + "_" + "x" * 43)
    assert threads() == before


def test_a_lease_is_held_within_a_block_and_free_after_it(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:
        with bob.acquire("src/**", ttl_s=5) as lease:
            assert lease.is_held
            with pytest.raises(LeaseConflict):
                ada.acquire("src/a.py", wait_s=0)
        with ada.acquire("src/a.py") as lease:
            assert ada.list_leases().held[0].lease == lease.lease


def test_resources_are_released_by_name(ground: SyncGround) -> None:
    with ground.join("ada") as ada:
        ada.acquire(["one", "two"])
        assert ada.release_resources(["one"]).resources == ("one",)


def test_work_is_interrupted_at_a_pause_point(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:
        ada.send(to="bob", type=NOTE, payload={"n": 1}, priority="Info")
        with bob.working_on(next(bob.inbox())) as work:
            ada.send(to="bob", type=NOTE, payload={"n": 2}, priority="Critical")
            interruption = work.pause_point(save=lambda: "half")
            assert interruption is not None
            with interruption as urgent:
                assert urgent.payload == {"n": 2}
            assert interruption.saved == "half"
            assert work.pause_point() is None
        assert bob.get_attention().status == "idle"


def test_work_is_resumed_in_a_later_session(ground: SyncGround) -> None:
    with ground.join("bob") as bob:
        bob.send(to="bob", type=NOTE, priority="Info")
        message = next(bob.inbox())
        bob.working_on(message).__enter__()
    with ground.join("bob") as bob, bob.resuming() as resumed:
        assert (resumed.message_id, resumed.saved, resumed.duplicate) == (message.message_id, "", False)
        assert resumed.pause_point() is None


def test_an_approval_is_withdrawn_by_its_asker(ground: SyncGround) -> None:
    with ground.join("ada", "director") as ada, ground.join("bob") as bob:
        bob.withdraw_approval(bob.request_approval("plan_approval", "begin").approval)
        assert ada.list_approvals() == []


def test_an_approval_is_decided_by_a_director(ground: SyncGround) -> None:
    with ground.join("ada", "director") as ada, ground.join("bob") as bob:
        asked = bob.request_approval("plan_approval", "begin")
        assert ada.decide_approval(asked.approval, "approve").outcome == "approved"
        assert ada.list_approvals() == []


def test_a_topic_reaches_its_subscribers(ground: SyncGround) -> None:
    with ground.join("ada") as ada, ground.join("bob") as bob:
        bob.subscribe_topic("news")
        assert [receipt.recipient for receipt in ada.publish_topic("news", NOTE, {"n": 3}).receipts] == ["bob"]


def test_healthy_figures_raise_no_alert(ground: SyncGround) -> None:
    with ground.join("ada", "director") as ada:
        assert ada.report_health({"clone_spawn_p99_s": 0.001}).alerts == ()
        assert ada.list_alerts() == []


def test_whoever_waits_or_comes_while_the_loop_ends_is_told_so() -> None:
    background, begun, ending = LoopThread(), threading.Event(), threading.Event()
    told: list[object] = []

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            while len(told) < 1:  # the end takes as long as the latecomer's call
                await asyncio.sleep(0.001)

    def call(work: Callable[[], Coroutine[Any, Any, object]], when: threading.Event | None = None) -> None:
        if when is not None:
            when.wait(PATIENCE_S)
        try:
            background.run(work())
        except StateConflict as error:
            told.append(error.problem.code)

    waiting = threading.Thread(target=call, args=(waits,), daemon=True)
    late = threading.Thread(target=call, args=(asyncio.Event().wait, ending), daemon=True)
    for thread in (waiting, late):
        thread.start()
    assert begun.wait(PATIENCE_S)
    stopping = threading.Thread(target=background.stop, daemon=True)
    stopping.start()
    for thread in (waiting, late, stopping):
        thread.join(PATIENCE_S)
    assert told == ["E_STATE_003", "E_STATE_003"]
