"""Registration and retirement of agents, and their sessions: open, heartbeat, window, close."""

import re

from tocsin.core import events as ev
from tocsin.core.agents import attention
from tocsin.core.commands import (
    SYSTEM,
    CloseSession,
    Done,
    GrantCredit,
    Heartbeat,
    OpenSession,
    RegisterAgent,
    Registered,
    RetireAgent,
    SessionReady,
)
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.leases.transitions import release_leases_of
from tocsin.core.messages.admission import full_levels
from tocsin.core.messages.delivery import pump, requeue
from tocsin.core.messages.endings.dead_letters import die
from tocsin.core.messages.model import NEVER, State
from tocsin.core.messages.notices import announce, forget_folded
from tocsin.core.protocol.negotiation import highest_common_version
from tocsin.core.queueing.mailbox import Mailbox
from tocsin.core.scheduling import check_channel, note_absence, schedule_session, session_due
from tocsin.core.state import Agent, ProjectState, Session
from tocsin.core.waiting.waits import end_waits_of

__all__ = [
    "apply_closed",
    "apply_heartbeat",
    "apply_opened",
    "apply_registered",
    "apply_retired",
    "apply_stale",
    "apply_window",
    "decide_close",
    "decide_credit",
    "decide_heartbeat",
    "decide_open",
    "decide_register",
    "decide_retire",
    "fire_session",
    "my_session",
    "touch",
]

_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
_AGENT_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,63}")
#: Type of an agent that registers without one.
_TYPE_DEFAULT = "AdHoc"


def decide_register(decision: Decision, command: RegisterAgent) -> Registered:
    """Register the caller with the role of its token, or update its registration."""
    name, role = decision.caller.agent, decision.caller.role
    limits = decision.policy.limits
    if name == SYSTEM.agent or not _AGENT_ID.fullmatch(name):
        raise refusal(
            "E_VALIDATION_004",
            f"{name[:64]!r} is not a valid agent id",
            field="$.agentId",
            found=name[:64],
            expected="up to 64 letters, digits, dots, dashes, underscores, other than the bus's own name",
        )
    known = decision.state.agents.get(name)
    granted = decision.caller.types
    agent_type = command.type
    if agent_type is None:
        agent_type = _default_type(known, granted)
    if not _AGENT_TYPE.fullmatch(agent_type):
        raise refusal(
            "E_VALIDATION_004",
            f"{agent_type[:64]!r} is not a valid agent type",
            field="$.type",
            found=agent_type[:64],
            expected="a name of up to 64 letters, digits, dashes, underscores",
        )
    if granted is not None and agent_type not in granted:
        raise refusal(
            "E_AUTH_003",
            f"the token of {name} does not grant the type {agent_type}: an administrator issues one that does",
            field="$.type",
            found=agent_type,
            expected="one of " + ", ".join(granted),
        )
    if role not in decision.policy.roles:
        raise refusal("E_AUTH_003", f"{role[:64]!r} is not a role", expected=", ".join(decision.policy.roles))
    if len(command.capabilities) > limits.batch_max or len(command.versions) > limits.batch_max:
        raise refusal(
            "E_ADMISSION_008",
            f"too many capabilities or versions: at most {limits.batch_max} are allowed",
            retryable=False,
        )
    version = highest_common_version(command.versions)
    if known is None and len(decision.state.agents) >= limits.agents_max:
        raise refusal("E_ADMISSION_008", f"the project has reached its limit of {limits.agents_max} agents")
    former = "" if known is None else known.role
    registered = ev.AgentRegistered(
        decision.now, name, agent_type, role, version, command.versions, command.capabilities, former
    )
    if known is None or not _same(known, registered):
        decision.emit(registered)
    return Registered(name, version)


def _default_type(known: Agent | None, granted: tuple[str, ...] | None) -> str:
    """Return the type of an agent that registers without one: its present type, else the first that is granted."""
    if known is not None and (granted is None or known.agent_type in granted):
        return known.agent_type
    return granted[0] if granted else _TYPE_DEFAULT


def _same(agent: Agent, event: ev.AgentRegistered) -> bool:
    return (agent.agent_type, agent.role, agent.supported, agent.capabilities) == (
        event.agent_type,
        event.role,
        event.supported,
        event.capabilities,
    )


def decide_retire(decision: Decision, command: RetireAgent) -> Done:
    """Remove an agent; messages queued for it or on their way to it become dead letters."""
    if command.agent != decision.caller.agent:
        decision.must_direct("retire another agent")
    agent = decision.state.agents.get(command.agent)
    if agent is None:
        raise refusal("E_ROUTING_001", f"{command.agent[:64]} is not registered", found=command.agent[:64])
    reason = decision.text(command.reason, "$.reason")
    end_waits_of(decision, agent.agent, "retired")
    release_leases_of(decision, agent.agent)
    for session in list(agent.sessions.values()):
        _end_session(decision, session, "retired")
    gone = [
        message
        for message in decision.state.messages.values()
        if message.recipient == agent.agent
        and message.state in (State.HELD, State.QUEUED, State.DELIVERED)
        and (message.ack_required or message.state is not State.DELIVERED)
    ]
    for message in gone:
        report = message.sender != agent.agent
        die(decision, message, "recipient_gone", "E_ROUTING_001", f"{agent.agent} left the project", report=report)
    forget_folded(decision, agent.agent)
    decision.emit(ev.AgentRetired(decision.now, agent.agent, decision.caller.agent, reason))
    return Done()


def decide_open(decision: Decision, command: OpenSession) -> SessionReady:
    """Open a session for the caller and push queued messages to it; a window of 0 begins paused.

    The sessions that it replaces end in the same decision: what they had not confirmed is offered to the new one.
    """
    me, limits, delivery = decision.me(), decision.policy.limits, decision.policy.delivery
    if command.kind != "channel" and command.kind not in delivery.receipt_timeout_s:
        raise refusal(
            "E_VALIDATION_003",
            f"{command.kind[:32]!r} is not a kind of session",
            field="$.kind",
            found=command.kind[:32],
            expected="one of " + ", ".join((*delivery.receipt_timeout_s, "channel")),
        )
    window = 0 if command.kind == "channel" else command.window
    if window is None:
        asks = command.kind == "piggyback"
        window = min(limits.window_max, limits.drain_max if asks else delivery.window_default)
    _check_window(decision, window)
    replaced = [me.sessions[name] for name in dict.fromkeys(command.replaces) if name in me.sessions]
    if len(me.sessions) - len(replaced) >= limits.sessions_per_agent_max:
        raise refusal(
            "E_ADMISSION_008", f"{me.agent} has reached its limit of {limits.sessions_per_agent_max} open sessions"
        )
    session = decision.ids.fresh("ses", decision.now)
    first = not me.sessions
    decision.emit(ev.SessionOpened(decision.now, session, me.agent, command.kind, window))
    if first:
        announce(decision, me, "PeerJoined")
    for former in replaced:
        _end_session(decision, former, "replaced")
    pump(decision, me)
    return SessionReady(session, window)


def decide_heartbeat(decision: Decision, command: Heartbeat) -> Done:
    """Keep a session fresh."""
    me = decision.me()
    touch(decision, my_session(decision, command.session))
    pump(decision, me)
    return Done()


def decide_credit(decision: Decision, command: GrantCredit) -> SessionReady:
    """Change the number of offers that a session takes at a time; offers in flight stay."""
    me, session = decision.me(), my_session(decision, command.session)
    _check_window(decision, command.window)
    if session.kind == "channel" and command.window:
        raise refusal(
            "E_VALIDATION_004",
            "a channel is only told of messages that wait: nothing can be offered to it",
            field="$.window",
            found=str(command.window),
            expected="0",
        )
    touch(decision, session)
    if session.window != command.window:
        decision.emit(ev.SessionWindowChanged(decision.now, session.session, command.window))
    pump(decision, me)
    return SessionReady(session.session, session.window)


def _check_window(decision: Decision, window: int) -> None:
    most = decision.policy.limits.window_max
    if not 0 <= window <= most:
        raise refusal(
            "E_VALIDATION_004",
            f"a window of {window} is not allowed: it must be 0 to {most}",
            field="$.window",
            found=str(window),
            expected=f"0 to {most}",
        )


def decide_close(decision: Decision, command: CloseSession) -> Done:
    """Close a session of the caller."""
    me = decision.me()
    _end_session(decision, my_session(decision, command.session), "closed")
    pump(decision, me)
    return Done()


def my_session(decision: Decision, name: str) -> Session:
    """Return a session of the caller; refuse any other."""
    session = decision.state.sessions.get(name)
    if session is None or session.agent != decision.caller.agent:
        raise refusal("E_STATE_003", f"{name[:64]} is not a session of {decision.caller.agent}", found=name[:64])
    return session


def touch(decision: Decision, session: Session) -> None:
    """Record a heartbeat, unless one was recorded just before."""
    if session.stale or decision.now - session.heartbeat_at >= max(1, decision.policy.sessions.heartbeat_record_us):
        decision.emit(ev.SessionHeartbeat(decision.now, session.session))


def _end_session(decision: Decision, session: Session, reason: str) -> None:
    for seq in list(session.in_flight):
        message = decision.state.message(seq)
        contract = decision.state.contract(message)
        requeue(decision, message, "session_ended", decision.now, 0.0, contract.retries_max)
    decision.emit(ev.SessionClosed(decision.now, session.session, session.agent, reason))
    agent = decision.state.agents[session.agent]
    attention.detach(decision, agent)
    if not agent.sessions:
        announce(decision, agent, "PeerLeft")


def fire_session(decision: Decision, name: str) -> None:
    """Mark a silent session as stale, or end one that has lapsed."""
    session = decision.state.sessions.get(name)
    if session is None:
        return
    due = session_due(decision.state, session)
    if decision.now <= due:
        decision.state.timers.sessions.schedule(name, due)
    elif session.stale:
        _end_session(decision, session, "lapsed")
        pump(decision, decision.state.agents[session.agent])
    else:
        threshold_s = decision.policy.sessions.stale_after_s
        decision.emit(ev.SessionWentStale(decision.now, name, session.agent, session.heartbeat_at, threshold_s))


def apply_registered(state: ProjectState, event: ev.AgentRegistered) -> None:
    """Add the agent, or update its type, role and capabilities."""
    state.drop_plans()
    known = state.agents.get(event.agent)
    tokens, critical, blocking = full_levels(event.role, state.policy)
    if known is None:
        state.agents[event.agent] = Agent(
            agent=event.agent,
            agent_type=event.agent_type,
            role=event.role,
            version=event.version,
            supported=event.supported,
            capabilities=event.capabilities,
            registered_at=event.at,
            mailbox=Mailbox(state.messages, state.policy.aging.top_level),
            tokens=tokens,
            tokens_at=event.at,
            critical_quota=critical,
            blocking_quota=blocking,
            quotas_at=event.at,
        )
        return
    if known.role != event.role:
        known.tokens = min(known.tokens, tokens)
        known.critical_quota = min(known.critical_quota, critical)
        known.blocking_quota = min(known.blocking_quota, blocking)
    known.agent_type, known.role, known.version = event.agent_type, event.role, event.version
    known.supported, known.capabilities = event.supported, event.capabilities


def apply_retired(state: ProjectState, event: ev.AgentRetired) -> None:
    """Remove the agent."""
    state.drop_plans()
    del state.agents[event.agent]
    state.attention.pop(event.agent, None)
    woken = state.wakes.get(event.agent)
    if woken is not None and not woken.wake:
        del state.wakes[event.agent]


def apply_opened(state: ProjectState, event: ev.SessionOpened) -> None:
    """Add the session."""
    session = Session(event.session, event.agent, event.session_kind, event.at, event.at, event.window)
    agent = state.agents[event.agent]
    state.sessions[event.session] = session
    agent.sessions[event.session] = session
    schedule_session(state, session)
    check_channel(state, agent, event.at)
    woken = state.wakes.get(event.agent)
    if woken is not None:
        woken.failed, woken.rest_until = False, NEVER
        if not woken.wake:
            woken.attempt, woken.retry_at = 0, NEVER


def apply_heartbeat(state: ProjectState, event: ev.SessionHeartbeat) -> None:
    """Update the session's heartbeat."""
    session = state.session(event.session)
    state.timers.sessions.cancel(session.session, session_due(state, session))
    was_stale, session.stale = session.stale, False
    session.heartbeat_at = event.at
    schedule_session(state, session)
    if was_stale:
        check_channel(state, state.agents[session.agent], event.at)


def apply_stale(state: ProjectState, event: ev.SessionWentStale) -> None:
    """Mark the session as stale and schedule its lapse."""
    session = state.session(event.session)
    session.stale = True
    schedule_session(state, session)
    note_absence(state, event.agent, event.at)


def apply_window(state: ProjectState, event: ev.SessionWindowChanged) -> None:
    """Change the session's window."""
    state.session(event.session).window = event.window


def apply_closed(state: ProjectState, event: ev.SessionClosed) -> None:
    """Remove the session."""
    session = state.sessions.pop(event.session)
    state.timers.sessions.cancel(session.session, session_due(state, session))
    del state.agents[event.agent].sessions[event.session]
    state.ignored.pop(event.session, None)
    note_absence(state, event.agent, event.at)
