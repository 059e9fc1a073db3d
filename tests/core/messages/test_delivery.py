"""Delivery: the order of a mailbox (SPEC-071 §7, APM §3.4, DECAY §2), push windows, receipts, and the way back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.messages.model import State
from tocsin.core.queueing.mailbox import rank


def note(team: Team, priority: str, **parts: object) -> str:
    """Send a note to impl_002 from a director, whom nothing limits."""
    return team.send("boss", "impl_002", "CUSTOM_NOTE", priority=priority, **parts).signal_id


def test_a_drain_goes_by_category(team: Team) -> None:
    sent = {name: note(team, name) for name in ("INFO", "TASK", "ASK", "BLOCKER")}
    session = team.attach("impl_002", "piggyback")
    assert team.drain(session) == [sent["BLOCKER"], sent["ASK"], sent["TASK"], sent["INFO"]]


def test_a_drain_goes_by_apm_priority(team: Team) -> None:
    sent = {
        name: team.send("boss", "impl_002", "CUSTOM_NOTE", priority=name, version="1.0.0").signal_id
        for name in ("LOW", "NORMAL", "HIGH")
    }
    session = team.attach("impl_002", "piggyback")
    assert team.drain(session) == [sent["HIGH"], sent["NORMAL"], sent["LOW"]]


def test_an_override_goes_before_everything(team: Team) -> None:
    critical, override = note(team, "Critical", qos={"importance": 10}), note(team, "DirectorOverride")
    assert team.drain(team.attach("impl_002", "piggyback")) == [override, critical]


@pytest.mark.parametrize("priority", ["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"])
def test_within_a_priority_the_oldest_goes_first(team: Team, priority: str) -> None:
    sent = []
    for _ in range(5):
        sent.append(note(team, priority))
        team.advance(1)
    assert team.drain(team.attach("impl_002", "piggyback")) == sent


def test_within_a_priority_importance_goes_first(team: Team) -> None:
    sent = {importance: note(team, "TASK", qos={"importance": importance}) for importance in (5, 1, 10, 7)}
    blocking = note(team, "ASK", qos={"importance": 1})
    order = team.drain(team.attach("impl_002", "piggyback"))
    assert order == [blocking, sent[10], sent[7], sent[5], sent[1]]


def test_between_equals_fewer_attempts_go_first(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    first, second = note(team, "TASK"), note(team, "TASK")
    assert team.drain(session, 1) == [first]
    team.nack("impl_002", first, can_retry=True)
    team.redrive("boss", first)
    assert team.drain(session) == [first, second], "a redriven message starts anew, at its old place"


def test_a_retry_goes_behind_its_equals(new_team: NewTeam) -> None:
    team = new_team("contracts: {CUSTOM_NOTE: {retries_max: 1, backoff_s: [1]}}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    first, second = note(team, "TASK"), note(team, "TASK")
    team.drain(session, 1)
    team.nack("impl_002", first, can_retry=True)
    team.advance(2)
    assert team.drain(session) == [second, first]


def test_order_within_a_channel(team: Team) -> None:
    """APM §6.4: what one sender says to one receiver arrives in the order in which it was said."""
    sent = [team.send("impl_001", "impl_002").signal_id for _ in range(10)]
    assert team.drain(team.attach("impl_002", "piggyback")) == sent


def test_a_drain_has_a_limit_of_its_own_and_of_the_policy(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = [note(team, "TASK") for _ in range(5)]
    assert team.drain(session, 2) == sent[:2]
    for limit in (0, -1, 501):
        problem = team.refused(cmd.Drain(session, limit), "impl_002")
        assert (problem.code, problem.field, problem.expected) == ("E_VALIDATION_004", "$.limit", "1 to 500")
    reply = team.ask(cmd.Drain(session, 2), "impl_002", cmd.Drained)
    assert reply.waiting == (0, 1, 0, 0, 0)


@pytest.mark.parametrize("priority", ["TASK", "BLOCKER", "DirectorOverride"])
def test_the_limits_of_a_drain_have_no_exception_for_the_urgent(new_team: NewTeam, priority: str) -> None:
    team = new_team("limits: {drain_max: 3, drain_bytes_max: 200}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    sent = [note(team, priority, payload={"text": "x" * size}) for size in (1, 1, 1, 1, 1, 150, 150)]
    assert team.drain(session, 2) == sent[:2]
    assert team.drain(session, 3) == sent[2:5]
    assert team.drain(session, 3) == sent[5:6], "two have too many bytes"
    assert team.refused(cmd.Drain(session, 4), "impl_002").code == "E_VALIDATION_004"


def test_the_bytes_of_a_drain_include_the_metadata(new_team: NewTeam) -> None:
    """Only payloads were counted: 500 messages with a megabyte of metadata fitted into one answer."""
    team = new_team("limits: {drain_bytes_max: 200}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    sent = [note(team, "TASK", metadata={"text": "x" * 150}) for _ in range(2)]
    assert team.drain(session) == sent[:1]
    assert team.drain(session) == sent[1:]


def test_a_drain_has_a_limit_of_bytes_but_the_first_always_fits(new_team: NewTeam) -> None:
    team = new_team("limits: {drain_bytes_max: 100}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    large, *small = [note(team, "TASK", payload={"text": "x" * size}) for size in (500, 30, 30, 30)]
    assert team.drain(session) == [large]
    assert team.drain(session) == small[:2]
    assert team.drain(session) == small[2:]


def test_a_drain_of_the_urgent_leaves_the_rest_and_what_is_too_large(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = [
        note(team, priority, payload={"text": "x" * size})
        for priority, size in (("TASK", 1), ("ASK", 1), ("BLOCKER", 1), ("ASK", 500), ("ASK", 1))
    ]

    def urgent(bytes_max: int | None) -> list[str]:
        drain = cmd.Drain(session, 10, at_least=2, bytes_max=bytes_max)
        return [delivery.signal_id for delivery in team.ask(drain, "impl_002", cmd.Drained).deliveries]

    assert urgent(0) == []
    assert urgent(100) == [sent[2], sent[1]], "the order stands: nothing overtakes what is too large"
    assert urgent(None) == sent[3:]
    assert urgent(None) == []
    assert team.message(sent[0]).state == "queued"


def test_a_drain_confirms_nothing(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = note(team, "TASK")
    drain = cmd.Drain(session, 10)
    assert team.ask(drain, "impl_002", cmd.Drained).cursor
    assert team.ask(drain, "impl_002", cmd.Drained) == cmd.Drained((), (0, 0, 0, 0, 0), "")
    team.ask(cmd.Heartbeat(session), "impl_002", cmd.Done)
    assert team.message(sent).state == "offered"


def test_a_quoted_cursor_confirms_its_batch_and_no_other(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = [note(team, "TASK") for _ in range(300)]
    first, lost = (team.ask(cmd.Drain(session, 150), "impl_002", cmd.Drained) for _ in range(2))
    quoted = team.ask(cmd.Confirm(receipt=first.cursor), "impl_002", cmd.Confirmed)
    assert quoted == cmd.Confirmed(150)
    assert [team.message(name).state for name in sent] == ["delivered"] * 150 + ["offered"] * 150
    assert {event.how for event in team.happened(ev.MessageDelivered)} == {"receipt"}
    assert team.ask(cmd.Confirm(receipt=first.cursor), "impl_002", cmd.Confirmed) == cmd.Confirmed(0)
    both = f"{first.cursor}, {lost.cursor}"
    assert team.ask(cmd.Confirm(receipt=both), "impl_002", cmd.Confirmed) == cmd.Confirmed(150)


def test_a_cursor_that_is_not_the_agents_confirms_nothing(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = note(team, "TASK")
    cursor = team.ask(cmd.Drain(session, 10), "impl_002", cmd.Drained).cursor
    other = team.ask(cmd.Confirm(receipt=cursor), "impl_001", cmd.Confirmed)
    assert other == cmd.Confirmed(0, (cursor,))
    for broken in (cursor[:-1], cursor + "A", "A" + cursor[1:], "!", "é", "A" * 5000, f"{2**80}"):
        assert team.ask(cmd.Confirm(receipt=broken), "impl_002", cmd.Confirmed) == cmd.Confirmed(0, (broken,))
    assert team.message(sent).state == "offered"


def test_a_receipt_names_no_more_messages_than_a_window(new_team: NewTeam) -> None:
    team = new_team("limits: {window_max: 3, drain_max: 3}\ndelivery: {window_default: 2}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    cursors = []
    for _ in range(2):
        note(team, "TASK")
        note(team, "TASK")
        cursors.append(team.ask(cmd.Drain(session, 2), "impl_002", cmd.Drained).cursor)
        team.advance(11)
    refused = team.refused(cmd.Confirm(receipt=",".join(cursors)), "impl_002")
    assert refused.code == "E_ADMISSION_008"


def test_an_unquoted_batch_is_handed_out_again_after_the_receipt_time_of_a_poll(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = note(team, "TASK")
    lost = team.ask(cmd.Drain(session, 10), "impl_002", cmd.Drained)
    team.advance(9)
    assert team.ask(cmd.Drain(session, 10), "impl_002", cmd.Drained).deliveries == ()
    team.advance(2)
    (again,) = team.ask(cmd.Drain(session, 10), "impl_002", cmd.Drained).deliveries
    assert (again.signal_id, again.offer) == (sent, 2)
    assert team.ask(cmd.Confirm(receipt=lost.cursor), "impl_002", cmd.Confirmed) == cmd.Confirmed(0)


def test_a_cursor_does_not_confirm_what_was_rejected_for_a_retry(new_team: NewTeam) -> None:
    team = new_team("contracts: {CUSTOM_NOTE: {retries_max: 1, backoff_s: [1]}}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    sent = note(team, "TASK")
    cursor = team.ask(cmd.Drain(session, 10), "impl_002", cmd.Drained).cursor
    team.nack("impl_002", sent, can_retry=True)
    assert team.ask(cmd.Confirm(receipt=cursor), "impl_002", cmd.Confirmed) == cmd.Confirmed(0)
    team.advance(2)
    lost = team.ask(cmd.Drain(session, 10), "impl_002", cmd.Drained)
    assert [item.offer for item in lost.deliveries] == [2]
    assert team.ask(cmd.Confirm(receipt=cursor), "impl_002", cmd.Confirmed) == cmd.Confirmed(0)
    assert team.ask(cmd.Confirm(receipt=lost.cursor), "impl_002", cmd.Confirmed) == cmd.Confirmed(1)


def test_a_cursor_confirms_after_the_batch_has_returned_and_its_session_has_ended(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = note(team, "TASK")
    cursor = team.ask(cmd.Drain(session, 10), "impl_002", cmd.Drained).cursor
    team.advance(60)
    team.ask(cmd.CloseSession(session), "impl_002", cmd.Done)
    assert team.message(sent).state == "queued"
    assert team.ask(cmd.Confirm(receipt=cursor), "impl_002", cmd.Confirmed) == cmd.Confirmed(1)
    assert team.drain(team.attach("impl_002", "piggyback")) == []


def test_repeats_of_a_poll_are_bounded(new_team: NewTeam) -> None:
    team = new_team("delivery: {poll_retries_max: 5}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    sent = note(team, "TASK")
    offers = []
    while team.message(sent).state != "dead":
        offers += [item.offer for item in team.ask(cmd.Drain(session, 1), "impl_002", cmd.Drained).deliveries]
        team.advance(5)
    assert offers == [1, 2, 3, 4, 5, 6]
    (died,) = team.happened(ev.MessageDied)
    assert (died.reason, died.code) == ("receipt_timeout", "E_ROUTING_003")


def test_an_acknowledgement_confirms_what_was_drained(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = note(team, "TASK")
    team.ask(cmd.Drain(session, 1), "impl_002", cmd.Drained)
    team.ack("impl_002", sent)
    assert team.message(sent).state == "acknowledged"


def test_a_push_session_confirms_only_by_receipt(team: Team) -> None:
    session = team.attach("impl_002")
    sent = note(team, "TASK")
    team.drain(session)
    assert team.message(sent).state == "offered"
    assert team.confirm("impl_002", sent) == cmd.Confirmed(1, ())
    assert team.message(sent).state == "delivered"
    assert team.message(sent).delivered_at == team.now


def test_a_receipt_twice_is_no_news(team: Team) -> None:
    team.attach("impl_002")
    sent = note(team, "TASK")
    team.confirm("impl_002", sent)
    assert team.confirm("impl_002", sent) == cmd.Confirmed(0, ())
    assert len(team.happened(ev.MessageDelivered)) == 1


def test_a_receipt_of_what_is_not_the_callers_is_unknown(team: Team) -> None:
    team.attach("impl_002")
    sent, waiting = note(team, "TASK"), team.send("boss", "impl_001").signal_id
    assert team.confirm("impl_001", sent, "msg_1_none", waiting) == cmd.Confirmed(0, (sent, "msg_1_none", waiting))
    assert team.message(sent).state == "offered"


def test_receipts_have_a_limit(team: Team) -> None:
    problem = team.refused(cmd.Confirm(("msg_1_a",) * 501), "impl_002")
    assert (problem.code, problem.retryable) == ("E_ADMISSION_008", False)


def test_a_window_bounds_what_is_on_its_way(team: Team) -> None:
    session = team.attach("impl_002", window=3)
    sent = [note(team, "TASK") for _ in range(5)]
    assert list(team.exchange.state.sessions[session].in_flight) == [team.message(name).seq for name in sent[:3]]
    team.confirm("impl_002", sent[1])
    assert [team.message(name).state for name in sent] == ["offered", "delivered", "offered", "offered", "queued"]


def test_the_default_window_is_thirty_two(team: Team) -> None:
    session = team.attach("impl_002")
    for _ in range(40):
        note(team, "TASK")
    assert len(team.exchange.state.sessions[session].in_flight) == 32


def test_room_in_the_window_goes_to_the_most_urgent(team: Team) -> None:
    team.attach("impl_002", window=1)
    first, later, urgent = note(team, "INFO"), note(team, "TASK"), note(team, "BLOCKER")
    team.confirm("impl_002", first)
    assert (team.message(urgent).state, team.message(later).state) == ("offered", "queued")


def test_attaching_pushes_what_waits(team: Team) -> None:
    sent = [note(team, name) for name in ("INFO", "BLOCKER")]
    session = team.attach("impl_002", window=1)
    assert (team.message(sent[1]).state, team.message(sent[1]).session) == ("offered", session)
    assert team.happened(ev.MessageOffered)[-1].pushed is False, "it waited: its sender was told that it was queued"


def test_a_push_within_its_send_is_marked(team: Team) -> None:
    team.attach("impl_002")
    note(team, "TASK")
    (offered,) = team.happened(ev.MessageOffered)
    assert (offered.pushed, offered.offer, offered.waited_us, offered.level) == (True, 1, 0, 1)


def test_what_is_pushed_can_be_read_off_the_events(team: Team) -> None:
    session = team.attach("impl_002")
    before = len(team.events)
    sent = note(team, "TASK", payload={"a": 1})
    (delivery,) = team.exchange.deliveries(team.events[before:])
    assert (delivery.signal_id, delivery.session, delivery.offer) == (sent, session, 1)
    assert json.loads(delivery.envelope)["payload"] == {"a": 1}


def test_a_stale_session_is_not_pushed_to(team: Team) -> None:
    session = team.attach("impl_002")
    team.advance(61)
    sent = note(team, "TASK")
    assert team.message(sent).state == "queued"
    team.beat(session)
    assert team.message(sent).state == "offered"


@pytest.mark.parametrize("kind", ["push", "piggyback", "daemon"])
def test_what_a_session_did_not_confirm_goes_back_when_it_ends(team: Team, kind: cmd.SessionKind) -> None:
    session = team.attach("impl_002", kind)
    sent = note(team, "TASK")
    if kind == "piggyback":
        team.drain(session)
    team.detach(session)
    message = team.message(sent)
    assert (message.state, message.attempts, message.offered_at, message.session) == ("queued", 0, 0, None)
    assert [event.cause for event in team.happened(ev.MessageRequeued)] == ["session_ended"]
    again = team.attach("impl_002", "piggyback")
    assert team.drain(again) == [sent], "at least once"


def test_a_lapsed_session_gives_back_what_it_holds(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("boss", "impl_002", "TaskAssigned").signal_id
    team.drain(session)
    team.advance(3602)
    assert team.message(sent).state == "queued"


@pytest.mark.parametrize(("kind", "timeout_s"), [("push", 30), ("daemon", 30), ("piggyback", 10)])
def test_an_offer_without_receipt_comes_back(team: Team, kind: cmd.SessionKind, timeout_s: int) -> None:
    session = team.attach("impl_002", kind)
    sent = note(team, "TASK")
    if kind == "piggyback":
        team.drain(session)
    team.advance(timeout_s - 0.01)
    assert team.message(sent).state == "offered"
    team.advance(0.02)
    message = team.message(sent)
    retries_max, backoff_s = (10, 0) if kind == "piggyback" else (3, 1)
    assert (message.state, message.attempts, message.backing_off) == ("queued", 1, kind != "piggyback")
    (requeued,) = team.happened(ev.MessageRequeued)
    assert (requeued.cause, requeued.attempts, requeued.attempts_max) == ("receipt_timeout", 1, retries_max)
    assert (requeued.threshold_s, requeued.ready_at - requeued.at) == (timeout_s, backoff_s * SECOND)


def test_a_late_receipt_settles_what_had_come_back(team: Team) -> None:
    team.attach("impl_002")
    sent = note(team, "TASK")
    team.advance(30.5)
    assert team.message(sent).state == "queued"
    assert team.confirm("impl_002", sent).confirmed == 1
    team.advance(10, beating=True)
    assert team.message(sent).state == "delivered"
    assert len(team.happened(ev.MessageOffered)) == 1


@pytest.mark.parametrize("signal", ["StatusUpdate", "TaskAssigned", "ReviewRequested", "Blocker"])
def test_a_signal_is_not_replayed_after_its_receipt(team: Team, signal: str) -> None:
    team.attach("impl_002")
    sent = team.send("boss", "impl_002", signal).signal_id
    team.confirm("impl_002", sent)
    team.advance(1000, beating=True)
    assert len(team.happened(ev.MessageOffered)) == 1
    assert team.message(sent).state == "delivered"


def test_what_is_past_its_time_is_not_handed_out(team: Team) -> None:
    team.send("boss", "impl_002", "MasterPreempted")
    fresh = note(team, "INFO")
    team.now += 121 * SECOND
    assert team.drain(team.attach("impl_002", "piggyback")) == [fresh]
    assert [event.reason for event in team.happened(ev.MessageExpired)] == ["ttl"]


@st.composite
def mail(draw: st.DrawFn) -> tuple[str, int, float, float]:
    return (
        draw(st.sampled_from(["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"])),
        draw(st.integers(1, 10)),
        draw(st.sampled_from([0.0, 0.0, 0.1, 0.5])),
        draw(st.floats(0, 45)),
    )


@given(st.lists(mail(), max_size=25), st.integers(1, 5))
def test_a_drain_is_always_in_order(letters: list[tuple[str, int, float, float]], limit: int) -> None:
    team = Team("delivery: {window_default: 1000}")
    team.register("boss", "Director", "director")
    team.register("impl_002")
    session = team.attach("impl_002", "piggyback")
    for priority, importance, decay_rate, pause_s in letters:
        note(team, priority, qos={"importance": importance, "decayRate": decay_rate})
        team.advance(pause_s)
    known = team.exchange.state.messages.values()
    waiting = [message for message in known if message.recipient == "impl_002" and message.state is State.QUEUED]
    decay, top = team.exchange.state.policy.decay, team.exchange.state.policy.aging.top_level
    waiting.sort(key=lambda message: rank(message, team.now, decay, top))
    expected = [message.message_id for message in waiting]
    drained: list[str] = []
    while batch := team.drain(session, limit):
        drained += batch
    assert drained == [name for name in expected if team.message(name).state is not State.EXPIRED]
    team.check_replay()


def test_a_message_is_taken_by_its_id_whatever_its_size_and_place(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    note(team, "BLOCKER")
    sent = note(team, "TASK", payload={"text": "x" * 500})
    drain = cmd.Drain(session, 10, bytes_max=0, message_id=sent)
    drained = team.ask(drain, "impl_002", cmd.Drained)
    assert [delivery.signal_id for delivery in drained.deliveries] == [sent]
    assert team.ask(drain, "impl_002", cmd.Drained).deliveries == (), "it is on its way already"
    assert team.ask(cmd.Confirm(receipt=drained.cursor), "impl_002", cmd.Confirmed) == cmd.Confirmed(1)
    other = cmd.Drain(team.attach("impl_001", "piggyback"), 10, message_id=note(team, "TASK"))
    assert team.ask(other, "impl_001", cmd.Drained).deliveries == (), "it is another agent's"
