"""Broadcasts: one message accepted as a copy for each recipient that can be reached."""

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import BroadcastReceipt, Receipt
from tocsin.core.decision import Decision
from tocsin.core.errors import Problem, refusal
from tocsin.core.messages.acceptance import Draft, accept
from tocsin.core.messages.admission import admit, grant
from tocsin.core.messages.capacity import over_sender_or_project
from tocsin.core.messages.routing import Route, route
from tocsin.core.state import Agent, Broadcast, ProjectState

__all__ = ["apply_broadcast", "broadcast_to"]


def broadcast_to(
    decision: Decision, sender: Agent, draft: Draft, recipients: list[Agent], notices: int, *, whole: bool
) -> BroadcastReceipt:
    """Accept one copy for each recipient that can be reached; the sender pays for each copy, and for `notices`."""
    envelope = draft.envelope
    granted = grant(decision, sender, draft.requested, default=envelope.priority is None)
    ways: list[Route] = []
    failed: dict[str, Problem] = {}
    for recipient in recipients:
        way = route(
            decision,
            recipient,
            envelope.message_type,
            draft.contract,
            draft.delivery_class,
            granted.priority,
            draft.size,
        )
        if isinstance(way, Problem):
            failed[recipient.agent] = way
        else:
            ways.append(way)
    if not ways or (whole and failed):
        reasons = ", ".join(f"{agent}: {problem.code}" for agent, problem in list(failed.items())[:5])
        detail = f"{len(failed)} of {len(recipients)} recipients could not be reached ({reasons}): nothing was sent"
        raise refusal("E_ROUTING_004", detail)
    over = over_sender_or_project(decision, sender.agent, granted.priority, draft.size * len(ways))
    if over is not None:
        raise over
    admission = admit(decision, sender, granted, len(ways) + notices)
    decision.emit(
        ev.BroadcastAccepted(
            at=decision.now,
            broadcast=envelope.message_id,
            sender=sender.agent,
            message_type=envelope.message_type,
            receiver_type=envelope.receiver.type,
            accepted=len(ways),
            failed=tuple(f"{agent}={problem.code}" for agent, problem in failed.items()),
            payload=draft.payload,
            metadata=draft.metadata,
        )
    )
    receipts: list[Receipt] = []
    for way in ways:
        receipts.append(accept(decision, draft, way, admission, envelope.message_id))
        admission = msgspec.structs.replace(admission, tokens=None, critical_quota=None, blocking_quota=None)
    return BroadcastReceipt(envelope.message_id, tuple(receipts), failed)


def apply_broadcast(state: ProjectState, event: ev.BroadcastAccepted) -> None:
    """Store the content once for all copies."""
    state.broadcasts[event.broadcast] = Broadcast(
        broadcast=event.broadcast,
        sender=event.sender,
        message_type=event.message_type,
        receiver_type=event.receiver_type,
        copies={},
        failed=event.failed,
        payload=event.payload,
        metadata=event.metadata,
        accepted=event.accepted,
    )
