"""Speech: so much in one turn of the loop, the urgent first, everything in the end."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tocsin.core.commands import Delivery, Done, Receipt, Reply
from tocsin.core.messages.model import Message, PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.hub.hosting.outgoing import OutgoingQueue

MESSAGE = Message(
    *(
        1,
        "msg_1",
        "ada",
        "bob",
        "T",
        0,
        0,
        0,
        5,
        0.0,
        DeliveryClass.ASYNC,
        False,
        State.OFFERED,
        1,
        1,
        2,
        1,
        b"{}",
        b"{}",
    ),
    *(None, None, RecipientState.AVAILABLE, PublishPath.PUSHED, None),
)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))


def push(name: str, priority: int = Priority.INFO) -> Delivery:
    return Delivery(name, "s", 1, MESSAGE, "T", "AdHoc", "AdHoc", "1.1.0", b"{}", b"{}", 0, None, priority)


def receipt(priority: Priority) -> Receipt:
    return Receipt(
        *("sig", "msg", True, False, "bob", RecipientState.AVAILABLE, DeliveryClass.ASYNC, as_datetime(0), None),
        PublishPath.PUSHED,
        priority_name(priority),
        priority_name(priority),
    )


def futures(count: int) -> list["asyncio.Future[Reply]"]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


def test_a_turn_says_so_much_and_the_next_goes_on() -> None:
    async def test() -> None:
        outgoing, waiting = OutgoingQueue(asyncio.get_running_loop(), lambda: 3), futures(7)
        outgoing.add([], [(future, Done()) for future in waiting])
        for said in (3, 6, 7):
            assert [future.done() for future in waiting] == [True] * said + [False] * (7 - said)
            assert outgoing.idle == (said == 7)
            await asyncio.sleep(0)

    run(test())


def test_commits_are_spoken_in_order_pushes_before_replies() -> None:
    async def test() -> None:
        outgoing, waiting = OutgoingQueue(asyncio.get_running_loop(), lambda: 1), futures(2)
        said: list[str] = []
        for name, future in zip("12", waiting, strict=True):
            future.add_done_callback(lambda done: said.append(f"reply {waiting.index(done) + 1}"))
            outgoing.add([(lambda one: said.append(f"push {one.signal_id}"), push(name))], [(future, Done())])
        while not outgoing.idle:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert said == ["push 1", "reply 1", "push 2", "reply 2"]

    run(test())


def test_the_urgent_does_not_stand_in_line() -> None:
    async def test() -> None:
        outgoing, (calm, rung) = OutgoingQueue(asyncio.get_running_loop(), lambda: 1), futures(2)
        said: list[str] = []
        pushes = [push("a"), push("b"), push("c", Priority.CRITICAL), push("d", Priority.DIRECTOR_OVERRIDE)]
        replies: list[tuple[asyncio.Future[Reply], Reply]] = [
            (calm, receipt(Priority.BLOCKING)),
            (rung, receipt(Priority.CRITICAL)),
        ]
        outgoing.add([(lambda one: said.append(one.signal_id), each) for each in pushes], replies)
        assert said == ["c", "d", "a"]
        assert rung.done()
        assert not calm.done()

    run(test())


def test_a_receiver_that_fails_silences_nobody() -> None:
    async def test() -> None:
        outgoing, (future,) = OutgoingQueue(asyncio.get_running_loop(), lambda: 8), futures(1)

        def broken(push: Delivery) -> None:
            raise OSError("no room")

        outgoing.add([(broken, push("a")), (broken, push("b", Priority.CRITICAL))], [(future, Done())])
        assert future.done()

    run(test())


def test_nobody_waits_any_more() -> None:
    async def test() -> None:
        outgoing, (future,) = OutgoingQueue(asyncio.get_running_loop(), lambda: 8), futures(1)
        future.cancel()
        outgoing.add([], [(future, Done())])
        assert outgoing.idle

    run(test())
