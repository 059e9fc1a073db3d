from typing import Any

from tests.pipeline.rows import DAY, Row, S, T, day_of, life, lives, made
from tests.pipeline.views.latencies import spread

NEXT = T + 86400 * S


def said(message: int, at: int, sender: str, recipient: str, kind: str, correlation: str | None, **known: Any) -> Row:
    return life(
        message, at, sender=sender, recipient=recipient, message_type=kind, correlation_id=correlation, **known
    )  # fmt: skip


def test_threads_go_from_the_opening_to_the_answer() -> None:
    message_life = lives(
        # A task over midnight: assignment, two updates, the second of which completes it.
        said(1, T, "mia", "ian", "TASK_ASSIGNMENT", "t1", opens_thread=True, delivered_at=T + S, acked_at=T + 2 * S,
             processed_at=NEXT + 9 * S, state="processed"),
        said(2, T + 3 * S, "ian", "mia", "ACK", "t1", state="delivered"),
        said(3, T + 5 * S, "ian", "mia", "TASK_UPDATE", "t1", state="delivered"),
        said(4, NEXT + 9 * S, "ian", "mia", "TASK_UPDATE", "t1", state="delivered"),
        # A question to two, answered by one; the requester asks on.
        said(5, T, "mia", "ian", "Question", "q", opens_thread=True, message_id="b", state="expired"),
        said(6, T, "mia", "jan", "Question", "q", opens_thread=True, message_id="b", delivered_at=T + 2 * S,
             processed_at=T + 7 * S, state="processed"),
        said(7, T + 4 * S, "mia", "jan", "StatusUpdate", "q"),
        said(8, T + 7 * S, "jan", "mia", "StatusUpdate", "q"),
        # The same id again, later on the same day: another thread, which is lost.
        said(9, T + 600 * S, "jan", "mia", "Question", "q", opens_thread=True, state="dead"),
        # No thread: an id that nothing opened, and no id.
        said(10, T, "ian", "mia", "ACK", "m99"),
        said(11, T, "ian", "mia", "StatusUpdate", None),
        # Handed over, and no answer yet.
        said(12, T, "ian", "jan", "HANDOFF_REQUEST", "h", opens_thread=True, delivered_at=T + S, state="delivered"),
    )  # fmt: skip
    nothing: Row = dict.fromkeys(["acked_at", "first_update_at", "first_response_at", "completed_at"])
    assert made("thread", message_life) == [
        {
            "project": "p",
            "date": DAY,
            "thread": 1,
            "correlation_id": "t1",
            "thread_kind": "task",
            "message_type": "TASK_ASSIGNMENT",
            "requester": "mia",
            "responder": "ian",
            "copies": 1,
            "messages": 4,
            "updates": 2,
            "responses": 2,
            "opened_at": T,
            "delivered_at": T + S,
            "acked_at": T + 2 * S,
            "first_update_at": T + 5 * S,
            "first_response_at": T + 5 * S,
            "completed_at": NEXT + 9 * S,
            "last_at": NEXT + 9 * S,
            "outcome": "completed",
        },
        {
            "project": "p",
            "date": DAY,
            "thread": 5,
            "correlation_id": "q",
            "thread_kind": "request",
            "message_type": "Question",
            "requester": "mia",
            "responder": None,
            "copies": 2,
            "messages": 4,
            "updates": 0,
            "responses": 1,
            "opened_at": T,
            "delivered_at": T + 2 * S,
            **nothing,
            "first_response_at": T + 7 * S,
            "completed_at": T + 7 * S,
            "last_at": T + 7 * S,
            "outcome": "completed",
        },
        {
            "project": "p",
            "date": DAY,
            "thread": 9,
            "correlation_id": "q",
            "thread_kind": "request",
            "message_type": "Question",
            "requester": "jan",
            "responder": "mia",
            "copies": 1,
            "messages": 1,
            "updates": 0,
            "responses": 0,
            "opened_at": T + 600 * S,
            "delivered_at": None,
            **nothing,
            "last_at": T + 600 * S,
            "outcome": "lost",
        },
        {
            "project": "p",
            "date": DAY,
            "thread": 12,
            "correlation_id": "h",
            "thread_kind": "handoff",
            "message_type": "HANDOFF_REQUEST",
            "requester": "ian",
            "responder": "jan",
            "copies": 1,
            "messages": 1,
            "updates": 0,
            "responses": 0,
            "opened_at": T,
            "delivered_at": T + S,
            **nothing,
            "last_at": T,
            "outcome": "open",
        },
    ]
    task = {"project": "p", "date": DAY, "thread_kind": "task", "message_type": "TASK_ASSIGNMENT", "responder": "ian"}
    asked = {"project": "p", "date": DAY, "thread_kind": "request", "message_type": "Question", "responder": None}
    handoff = {"project": "p", "date": DAY, "thread_kind": "handoff", "message_type": "HANDOFF_REQUEST"}
    assert made("lead_time", message_life) == [
        {**handoff, "responder": "jan", "measure": "to_delivery", **spread(S)},
        {**asked, "measure": "to_completion", **spread(7 * S)},
        {**asked, "measure": "to_delivery", **spread(2 * S)},
        {**asked, "measure": "to_response", **spread(7 * S)},
        {**task, "measure": "to_completion", **spread(NEXT + 9 * S - T)},
        {**task, "measure": "to_delivery", **spread(S)},
        {**task, "measure": "to_first_update", **spread(5 * S)},
        {**task, "measure": "to_response", **spread(5 * S)},
    ]
    outcomes = made("thread_outcome", message_life)
    assert [(row["requester"], row["responder"], row["completed"], row["lost"], row["open"]) for row in outcomes] == [
        ("ian", "jan", 0, 0, 1),
        ("jan", "mia", 0, 1, 0),
        ("mia", None, 1, 0, 0),
        ("mia", "ian", 1, 0, 0),
    ]
    assert [row["threads"] for row in outcomes] == [1, 1, 1, 1]
    assert (outcomes[3]["messages"], outcomes[3]["updates"], outcomes[3]["responses"]) == (4, 2, 2)


def test_a_day_gathers_its_messages_by_thread_and_pair() -> None:
    message_life = lives(
        said(3, NEXT, "ian", "mia", "TASK_UPDATE", "t"),
        said(5, NEXT + S, "mia", "ian", "Question", "t", opens_thread=True, delivered_at=NEXT + 2 * S, state="dead"),
    )
    blank: Row = dict.fromkeys(
        ["first_update_us", "first_answer_us", "opened_us", "delivered_us", "acked_us", "processed_us"]
    )
    assert made("thread_day", message_life) == [
        {
            "project": "p",
            "date": day_of(NEXT),
            "correlation_id": "t",
            "opener": 5,
            "sender": "mia",
            "recipient": "ian",
            "first_message": 5,
            "messages": 1,
            "updates": 0,
            "answers": 0,
            "last_us": NEXT + S,
            **blank,
            "copies": 1,
            "opened_us": NEXT + S,
            "delivered_us": NEXT + 2 * S,
            "lost": 1,
            "message_type": "Question",
        },
        {
            "project": "p",
            "date": day_of(NEXT),
            "correlation_id": "t",
            "opener": None,
            "sender": "ian",
            "recipient": "mia",
            "first_message": 3,
            "messages": 1,
            "updates": 1,
            "answers": 1,
            "last_us": NEXT,
            **blank,
            "first_update_us": NEXT,
            "first_answer_us": NEXT,
            "copies": 0,
            "lost": 0,
            "message_type": None,
        },
    ]
