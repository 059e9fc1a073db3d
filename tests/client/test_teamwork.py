"""How agents coordinate through the SDK, the same on a bus in this process and on a real hub."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tests.client.grounds import KINDS, PATIENCE_S, POLICY, calling, ground_of, take_all
from tocsin.client import Agent, Deadlock, EscalationRecord, LeaseLost, MessageRecord, NoResponse
from tocsin.client.messages.message import Message
from tocsin.core.commands import Attending
from tocsin.core.errors import LeaseConflict, NotPermitted, StateConflict

NOTE = "CUSTOM_NOTE"
_ATTENDING = msgspec.json.Decoder(Attending)
pytestmark = pytest.mark.parametrize("kind", KINDS)


async def until(agent: Agent, met: Callable[[Agent], Awaitable[bool]]) -> None:
    """Ask the hub until something is so; the test itself is bounded."""
    while not await met(agent):
        await asyncio.sleep(0.01)


async def waits(agent: Agent) -> bool:
    return bool((await agent.list_leases(agent=agent.name)).waiting)


async def test_a_lease_is_held_waited_for_renewed_and_released(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        async with ada.acquire("src/api/**", shared="docs", ttl_s=0.6) as lease:
            assert (lease.is_held, lease.exclusive, lease.shared) == (True, ("src/api/**",), ("docs",))
            with pytest.raises(LeaseConflict, match="held by ada") as refused:
                await bob.acquire("src/api/users.py", wait_s=0)
            assert refused.value.problem.code == "E_LEASE_002"
            before = (await ada.list_leases()).held[0].expires_at
            waiting = asyncio.create_task(_hold(bob, "src/api/users.py"))
            await until(bob, waits)
            await until(ada, lambda me: _renewed(me, before))
        assert await waiting == "src/api/users.py"
        assert (await ada.list_leases()).held == []
        # What the bus said of the leases was for the client, not for the application.
        assert [message.type async for message in bob.inbox(timeout_s=0.1)] == []


async def _hold(agent: Agent, resource: str) -> str:
    async with agent.acquire(resource, priority="Blocking") as lease:
        return lease.wanted


async def _renewed(agent: Agent, before: object) -> bool:
    return (await agent.list_leases()).held[0].expires_at != before


async def test_a_lease_that_is_taken_away_is_lost_and_a_wait_can_be_given_up(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ground.join("dora", role="director") as dora,
    ):
        with pytest.raises(NotPermitted):
            await ada.force_release("lse_x", "mine")
        lease = await ada.acquire("port 8080", ttl_s=0.6)
        waiting = asyncio.create_task(_hold(bob, "port 8080"))
        await until(bob, waits)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await until(bob, _waits_no_more)
        ada.inbox()  # so that the bus can tell
        await dora.force_release(lease.lease, "needed elsewhere")
        await lease.lost()
        with pytest.raises(LeaseLost, match="needed elsewhere"):
            lease.must_hold()
        with pytest.raises(LeaseLost):
            await lease.__aexit__(None, None, None)
        assert not lease.is_held


async def _waits_no_more(agent: Agent) -> bool:
    return not await waits(agent)


async def test_the_victim_of_a_deadlock_is_told_and_the_other_is_served(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ada.acquire("a") as a,
    ):
        b = await bob.acquire("b")
        second = asyncio.create_task(_hold(ada, "b"))
        await until(ada, waits)
        with pytest.raises(Deadlock, match=r"(bob → ada → bob)|(ada → bob → ada)"):
            await bob.acquire("a", priority="Info")
        assert await second == "b"
        with pytest.raises(LeaseConflict):
            await b.release()  # it was released to break the circle
        assert [message.type for message in await take_all(bob, 1)] == ["ERROR_REPORT"]
        assert a.is_held


async def test_work_is_interrupted_at_a_pause_point_and_resumed_with_what_was_saved(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        await ada.send(to="bob", type=NOTE, payload={"n": 0}, priority="Info")
        messages = bob.inbox()
        message = await anext(messages)
        async with bob.working_on(message) as work:
            assert (await bob.get_attention()).working_on == message.message_id
            assert await work.pause_point(save=lambda: "nothing to save") is None
            await ada.send(to="bob", type=NOTE, payload={"n": 1}, priority="Info")
            urgent_id = (await ada.send(to="bob", type=NOTE, payload={"n": 2}, priority="Critical")).message_id
            interruption = await bob.pause_point(save=lambda: "step 3 of 7, größer")
            assert interruption is not None
            async with interruption as urgent:
                assert (urgent.message_id, urgent.payload) == (urgent_id, {"n": 2})
                assert urgent.interrupts == message.message_id
                assert (await bob.get_attention()).aside == (message.message_id,)
            assert interruption.saved == "step 3 of 7, größer"
            assert await work.pause_point() is None
        assert (await bob.get_attention()).status == "idle"
        assert (await anext(messages)).payload == {"n": 1}
        states = {row.message_id: row.state for row in await _records(ada, message.message_id, urgent_id)}
        assert states == {message.message_id: "processed", urgent_id: "processed"}


async def test_work_that_fails_ends_and_its_message_is_not_processed(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("bob") as bob:
        sent = await bob.send(to="bob", type=NOTE)
        with pytest.raises(ZeroDivisionError):
            async with bob.working_on(await anext(bob.inbox())):
                raise ZeroDivisionError
        assert (await bob.get_attention()).status == "idle"
        assert (await bob.get_message(sent.message_id))[0].state != "processed"


async def test_an_agent_that_is_not_at_work_has_no_pause_point(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("bob") as bob:
        with pytest.raises(StateConflict):
            await bob.pause_point()


async def test_work_that_was_put_aside_for_the_agent_can_still_be_finished(kind: str, tmp_path: Path) -> None:
    policy = POLICY + "attention: {work_max_s: 0.2}\n"
    async with (
        ground_of(kind, tmp_path, policy) as ground,
        ground.join("ada", role="director") as ada,
        ground.join("bob") as bob,
    ):
        sent = await ada.send(to="bob", type=NOTE, priority="Info")
        async with bob.working_on(await anext(bob.inbox())):
            await until(bob, _is_idle)  # it has said nothing for so long that the hub takes it for idle
            assert (await bob.get_attention()).aside == (sent.message_id,)
            # The work that is resumed must not be put aside again before it is finished.
            await ada.adopt_policy({"attention": {"work_max_s": 3600}}, scope="change")
        assert (await bob.get_attention()).aside == ()
        assert (await ada.get_message(sent.message_id))[0].state == "processed"


async def test_who_is_at_work_gets_a_lease_although_the_bus_cannot_tell_it(kind: str, tmp_path: Path) -> None:
    quick = {"lease_look_s": 0.05}
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob", config=quick) as bob,
    ):
        lease = await ada.acquire("a")
        await ada.send(to="bob", type=NOTE, priority="Critical")
        async with bob.working_on(await anext(bob.inbox())):
            waiting = asyncio.create_task(_hold(bob, "a"))
            await until(bob, waits)
            await lease.renew(30)
            assert not waiting.done()
            await lease.release()
            assert await waiting == "a"
        assert await take_all(bob, 0) == []
        again = await ada.acquire("a", wait_s=0)
        await again.release()


async def _is_idle(agent: Agent) -> bool:
    return (await agent.get_attention()).status == "idle"


async def _records(agent: Agent, *ids: str) -> list[MessageRecord]:
    return [row for message_id in ids for row in await agent.get_message(message_id)]


async def test_a_topic_reaches_its_subscribers_until_they_leave(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        assert (await bob.subscribe_topic("builds")).topics == ("builds",)
        published = await ada.publish_topic("builds", NOTE, {"red": True})
        assert [receipt.recipient for receipt in published.receipts] == ["bob"]
        assert (await anext(bob.inbox(timeout_s=PATIENCE_S))).payload == {"red": True}
        assert [(topic.topic, topic.subscribers) for topic in await ada.list_topics()] == [("builds", 1)]
        assert (await bob.unsubscribe_topic("builds")).topics == ()
        assert (await ada.publish_topic("builds", NOTE)).receipts == ()


async def test_a_discussion_ends_with_the_option_of_the_majority(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ground.join("dora", role="director") as dora,
    ):
        opened = await ada.open_discussion("tabs?", ["bob", "dora"], options=["tabs", "spaces"])
        assert (await bob.speak_in_discussion(opened.discussion, "spaces, please")).state == "open"
        assert [row.question for row in await bob.list_discussions()] == ["tabs?"]
        await bob.vote(opened.discussion, "spaces")
        assert (await dora.vote(opened.discussion, "spaces")).option == "spaces"
        assert (await ada.list_discussions()) == []


async def test_whoever_asks_for_an_approval_is_told_the_decision_and_its_reason(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ground.join("dora", role="director") as dora,
    ):
        bobs_lease = await bob.acquire("src/**")
        asked = await ada.request_approval("lease_override", bobs_lease.lease, details="it is urgent")
        (approval,) = await dora.list_approvals()
        assert (approval.approval, approval.asker, approval.holds) == (asked.approval, "ada", False)
        assert (await dora.decide_approval(asked.approval, "refuse", reason="wait for bob")).outcome == "refused"
        assert (await _first(ada, "ApprovalDecided")).payload["reason"] == "wait for bob"


async def test_a_held_message_is_delivered_as_the_director_has_changed_it(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ground.join("dora", role="director") as dora,
    ):
        assert (await ada.send(to="bob", type="CUSTOM_PLAN", payload={"plan": "a"})).held
        (approval,) = await dora.list_approvals()
        await dora.decide_approval(approval.approval, "approve", payload={"plan": "b"})
        assert (await _first(bob, "CUSTOM_PLAN")).payload == {"plan": "b"}


async def _first(agent: Agent, message_type: str) -> Message:
    async for message in agent.inbox(timeout_s=PATIENCE_S):
        if message.type == message_type:
            return message
    raise AssertionError(f"no {message_type} came")


async def test_a_request_that_the_hub_knows_of_is_escalated(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ground.join("dora", role="director") as dora,
    ):
        answering = asyncio.create_task(_answer_one(bob))
        response = await ada.request("bob", NOTE, {"n": 1}, escalate=True, timeout_s=30)
        assert response.payload == {"n": 2}
        await answering
        assert await ada.list_requests() == []
        with pytest.raises(NoResponse, match=r"within 0\.2 s"):
            await ada.request("bob", NOTE, {"n": 1}, escalate=True, timeout_s=0.2, message_id="msg_late_1")
        with pytest.raises(NotPermitted):
            await ada.list_escalations()
        (escalation,) = await _timed_out(dora, "msg_late_1")
        assert (escalation.trigger, escalation.state) == ("request_timeout", "director_notified")
        await dora.resolve_escalation(escalation.escalation, "bob is on leave")
        assert await _timed_out(dora, "msg_late_1") == []
        (closed,) = await _timed_out(dora, "msg_late_1", closed=True)
        assert (closed.resolution, closed.resolved_by) == ("bob is on leave", "dora")


async def test_any_request_to_one_agent_is_a_wait_that_the_hub_knows_of(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ground.join("dora", role="director") as dora,
    ):
        asking = asyncio.create_task(ada.request("bob", NOTE, {"n": 1}))
        await until(ada, _asks)
        (known,) = await bob.list_requests()
        assert (known.requester, known.responder) == ("ada", "bob")
        await _answer_one(bob)
        assert (await asking).payload == {"n": 2}
        assert await ada.list_requests() == []
        with pytest.raises(NoResponse, match=r"within 0\.1 s"):
            await ada.request("bob", NOTE, {"n": 1}, timeout_s=0.1, escalate=False, message_id="msg_late_2")
        assert await _timed_out(dora, "msg_late_2", closed=True) == [], "nobody asked for that"
        assert [message.type async for message in ada.inbox(timeout_s=0.1)] == []


async def _asks(agent: Agent) -> bool:
    return bool(await agent.list_requests())


async def test_what_no_answer_is_foreseen_for_can_be_asked_all_the_same(kind: str, tmp_path: Path) -> None:
    policy = f"{POLICY}  CUSTOM_CALL: {{response: none}}\n"
    async with ground_of(kind, tmp_path, policy) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        asking = asyncio.create_task(ada.request("bob", "CUSTOM_CALL", {"n": 1}))
        await _answer_one(bob)
        assert (await asking).payload == {"n": 2}


async def _timed_out(director: Agent, request: str, *, closed: bool = False) -> list[EscalationRecord]:
    known = await director.list_escalations(closed=closed)
    return [row for row in known if (row.trigger, row.subject) == ("request_timeout", request)]


async def _answer_one(agent: Agent) -> None:
    message = await anext(agent.inbox())
    await message.reply({"n": message.payload["n"] + 1})


async def test_a_request_that_closes_a_circle_gives_way(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path, POLICY) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        lease = await bob.acquire("a")
        holding = asyncio.create_task(_hold(ada, "a"))
        await until(ada, waits)
        with pytest.raises(Deadlock):
            await bob.request("ada", NOTE, {}, timeout_s=30, priority="Info")
        # What the victim held that the circle waited for was released with it.
        assert await holding == "a"
        with pytest.raises(LeaseConflict):
            await lease.release()


async def test_who_comes_back_after_a_crash_goes_on_with_its_work(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        async with ground.join("bob"):
            pass
        for number in (1, 2):
            await ada.send(to="bob", type=NOTE, payload={"n": number})
            async with ground.join("bob") as bob:
                message = await anext(bob.inbox())
                work = bob.working_on(message)
                await work.__aenter__()
                assert work.saved == ""
                async with calling(ground, "bob") as caller:
                    await caller.call("put_aside", {"saved": "half"}, _ATTENDING)
            async with ground.join("bob") as bob:
                assert (await bob.get_attention()).aside == (message.message_id,)
                if number == 1:
                    async with bob.resuming() as resumed:
                        assert (resumed.message_id, resumed.saved) == (message.message_id, "half")
                        assert not resumed.duplicate
                        assert await resumed.pause_point() is None
                else:
                    async with bob.working_on(message) as again:
                        assert again.saved == "half"
                assert (await bob.get_attention()).status == "idle"
            (row,) = await ada.get_message(message.message_id)
            assert row.state == "processed"
        async with ground.join("bob") as bob:
            with pytest.raises(StateConflict):
                await bob.resuming().__aenter__()


async def test_an_approval_request_is_withdrawn_once(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        asked = await ada.request_approval("plan_approval", "rewrite it")
        await ada.withdraw_approval(asked.approval)
        assert await ada.list_approvals() == []
        with pytest.raises(StateConflict):
            await ada.withdraw_approval(asked.approval)


async def test_resources_are_released_by_name_once(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        await ada.acquire(["one", "two"])
        assert (await ada.release_resources(["two"])).resources == ("two",)
        with pytest.raises(LeaseConflict):
            await ada.release_resources(["two"])
        assert [lease.exclusive for lease in (await ada.list_leases(agent="ada")).held] == [("one",)]


async def test_a_director_reports_figures_and_healthy_ones_raise_no_alert(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("dora", role="director") as dora,
    ):
        assert (await dora.report_health({"clone_spawn_p99_s": 0.001})).alerts == ()
        assert await dora.list_alerts() == []
        with pytest.raises(NotPermitted):
            await ada.report_health({"clone_spawn_p99_s": 0.001})


async def test_a_director_brings_an_escalation_before_a_human(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob"),
        ground.join("dora", role="director") as dora,
        ground.join("hugo", role="human") as hugo,
    ):
        with pytest.raises(NoResponse):
            await ada.request("bob", NOTE, {}, timeout_s=0.1, message_id="msg_late_3")
        (opened,) = await _timed_out(dora, "msg_late_3")
        with pytest.raises(NotPermitted):
            await ada.escalate_to_human(opened.escalation)
        assert (await dora.escalate_to_human(opened.escalation, reason="who knows bob?")).state == "human_escalation"
        # Others escalate on the same hub: a notice of theirs may come first.
        async for told in hugo.inbox(timeout_s=PATIENCE_S):
            if opened.escalation in str(told.payload):
                break
        else:
            pytest.fail("the human was not told")
        await hugo.resolve_escalation(opened.escalation, "I do")
        assert await _timed_out(dora, "msg_late_3") == []
