"""The handling of `hello`: registers the agent if it asks for that, then resumes or opens a session."""

from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.errors import Problem, TocsinError, error_for, refusal
from tocsin.gateways.websocket.sessions import Holder, Sessions
from tocsin.hub.config import SocketConfig
from tocsin.hub.hosting.host import Host, Sink
from tocsin.wire.socket import Hello, Welcome

__all__ = ["Attached", "attach", "welcome"]


class Attached(msgspec.Struct, frozen=True):
    """The session of a socket."""

    session: str
    window: int
    resumed: bool


async def attach(
    host: Host, sessions: Sessions, caller: cmd.Caller, hello: Hello, holder: Holder, sink: Sink
) -> Attached:
    """Return the session that a socket asks for, or a new one; raise a refusal."""
    if hello.type is not None:
        await _submit(host, cmd.RegisterAgent(hello.type, hello.versions, hello.capabilities), caller)
    if hello.session is None or not sessions.take_over(hello.session, caller.agent, holder):
        kind: cmd.SessionKind = "channel" if hello.channel else "daemon" if hello.daemon else "push"
        ready = _accepted(await sessions.open(caller, kind, hello.window, sink, anew=hello.session is None))
        sessions.hold(ready.session, holder)
        return Attached(ready.session, ready.window, resumed=False)
    again = host.attach(hello.session, sink)
    window = host.exchange.state.policy.delivery.window_default if hello.window is None else hello.window
    window = 0 if host.exchange.state.session(hello.session).kind == "channel" else window
    try:
        ready = await _submit(host, cmd.GrantCredit(hello.session, window), caller)
        if isinstance(problem := await again, Problem):
            raise error_for(problem)
    except TocsinError:
        sessions.drop(hello.session, holder)
        raise
    return Attached(ready.session, ready.window, resumed=True)


def welcome(host: Host, config: SocketConfig, agent: str, attached: Attached) -> Welcome:
    """Return the answer to `hello`: the session and the limits of the socket."""
    state = host.exchange.state
    known = state.agents.get(agent)
    if known is None:
        raise refusal("E_AUTH_007", f"{agent} is no longer registered in this project")
    return Welcome(
        agent=agent,
        session=attached.session,
        resumed=attached.resumed,
        version=known.version,
        window=attached.window,
        heartbeat_s=config.heartbeat_s,
        batch_max=config.batch_max,
        frame_bytes_max=config.frame_bytes_max,
        message_bytes_max=state.policy.limits.message_bytes_max,
        in_flight_max=config.in_flight_max,
        waiting=known.mailbox.depths(),
    )


async def _submit(host: Host, command: cmd.Command, caller: cmd.Caller) -> Any:
    return _accepted(await host.submit(command, caller))


def _accepted(reply: cmd.Reply) -> Any:
    if isinstance(reply, Problem):
        raise error_for(reply)
    return reply
