"""Tocsin's agents as senders and consumers, alike for a bus in this process and for a hub."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from bench.hub import POLICY as HUB_POLICY
from bench.peers.peer import Letter
from tocsin.client import Agent, Draft

__all__ = ["POLICY", "SENDING_AGENTS", "Senders", "bodies"]

#: Nobody is held back by a rate; and nothing is raised by waiting, neither by age nor by escalation, as nothing is with
#: the others: on a slow machine filling a backlog takes more than the minute after which its first messages would be,
#: and these would rightly go before a Critical one.
POLICY = (
    HUB_POLICY
    + """
aging: {enabled: false}
escalation: {rules: {blocking_waits: {trigger: time_in_queue, level: Blocking, after_s: 86400, actions: [boost]}}}
"""
)

#: Agents that the senders share; sends of many tasks at a time go together by themselves.
SENDING_AGENTS = 4
PRIORITIES = ("Info", "Coordinate", "Blocking", "Critical")
FILL = 1000


class Senders:
    """A few agents that send for everybody."""

    def __init__(self) -> None:
        self._agents: list[Agent] = []
        self._turn = 0

    async def join(self, join: Callable[[str], Awaitable[Agent]]) -> None:
        """Attach them."""
        for number in range(SENDING_AGENTS):
            self._agents.append(await join(f"sender{number}"))

    async def send(self, letter: Letter) -> None:
        """Send through the next of them; a refusal is raised."""
        self._turn = (self._turn + 1) % SENDING_AGENTS
        await self._agents[self._turn].send(
            to=f"mailbox{letter.mailbox}",
            type="TaskAssigned",
            payload={"text": letter.body},
            priority=PRIORITIES[letter.priority],
        )

    async def fill(self, letters: Sequence[Letter]) -> None:
        """Send many, in pieces that an agent may have under way."""
        for begin in range(0, len(letters), FILL):
            drafts = [
                Draft(
                    to=f"mailbox{letter.mailbox}",
                    type="TaskAssigned",
                    payload={"text": letter.body},
                    priority=PRIORITIES[letter.priority],
                )
                for letter in letters[begin : begin + FILL]
            ]
            for outcome in await self._agents[0].send_many(drafts):
                if isinstance(outcome, Exception):
                    raise outcome

    async def close(self) -> None:
        """Let them leave."""
        for agent in self._agents:
            await agent.close()


async def bodies(agent: Agent) -> AsyncGenerator[str, None]:
    """Hand out what comes; coming back for the next one confirms."""
    async for message in agent.inbox(receipts="handled"):
        yield message.payload["text"]
