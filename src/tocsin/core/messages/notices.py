"""Messages from the bus itself: error reports to senders, notices to directors and humans, presence announcements.

A notice is an ordinary message, so it is durable, ordered and visible like any other. It awaits no ACK, and its death
is not reported, so that a notice never causes another notice.
"""

from collections.abc import Mapping

import msgspec

from tocsin.core import events as ev
from tocsin.core.agents.presence import resolve
from tocsin.core.commands import SYSTEM
from tocsin.core.decision import Decision
from tocsin.core.messages.acceptance import emit_accepted
from tocsin.core.messages.admission import owe
from tocsin.core.messages.capacity import fits_notice
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.message import Message, notice_subject, signal_id
from tocsin.core.messages.model import notice_metadata
from tocsin.core.policy import microseconds
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Agent, ProjectState
from tocsin.core.teamwork.model import FoldedNotices

__all__ = [
    "announce",
    "apply_folded",
    "directors",
    "forget_folded",
    "notify",
    "notify_directors",
    "notify_escalation",
    "notify_humans",
    "report_death",
    "unfold",
]

_REPORT = "ERROR_REPORT"
_FOLDED = "NoticesFolded"
_HUMAN = "human"


def notify_directors(
    decision: Decision,
    text: str,
    *,
    code: str,
    about: str,
    priority: Priority = Priority.BLOCKING,
    escalation: str = "",
    but: tuple[str, ...] = (),
    payer: str = "",
    subject: str = "",
) -> bool:
    """Notify every director except those listed; return whether there is a director. `payer` is charged for it."""
    found = _directors(decision)
    payload = _notice(text, code, about, "medium", escalation)
    for agent in found:
        if agent.agent not in but:
            notify(decision, agent, _REPORT, payload, priority, payer=payer, subject=subject)
    return bool(found)


def notify_humans(
    decision: Decision, text: str, *, code: str, about: str, escalation: str, payer: str = "", subject: str = ""
) -> None:
    """Notify every human, at the highest priority that the bus itself uses; `payer` is charged for it."""
    payload = _notice(text, code, about, "high", escalation)
    for agent in _humans(decision):
        notify(decision, agent, _REPORT, payload, Priority.CRITICAL, payer=payer, subject=subject)


def notify_escalation(
    decision: Decision,
    agent: Agent,
    text: str,
    code: str,
    about: str,
    escalation: str,
    priority: Priority,
    subject: str,
) -> None:
    """Notify one agent of an open escalation."""
    payload = _notice(text, code, about, "medium", escalation)
    notify(decision, agent, _REPORT, payload, priority, subject=subject)


def _directors(decision: Decision) -> list[Agent]:
    """Return the agents whose role directs, but for the humans, to whom an escalation goes later."""
    state, roles = decision.state, decision.policy.roles
    found = state.directors
    if found is None:
        found = [agent for agent in state.agents.values() if roles[agent.role].directs and agent.role != _HUMAN]
        state.directors = found
    return found


def _humans(decision: Decision) -> list[Agent]:
    state = decision.state
    found = state.humans
    if found is None:
        found = state.humans = [agent for agent in state.agents.values() if agent.role == _HUMAN]
    return found


def _notice(text: str, code: str, about: str, severity: str, escalation: str) -> dict[str, object]:
    context = {"about": about} | ({"escalation": escalation} if escalation else {})
    return {
        "errorType": "SystemError",
        "errorCode": code,
        "errorMessage": text,
        "severity": severity,
        "context": context,
    }


def directors(decision: Decision) -> list[Agent]:
    """Return the directors; if there are none, the humans."""
    return _directors(decision) or _humans(decision)


def report_death(decision: Decision, message: Message, code: str, detail: str) -> None:
    """Notify a sender that its message became a dead letter."""
    sender = decision.state.agents.get(message.sender)
    if sender is None:
        return
    payload = {
        "errorType": "DependencyError" if code == "E_ROUTING_003" else "SystemError",
        "errorCode": code,
        "errorMessage": detail,
        "severity": "high",
        "context": {
            "messageId": message.message_id,
            "signalId": signal_id(message),
            "recipient": message.recipient,
            "messageType": message.type,
        },
        "recoverable": True,
        "suggestedAction": "check the dead letter, then redrive it or send a new message",
    }
    notify(decision, sender, _REPORT, payload, Priority.BLOCKING, message.correlation_id)


def announce(decision: Decision, peer: Agent, message_type: str) -> None:
    """Notify agents with an open session that a peer has joined or left, if the policy enables it."""
    if not decision.policy.sessions.announce:
        return
    payload = {"agentId": peer.agent, "type": peer.agent_type, "role": peer.role}
    attached = [agent for agent in decision.state.agents.values() if agent.sessions and agent is not peer]
    subject = f"presence of {peer.agent}"
    for agent in attached[: decision.policy.limits.broadcast_recipients_max]:
        notify(decision, agent, message_type, payload, Priority.INFO, payer=peer.agent, subject=subject)


def notify(
    decision: Decision,
    agent: Agent,
    message_type: str,
    payload: Mapping[str, object],
    priority: Priority,
    correlation_id: str | None = None,
    *,
    payer: str = "",
    subject: str = "",
) -> None:
    """Send a notice to an agent; skip it if the agent's mailbox or the project is full.

    `payer` is the agent that caused it and is charged for it; empty if it is already paid for, or is an answer. Of the
    notices about one `subject` only some wait in a mailbox at a time; the others are counted in one that follows them.
    """
    content, metadata = msgspec.json.encode(payload), notice_metadata(subject)
    if not fits_notice(decision, agent, priority, len(content) + len(metadata)):
        return
    waiting = decision.state.noticed.get((agent.agent, subject), ()) if subject else ()
    if len(waiting) >= decision.policy.notices.per_subject_max:
        known = decision.state.folded.get(f"{agent.agent} {subject}")
        count = 1 if known is None else known.count + 1
        decision.emit(ev.NoticeFolded(decision.now, agent.agent, subject, message_type, priority, count))
        return
    if payer and payer != agent.agent:
        owe(decision, payer)
    pump(decision, agent)  # room in a window goes to what waits already
    recipient_state, path, session = resolve(agent, decision.policy, decision.now)
    contract = decision.policy.contract_of(message_type)
    ttl_s = contract.ttl_s if contract is not None else decision.policy.custom_contract.ttl_s
    emit_accepted(
        decision,
        agent,
        ev.MessageAccepted(
            at=decision.now,
            message_id=decision.ids.fresh("msg", decision.now),
            sender=SYSTEM.agent,
            recipient=agent.agent,
            message_type=message_type,
            requested=priority,
            priority=priority,
            rule="as_requested",
            importance=decision.policy.decay.importance_default,
            decay_rate=0.0,
            delivery_class=DeliveryClass.ASYNC,
            ack_required=False,
            expires_at=decision.now + microseconds(ttl_s),
            sent_at=decision.now,
            version=VERSIONS[-1],
            correlation_id=correlation_id,
            opens_thread=False,
            broadcast=None,
            payload=content,
            metadata=metadata,
            recipient_state=recipient_state,
            publish_path=path,
            resolved_session=session,
            tokens=None,
            critical_quota=None,
            blocking_quota=None,
        ),
    )


def unfold(decision: Decision, seq: int) -> None:
    """Send the notice that counts those that were folded, once the others about its subject have left the queue."""
    state = decision.state
    message = state.messages.get(seq)
    if message is None or message.sender != SYSTEM.agent or not (subject := notice_subject(message)):
        return
    folded, agent = state.folded.get(f"{message.recipient} {subject}"), state.agents.get(message.recipient)
    if folded is None or agent is None or (message.recipient, subject) in state.noticed:
        return
    count, level = folded.count, Priority(folded.level)
    _forget_folded(decision, folded)
    text = f"{count} more notices about {subject} were not sent one by one: list what is open to see them"
    notify(decision, agent, _FOLDED, {"subject": subject, "count": count, "text": text}, level)


def forget_folded(decision: Decision, agent: str) -> None:
    """Drop the folded notices for an agent that leaves the project."""
    for folded in [folded for folded in decision.state.folded.values() if folded.recipient == agent]:
        _forget_folded(decision, folded)


def _forget_folded(decision: Decision, folded: FoldedNotices) -> None:
    decision.emit(ev.NoticeFolded(decision.now, folded.recipient, folded.subject, _FOLDED, folded.level, 0))


def apply_folded(state: ProjectState, event: ev.NoticeFolded) -> None:
    """Count a notice that was not sent, or forget the count once it was sent."""
    key = f"{event.recipient} {event.subject}"
    if not event.count:
        del state.folded[key]
        return
    known = state.folded.get(key)
    level = event.level if known is None else max(known.level, event.level)
    state.folded[key] = FoldedNotices(event.recipient, event.subject, event.count, level)
