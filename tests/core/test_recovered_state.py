"""What is derived from the state is the same in a state rebuilt from a recovery point: lookups, queues and timers.

So what has ended leaves nothing behind, and what is open is due at the same time. The stories of the other tests are
told again, and compared after every command.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.core.agents import test_attention_events
from tests.core.conftest import NewTeam
from tests.core.driver import Team, snapshot_bytes
from tests.core.leases import test_lease_events
from tests.core.messages import test_message_events
from tests.core.teamwork import test_teamwork_events
from tests.core.wake import test_wake_events
from tocsin.core.commands import Caller, Command
from tocsin.core.exchange import Outcome
from tocsin.core.snapshot import Snapshot, restore
from tocsin.core.state import ProjectState
from tocsin.core.timers import Wheel
from tocsin.core.waiting.graph import WaitGraph

LOOKUPS = (
    *("ids", "asked", "causes", "escalated", "open_escalations", "closed_escalations", "inherited", "lent", "noticed"),
    *("asking", "outgoing", "wake_targets", "dead", "wakes", "deferred", "attention"),
)
WHEELS = (
    *("receipts", "acks", "backoff", "aging", "escalation", "sessions", "leases", "lease_waits", "deadlines"),
    *("expiry", "decay", "dead"),
)


def derived(state: ProjectState) -> dict[str, Any]:
    """Return what follows from the rest of a state; empty entries do not count."""
    found: dict[str, Any] = {}
    for name in LOOKUPS:
        found[name] = {key: value for key, value in getattr(state, name).items() if value != {}}
    for name in WHEELS:
        wheel: Wheel[Any] = getattr(state.timers, name)
        slots = {number: {key for key in keys if not _may_be_late(key)} for number, keys in wheel.slots.items()}
        found[f"timers: {name}"] = {number: keys for number, keys in slots.items() if keys}
    for agent in state.agents.values():
        # As a set: a live mailbox yields a message twice that rose and came back to its level.
        queued = sorted({message.seq for message in agent.mailbox})
        found[f"mailbox of {agent.agent}"] = (queued, agent.mailbox.depths(), agent.mailbox.depth)
        found[f"sessions of {agent.agent}"] = [(name, [*one.in_flight]) for name, one in agent.sessions.items()]
    for key, wait in state.waits.waits.items():
        found[f"wait {key}"] = (wait.level, dict(wait.on), wait.any_of, wait.seq)
    volume = state.volume
    found["bytes"] = (volume.unsettled, volume.by_recipient, volume.by_sender, volume.dead, volume.kept_bytes)
    found["messages with content"] = list(volume.kept)
    found["depths"] = state.depths
    found["waits by waiter"] = {name: sorted(keys) for name, keys in state.waits.by_waiter.items() if keys}
    found["waits upon"] = {name: sorted(keys) for name, keys in state.waits.upon.items() if keys}
    return found


def check_counts(graph: WaitGraph) -> None:
    """Check the counters of the wait graph against what they count."""
    waits = graph.waits.values()
    assert graph.places == sum(bool(wait.behind) for wait in waits)
    assert graph.several == sum(len(mine) > 1 for mine in graph.by_waiter.values())
    assert graph.alternatives == sum(wait.any_of for wait in waits)
    assert graph.linked == len(graph.by_waiter.keys() & graph.upon.keys())


def _may_be_late(key: object) -> bool:
    """Return whether a timer may be left when what it is for has ended: those of waits, and of checks for a wake."""
    return isinstance(key, str) and key.startswith(("wait ", "wake "))


def waits_due(state: ProjectState) -> set[tuple[int, str]]:
    slots = state.timers.deadlines.slots
    return {(number, key) for number, keys in slots.items() for key in keys if key.startswith("wait ")}


class Watched(Team):
    """A team whose state is compared with a rebuilt one after every command."""

    def handle(self, command: Command, caller: Caller) -> Outcome:
        outcome = super().handle(command, caller)
        point = msgspec.msgpack.decode(snapshot_bytes(self.exchange), type=Snapshot)
        recovered = restore(point)
        check_counts(self.exchange.state.waits)
        check_counts(recovered.waits)
        assert waits_due(recovered) <= waits_due(self.exchange.state)
        live, rebuilt = derived(self.exchange.state), derived(recovered)
        for name, value in live.items():
            assert value == rebuilt[name], (name, type(command).__name__, value, rebuilt[name])
        assert live.keys() == rebuilt.keys()
        return outcome


#: A rebuilt state tries an escalation again that was neither opened nor deferred, and looks earlier than a live one at
#: an escalation that nobody acts on.
EXCEPT = ("test_escalations_over_the_limit_are_deferred", "test_an_approval_that_is_withdrawn_or_given_up")

STORIES: list[Callable[[NewTeam], None]] = [
    story
    for module in (
        *(test_attention_events, test_lease_events, test_message_events, test_teamwork_events),
        test_wake_events,
    )
    for name, story in vars(module).items()
    if name.startswith("test_") and name not in EXCEPT
]


@pytest.mark.parametrize("story", STORIES, ids=[story.__name__.removeprefix("test_") for story in STORIES])
def test_a_rebuilt_state_has_the_same_lookups_queues_and_timers(story: Callable[[NewTeam], None]) -> None:
    story(Watched)
