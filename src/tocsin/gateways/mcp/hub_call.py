"""The way to the bus inside the hub: the HTTP gateway's own operations, under the same identity and limits."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.core.commands import SYSTEM, Caller, Drained, Reply, Tick
from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.core.protocol.priority import VOCABULARY, Priority, liminal_name
from tocsin.gateways.http.app import OPERATIONS
from tocsin.gateways.http.operation import Call, Gateway, Operation, decoded
from tocsin.gateways.mcp.refusals import refused
from tocsin.gateways.mcp.tool_call import Carrying, Mail, Refused, levelled
from tocsin.hub.auth.tokens import Grant
from tocsin.wire.problems import document_of

__all__ = ["HubToolCall"]

_TABLE = {operation.name: operation for operation in OPERATIONS}
_URGENT = Priority.BLOCKING


class HubToolCall:
    """One call of an agent that the hub itself answers."""

    def __init__(self, gateway: Gateway, grant: Grant, carrying: Carrying) -> None:
        self.carrying = carrying
        self._gateway = gateway
        self._grant = grant
        self._caller = Caller(grant.agent, grant.role)
        #: The trace that the call belongs to, as headers.
        self.trace: Mapping[str, str] = {}
        self._handing_out: list[asyncio.Future[tuple[Reply, Mail]]] = []

    async def ask(
        self, operation: str, path: dict[str, str] | None = None, query: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Do one operation of the HTTP table, and return its answer as it goes over the wire; a refusal is raised."""
        row = _TABLE[operation]
        call = Call(self._gateway, path or {}, self._grant, self.trace)
        try:
            if row.query is not None:
                call.query = msgspec.convert(query or {}, row.query)
            if row.envelope:
                if call.hub.host.exchange.state.policy.security.require_signatures:
                    raise refusal("E_AUTH_006", "this hub takes signed messages only, and a tool call has no signature")
                call.raw = msgspec.json.encode(body)
            elif row.body is not None:
                call.body = decoded(row.body, msgspec.json.encode({} if body is None else body))
            # In a task of its own, because a call of a tool stands on more frames than the call that brought a message:
            # what could be read there can be read here.
            return await asyncio.ensure_future(self._answered(row, call))
        except TocsinError as error:
            raise Refused(document_of(error.problem)) from None
        except RecursionError:
            raise refused(Problem("E_PROTOCOL_002", "it is nested too deeply to be sent or shown")) from None

    async def me(self) -> tuple[str, str]:
        """Return the agent and its type; `AdHoc` before it is registered."""
        agent = self._gateway.hub.host.exchange.state.agents.get(self._grant.agent)
        return self._grant.agent, "AdHoc" if agent is None else agent.agent_type

    async def fetch(self, limit: int, at_least: str, bytes_max: int | None) -> Mail:
        """Hand out what waits, most urgent first."""
        reply, mail = await self._drain(limit, VOCABULARY[at_least], bytes_max)
        if isinstance(reply, Problem):
            raise refused(reply)
        return mail

    async def urgent(self) -> Mail:
        """Hand out what an answer carries of the urgent; nothing for one who is not registered."""
        piggyback, carrying = self._gateway.piggyback, self.carrying
        attached = await piggyback.attach(self._caller)
        waiting = piggyback.waiting(self._caller)
        if isinstance(attached, Problem) or not any(waiting):
            return Mail([], _by_name(waiting))
        if not any(waiting[_URGENT:]):
            durable = await self._gateway.hub.host.submit(Tick(), SYSTEM)  # what was counted, as every reply is
            return Mail([], {} if isinstance(durable, Problem) else _by_name(waiting))
        reply, mail = await self._drain(carrying.urgent_max, _URGENT, carrying.urgent_bytes_max)
        return mail if isinstance(reply, Drained) else Mail([], _by_name(waiting))

    @property
    def hands_out(self) -> bool:
        """Tell whether the answer carries messages."""
        return bool(self._handing_out)

    def ended(self, *, taken: bool) -> None:
        """Note that the answer has left, or that nobody took it."""
        for handing in self._handing_out:
            if handing.done():
                self._handed_out(handing, taken=taken)
            else:
                handing.add_done_callback(lambda late: self._handed_out(late, taken=False))

    def _handed_out(self, handing: "asyncio.Future[tuple[Reply, Mail]]", *, taken: bool) -> None:
        if not handing.cancelled() and handing.exception() is None:
            self._gateway.piggyback.handed_out(self._caller, handing.result()[0], taken=taken)

    async def _answered(self, row: Operation, call: Call) -> Any:
        return levelled(msgspec.to_builtins(await row.handler(call)), self.carrying.depth_max)

    async def _drain(self, limit: int, at_least: int, bytes_max: int | None) -> tuple[Reply, Mail]:
        """Drain in a task of its own: it goes on where the call is given up, so that what it hands out is known."""
        handing = asyncio.ensure_future(self._drained(limit, at_least, bytes_max))
        self._handing_out.append(handing)
        return await asyncio.shield(handing)

    async def _drained(self, limit: int, at_least: int, bytes_max: int | None) -> tuple[Reply, Mail]:
        reply = await self._gateway.piggyback.drain(self._caller, limit, at_least, bytes_max)
        if not isinstance(reply, Drained):
            return reply, Mail([], {})
        envelopes = [levelled(msgspec.json.decode(item.envelope), self.carrying.depth_max) for item in reply.deliveries]
        return reply, Mail(envelopes, _by_name(reply.waiting))


def _by_name(waiting: tuple[int, ...]) -> dict[str, int]:
    return {liminal_name(level): count for level, count in enumerate(waiting)}
