"""Cases with the largest mailboxes, threads, messages and batches."""

from bench.limits.cases import Step, case, ground
from bench.limits.ground import Ground
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller

_BODY = 1_048_000
_DEAD = 100_000
_ADA = Caller("ada", "primary")


@ground("messages")
async def fill(g: Ground) -> None:
    """Fill a mailbox, a thread and the dead letters, and send messages of the largest size."""
    for name in ("ada", "bob", "gone", "large"):
        await g.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller(name, "primary"))
    await g.do(g.send("ada") for _ in range(g.some(90_000)))
    await g.do(g.send("bob", correlationId="long-thread") for _ in range(g.some(10_000)))
    await g.do(g.send("large", payload={"text": "word " * (_BODY // 5)}, correlationId="large") for _ in range(64))
    await g.do(g.send("gone", payload={"text": "x" * 200}) for _ in range(g.some(_DEAD)))
    # What waits for an agent that leaves becomes dead letters; it comes back, so that they can be queued again.
    await g.one(cmd.RetireAgent("gone"))
    await g.until(lambda: len(g.state.dead) >= g.some(_DEAD))
    await g.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller("gone", "primary"))


@case("messages", "send_message", "the largest envelope")
async def send_largest(g: Ground) -> Step:
    return g.ask("send_message", envelope=g.envelope("bob", payload={"text": "x" * (_BODY - 1000)}))


@case("messages", "send_message: many values", "an envelope of 300,000 numbers in 100,000 lists")
async def send_values(g: Ground) -> Step:
    return g.ask("send_message", envelope=g.envelope("bob", payload={"n": [[1, 2, 3]] * 130_000}))


@case("messages", "send_message: nested", "as deep and wide as allowed")
async def send_nested(g: Ground) -> Step:
    deep: object = 1
    for _ in range(120):
        deep = [deep]
    return g.ask("send_message", envelope=g.envelope("bob", payload={"n": [deep] * 4200}))


@case("messages", "send_messages", "500 small envelopes")
async def send_batch(g: Ground) -> Step:
    return g.ask("send_messages", envelope=b"[" + b",".join(g.envelope("bob") for _ in range(500)) + b"]")


@case("messages", "send_messages: largest", "500 envelopes of 16 kB: 8 MiB")
async def send_largest_batch(g: Ground) -> Step:
    padding = {"text": "x" * 16_300}
    envelopes = [g.envelope("bob", payload=padding) for _ in range(500)]
    return g.ask("send_messages", envelope=b"[" + b",".join(envelopes) + b"]")


@case("messages", "send_messages: numbers", "8 MiB of numbers instead of envelopes")
async def send_numbers(g: Ground) -> Step:
    return g.request("POST", "/v1/messages/batch", b"[" + b"0," * 4_190_000 + b"0]", most=499)


@case("messages", "fetch_inbox", "500 of 90,000 messages")
async def fetch(g: Ground) -> Step:
    return g.ask("fetch_inbox", "ada", limit=500)


@case("messages", "peek_inbox", "100 of 90,000 messages")
async def peek_inbox(g: Ground) -> Step:
    return g.ask("peek_inbox", "ada", limit=100, payload_bytes_max=65_536)


@case("messages", "fetch_inbox: largest", "4 MiB of large messages")
async def fetch_large(g: Ground) -> Step:
    return g.ask("fetch_inbox", "large", limit=500)


@case("messages", "confirm_messages", "500 messages")
async def confirm(g: Ground) -> Step:
    return g.ask("confirm_messages", "ada", message_ids=await _fetched(g, 500))


@case("messages", "confirm_messages: unknown", "250,000 ids")
async def confirm_unknown(g: Ground) -> Step:
    return g.request("POST", "/v1/inbox/receipts", b'{"message_ids":[' + b'"",' * 340_000 + b'""]}', "ada", 499)


@case("messages", "acknowledge_message", "one of 500 in flight, with notes of 4,096 characters")
async def acknowledge(g: Ground) -> Step:
    (first, *_) = await _fetched(g, 1)
    return g.ask("acknowledge_message", "ada", message_id=first, notes="x" * 4096)


@case("messages", "reject_message", "one of 500 in flight, for good")
async def reject(g: Ground) -> Step:
    (first, *_) = await _fetched(g, 1)
    return g.ask("reject_message", "ada", message_id=first, reason="x" * 4096)


@case("messages", "mark_processed", "one of 500 in flight")
async def processed(g: Ground) -> Step:
    (first, *_) = await _fetched(g, 1)
    return g.ask("mark_processed", "ada", message_id=first)


@case("messages", "find_messages", "no filter, the deepest page")
async def find_deep(g: Ground) -> Step:
    return g.ask("find_messages", after=5, limit=500)


@case("messages", "find_messages: nothing", "a word and a sender that no message has")
async def find_nothing(g: Ground) -> Step:
    return g.ask("find_messages", q="nowhere", sender="nobody", limit=500)


@case("messages", "find_messages: large", "previews of 64 messages of 1 MiB")
async def find_large(g: Ground) -> Step:
    return g.ask("find_messages", recipient="large", limit=500)


@case("messages", "trace_message", "one message of 1 MiB")
async def trace(g: Ground) -> Step:
    (receipt,) = await g.do([g.send("large", payload={"text": "x" * (_BODY - 1000)})])
    return g.ask("trace_message", message_id=receipt.message_id)


@case("messages", "list_inbox", "the last page of 90,000 messages")
async def inbox_deep(g: Ground) -> Step:
    return g.ask("list_inbox", "ada", after=g.some(90_000) - 600, limit=500, states="queued")


@case("messages", "list_inbox: large", "64 messages of 1 MiB")
async def inbox_large(g: Ground) -> Step:
    return g.ask("list_inbox", "large", limit=500, states="queued,offered,delivered")


@case("messages", "list_thread", "10,000 messages, the last page")
async def thread(g: Ground) -> Step:
    return g.ask("list_thread", correlation_id="long-thread", after=g.some(9_400), limit=500)


@case("messages", "list_thread: large", "64 messages of 1 MiB")
async def thread_large(g: Ground) -> Step:
    return g.ask("list_thread", correlation_id="large", limit=500)


@case("messages", "search_messages", "a word of 64 messages of 1 MiB")
async def search(g: Ground) -> Step:
    return g.ask("search_messages", q="word", limit=500)


@case("messages", "search_messages: wide", "thousands of words")
async def search_wide(g: Ground) -> Step:
    words = " OR ".join(f"w{number}*" for number in range(2000))
    return g.request("GET", "/v1/search?q=" + words.replace(" ", "+"), most=499)


@case("messages", "list_dead_letters", "the last page of 100,000")
async def dead_letters(g: Ground) -> Step:
    return g.ask("list_dead_letters", after=g.some(_DEAD) - 600, limit=500)


@case("messages", "count_dead_letters", "100,000 dead letters")
async def count_dead(g: Ground) -> Step:
    return g.ask("count_dead_letters")


@case("messages", "find_dead_letters", "the last page of 100,000")
async def find_dead(g: Ground) -> Step:
    return g.ask("find_dead_letters", after=g.some(_DEAD) - 600, limit=500)


@case("messages", "redrive_dead_letters", "500 of 100,000")
async def redrive(g: Ground) -> Step:
    names = [g.state.messages[seq].message_id for seq in list(g.state.dead)[:500]]
    return g.ask("redrive_dead_letters", signal_ids=names)


@case("messages", "redrive_matching", "500 of 100,000")
async def redrive_matching(g: Ground) -> Step:
    return g.ask("redrive_matching")


@case("messages", "list_pending", "200,000 messages")
async def pending(g: Ground) -> Step:
    return g.ask("list_pending")


@case("messages", "list_conversations", "200,000 messages")
async def conversations(g: Ground) -> Step:
    return g.ask("list_conversations")


@case("messages", "begin_work", "a message, 90,000 others waiting")
async def begin_work(g: Ground) -> Step:
    (first, *_) = await _idle(g)
    return g.ask("begin_work", "ada", message_id=first, interruptible=True)


@case("messages", "reach_pause_point", "90,000 others waiting")
async def pause_point(g: Ground) -> Step:
    await _work(g)
    return g.ask("reach_pause_point", "ada", stay=True)


@case("messages", "put_aside", "64 KiB of notes")
async def put_aside(g: Ground) -> Step:
    await _work(g)
    return g.ask("put_aside", "ada", saved="x" * 65_000)


@case("messages", "finish_work", "90,000 others waiting")
async def finish_work(g: Ground) -> Step:
    await _work(g)
    return g.ask("finish_work", "ada", processed=True)


async def _work(g: Ground) -> None:
    (first, *_) = await _idle(g)
    await g.one(cmd.BeginWork(first), _ADA)


async def _idle(g: Ground) -> list[str]:
    """Let ada finish all work, and return a message that it has fetched."""
    found = await _fetched(g, 1)
    await g.hub.host.submit(cmd.FinishWork(), _ADA)
    while g.state.attention.get("ada") is not None and g.state.attention["ada"].aside:
        aside = g.state.attention["ada"].aside[-1]
        await g.hub.host.submit(cmd.ResumeWork(aside.message_id), _ADA)
        await g.hub.host.submit(cmd.FinishWork(), _ADA)
    return found


async def _fetched(g: Ground, number: int) -> list[str]:
    """Let ada fetch messages, and return their ids."""
    attached = await g.hub.project.piggyback.attach(_ADA)
    if not isinstance(attached, cmd.SessionReady):
        raise TypeError(f"ada is not attached: {attached}")
    flying = list(g.state.sessions[attached.session].in_flight)
    if flying:
        await g.one(cmd.Confirm(tuple(g.state.messages[seq].message_id for seq in flying)), _ADA)
    await g.do(g.send("ada") for _ in range(number))
    drained = await g.hub.project.piggyback.drain(_ADA, number)
    if not isinstance(drained, cmd.Drained):
        raise TypeError(f"ada cannot fetch: {drained}")
    return [delivery.message.message_id for delivery in drained.deliveries]
