"""Tool calls inside the hub: the operations' handlers, with the identity and limits of HTTP."""

import asyncio
from collections.abc import Mapping
from typing import Any

from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import AgentRef
from tocsin.core.protocol.priority import VOCABULARY
from tocsin.gateways.mcp.inbox import URGENT, Inbox, urgent_inbox, waiting_inbox
from tocsin.gateways.mcp.tool_call import DEFAULT_TYPE, AnswerLimits, as_json
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.operations import Call, perform
from tocsin.hub.operations.records import by_priority
from tocsin.hub.project import Project
from tocsin.wire.operation import Operation
from tocsin.wire.table import OPERATIONS

__all__ = ["HubToolCall"]


class HubToolCall:
    """One tool call that the hub answers itself.

    `cancellable` tells whether the caller can cancel it; the operations that it has begun go on then.
    """

    quotes_by_itself = False

    def __init__(
        self,
        project: Project,
        grant: Grant,
        limits: AnswerLimits,
        toolsets: tuple[str, ...] = (),
        *,
        cancellable: bool = True,
    ) -> None:
        self.limits = limits
        self.toolsets = toolsets
        #: Headers of the trace that the call belongs to.
        self.trace: Mapping[str, str] = {}
        self._project = project
        self._grant = grant
        self._caller = grant.caller
        self._cancellable = cancellable

    async def ask(self, operation: str, arguments: dict[str, Any] | None = None, envelope: bytes | None = None) -> Any:
        """Perform an operation and return its reply as JSON values."""
        call = Call(self._project, self._caller, self._grant, trace=self.trace)
        performed = self._perform(call, OPERATIONS[operation], arguments or {}, envelope)
        try:
            if not self._cancellable:
                return await performed
            # A task of its own goes on if the tool call is cancelled, as a command does that was submitted. It also has
            # an empty stack, whereas the library's is deep: what could be decoded when it was sent can be decoded here.
            task = asyncio.ensure_future(performed)
            task.add_done_callback(_read_outcome)
            return await asyncio.shield(task)
        except RecursionError:
            raise refusal("E_PROTOCOL_002", "it is nested too deeply to send or show") from None

    async def confirm(self, receipt: str) -> None:
        """Confirm the messages of the cursors that the caller quotes."""
        confirmed = self._project.piggyback.next_call(self._caller, receipt)
        if confirmed is not None:
            await confirmed

    async def inbox(self) -> Inbox:
        """Return the inbox of an answer; a drain is needed only while something urgent waits."""
        waiting = await self._project.piggyback.waiting_below(self._caller, VOCABULARY[URGENT])
        return await urgent_inbox(self) if waiting is None else waiting_inbox(by_priority(waiting))

    async def sender(self) -> AgentRef:
        """Return the calling agent as its envelopes name it."""
        agent = self._project.state.agents.get(self._grant.agent)
        return AgentRef(self._grant.agent, DEFAULT_TYPE if agent is None else agent.agent_type)

    async def role(self) -> str:
        """Return the role of the calling agent."""
        return self._grant.role

    async def _perform(self, call: Call, row: Operation, arguments: dict[str, Any], envelope: bytes | None) -> Any:
        reply = await perform(call, row, call.read(row, arguments, envelope))
        return as_json(reply, self.limits.depth_max)


def _read_outcome(task: "asyncio.Task[Any]") -> None:
    """Read a task's exception, so that it is not logged as lost where nobody waits for the task any more."""
    if not task.cancelled():
        task.exception()
