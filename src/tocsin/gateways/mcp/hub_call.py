"""Tool calls inside the hub: the operations' handlers, with the identity and limits of HTTP."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from tocsin.core.commands import Caller
from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import AgentRef
from tocsin.gateways.mcp.tool_call import DEFAULT_TYPE, AnswerLimits, as_json
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.operations import Call, perform
from tocsin.hub.project import Project
from tocsin.wire.operation import Operation
from tocsin.wire.table import OPERATIONS

__all__ = ["HubToolCall"]


class HubToolCall:
    """One tool call that the hub answers itself."""

    def __init__(self, project: Project, grant: Grant, limits: AnswerLimits) -> None:
        self.limits = limits
        #: Headers of the trace that the call belongs to.
        self.trace: Mapping[str, str] = {}
        self._project = project
        self._grant = grant
        self._asked: list[tuple[asyncio.Task[Any], Call]] = []

    async def ask(self, operation: str, arguments: dict[str, Any] | None = None, envelope: bytes | None = None) -> Any:
        """Perform an operation and return its reply as JSON values."""
        caller = Caller(self._grant.agent, self._grant.role)
        call = Call(self._project, caller, self._grant, trace=self.trace)
        # A task of its own has an empty stack: whatever could be decoded when it was sent can be decoded here. It goes
        # on if the tool call is cancelled, so that the messages that it hands out are accounted for.
        task = asyncio.ensure_future(self._perform(call, OPERATIONS[operation], arguments or {}, envelope))
        self._asked.append((task, call))
        try:
            return await asyncio.shield(task)
        except RecursionError:
            raise refusal("E_PROTOCOL_002", "it is nested too deeply to send or show") from None

    async def sender(self) -> AgentRef:
        """Return the calling agent as its envelopes name it."""
        agent = self._project.state.agents.get(self._grant.agent)
        return AgentRef(self._grant.agent, DEFAULT_TYPE if agent is None else agent.agent_type)

    @property
    def hands_out(self) -> bool:
        """Tell whether the answer carries messages."""
        return any(call.awaits_departure for _, call in self._asked)

    def ended(self, *, received: bool) -> None:
        """Report that the answer has left, or that nobody received it."""
        for task, call in self._asked:
            if task.done():
                call.replied(received=received)
            else:
                task.add_done_callback(partial(_abandon, call))

    async def _perform(self, call: Call, row: Operation, arguments: dict[str, Any], envelope: bytes | None) -> Any:
        reply = await perform(call, row, call.read(row, arguments, envelope))
        return as_json(reply, self.limits.depth_max)


def _abandon(call: Call, task: "asyncio.Task[Any]") -> None:
    """Report that nobody received a late reply."""
    if not task.cancelled():
        task.exception()  # read, so that it is not logged as lost
    call.replied(received=False)
