"""Recall with the semantics of e-mail: the four outcomes of SPEC-071 §4.4, and only for the sender."""

import pytest

from tests.core.driver import SECOND, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev


def test_recalled(team: Team) -> None:
    sent = team.send("impl_001", "impl_002").signal_id
    team.advance(1)
    assert team.recall("impl_001", sent) == "recalled"
    message = team.message(sent)
    assert (message.state, message.recalled_at) == ("recalled", team.now)
    assert (message.delivered_at, message.expired_at) == (0, 0)
    assert team.drain(team.attach("impl_002", "piggyback")) == [], "the recipient never sees it"
    assert team.happened(ev.MessageRecalled)[0].by == "impl_001"


def test_already_delivered(team: Team) -> None:
    team.attach("impl_002")
    sent = team.send("impl_001", "impl_002").signal_id
    team.confirm("impl_002", sent)
    assert team.recall("impl_001", sent) == "already_delivered"
    assert team.message(sent).recalled_at == 0


def test_already_delivered_from_the_offer_on(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002").signal_id
    team.drain(session)
    assert team.recall("impl_001", sent) == "already_delivered", "it may have been seen"
    team.detach(session)
    assert team.message(sent).state == "queued"
    assert team.recall("impl_001", sent) == "already_delivered", "it may still have been seen"


def test_already_expired(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", metadata={"ttl": 10}).signal_id
    team.advance(120)
    assert team.message(sent).state == "expired"
    assert team.recall("impl_001", sent) == "already_expired"
    assert team.message(sent).recalled_at == 0


def test_already_expired_before_the_sweeper_came(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", metadata={"ttl": 10}).signal_id
    team.now += 11 * SECOND
    assert team.recall("impl_001", sent) == "already_expired"
    assert team.message(sent).state == "expired"


def test_not_found(team: Team) -> None:
    assert team.recall("impl_001", "msg_1_none") == "not_found"
    assert [event.outcome for event in team.happened(ev.RecallRefused)] == ["not_found"]


@pytest.mark.parametrize("caller", ["impl_002", "manager_001", "boss"])
def test_somebody_elses_is_not_found(team: Team, caller: str) -> None:
    sent = team.send("impl_001", "impl_002").signal_id
    assert team.recall(caller, sent) == "not_found"
    assert team.message(sent).state == "queued"


def test_a_recall_twice_is_recalled(team: Team) -> None:
    sent = team.send("impl_001", "impl_002").signal_id
    assert [team.recall("impl_001", sent) for _ in range(2)] == ["recalled", "recalled"]
    assert len(team.happened(ev.MessageRecalled)) == 1


def test_a_broadcast_is_recalled_copy_by_copy(team: Team) -> None:
    team.attach("impl_001")
    sent = team.broadcast("manager_001", receiver_type="Implementation")
    reply = team.ask(cmd.Recall(sent.broadcast_id), "manager_001", cmd.RecallResult)
    assert reply.outcome == "recalled"
    assert reply.outcomes == {"impl_001": "already_delivered", "impl_002": "recalled", "twin": "recalled"}


def test_one_copy_of_a_broadcast_is_recalled(team: Team) -> None:
    sent = team.broadcast("manager_001", receiver_type="Implementation")
    reply = team.ask(cmd.Recall(f"{sent.broadcast_id}:impl_002"), "manager_001", cmd.RecallResult)
    assert reply.outcomes == {"impl_002": "recalled"}
    assert team.message(f"{sent.broadcast_id}:impl_001").state == "queued"


def test_every_refusal_is_an_event(team: Team) -> None:
    team.attach("impl_002")
    sent = team.send("impl_001", "impl_002").signal_id
    team.recall("impl_001", sent)
    (refused,) = team.happened(ev.RecallRefused)
    assert (refused.message_id, refused.by, refused.outcome) == (sent, "impl_001", "already_delivered")


def test_a_dead_letter_that_was_never_offered_has_expired(team: Team) -> None:
    sent = team.send("impl_001", "impl_002").signal_id
    team.ask(cmd.RetireAgent("impl_002"), None, cmd.Done)
    assert team.message(sent).state == "dead"
    assert team.recall("impl_001", sent) == "already_expired"
