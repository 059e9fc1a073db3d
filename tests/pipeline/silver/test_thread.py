from typing import Any

from tests.pipeline.rows import DAY, Row, S, T, day_of, life, lives, made
from tests.pipeline.views.latencies import spread

NEXT = T + 86400 * S


def said(message: int, at: int, sender: str, recipient: str, kind: str, correlation: str | None, **known: Any) -> Row:
    return life(
        message, at, sender=sender, recipient=recipient, message_type=kind, correlation_id=correlation, **known
    )  # fmt: skip


#: A task over midnight: assignment, two updates, the second of which completes it.
TASK = (
    said(1, T, "mia", "ian", "TASK_ASSIGNMENT", "t1", opens_thread=True, delivered_at=T + S, acked_at=T + 2 * S,
         processed_at=NEXT + 9 * S, state="processed"),
    said(2, T + 3 * S, "ian", "mia", "ACK", "t1", state="delivered"),
    said(3, T + 5 * S, "ian", "mia", "TASK_UPDATE", "t1", state="delivered"),
    said(4, NEXT + 9 * S, "ian", "mia", "TASK_UPDATE", "t1", state="delivered"),
)  # fmt: skip
#: A question to two, answered by one; the requester asks on.
QUESTION = (
    said(5, T, "mia", "ian", "Question", "q", opens_thread=True, message_id="b", state="expired"),
    said(6, T, "mia", "jan", "Question", "q", opens_thread=True, message_id="b", delivered_at=T + 2 * S,
         processed_at=T + 7 * S, state="processed"),
    said(7, T + 4 * S, "mia", "jan", "StatusUpdate", "q"),
    said(8, T + 7 * S, "jan", "mia", "StatusUpdate", "q"),
)  # fmt: skip
#: The same id again, later on the same day: another thread, which is lost.
AGAIN = (
    said(9, T + 600 * S, "jan", "mia", "Question", "q", opens_thread=True, state="dead"),
)  # fmt: skip
#: No thread: an id that nothing opened, and no id.
NO_THREAD = (
    said(10, T, "ian", "mia", "ACK", "m99"),
    said(11, T, "ian", "mia", "StatusUpdate", None),
)  # fmt: skip
#: Handed over, and no answer yet.
HANDOFF = (
    said(12, T, "ian", "jan", "HANDOFF_REQUEST", "h", opens_thread=True, delivered_at=T + S, state="delivered"),
)  # fmt: skip
ALL = lives(*TASK, *QUESTION, *AGAIN, *NO_THREAD, *HANDOFF)
_NO_TIMES: Row = dict.fromkeys(["acked_at", "first_update_at", "first_response_at", "completed_at"])


def test_a_task_over_midnight_is_one_thread_until_the_update_that_completes_it() -> None:
    assert made("thread", lives(*TASK)) == [
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
        }
    ]


def test_a_question_to_two_is_answered_by_the_first_answer_of_another_agent() -> None:
    assert made("thread", lives(*QUESTION)) == [
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
            **_NO_TIMES,
            "first_response_at": T + 7 * S,
            "completed_at": T + 7 * S,
            "last_at": T + 7 * S,
            "outcome": "completed",
        }
    ]


def test_an_id_that_is_opened_again_is_another_thread() -> None:
    first, again = made("thread", lives(*QUESTION, *AGAIN))
    assert (first["messages"], first["outcome"]) == (4, "completed")
    assert again == {
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
        **_NO_TIMES,
        "last_at": T + 600 * S,
        "outcome": "lost",
    }


def test_a_thread_without_an_answer_is_open() -> None:
    assert made("thread", lives(*HANDOFF)) == [
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
            **_NO_TIMES,
            "last_at": T,
            "outcome": "open",
        }
    ]


def test_messages_that_nothing_opened_are_no_thread() -> None:
    assert made("thread", lives(*NO_THREAD)) == []


def test_lead_times_are_counted_by_kind_responder_and_measure() -> None:
    task = {"project": "p", "date": DAY, "thread_kind": "task", "message_type": "TASK_ASSIGNMENT", "responder": "ian"}
    asked = {"project": "p", "date": DAY, "thread_kind": "request", "message_type": "Question", "responder": None}
    handoff = {"project": "p", "date": DAY, "thread_kind": "handoff", "message_type": "HANDOFF_REQUEST"}
    assert made("lead_time", ALL) == [
        {**handoff, "responder": "jan", "measure": "to_delivery", **spread(S)},
        {**asked, "measure": "to_completion", **spread(7 * S)},
        {**asked, "measure": "to_delivery", **spread(2 * S)},
        {**asked, "measure": "to_response", **spread(7 * S)},
        {**task, "measure": "to_completion", **spread(NEXT + 9 * S - T)},
        {**task, "measure": "to_delivery", **spread(S)},
        {**task, "measure": "to_first_update", **spread(5 * S)},
        {**task, "measure": "to_response", **spread(5 * S)},
    ]


def test_outcomes_are_counted_by_requester_and_responder() -> None:
    outcomes = made("thread_outcome", ALL)
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
