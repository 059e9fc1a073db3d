"""Handlers of the operations, used by every gateway and by the embedded bus."""

from typing import Any

from tocsin.hub.operations import agents, archive, history, leases, messages, project, projects, teamwork
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.versions import in_first_version, speaks_first_version
from tocsin.wire.operation import Operation

__all__ = ["HANDLERS", "Call", "in_first_version", "perform", "speaks_first_version"]

#: Handlers by operation; a command that is not here is decided by the exchange as it is.
HANDLERS: dict[str, Handler] = {
    **messages.HANDLERS,
    **history.HANDLERS,
    **agents.HANDLERS,
    **leases.HANDLERS,
    **project.HANDLERS,
    **projects.HANDLERS,
    **teamwork.HANDLERS,
    **archive.HANDLERS,
}


async def perform(call: Call, operation: Operation, request: Any) -> Any:
    """Run an operation for a caller that may use it, and return its reply; refusals are raised."""
    call.check_access(operation)
    call.check_words(operation)
    handler = HANDLERS.get(operation.name)
    reply = await (call.submit(request) if handler is None else handler(call, request))
    return in_first_version(reply, call.state) if speaks_first_version(call.state, call.agent) else reply
