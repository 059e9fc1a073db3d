"""What an embedded project knows of its agents and its past, as a client is told it: who is there, what became of what.

An agent sees what it sent and what came for it; whoever directs sees everything.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tocsin.client import operations as op
from tocsin.client import replies
from tocsin.core import commands as cmd
from tocsin.core.agents.presence import presence
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.core.state import Agent
from tocsin.hub.clock import Clock
from tocsin.hub.embedded_teamwork import EmbeddedTeamwork
from tocsin.hub.host import Host
from tocsin.hub.reader import Reader
from tocsin.hub.receipts import moment
from tocsin.journal.history import DeadLetter, Page, Signal, life_of

__all__ = ["EmbeddedHistory"]


class EmbeddedHistory:
    """Answers the questions of embedded agents."""

    def __init__(self, host: Host, reader: Reader, page_max: int) -> None:
        self._host = host
        self._reader = reader
        self._page_max = page_max
        self._clock = Clock()
        self._answers: dict[str, Callable[[op.Call, Caller], Awaitable[object]]] = {
            "agents": self._agents,
            "agent": self._agent,
            "message": self._message,
            "life": self._life,
            "thread": self._thread,
            "search": self._search,
            "dead_letters": self._dead_letters,
            "redrive": self._redrive,
            **EmbeddedTeamwork(host).answers(),
        }

    async def answer(self, call: op.Call, caller: Caller) -> object:
        """Answer one question, or refuse it."""
        handler = self._answers.get(call.operation)
        if handler is None:
            known = ", ".join(self._answers)
            raise refusal("E_VALIDATION_003", f"{call.operation[:64]!r} cannot be asked here", expected=known)
        return await handler(call, caller)

    async def close(self) -> None:
        """Let go of the tables."""
        await self._reader.close()

    async def _agents(self, call: op.Call, caller: Caller) -> list[replies.Peer]:
        known = self._host.exchange.state.agents
        peers = [self._peer(known[name]) for name in sorted(known)]
        await self._durable()
        return peers

    async def _agent(self, call: op.Call, caller: Caller) -> replies.Peer:
        name = call.path["agent"]
        found = self._host.exchange.state.agents.get(name)
        if found is None:
            raise refusal("E_ROUTING_001", f"{name[:64]} is not registered", found=name[:64])
        peer = self._peer(found)
        await self._durable()
        return peer

    async def _message(self, call: op.Call, caller: Caller) -> list[replies.Record]:
        return [_record(signal) for signal in await self._signals(call, caller)]

    async def _life(self, call: op.Call, caller: Caller) -> list[replies.Life]:
        return [replies.Life(_record(signal), _happenings(signal)) for signal in await self._signals(call, caller)]

    async def _thread(self, call: op.Call, caller: Caller) -> replies.Records:
        name, after, limit = call.path["correlation_id"], call.query["after"], self._limit(call)
        return self._page(await self._reader.ask(lambda tables: tables.thread(name, after, limit)), caller)

    async def _search(self, call: op.Call, caller: Caller) -> replies.Records:
        words, before, limit = call.query["q"], call.query["after"], self._limit(call)
        return self._page(await self._reader.ask(lambda tables: tables.search(words, before, limit)), caller)

    async def _dead_letters(self, call: op.Call, caller: Caller) -> replies.DeadLetters:
        after, limit = call.query["after"], self._limit(call)
        page = await self._reader.ask(lambda tables: tables.dead_letters(after, limit))
        letters = [_dead_letter(letter) for letter in page.items if self._may_see(caller, letter.signal)]
        return replies.DeadLetters(letters, page.next)

    async def _redrive(self, call: op.Call, caller: Caller) -> replies.Redriven:
        reply = await self._host.submit(cmd.Redrive(tuple(call.body["signal_ids"])), caller)
        if isinstance(reply, Problem):
            raise error_for(reply)
        if not isinstance(reply, cmd.Redriven):
            return replies.Redriven((), {})
        return replies.Redriven(reply.redriven, reply.refused)

    async def _signals(self, call: op.Call, caller: Caller) -> list[Signal]:
        message_id = call.path["message_id"]
        found = await self._reader.ask(lambda tables: tables.signals(message_id))
        seen = [signal for signal in found if self._may_see(caller, signal)]
        if not seen:
            raise refusal("E_STATE_001", f"{message_id[:192]} is not there, or not yours", found=message_id[:192])
        return seen

    def _limit(self, call: op.Call) -> int:
        return min(max(1, int(call.query["limit"])), self._page_max)

    def _page(self, page: Page[Signal], caller: Caller) -> replies.Records:
        return replies.Records([_record(signal) for signal in page.items if self._may_see(caller, signal)], page.next)

    def _may_see(self, caller: Caller, signal: Signal) -> bool:
        role = self._host.exchange.state.policy.roles.get(caller.role)
        return caller.agent in (signal.sender, signal.recipient) or (role is not None and role.directs)

    def _peer(self, agent: Agent) -> replies.Peer:
        kinds = [session.kind for session in agent.sessions.values()]
        return replies.Peer(
            agent=agent.agent,
            type=agent.agent_type,
            role=agent.role,
            version=agent.version,
            capabilities=agent.capabilities,
            presence=presence(agent, self._host.exchange.state.policy, self._clock.now()),
            sessions={kind: kinds.count(kind) for kind in sorted(set(kinds))},
            waiting={liminal_name(Priority(level)): depth for level, depth in enumerate(agent.mailbox.depths())},
            gaming=agent.gaming,
            registered_at=moment(agent.registered_at),
        )

    async def _durable(self) -> None:
        """Wait until all that the live state knows now is durable."""
        reply = await self._host.durable()
        if isinstance(reply, Problem):
            raise error_for(reply)


def _record(signal: Signal) -> replies.Record:
    values: dict[str, Any] = {name: getattr(signal, name) for name in replies.Record.__struct_fields__}
    for name in values:
        if name.endswith("_at"):
            values[name] = moment(values[name])
    values["priority"] = liminal_name(Priority(signal.priority))
    values["level"] = liminal_name(Priority(signal.level))
    values["payload"] = msgspec.json.decode(signal.payload or b"null")
    values["metadata"] = msgspec.json.decode(signal.metadata or b"null")
    return msgspec.convert(values, replies.Record)


def _happenings(signal: Signal) -> list[replies.Happening]:
    told = []
    for entry in life_of(signal):
        facts = dict(entry)
        seq, at, kind = facts.pop("seq"), facts.pop("at", None), facts.pop("kind")
        told.append(replies.Happening(seq, moment(at), kind, facts))
    return told


def _dead_letter(letter: DeadLetter) -> replies.DeadLetter:
    first, last = moment(letter.first_failed_at), moment(letter.last_failed_at)
    life = _happenings(letter.signal)
    return replies.DeadLetter(_record(letter.signal), letter.failures, first, last, letter.reason, letter.code, life)
