"""Recognition of commands on leases, work, requests, approvals, discussions, topics, health and escalations."""

from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.messages.message import signal_id
from tocsin.core.protocol.priority import priority_name
from tocsin.lab.traces.recognition.agents import retiring
from tocsin.lab.traces.recognition.base import FOLLOWS, TICKS, EventReader, Opener, Opening, always

__all__ = ["COORDINATION"]


def _lease_asked(reader: EventReader, event: ev.LeaseQueued | ev.LeaseGranted, index: int) -> Opening:
    if isinstance(event, ev.LeaseGranted) and (event.lease in reader.state.leases.queue or event.waited_us):
        return FOLLOWS
    policy = reader.state.policy.leases
    agent = event.agent if isinstance(event, ev.LeaseQueued) else event.holder
    wait_s = (event.wait_until - event.at) / 1_000_000 if isinstance(event, ev.LeaseQueued) else None
    return reader.by(
        event.at,
        agent,
        "AcquireLease",
        exclusive=event.exclusive,
        shared=event.shared,
        ttl_s=None if event.ttl_s == policy.ttl_default_s else event.ttl_s,
        wait_s=None if wait_s == policy.wait_default_s else wait_s,
        priority=None if event.level == policy.level_default else priority_name(event.level),
        lease=event.lease,
    )


def _lease_refused(reader: EventReader, event: ev.LeaseRefused, index: int) -> Opening:
    """Apply a refusal as recorded, because its waiting time is not known."""
    return reader.apply(event)


def _lease_renewed(reader: EventReader, event: ev.LeaseRenewed, index: int) -> Opening:
    return reader.by(event.at, event.holder, "RenewLease", lease=event.lease, ttl_s=event.ttl_s)


def _lease_released(reader: EventReader, event: ev.LeaseReleased, index: int) -> Opening:
    if event.reason == "retired":
        return retiring(reader, index)
    if event.reason == "deadlock":
        return FOLLOWS
    if event.reason == "forced":
        if reader.under_way("DecideApproval", event.at) is not None:
            return FOLLOWS
        return reader.by(event.at, event.by, "ForceRelease", lease=event.lease, reason=event.note)
    held = reader.state.leases.leases[event.lease]
    if len(event.resources) == len(held.claims):
        return reader.by(event.at, event.holder, "ReleaseLease", lease=event.lease)
    return reader.by(event.at, event.holder, "ReleaseLease", resources=event.resources)


def _lease_wait_ended(reader: EventReader, event: ev.LeaseWaitEnded, index: int) -> Opening:
    if event.reason == "timeout":
        return TICKS
    if event.reason == "retired":
        return retiring(reader, index)
    if event.reason == "cancelled":
        return reader.by(event.at, event.agent, "ReleaseLease", lease=event.lease)
    if event.reason == "forced":
        # The event does not name the caller or the reason.
        return reader.by(event.at, SYSTEM.agent, "ForceRelease", lease=event.lease, reason="unknown")
    return FOLLOWS


def _wait_ended(reader: EventReader, event: ev.WaitEnded, index: int) -> Opening:
    return retiring(reader, index) if event.reason == "retired" else FOLLOWS


def _work_begun(reader: EventReader, event: ev.WorkBegun, index: int) -> Opening:
    step = reader.under_way("BeginWork", event.at)
    if step is not None and step.agent == event.agent:
        return FOLLOWS
    message_id = signal_id(reader.message(event.work))
    return reader.by(event.at, event.agent, "BeginWork", message_id=message_id, interruptible=event.interruptible)


def _paused(reader: EventReader, event: ev.PausePointReached, index: int) -> Opening:
    moment = any(isinstance(later, ev.WorkContinued) and later.work == event.work for later in reader.ahead(index))
    return reader.by(event.at, event.agent, "ReachPausePoint", stay=not moment)


def _continued(reader: EventReader, event: ev.WorkContinued, index: int) -> Opening:
    step = reader.under_way("ReachPausePoint", event.at)
    if step is not None and step.agent == event.agent:
        return FOLLOWS
    return reader.by(event.at, event.agent, "ResumeWork")


def _put_aside(reader: EventReader, event: ev.WorkPutAside, index: int) -> Opening:
    if event.reason == "detached":
        return FOLLOWS
    if event.instead:
        reader.expect((ev.MessageDelivered, event.instead), (ev.MessageAcknowledged, event.instead))
    return reader.by(event.at, event.agent, "PutAside", saved=event.saved.decode(errors="replace"))


def _resumed(reader: EventReader, event: ev.WorkResumed, index: int) -> Opening:
    attention = reader.state.attention[event.agent]
    message_id = next(work.message_id for work in attention.aside if work.message == event.work)
    return reader.by(event.at, event.agent, "ResumeWork", message_id=message_id)


def _finished(reader: EventReader, event: ev.WorkFinished, index: int) -> Opening:
    kinds = (ev.MessageDelivered, ev.MessageAcknowledged, ev.MessageProcessed)
    reader.expect(*((kind, event.work) for kind in kinds))
    processed = any(
        isinstance(later, ev.MessageProcessed) and later.message == event.work for later in reader.ahead(index)
    )
    return reader.by(event.at, event.agent, "FinishWork", processed=processed)


def _request_extended(reader: EventReader, event: ev.RequestExtended, index: int) -> Opening:
    if not event.by:
        return TICKS
    timeout_s = (event.due_at - event.at) / 1_000_000
    return reader.by(event.at, event.by, "ExtendRequest", request=event.request, timeout_s=timeout_s)


def _request_ended(reader: EventReader, event: ev.RequestEnded, index: int) -> Opening:
    if event.outcome == "cancelled":
        return reader.by(event.at, event.requester, "CancelRequest", request=event.request)
    return TICKS if event.outcome == "timeout" else FOLLOWS


def _approval_requested(reader: EventReader, event: ev.ApprovalRequested, index: int) -> Opening:
    discussion = reader.state.discussions.get(event.subject)
    if event.holds or (discussion is not None and discussion.approval == event.approval):
        return FOLLOWS
    return reader.by(
        event.at, event.asker, "RequestApproval", handoff=event.handoff, subject=event.subject, details=event.details
    )


def _approval_overdue(reader: EventReader, event: ev.ApprovalOverdue, index: int) -> Opening:
    """Distinguish an approval that is overdue by time from one that had nobody to decide it."""
    return TICKS if event.threshold_s else FOLLOWS


def _approval_ended(reader: EventReader, event: ev.ApprovalEnded, index: int) -> Opening:
    if event.outcome == "withdrawn":
        return reader.by(event.at, event.asker, "WithdrawApproval", approval=event.approval)
    if event.outcome == "timeout":
        return TICKS
    if event.outcome not in ("approved", "changed", "refused"):
        return FOLLOWS
    verdict = "refuse" if event.outcome == "refused" else "approve"
    body: dict[str, Any] = {"approval": event.approval, "verdict": verdict, "reason": event.reason}
    changed = next((later for later in reader.ahead(index) if isinstance(later, ev.MessageReleased)), None)
    if event.outcome == "changed" and changed is not None:
        body["payload"] = msgspec.json.decode(changed.payload or b"{}")
    return reader.by(event.at, event.by, "DecideApproval", **body)


def _discussion_opened(reader: EventReader, event: ev.DiscussionOpened, index: int) -> Opening:
    return reader.by(
        event.at,
        event.opener,
        "OpenDiscussion",
        question=event.question,
        participants=event.participants,
        options=event.options,
        voters_min=event.voters_min,
        consensus=event.consensus,
        max_s=(event.due_at - event.at) / 1_000_000,
    )


def _spoken(reader: EventReader, event: ev.DiscussionSpoken, index: int) -> Opening:
    return reader.by(event.at, event.speaker, "Speak", discussion=event.discussion, text=event.text)


def _vote(reader: EventReader, event: ev.VoteCast, index: int) -> Opening:
    return reader.by(event.at, event.voter, "Vote", discussion=event.discussion, option=event.option)


def _discussion_closed(reader: EventReader, event: ev.DiscussionClosed, index: int) -> Opening:
    if event.outcome == "timeout":
        return TICKS
    if event.outcome != "cancelled" or event.detail.endswith(" left the project"):
        return FOLLOWS
    by = event.detail.removesuffix(" cancelled it")
    return reader.by(event.at, by, "CancelDiscussion", discussion=event.discussion)


def _subscribed(reader: EventReader, event: ev.Subscribed, index: int) -> Opening:
    return reader.by(event.at, event.subscriber, "Subscribe", topic=event.topic)


def _unsubscribed(reader: EventReader, event: ev.Unsubscribed, index: int) -> Opening:
    if event.reason == "retired":
        return FOLLOWS
    return reader.by(event.at, event.subscriber, "Unsubscribe", topic=event.topic)


def _health(reader: EventReader, event: Any, index: int) -> Opening:
    step = reader.under_way("ReportHealth", event.at)
    if step is not None and event.metric not in step.body["values"]:
        step.body["values"][event.metric] = event.value
        return FOLLOWS
    return reader.by(event.at, SYSTEM.agent, "ReportHealth", values={event.metric: event.value})


def _escalation_moved(reader: EventReader, event: ev.EscalationMoved, index: int) -> Opening:
    if event.by == SYSTEM.agent:
        return FOLLOWS
    step = reader.under_way("ResolveEscalation", event.at)
    if step is not None and step.body["escalation"] == event.escalation:
        if event.step in ("human_acts", "director_acts"):
            step.body["resolution"] = event.detail
        return FOLLOWS
    if event.step == "escalated":
        return reader.by(event.at, event.by, "EscalateToHuman", escalation=event.escalation, reason=event.detail)
    return reader.by(event.at, event.by, "ResolveEscalation", escalation=event.escalation, resolution=event.detail)


def _shed(reader: EventReader, event: ev.FramesShed, index: int) -> Opening:
    return reader.apply(event)


def _wakers_declared(reader: EventReader, event: ev.WakersDeclared, index: int) -> Opening:
    return reader.by(event.at, SYSTEM.agent, "DeclareWakers", agents=event.agents, roles=event.roles)


def _wake_failed(reader: EventReader, event: ev.AgentWakeFailed, index: int) -> Opening:
    return TICKS if event.reason in ("not_attached", "not_taken") else FOLLOWS


def _waker_exited(reader: EventReader, event: ev.WakerExited, index: int) -> Opening:
    if event.outcome == "timeout":
        return TICKS
    if event.outcome == "retired":
        return FOLLOWS
    body = {"outcome": event.outcome, "code": event.exit_code, "detail": event.detail}
    return reader.by(event.at, SYSTEM.agent, "ReportWaker", agent=event.agent, wake=event.wake, **body)


COORDINATION: dict[type, Opener] = {
    ev.WaitBegan: always(FOLLOWS),
    ev.WaitShifted: always(FOLLOWS),
    ev.WaitRaised: always(FOLLOWS),
    ev.WaitEnded: _wait_ended,
    ev.DeadlockFound: always(FOLLOWS),
    ev.PriorityInherited: always(FOLLOWS),
    ev.PriorityRestored: always(FOLLOWS),
    ev.LeaseRefused: _lease_refused,
    ev.LeaseQueued: _lease_asked,
    ev.LeaseGranted: _lease_asked,
    ev.LeaseRenewed: _lease_renewed,
    ev.LeaseExpiring: always(TICKS),
    ev.LeaseReleased: _lease_released,
    ev.LeaseLapsed: always(TICKS),
    ev.LeaseReclaimed: always(TICKS),
    ev.LeaseWaitEnded: _lease_wait_ended,
    ev.LeaseContended: always(FOLLOWS),
    ev.WorkBegun: _work_begun,
    ev.PausePointReached: _paused,
    ev.WorkContinued: _continued,
    ev.InterruptRaised: always(FOLLOWS),
    ev.InterruptEnded: always(FOLLOWS),
    ev.WorkPutAside: _put_aside,
    ev.WorkResumed: _resumed,
    ev.WorkFinished: _finished,
    ev.AttentionLapsed: always(TICKS),
    ev.RequestOpened: always(FOLLOWS),
    ev.RequestExtended: _request_extended,
    ev.RequestEnded: _request_ended,
    ev.ApprovalRequested: _approval_requested,
    ev.ApprovalOverdue: _approval_overdue,
    ev.ApprovalEnded: _approval_ended,
    ev.MessageReleased: always(FOLLOWS),
    ev.DiscussionOpened: _discussion_opened,
    ev.DiscussionSpoken: _spoken,
    ev.VoteCast: _vote,
    ev.DiscussionLeft: always(FOLLOWS),
    ev.ConsensusReached: always(FOLLOWS),
    ev.DiscussionClosed: _discussion_closed,
    ev.Subscribed: _subscribed,
    ev.Unsubscribed: _unsubscribed,
    ev.HealthBreached: _health,
    ev.HealthRecovered: _health,
    ev.AlertRaised: _health,
    ev.AlertEased: _health,
    ev.AlertWorsened: _health,
    ev.AlertCleared: _health,
    ev.EscalationOpened: always(FOLLOWS),
    ev.EscalationDeferred: always(FOLLOWS),
    ev.EscalationMoved: _escalation_moved,
    ev.EscalationsForgotten: always(FOLLOWS),
    ev.FramesShed: _shed,
    ev.WakersDeclared: _wakers_declared,
    ev.AgentWakeRequested: always(TICKS),
    ev.AgentWoken: always(FOLLOWS),
    ev.AgentWakeFailed: _wake_failed,
    ev.WakerExited: _waker_exited,
    ev.ChannelIgnored: always(TICKS),
    ev.ChannelAnswered: always(FOLLOWS),
}
