"""What an agent can do, the same over every transport: one suite, run on a bus in this process and on a real hub."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.client.grounds import KINDS, PATIENCE_S, EmbeddedGround, Ground, HubGround, ground_of, take_all
from tocsin.client import (
    Agent,
    BroadcastReceipt,
    ConnectionState,
    Draft,
    NoResponse,
    Receipt,
    Receipts,
    Retry,
)
from tocsin.client.messages.message import Message
from tocsin.core.errors import (
    AdmissionRefused,
    NotPermitted,
    RoutingFailed,
    StateConflict,
    TaskFailed,
    TocsinError,
    ValidationFailed,
)
from tocsin.core.protocol.priority import Priority

NOTE = "CUSTOM_NOTE"
pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_a_message_arrives_as_it_was_sent(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        arriving = asyncio.create_task(anext(bob.inbox()))
        await asyncio.sleep(0)
        await bob.list_agents()  # answered after the credit of the inbox: there is room for a sync message
        receipt = await ada.send(
            to="bob",
            type=NOTE,
            payload={"text": "größer"},
            priority=Priority.BLOCKING,
            ttl_s=90,
            importance=7,
            delivery_class="sync",
            correlation_id="thr_1",
            metadata={"tags": ["x"], "mine": 1},
        )
        assert isinstance(receipt, Receipt)
        assert (receipt.durability, receipt.priority, receipt.recipient) == ("flushed", "Blocking", "bob")
        assert not receipt.duplicate
        message = await arriving
        assert message.message_id == message.signal_id == receipt.message_id
        assert (message.sender, message.type, message.priority) == ("ada", NOTE, "Blocking")
        assert (message.payload, message.correlation_id) == ({"text": "größer"}, "thr_1")
        assert (message.importance, message.delivery_class, message.ttl_s) == (7, "sync", 90)
        assert message.metadata["tags"] == ["x"]
        assert message.metadata["mine"] == 1
        assert (message.attempt, message.offer) == (0, 1)


class Order(msgspec.Struct):
    item: str
    count: int = 1


async def test_a_payload_may_be_a_struct_on_both_sides(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        await ada.send(to="bob", type=NOTE, payload=Order("bell", 3))
        message = await anext(bob.inbox())
        assert message.payload_as(Order) == Order("bell", 3)
        with pytest.raises(ValidationFailed, match="E_VALIDATION_002"):
            await ada.send(to="bob", type=NOTE, payload={"what": object()})


async def test_a_receipt_goes_when_the_message_is_handed_over(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        sent = [(await ada.send(to="ada", type=NOTE)).message_id for _ in range(2)]
        async with ground.join("ada") as taker:
            assert (await anext(taker.inbox())).message_id == sent[0]
            # The second one has come, and has not been seen: only the first is confirmed.
            await taker.list_agents()
        states = [(await ada.get_message(one))[0].state for one in sent]
        assert states == ["delivered", "queued"]


async def test_what_the_application_never_saw_comes_again(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        async with ground.join("bob") as bob:
            for number in range(5):
                await ada.send(to="bob", type=NOTE, payload={"n": number})
            first = await anext(bob.inbox())
            assert (first.payload, first.repeated) == ({"n": 0}, False)
        async with ground.join("bob") as bob:
            inbox = bob.inbox()
            again = [await anext(inbox) for _ in range(4)]
            assert [(message.payload["n"], message.repeated) for message in again] == [(n, True) for n in range(1, 5)]


async def test_a_handler_that_fails_sees_its_message_again(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        *sent, last = [(await ada.send(to="ada", type=NOTE)).message_id for _ in range(4)]
        seen: list[str] = []
        for attempt in range(2):
            async with ground.join("ada") as taker:
                try:
                    async for message in taker.inbox(receipts=Receipts.HANDLED, timeout_s=PATIENCE_S):
                        if message.message_id == last:
                            break
                        seen.append(message.message_id)
                        if attempt == 0 and len(seen) == 2:
                            raise RuntimeError("handler failed")
                except RuntimeError:
                    pass
        assert seen == [sent[0], sent[1], sent[1], sent[2]]
        assert [(await ada.get_message(one))[0].state for one in (*sent, last)] == [*["delivered"] * 3, "queued"]


async def test_manual_receipts_are_the_applications_affair(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        sent = [(await ada.send(to="ada", type=NOTE)).message_id for _ in range(4)]
        async with ground.join("ada") as taker:
            inbox = taker.inbox(receipts="manual")
            taken = [await anext(inbox) for _ in range(4)]
            taken[1].confirm()
            await taken[3].reply({"text": "thanks"})
        states = [(await ada.get_message(one))[0].state for one in sent]
        assert states == ["queued", "delivered", "queued", "delivered"]


async def test_the_urgent_is_handed_out_first(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada", "director") as ada,
        ground.join("bob") as bob,
    ):
        inbox = bob.inbox()
        await ada.send(to="bob", type=NOTE, priority="Info", payload={"n": 0})
        assert (await anext(inbox)).payload == {"n": 0}
        for number, priority in enumerate(("Info", "Critical", "Coordinate"), 1):
            await ada.send(to="bob", type=NOTE, priority=priority, payload={"n": number})
        await bob.list_agents()  # whatever was pushed before this answer has arrived
        assert [(await anext(inbox)).payload["n"] for _ in range(3)] == [2, 3, 1]


async def test_acknowledging_and_finishing(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        receipt = await ada.send(to="bob", type="CUSTOM_TRIED")
        message = await anext(bob.inbox())
        acknowledged = await message.acknowledge(notes="on it")
        assert (acknowledged.signal_id, acknowledged.state) == (receipt.signal_id, "acknowledged")
        assert (await message.acknowledge()).duplicate
        await message.mark_processed()
        record = (await ada.get_message(receipt.message_id))[0]
        assert (record.state, record.acked_at is not None) == ("processed", True)
        with pytest.raises(StateConflict):
            await message.reject("too late")


async def test_a_message_rejected_for_now_comes_again_and_is_seen_again(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        receipt = await ada.send(to="bob", type="CUSTOM_TRIED")
        inbox = bob.inbox()
        first = await anext(inbox)
        rejected = await first.reject("busy", can_retry=True)
        assert (rejected.state, rejected.ready_at is not None) == ("queued", True)
        again = await anext(inbox)
        assert (again.message_id, again.attempt) == (receipt.message_id, 1)
        assert (await again.acknowledge("processed")).state == "processed"


async def test_dead_letters_are_seen_and_redriven(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        receipt = await ada.send(to="bob", type="CUSTOM_TRIED", payload={"n": 1})
        inbox = bob.inbox()
        await (await anext(inbox)).reject("never", code="E_TASK_003")
        notice = await anext(ada.inbox())
        assert (notice.sender, notice.type) == ("tocsin", "ERROR_REPORT")
        letters = {letter.message.signal_id: letter for letter in (await ada.list_dead_letters()).items}
        assert letters[receipt.signal_id].code == "E_TASK_003"
        redriven = await ada.redrive_dead_letters([receipt.signal_id, "msg_no_such"])
        assert redriven.redriven == (receipt.signal_id,)
        assert redriven.refused["msg_no_such"].code == "E_STATE_001"
        again = await anext(inbox)
        assert (again.message_id, again.payload) == (receipt.message_id, {"n": 1})


async def test_a_request_is_answered(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:

        async def answer() -> None:
            async for message in bob.inbox():
                await message.reply({"doubled": message.payload["n"] * 2})
                if message.payload["n"] == 9:
                    return

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(answer())
            asked = [tasks.create_task(ada.request(to="bob", type=NOTE, payload={"n": n})) for n in range(10)]
        assert [task.result().payload["doubled"] for task in asked] == [2 * n for n in range(10)]
        assert [message async for message in ada.inbox(timeout_s=0.05)] == [], "a response is not mail too"
        thread = await ada.list_thread(asked[0].result().correlation_id or "")
        assert [record.sender for record in thread.items] == ["ada", "bob"]
        assert thread.items[0].state == "processed", "the response means that it is done"


async def test_a_response_that_comes_too_late_is_mail(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        with pytest.raises(NoResponse, match="E_PROTOCOL_004") as caught:
            await ada.request(to="bob", type=NOTE, timeout_s=0.05)
        assert isinstance(caught.value, TimeoutError)
        await (await anext(bob.inbox())).reply({"late": True})
        assert (await anext(ada.inbox())).payload == {"late": True}


async def test_a_rejected_request_fails_with_the_rejection(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:

        async def refuse() -> None:
            await (await anext(bob.inbox())).reject("not mine to do", code="E_TASK_001")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(refuse())
            with pytest.raises(TaskFailed, match="not mine to do") as caught:
                await ada.request(to="bob", type=NOTE)
        assert caught.value.code == "E_TASK_001"
        assert [message async for message in ada.inbox(timeout_s=0.05)] == []


async def test_a_response_gets_past_mail_that_nobody_takes(kind: str, tmp_path: Path) -> None:
    small = {"window": 4}
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada", config=small) as ada,
        ground.join("bob") as bob,
    ):
        inbox = ada.inbox()
        for _ in range(10):
            await bob.send(to="ada", type=NOTE, priority="Blocking")
        handled = await anext(inbox)  # and its handler asks a question before it takes the others
        assert handled.sender == "bob"

        async def answer() -> None:
            await (await anext(bob.inbox())).reply({"text": "here"}, priority="Info")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(answer())
            response = await ada.request(to="bob", type=NOTE)
        assert response.payload == {"text": "here"}
        assert len(await take_all(ada, 9)) == 9


async def test_many_at_once_have_their_outcomes_in_order(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        drafts = [Draft(to="bob", type=NOTE, payload={"n": n}) for n in range(100)]
        drafts[40] = Draft(to="nobody", type=NOTE)
        outcomes = await ada.send_many(drafts)
        assert isinstance(outcomes[40], RoutingFailed)
        receipts = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
        assert len(receipts) == 99
        inbox = bob.inbox()
        taken = [(await anext(inbox)).message_id for _ in range(99)]
        assert taken == [receipt.message_id for receipt in receipts]


async def test_the_same_message_again_is_one_message(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        for duplicate in (False, True):
            receipt = await ada.send(to="bob", type=NOTE, payload={"n": 1}, message_id="msg_once_1")
            assert receipt.duplicate is duplicate
        with pytest.raises(AdmissionRefused, match="E_ADMISSION_007"):
            await ada.send(to="bob", type=NOTE, payload={"n": 2}, message_id="msg_once_1")
        assert len(await take_all(bob, 1)) == 1


async def test_a_broadcast(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada", type="Manager") as ada,
        ground.join("bob") as bob,
        ground.join("cyd") as cyd,
    ):
        receipt = await ada.send(to="*", type=NOTE, payload={"n": 1}, to_type="AdHoc")
        assert isinstance(receipt, BroadcastReceipt)
        assert {copy.recipient for copy in receipt.receipts} == {"bob", "cyd"}
        for agent in (bob, cyd):
            message = await anext(agent.inbox())
            assert message.signal_id == f"{message.message_id}:{agent.name}"
            await message.acknowledge()


async def test_recalling(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        kept, taken_back = [(await ada.send(to="bob", type=NOTE)).message_id for _ in range(2)]
        assert (await ada.recall_message(taken_back)).outcome == "recalled"
        assert (await anext(aiter(bob.inbox()))).message_id == kept
        assert [message.message_id async for message in bob.inbox(timeout_s=0.1)] == []
        assert (await ada.recall_message(kept)).outcomes == {"bob": "already_delivered"}


async def test_refusals_are_raised_as_the_catalogue_has_them(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob", "clone") as bob:
        with pytest.raises(RoutingFailed) as routing:
            await ada.send(to="nobody", type=NOTE)
        assert (routing.value.code, routing.value.status, routing.value.retryable) == ("E_ROUTING_001", 404, False)
        with pytest.raises(ValidationFailed) as validation:
            await ada.send(to="bob", type="NO_SUCH_TYPE")
        assert validation.value.problem.field == "$.messageType"
        with pytest.raises(ValidationFailed, match="E_VALIDATION_005"):
            await ada.send(to="bob", type=NOTE, payload={"big": "x" * 2**20})
        with pytest.raises(StateConflict, match="E_STATE_001"):
            await ada.get_message("msg_no_such")
        with pytest.raises(RoutingFailed):
            await ada.get_agent("nobody")
        receipt = await bob.send(to="ada", type=NOTE, priority="Critical")
        assert (receipt.priority, receipt.requested_priority) == ("Coordinate", "Critical")


async def test_what_is_refused_for_now_is_tried_again_where_asked_for(kind: str, tmp_path: Path) -> None:
    policy = "bucket: {capacity: 10, refill_per_s: 100}"
    async with ground_of(kind, tmp_path, policy) as ground, ground.join("ada") as ada, ground.join("bob"):
        refused = [
            outcome
            for outcome in await ada.send_many([Draft(to="bob", type=NOTE) for _ in range(30)])
            if isinstance(outcome, AdmissionRefused)
        ]
        assert refused
        assert all(error.retryable and error.problem.retry_after_s for error in refused)
        receipt = await ada.send(to="bob", type=NOTE, retry=Retry(attempts_max=50, first_s=0.02))
        assert not receipt.duplicate
        drafts = [Draft(to="bob", type=NOTE) for _ in range(10)]
        outcomes = await ada.send_many(drafts, retry=Retry(attempts_max=50, first_s=0.02))
        assert [type(outcome) for outcome in outcomes] == [Receipt] * 10


async def test_who_is_there_and_what_happened(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada", "director", "Manager", capabilities=[NOTE]) as ada,
        ground.join("bob") as bob,
    ):
        peers = {peer.agent: peer for peer in await ada.list_agents()}
        assert {"ada", "bob"} <= set(peers)
        assert (peers["ada"].role, peers["ada"].type, peers["ada"].capabilities) == ("director", "Manager", (NOTE,))
        assert peers["bob"].presence == "available"
        assert (ada.name, bob.name) == ("ada", "bob")
        receipt = await ada.send(to="bob", type=NOTE, payload={"text": "needle"})
        await anext(bob.inbox())
        await bob.list_agents()
        (life,) = await ada.trace_message(receipt.message_id)
        kinds = [happening.kind for happening in life.history]
        assert kinds == ["MessageAccepted", "MessageOffered", "MessageDelivered"]
        while not (found := await bob.search_messages(q="needle")).items:  # the index follows by itself
            await asyncio.sleep(0.01)
        assert [record.payload for record in found.items] == [{"text": "needle"}]


async def test_an_agent_sees_only_its_own_history(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob"),
        ground.join("eve") as eve,
        ground.join("dan", "director") as dan,
    ):
        receipt = await ada.send(to="bob", type=NOTE, payload={"text": "secret"}, correlation_id="thr_x")
        with pytest.raises(StateConflict, match="E_STATE_001"):
            await eve.get_message(receipt.message_id)
        assert (await eve.list_thread("thr_x")).items == (await eve.search_messages(q="secret")).items == []
        assert (await dan.get_message(receipt.message_id))[0].payload == {"text": "secret"}
        with pytest.raises(TocsinError):
            await eve.redrive_dead_letters(["msg_x_1"] * 501)


async def test_an_agent_that_only_sends_takes_nothing(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        receipt = await ada.send(to="bob", type=NOTE)
        assert (receipt.delivered, receipt.queued) == (False, True)
        await bob.send(to="ada", type=NOTE)
        assert (await ada.get_message(receipt.message_id))[0].state == "queued"
        async with ground.join("bob") as worker:
            assert (await anext(worker.inbox())).message_id == receipt.message_id


async def test_a_window_that_the_policy_does_not_allow_is_made_smaller(kind: str, tmp_path: Path) -> None:
    policy = "{limits: {window_max: 5}, delivery: {window_default: 5}}"
    async with ground_of(kind, tmp_path, policy) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        sent = await ada.send_many([Draft(to="bob", type=NOTE) for _ in range(20)])
        inbox = bob.inbox()
        taken = [(await anext(inbox)).message_id for _ in range(20)]
        assert taken == [receipt.message_id for receipt in sent if isinstance(receipt, Receipt)]


async def test_a_send_that_was_cancelled_does_not_hold_up_leaving(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada", config={"close_timeout_s": 100}) as ada:
        asking = asyncio.create_task(ada.list_agents())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        async with asyncio.timeout(10):  # a heartbeat comes later than that
            await ada.close()


async def test_many_more_messages_than_there_is_room_for(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada", config={"backlog_max": 40}) as ada:
        batches = [[Draft(to="ada", type=NOTE, payload={"n": n}) for n in range(100)] for _ in range(2)]
        outcomes = await asyncio.gather(*(ada.send_many(batch) for batch in batches))
        assert [type(outcome) for batch in outcomes for outcome in batch] == [Receipt] * 200
        sending = [asyncio.ensure_future(ada.send(to="ada", type=NOTE)) for _ in range(100)]
        told = await asyncio.gather(*sending, return_exceptions=True)
        refused = [error for error in told if isinstance(error, AdmissionRefused)]
        assert {error.code for error in refused} == {"E_ADMISSION_008"}
        assert len(refused) == 60


async def test_a_slow_application_pauses_pushing(kind: str, tmp_path: Path) -> None:
    slow = {"window": 8, "pause_after_s": 0.05}
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob", config=slow) as bob,
    ):
        sent = [(await ada.send(to="bob", type=NOTE)).message_id for _ in range(50)]
        inbox = bob.inbox()
        await anext(inbox)
        while not bob.is_paused:  # it has not taken the next for too long
            await asyncio.sleep(0.01)
        held = bob.unconfirmed
        assert held <= 8
        await bob.list_agents()
        # Another session of the same agent can have what this one does not take.
        async with ground.join("bob") as other:
            rest = [message.message_id for message in await take_all(other, 50 - 1 - held)]
        assert len(rest) == 50 - 1 - held
        mine = [(await anext(inbox)).message_id for _ in range(held)]
        assert sorted([sent[0], *mine, *rest]) == sorted(sent)
        assert not bob.is_paused, "it keeps up again"


async def test_several_may_share_an_inbox(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        taken: list[Message] = []

        async def work() -> None:
            async for message in bob.inbox():
                taken.append(message)
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(work()) for _ in range(4)]
            sent = await ada.send_many([Draft(to="bob", type=NOTE) for _ in range(200)])
            while len(taken) < 200:
                await asyncio.sleep(0.01)
            for worker in working:
                worker.cancel()
        taken += await take_all(bob, 0)
        assert sorted(message.message_id for message in taken) == sorted(
            receipt.message_id for receipt in sent if isinstance(receipt, Receipt)
        )


async def test_many_tasks_send_at_once_and_share_frames(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        commits: list[int] = []
        frames_before = 0
        if isinstance(ground, EmbeddedGround):  # There are no frames: the sends share commits.
            ground.bus.host.follow(lambda first_seq, _: commits.append(first_seq))
        elif isinstance(ground, HubGround):
            frames_before = await asyncio.to_thread(ground.frames_in)
        async with asyncio.TaskGroup() as tasks:
            sent = [tasks.create_task(ada.send(to="bob", type=NOTE, payload={"n": n})) for n in range(640)]
        assert len({task.result().message_id for task in sent}) == 640
        if isinstance(ground, HubGround):
            frames = await asyncio.to_thread(ground.frames_in) - frames_before
            assert 640 / 32 <= frames < 100, "they went together, as many as a frame may hold"
        else:
            assert 0 < len(commits) < 100, "they went together"
        assert len(await take_all(bob, 640)) == 640


async def test_a_cancelled_send_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    config = {"close_timeout_s": 10 * PATIENCE_S}
    async with ground_of(kind, tmp_path) as ground, ground.join("ada", config=config) as ada, ground.join("bob"):
        sending = asyncio.create_task(ada.send(to="bob", type=NOTE))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert (await ada.send(to="bob", type=NOTE)).queued
        async with asyncio.timeout(PATIENCE_S):  # it would wait for the answer of a call that is under way
            await ada.close()


async def test_a_cancelled_reader_loses_no_message(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        taken: list[str] = []

        async def take() -> None:
            taken.append((await anext(bob.inbox())).message_id)

        sent: list[str] = []
        for number in range(60):
            reader = asyncio.create_task(take())
            await asyncio.sleep(0)
            sending = asyncio.create_task(ada.send(to="bob", type=NOTE))
            for _ in range(number % 12):
                await asyncio.sleep(0)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            sent.append((await sending).message_id)
        taken += [message.message_id for message in await take_all(bob, len(sent) - len(taken))]
        assert sorted(taken) == sorted(sent)


async def test_a_request_that_is_cancelled_as_it_is_answered_loses_nothing(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        questions = bob.inbox()
        answered: list[int] = []
        for number in range(60):
            asking = asyncio.create_task(ada.request(to="bob", type=NOTE, payload={"n": number}))
            question = await anext(questions)
            come = ada.unconfirmed
            await question.reply({"n": number})
            while ada.unconfirmed == come and not asking.done():
                await asyncio.sleep(0)  # until the response is with ada
            for _ in range(number % 4):
                await asyncio.sleep(0)
            asking.cancel()
            for told in await asyncio.gather(asking, return_exceptions=True):
                answered += [told.payload["n"]] if isinstance(told, Message) else []
        answered += [message.payload["n"] for message in await take_all(ada, 60 - len(answered))]
        assert sorted(answered) == list(range(60))


async def connected(ground: Ground) -> Agent:
    return await ground.join("ada")


async def test_a_connection_that_is_cancelled_leaves_nothing(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground:
        before = asyncio.all_tasks()
        for steps in range(0, 40, 3):
            connecting = asyncio.create_task(connected(ground))
            for _ in range(steps):
                await asyncio.sleep(0)
            connecting.cancel()
            for agent in await asyncio.gather(connecting, return_exceptions=True):
                if isinstance(agent, Agent):
                    await agent.close()
            assert asyncio.all_tasks() == before


async def test_leaving_ends_everything(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("eve") as eve:
        before = asyncio.all_tasks()
        states: list[ConnectionState] = []
        async with ground.join("ada") as ada:
            ada.on_state(states.append)
            reading = asyncio.create_task(anext(ada.inbox(), None))
            asking = asyncio.create_task(ada.request(to="eve", type=NOTE))
            await anext(eve.inbox())
        assert await reading is None
        with pytest.raises(StateConflict, match="E_STATE_003"):
            await asking
        with pytest.raises(StateConflict, match="E_STATE_003"):
            await ada.send(to="ada", type=NOTE)
        assert ada.state is ConnectionState.CLOSED
        assert states == [ConnectionState.CLOSED]
        assert asyncio.all_tasks() - before == set(), "no task is left behind"
        peers = {peer.agent: peer.presence for peer in await eve.list_agents()}
        assert peers["ada"] == "not_available_offline"


async def test_a_request_to_oneself_is_not_its_own_response(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        asking = asyncio.create_task(ada.request(to="ada", type=NOTE, payload={"n": 1}))
        question = await anext(ada.inbox())
        assert question.payload == {"n": 1}
        await question.reply({"n": 2})
        assert (await asking).payload == {"n": 2}


async def test_an_agent_that_is_not_registered_is_told(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground:
        with pytest.raises(NotPermitted, match="E_AUTH_007"):
            await ground.join("ada", type=None)
        async with ground.join("ada"):
            pass
        async with ground.join("ada", type=None) as ada:
            assert ada.state is ConnectionState.CONNECTED


async def test_what_waits_is_known_by_priority(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        async with ground.join("bob"):
            pass
        await ada.send(to="bob", type=NOTE, priority="Critical")
        await ada.send(to="bob", type=NOTE, priority="Info")
        async with ground.join("bob") as bob:
            assert {name: count for name, count in bob.waiting.items() if count} == {"Info": 1, "Critical": 1}
