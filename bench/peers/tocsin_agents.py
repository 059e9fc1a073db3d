"""Tocsin agents as senders and consumers, for the embedded bus and for a hub."""

from collections.abc import Awaitable, Callable, Sequence

from bench.hub import POLICY as HUB_POLICY
from bench.peers.peer import Letter
from tocsin.client import Agent, Draft

__all__ = ["POLICY", "SENDING_AGENTS", "Senders"]

#: Policy without rate limits, aging and escalation, as in the other systems: on a slow machine filling a backlog takes
#: more than a minute, after which aging would boost its first messages.
POLICY = (
    HUB_POLICY
    + """
aging: {enabled: false}
escalation: {rules: {blocking_waits: {trigger: time_in_queue, level: Blocking, after_s: 86400, actions: [boost]}}}
"""
)

#: Number of agents that the senders share; concurrent sends of one agent are grouped by the client.
SENDING_AGENTS = 4
PRIORITIES = ("Info", "Coordinate", "Blocking", "Critical")


class Senders:
    """Agents that all senders share: the sending half of a system."""

    def __init__(self) -> None:
        self._agents: list[Agent] = []
        self._turn = 0

    async def _join(self, join: Callable[[str], Awaitable[Agent]]) -> None:
        """Connect the agents."""
        for number in range(SENDING_AGENTS):
            self._agents.append(await join(f"sender{number}"))

    async def send(self, letter: Letter) -> None:
        """Send through the next agent; a refusal raises an error."""
        self._turn = (self._turn + 1) % SENDING_AGENTS
        await self._agents[self._turn].send(
            to=f"mailbox{letter.mailbox}",
            type="TaskAssigned",
            payload={"text": letter.body},
            priority=PRIORITIES[letter.priority],
        )

    async def fill(self, letters: Sequence[Letter]) -> None:
        """Send many messages with one call."""
        drafts = [
            Draft(
                to=f"mailbox{letter.mailbox}",
                type="TaskAssigned",
                payload={"text": letter.body},
                priority=PRIORITIES[letter.priority],
            )
            for letter in letters
        ]
        for outcome in await self._agents[0].send_many(drafts):
            if isinstance(outcome, Exception):
                raise outcome

    async def _leave(self) -> None:
        """Disconnect the agents."""
        for agent in self._agents:
            await agent.close()
