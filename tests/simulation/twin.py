"""A second exchange that decides everything in full, to which the short way of sends and receipts is compared.

The twin gets the same commands. What the live exchange may decide by plan, the twin decides without one: reply and
events must be the same, and so must the whole state with its timers and queues after every step.
"""

import copyreg
import sys
from collections.abc import Callable
from copy import deepcopy
from inspect import signature
from types import ModuleType
from typing import Any

import msgspec

from tests.ids import SeededIds
from tests.simulation.ledger import fingerprint
from tests.simulation.promises import must
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.events import Event, encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.messages.ordinary import receipts, sends
from tocsin.core.protocol.envelope import NO_METADATA, VERSIONS, Envelope
from tocsin.core.protocol.payloads import PAYLOADS
from tocsin.core.state import ProjectState
from tocsin.core.timers import Wheel
from tocsin.policies import default_policy

__all__ = ["Twin", "indices"]

_POLICY = default_policy()
_MORE: dict[str, Callable[[Envelope, sends.Sent], bool]] = {
    "schema": lambda envelope, sent: envelope.message_type in PAYLOADS,
    "thread": lambda envelope, sent: envelope.correlation_id is not None,
    "answer": lambda envelope, sent: sent[3] is not None,
    "consequence": lambda envelope, sent: sent[4],
    "metadata": lambda envelope, sent: envelope.metadata is not NO_METADATA,
    "qos": lambda envelope, sent: envelope.qos is not None,
    "old version": lambda envelope, sent: envelope.version != VERSIONS[-1],
    "lowered": lambda envelope, sent: sent[0].rule == "role_cap",
}


class Twin:
    """An exchange without plans, in step with the live one."""

    def __init__(self) -> None:
        self._exchange = Exchange(SeededIds(0))
        #: Number of decisions that the live exchange made by plan, by kind.
        self.by_plan = {"pushed": 0, "queued": 0, "received": 0, "acknowledged": 0}
        #: Number of sends that the live exchange decided by plan and that had more than a payload, by what they had.
        self.with_more = dict.fromkeys(_MORE, 0)

    @property
    def state(self) -> ProjectState:
        """Return the twin's state."""
        return self._exchange.state

    def rebuild(self, live: Exchange) -> None:
        """Go on from a copy of the live state, after it was rebuilt or changed by no command."""
        # Plans are not part of a state.
        state = deepcopy(live.state, {id(live.state.plans): {}})
        state.drop_plans()
        self._exchange = Exchange(SeededIds(0), state)

    def handle(
        self, live: Exchange, ids: SeededIds, command: Command, caller: Caller, now: int
    ) -> tuple[Reply, list[Event]]:
        """Let both decide a command with the same ids, those of the live exchange, and compare."""
        self._begin(ids)
        if isinstance(command, cmd.Send):
            sent = sends.decide_send(live.state, caller, command.envelope, now)
            if sent is not None:
                self.by_plan["queued" if sent[1] is None else "pushed"] += 1
                for name in _MORE:
                    self.with_more[name] += _MORE[name](command.envelope, sent)
        if isinstance(command, cmd.Acknowledge):
            acked = receipts.decide_acknowledge(live.state, caller, command, now)
            self.by_plan["acknowledged"] += acked is not None
        expected = self._exchange.handle_in_full(command, caller, now)
        found = live.handle(command, caller, now)
        must(found.reply == expected.reply, f"a plan answers {found.reply}, not {expected.reply}")
        self._compare(found.events, expected.events)
        return found.reply, found.events

    def confirm(
        self, live: Exchange, ids: SeededIds, message_id: str, caller: Caller, now: int
    ) -> tuple[Reply, list[Event]]:
        """Let both decide a receipt with the same ids, those of the live exchange, and compare."""
        self._begin(ids)
        if receipts.decide_confirm(live.state, caller, message_id, now) is not None:
            self.by_plan["received"] += 1
        expected = self._exchange.handle_in_full(cmd.Confirm((message_id,)), caller, now)
        found = live.confirm(message_id, caller, now)
        self._compare(found, expected.events)
        return expected.reply, found

    def _begin(self, ids: SeededIds) -> None:
        self._exchange = Exchange(ids.copy(), self._exchange.state)

    def check(self, live: ProjectState) -> None:
        """Check that both have the same state, and the same timers and queues for it."""
        must(fingerprint(live) == fingerprint(self.state), "a decision by plan leaves another state")
        must(indices(live) == indices(self.state), "a decision by plan leaves other timers or queues")

    def _compare(self, found: list[Event], expected: list[Event]) -> None:
        must(encode_events(found) == encode_events(expected), f"a plan decides {found}, not {expected}")


def indices(state: ProjectState) -> object:
    """Return the timers and queues of a state, for comparing."""
    if not state.has_policy:
        return None
    # The classes of the compiled form do not list their fields.
    fields = {name: getattr(state.timers, name) for name in dir(state.timers)}
    timers = {name: sorted(value) for name, value in fields.items() if isinstance(value, Wheel | dict)}
    outgoing = {agent: list(sent) for agent, sent in state.outgoing.items() if sent}
    mailboxes = {name: agent.mailbox.depths() for name, agent in state.agents.items()}
    noticed = {key: list(seqs) for key, seqs in state.noticed.items()}
    volume = state.volume
    return (
        timers,
        outgoing,
        noticed,
        mailboxes,
        state.latency.total_us,
        (volume.unsettled, volume.by_recipient, volume.by_sender, volume.dead, volume.kept_bytes, list(volume.kept)),
        {a: g.usage_high for a, g in state.agents.items()},
    )


def _made_of(native: Any) -> tuple[Any, ...]:
    """Tell `deepcopy` how to make an object of a class of the compiled form, whose fields are in no dictionary."""
    kind = type(native)
    names = [name for name in kind.__mypyc_attrs__ if name != "__dict__" and hasattr(native, name)]
    fields = {name: getattr(native, name) for name in names}
    # All fields are set afterwards, so any policy will do for the argument that is no field.
    known = {name.removeprefix("_"): value for name, value in fields.items()} | {"policy": _POLICY}
    return kind, tuple(known[name] for name in signature(kind).parameters), fields


def _make_copyable(module: ModuleType) -> None:
    for kind in vars(module).values():
        if isinstance(kind, type) and hasattr(kind, "__mypyc_attrs__") and not issubclass(kind, msgspec.Struct):
            copyreg.pickle(kind, _made_of)


for _name, _module in list(sys.modules.items()):
    if _name.startswith("tocsin.core."):
        _make_copyable(_module)
