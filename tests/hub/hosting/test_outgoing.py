"""Speech: so much in one turn of the loop, the urgent first, everything in the end."""

import asyncio

from tocsin.core.commands import Delivery, Done, Receipt, Reply
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.hub.hosting.outgoing import Answer, OutgoingQueue
from tocsin.journal.base import Commit

COMMIT = Commit("flushed", 1)
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


async def test_a_turn_says_so_much_and_the_next_goes_on() -> None:
    outgoing, waiting = OutgoingQueue(asyncio.get_running_loop(), lambda: 3), futures(7)
    outgoing.add([], [(future, Done()) for future in waiting], COMMIT)
    for said in (3, 6, 7):
        assert [future.done() for future in waiting] == [True] * said + [False] * (7 - said)
        assert outgoing.idle == (said == 7)
        await asyncio.sleep(0)


async def test_commits_are_spoken_in_order_pushes_before_replies() -> None:
    outgoing, waiting = OutgoingQueue(asyncio.get_running_loop(), lambda: 1), futures(2)
    said: list[str] = []
    for name, future in zip("12", waiting, strict=True):
        future.add_done_callback(lambda done: said.append(f"reply {waiting.index(done) + 1}"))
        outgoing.add([(lambda one: said.append(f"push {one.signal_id}"), push(name))], [(future, Done())], COMMIT)
    while not outgoing.idle:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert said == ["push 1", "reply 1", "push 2", "reply 2"]


async def test_pushes_to_one_receiver_leave_together() -> None:
    outgoing = OutgoingQueue(asyncio.get_running_loop(), lambda: 100)
    said: list[tuple[str, str]] = []

    def first(push: Delivery) -> None:
        said.append(("first", push.signal_id))

    def second(push: Delivery) -> None:
        said.append(("second", push.signal_id))

    outgoing.add([(first, push("a")), (second, push("b")), (first, push("c")), (second, push("d"))], [], COMMIT)
    while not outgoing.idle:
        await asyncio.sleep(0)
    assert sorted(said) == [("first", "a"), ("first", "c"), ("second", "b"), ("second", "d")]
    assert {said[0][0], said[1][0]} in ({"first"}, {"second"})
    assert [name for who, name in said if who == "first"] == ["a", "c"]


async def test_the_urgent_does_not_stand_in_line() -> None:
    outgoing, (calm, rung) = OutgoingQueue(asyncio.get_running_loop(), lambda: 1), futures(2)
    said: list[str] = []
    pushes = [push("a"), push("b"), push("c", Priority.CRITICAL), push("d", Priority.DIRECTOR_OVERRIDE)]
    replies: list[Answer] = [
        (calm, receipt(Priority.BLOCKING)),
        (rung, receipt(Priority.CRITICAL)),
    ]

    def sink(push: Delivery) -> None:
        said.append(push.signal_id)

    outgoing.add([(sink, each) for each in pushes], replies, COMMIT)
    assert said == ["c", "d", "a"]
    assert rung.done()
    assert not calm.done()


async def test_the_queue_waits_until_it_is_sent_and_the_urgent_does_not() -> None:
    outgoing, (first, second) = OutgoingQueue(asyncio.get_running_loop(), lambda: 1), futures(2)
    said: list[str] = []
    pushes = [(lambda one: said.append(one.signal_id), push("a", level)) for level in Priority]
    outgoing.queue(pushes, [(first, Done())], COMMIT)
    await asyncio.sleep(0)
    assert said == ["a"] * 2
    outgoing.send()
    assert said == ["a"] * 3
    outgoing.add([], [(second, Done())], COMMIT)
    assert not first.done()
    while not outgoing.idle:
        await asyncio.sleep(0)
    assert (said, first.done(), second.done()) == (["a"] * len(Priority), True, True)


async def test_a_receiver_that_fails_silences_nobody() -> None:
    outgoing, (future,) = OutgoingQueue(asyncio.get_running_loop(), lambda: 8), futures(1)

    def broken(push: Delivery) -> None:
        raise OSError("no room")

    outgoing.add([(broken, push("a")), (broken, push("b", Priority.CRITICAL))], [(future, Done())], COMMIT)
    assert future.done()


async def test_nobody_waits_any_more() -> None:
    outgoing, (future,) = OutgoingQueue(asyncio.get_running_loop(), lambda: 8), futures(1)
    future.cancel()
    outgoing.add([], [(future, Done())], COMMIT)
    assert outgoing.idle
