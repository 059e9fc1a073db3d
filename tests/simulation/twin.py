"""A second exchange that decides everything in full, to which the short way of sends and receipts is compared.

The twin gets the same commands. What the live exchange may decide by plan, the twin decides without one: reply and
events must be the same, and so must the whole state with its timers and queues after every step.
"""

from copy import deepcopy

from tests.simulation.ids import SeededIds
from tests.simulation.ledger import fingerprint
from tests.simulation.promises import must
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.events import Event, encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.messages import ordinary
from tocsin.core.state import ProjectState

__all__ = ["Twin", "indices"]


class Twin:
    """An exchange without plans, in step with the live one."""

    def __init__(self) -> None:
        self._exchange = Exchange(SeededIds(0))
        #: Number of decisions that the live exchange made by plan, by kind.
        self.by_plan = {"pushed": 0, "queued": 0, "received": 0}

    @property
    def state(self) -> ProjectState:
        """Return the twin's state."""
        return self._exchange.state

    def rebuild(self, live: Exchange) -> None:
        """Go on from a copy of the live state, after it was rebuilt or changed by no command."""
        self._exchange = Exchange(SeededIds(0), deepcopy(live.state))

    def handle(self, live: Exchange, command: Command, caller: Caller, now: int) -> tuple[Reply, list[Event]]:
        """Let both decide a command, and compare."""
        self._begin(live)
        if isinstance(command, cmd.Send):
            sent = ordinary.decide_send(live.state, caller, command.envelope, now)
            if sent is not None:
                self.by_plan["queued" if sent[1] is None else "pushed"] += 1
        expected = self._exchange.handle_in_full(command, caller, now)
        found = live.handle(command, caller, now)
        must(found.reply == expected.reply, f"a plan answers {found.reply}, not {expected.reply}")
        self._compare(found.events, expected.events)
        return found.reply, found.events

    def confirm(self, live: Exchange, message_id: str, caller: Caller, now: int) -> tuple[Reply, list[Event]]:
        """Let both decide a receipt, and compare."""
        self._begin(live)
        if ordinary.decide_confirm(live.state, caller, message_id, now) is not None:
            self.by_plan["received"] += 1
        expected = self._exchange.handle_in_full(cmd.Confirm((message_id,)), caller, now)
        found = live.confirm(message_id, caller, now)
        self._compare(found, expected.events)
        return expected.reply, found

    def _begin(self, live: Exchange) -> None:
        ids = live._ids
        if not isinstance(ids, SeededIds):
            raise TypeError("the ids of a simulated exchange come from a seed")
        self._exchange._ids = ids.copy()

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
    timers = {name: sorted(getattr(state.timers, name)) for name in state.timers.__slots__ if name != "_all"}
    outgoing = {agent: list(sent) for agent, sent in state.outgoing.items() if sent}
    mailboxes = {name: agent.mailbox.depths() for name, agent in state.agents.items()}
    noticed = {key: list(seqs) for key, seqs in state.noticed.items()}
    return (
        timers,
        outgoing,
        noticed,
        mailboxes,
        state.latency.total_us,
        {a: g.usage_high for a, g in state.agents.items()},
    )
