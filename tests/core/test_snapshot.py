"""Snapshots: a restored state is the state, goes on as it would have, and a journal adds up to it bit for bit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.driver import CountedIds, Team, replayed, snapshot_bytes
from tests.fixtures import load
from tocsin.core import commands as cmd
from tocsin.core.exchange import Exchange
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.snapshot import Snapshot, restore, take
from tocsin.core.state import ProjectState


def copied(exchange: Exchange) -> Exchange:
    """Write an exchange down and read it back."""
    return Exchange(CountedIds(), restore(msgspec.msgpack.decode(snapshot_bytes(exchange), type=Snapshot)))


def busy(team: Team) -> Team:
    """Let a bit of everything happen."""
    payload = load("apm/task_assignment_payload")
    session = team.attach("impl_001", "piggyback")
    team.attach("impl_002", window=2)
    for number in range(3):
        team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=payload, correlation_id=f"req_{number}")
    taken = team.drain(session, 2)
    team.ack("impl_001", taken[0])
    team.nack("impl_001", taken[1], can_retry=True)
    team.broadcast("boss", receiver_type="Implementation", qos={"importance": 9, "decayRate": 0.2})
    dead = team.send("boss", "impl_002").signal_id
    team.confirm("impl_002", dead)
    team.nack("impl_002", dead, can_retry=False)
    team.send("impl_001", "twin", metadata={"ttl": 10})
    recalled = team.send("impl_001", "twin").signal_id
    team.recall("impl_001", recalled)
    for _ in range(6):
        team.send("impl_002", "manager_001", "CUSTOM_NOTE", priority="Blocking")
    team.advance(200)
    return team


def test_a_restored_state_is_the_state(team: Team) -> None:
    busy(team)
    assert snapshot_bytes(copied(team.exchange)) == snapshot_bytes(team.exchange)


def test_a_snapshot_that_is_emptied_restores_the_same_and_gives_its_messages_away(team: Team) -> None:
    busy(team)
    snapshot = msgspec.msgpack.decode(snapshot_bytes(team.exchange), type=Snapshot)
    assert snapshot_bytes(Exchange(CountedIds(), restore(snapshot))) == snapshot_bytes(team.exchange)
    assert snapshot.messages
    assert snapshot_bytes(Exchange(CountedIds(), restore(snapshot, emptied=True))) == snapshot_bytes(team.exchange)
    assert not snapshot.messages


def test_restored_messages_are_not_the_rows_of_the_snapshot(team: Team) -> None:
    busy(team)
    snapshot = team.snapshot()
    for message in restore(snapshot).messages.values():
        message.attempts += 100
    assert max(row.attempts for row in snapshot.messages) < 100


def test_a_snapshot_of_nothing_restores_nothing() -> None:
    empty = take(ProjectState())
    assert empty.policy is None
    assert take(restore(empty)) == empty


def test_a_restored_state_finds_what_the_original_finds(team: Team) -> None:
    busy(team)
    state, again = team.exchange.state, copied(team.exchange).state
    assert again.ids == state.ids
    assert {name: agent.mailbox.depths() for name, agent in again.agents.items()} == {
        name: agent.mailbox.depths() for name, agent in state.agents.items()
    }
    assert [list(agent.sessions) for agent in again.agents.values()] == [
        list(agent.sessions) for agent in state.agents.values()
    ]
    assert again.latency.total_us == state.latency.total_us


def test_a_restored_state_goes_on_as_the_original(team: Team) -> None:
    busy(team)
    twin, now = copied(team.exchange), team.now
    ids = CountedIds()
    team.exchange = Exchange(ids, team.exchange.state)
    team.advance(700)
    while (due := twin.next_due()) is not None and due <= team.now:
        now = max(now, due)
        twin.handle(cmd.Tick(), cmd.SYSTEM, now)
    assert snapshot_bytes(twin) == snapshot_bytes(team.exchange)


@pytest.mark.parametrize("share", [0, 1, 2, 3])
def test_a_journal_may_be_replayed_from_any_recovery_point(team: Team, share: int) -> None:
    busy(team)
    cut = len(team.events) * share // 3
    exchange = replayed(team.events[:cut]) if cut else Exchange(CountedIds())
    recovered = copied(exchange)
    recovered.replay(team.events[cut:])
    assert snapshot_bytes(recovered) == snapshot_bytes(team.exchange)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "send",
                "broadcast",
                "attach",
                "detach",
                "drain",
                "confirm",
                "ack",
                "nack",
                "recall",
                "redrive",
                "retire",
                "wait",
            ]
        ),
        st.integers(0, 50),
        st.booleans(),
    ),
    max_size=40,
)
NAMES = ("a", "b", "c")


@given(ACTIONS)
def test_any_story_replays(actions: list[tuple[str, int, bool]]) -> None:
    team = Team("limits: {dead_letters_max: 3}\nretention: {settled_s: 100, acknowledged_s: 200, batch: 2}")
    for name in NAMES:
        team.register(name, "Manager", "director")
    for action, number, flag in actions:
        act(team, action, number, flag)
    team.check_replay()


def act(team: Team, action: str, number: int, flag: bool) -> None:
    """Do one thing of a story; what cannot be done now is left out."""
    state = team.exchange.state
    agents, sessions, messages = list(state.agents), list(state.sessions), list(state.messages.values())
    name = agents[number % len(agents)] if agents else "a"
    if action == "wait":
        team.advance(number * (10 if flag else 0.3), beating=flag)
    elif action == "retire" and number % 10 == 0 and agents:
        team.ask(cmd.RetireAgent(name), name, cmd.Done)
        team.register(name, "Manager", "director")
    elif action in ("send", "broadcast") and len(agents) > 1:
        priority = ("Info", "Coordinate", "Blocking", "Critical", "DirectorOverride")[number % 5]
        kind = "HANDOFF_REQUEST" if flag else "CUSTOM_NOTE"
        parts = {
            "payload": load("apm/handoff_request_payload_load_balancing"),
            "priority": priority,
            "correlation_id": f"req_{len(team.events)}",
        }
        if action == "broadcast":
            team.broadcast(name, kind, **parts)
        else:
            team.send(name, agents[(number + 1) % len(agents)], kind, **parts)
    elif action == "attach" and len(sessions) < 8:
        team.attach(name, ("push", "piggyback", "daemon")[number % 3], 1 + number % 4)
    elif action == "detach" and sessions:
        team.detach(sessions[number % len(sessions)])
    elif action == "drain" and sessions:
        team.drain(sessions[number % len(sessions)], 1 + number % 5)
    elif messages:
        settle(team, action, messages[number % len(messages)], flag)


def settle(team: Team, action: str, message: Message, flag: bool) -> None:
    """Confirm, reject, recall or redrive, as whoever may; a refusal is an answer too."""
    signal = signal_id(message)
    commands: dict[str, tuple[cmd.Command, str]] = {
        "confirm": (cmd.Confirm((signal,)), message.recipient),
        "ack": (cmd.Acknowledge(signal, "processed" if flag else "received"), message.recipient),
        "nack": (cmd.Reject(signal, "no", can_retry=flag), message.recipient),
        "recall": (cmd.Recall(signal), message.sender),
        "redrive": (cmd.Redrive((signal,)), message.sender),
    }
    if action in commands:
        command, caller = commands[action]
        team.handle(command, team.caller(caller))
