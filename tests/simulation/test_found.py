"""Bugs that the simulator found, each as the smallest story that shows it."""

import msgspec

from tests.core.envelopes import letter
from tests.envelopes import parsed
from tests.ids import SeededIds
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller, Command, Reply
from tocsin.core.errors import Problem
from tocsin.core.exchange import Exchange
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.policy import document_of
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import iso
from tocsin.core.queueing.mailbox import Mailbox
from tocsin.core.snapshot import take
from tocsin.policies import default_policy, parse_policy

_SECOND = 1_000_000
_BOSS = Caller("boss", "director")
_DOER = Caller("doer", "primary")


class _Story:
    def __init__(self, policy: str = "") -> None:
        self.exchange = Exchange(SeededIds(1))
        self.now = 1_762_940_000 * _SECOND
        self.count = 0
        self.ask(cmd.AdoptPolicy(document_of(parse_policy(policy)), "start"), SYSTEM)
        for caller in (_BOSS, _DOER):
            self.ask(cmd.RegisterAgent("AdHoc", ("1.1.0",)), caller)

    def ask(self, command: Command, caller: Caller) -> Reply:
        return self.exchange.handle(command, caller, self.now).reply

    def send(self, message_type: str = "StatusUpdate", **more: object) -> str:
        self.count += 1
        message_id = f"msg_{self.count}_x"
        fields = {"timestamp": iso(self.now), "messageType": message_type, "priority": None, "payload": {}} | more
        reply = self.ask(cmd.Send(parsed(message_id, "boss", "doer", sender_type="AdHoc", **fields)), _BOSS)
        assert isinstance(reply, cmd.Receipt)
        return message_id

    def attach(self, kind: cmd.SessionKind = "piggyback") -> str:
        reply = self.ask(cmd.OpenSession(kind), _DOER)
        assert isinstance(reply, cmd.SessionReady)
        return reply.session


def test_a_decaying_message_fits_a_snapshot() -> None:
    story = _Story()
    story.send(qos={"decayRate": 0.5, "importance": 9})
    assert msgspec.msgpack.encode(take(story.exchange.state))


def test_nothing_is_forgotten_in_the_middle_of_a_decision() -> None:
    story = _Story("retention: {settled_s: 5, batch: 1}")
    session = story.attach()
    message_id = story.send()
    story.ask(cmd.Drain(session, 10), _DOER)
    story.ask(cmd.Confirm((message_id,)), _DOER)
    story.now += 60 * _SECOND
    reply = story.ask(cmd.Reject(message_id, "late", can_retry=False), _DOER)
    assert reply == cmd.Rejected(message_id, State.DEAD)


def test_a_redriven_message_leaves_its_overdue_place() -> None:
    """Its old entry among the overdue passed for its new place, and hid the overdue behind it."""
    decay = default_policy().decay
    messages: dict[int, Message] = {}
    mailbox = Mailbox(messages, Priority.BLOCKING)
    redriven, overdue = letter(seq=1, level=2), letter(seq=2, level=2)
    for message in (redriven, overdue):
        messages[message.seq] = message
        message.overdue = True
        mailbox.add(message)
    mailbox.remove(redriven)
    redriven.overdue = False
    mailbox.add(redriven)
    assert mailbox.head(0, decay) is overdue


def test_aging_catches_up_when_a_new_policy_boosts_faster() -> None:
    story = _Story("aging: {boost_levels: 1}")
    story.send("StatusUpdate")
    message = next(iter(story.exchange.state.messages.values()))
    for _ in range(2):
        story.now += 61 * _SECOND
        story.ask(cmd.Tick(), SYSTEM)
    assert not message.overdue
    story.ask(cmd.AdoptPolicy(document_of(parse_policy("aging: {boost_levels: 2}")), "faster"), SYSTEM)
    story.now += _SECOND
    story.ask(cmd.Tick(), SYSTEM)
    assert message.overdue


def test_an_overdue_message_rises_on_when_a_new_policy_ends_aging_higher() -> None:
    """It kept the front of the lower level for ever, and newer messages of the new top went before it."""
    story = _Story("aging: {top: Coordinate}")
    story.send("StatusUpdate")
    message = next(iter(story.exchange.state.messages.values()))
    story.now += 121 * _SECOND
    story.ask(cmd.Tick(), SYSTEM)
    assert (message.level, message.overdue) == (Priority.COORDINATE, True)
    story.ask(cmd.AdoptPolicy(document_of(parse_policy("")), "higher"), SYSTEM)
    story.now += 60 * _SECOND
    for _ in range(3):
        story.ask(cmd.Tick(), SYSTEM)
    assert (message.level, message.overdue) == (Priority.BLOCKING, True)


def test_an_ack_that_cannot_be_is_refused_before_it_is_accepted() -> None:
    story = _Story()
    session = story.attach()
    message_id = story.send()
    story.ask(cmd.Drain(session, 1), _DOER)
    story.ask(cmd.Reject(message_id, "no", can_retry=False), _DOER)
    ack = parsed(
        *("msg_ack_1", "doer", "boss"),
        sender_type="AdHoc",
        timestamp=iso(story.now),
        messageType="ACK",
        correlationId=message_id,
        priority=None,
        payload={"acknowledgedMessageId": message_id, "status": "received", "timestamp": iso(story.now)},
    )
    outcome = story.exchange.handle(cmd.Send(ack), _DOER, story.now)
    assert isinstance(outcome.reply, Problem)
    assert outcome.reply.code == "E_STATE_002"
    assert [type(event).__name__ for event in outcome.events] == ["SendRefused"]


def test_a_sign_of_life_counts_only_from_a_caller_that_may_give_it() -> None:
    """A token whose role had changed was refused, and yet its heartbeat was recorded."""
    story = _Story()
    session = story.attach()
    story.now += 10 * _SECOND
    demoted = Caller("doer", "clone")
    for command in (cmd.Heartbeat(session), cmd.Drain(session, 1), cmd.CloseSession(session)):
        outcome = story.exchange.handle(command, demoted, story.now)
        assert isinstance(outcome.reply, Problem)
        assert outcome.reply.code == "E_AUTH_007"
        assert outcome.events == []


def test_places_in_line_follow_a_new_policy_at_once() -> None:
    """The decision that adopted a policy worked the places out by the one before it."""
    story = _Story("leases: {overtakes_max: 1}")
    held = story.ask(cmd.AcquireLease(("x",)), _BOSS)
    story.ask(cmd.AcquireLease(("x", "y")), _DOER)
    third, fourth = Caller("third", "primary"), Caller("fourth", "primary")
    for caller in (third, fourth):
        story.ask(cmd.RegisterAgent("AdHoc", ("1.1.0",)), caller)
    passing = story.ask(cmd.AcquireLease(("y",)), third)
    assert isinstance(held, cmd.LeaseRecord)
    assert isinstance(passing, cmd.LeaseRecord)
    assert (held.state, passing.state) == ("held", "held")
    story.ask(cmd.ReleaseLease(passing.lease), third)
    waiting = story.ask(cmd.AcquireLease(("y",)), fourth)
    assert isinstance(waiting, cmd.LeaseRecord)
    assert waiting.state == "waiting", "passed by often enough"
    story.ask(cmd.AdoptPolicy(document_of(parse_policy("leases: {overtakes_max: 3}")), "more"), SYSTEM)
    assert [lease.holder for lease in story.exchange.state.leases.leases.values()] == ["boss", "fourth"]
