"""The exchange, the single entry to the core: a command, its caller and the time in; a reply and events out.

Theory of operation. `handle` decides a command and applies each event at once, so that a decision sees the effect of
its earlier events. The caller makes the events durable before it sends the reply; if that fails, it discards the
exchange and rebuilds it by applying the journal. Nothing here waits: `next_due` returns the time of the next `Tick`.

Expected refusals are replies (`Problem`), not exceptions. An `InvariantViolation` or any other exception means that the
state is no longer reliable: rebuild it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core import frame_reports, policy_adoption, tick
from tocsin.core.agents import attention, attention_transitions, registry
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.decision import Apply, Decision
from tocsin.core.errors import Problem, TocsinError
from tocsin.core.escalation import closing, opening, steps
from tocsin.core.escalation import decisions as escalation
from tocsin.core.events import Event
from tocsin.core.leases import decisions as leases
from tocsin.core.leases import transitions
from tocsin.core.messages import acceptance, admission, broadcast, delivery, drain, notices, sending, settlement
from tocsin.core.messages.endings import dead_letters, expiry, recall, retention
from tocsin.core.messages.ordinary import receipts, sends
from tocsin.core.queueing import aging, queue_manager
from tocsin.core.state import IdSource, ProjectState
from tocsin.core.teamwork import approvals, discussions, health, reactions, requests, topics
from tocsin.core.waiting import inheritance, waits
from tocsin.core.wake import decisions as wake
from tocsin.core.wake import transitions as wakes

__all__ = ["Exchange", "Outcome"]


class Outcome:
    """Reply and events of one command."""

    __slots__ = ("events", "reply")

    def __init__(self, reply: Reply, events: list[Event]) -> None:
        self.reply = reply
        self.events = events


def _nothing(state: ProjectState, event: Event) -> None:
    """Change nothing: the event is only recorded."""


_APPLIERS: Final[dict[type, Apply]] = {
    ev.PolicyAdopted: policy_adoption.apply_policy,
    ev.AgentRegistered: registry.apply_registered,
    ev.AgentRetired: registry.apply_retired,
    ev.SessionOpened: registry.apply_opened,
    ev.SessionHeartbeat: registry.apply_heartbeat,
    ev.SessionWentStale: registry.apply_stale,
    ev.SessionClosed: registry.apply_closed,
    ev.SendRefused: _nothing,
    ev.BroadcastAccepted: broadcast.apply_broadcast,
    ev.MessageAccepted: acceptance.apply_accepted,
    ev.MessageOffered: delivery.apply_offered,
    ev.MessageDelivered: settlement.apply_delivered,
    ev.MessageAcknowledged: settlement.apply_acknowledged,
    ev.MessageRejected: settlement.apply_rejected,
    ev.MessageRequeued: delivery.apply_requeued,
    ev.MessageReady: delivery.apply_ready,
    ev.MessageProcessed: settlement.apply_processed,
    ev.MessageExpired: expiry.apply_expired,
    ev.MessageRecalled: recall.apply_recalled,
    ev.RecallRefused: _nothing,
    ev.MessageBoosted: aging.apply_boosted,
    ev.MessageDied: dead_letters.apply_died,
    ev.DeadLetterRedriven: dead_letters.apply_redriven,
    ev.DeadLetterPurged: dead_letters.apply_purged,
    ev.MessagesForgotten: retention.apply_forgotten,
    ev.GamingDetected: admission.apply_gaming,
    ev.GamingCleared: admission.apply_gaming,
    ev.AgentCharged: admission.apply_charge,
    ev.NoticeFolded: notices.apply_folded,
    ev.DecayRateChanged: queue_manager.apply_rate,
    ev.FramesShed: _nothing,
    ev.WorkBegun: attention_transitions.apply_begun,
    ev.PausePointReached: attention_transitions.apply_paused,
    ev.WorkContinued: attention_transitions.apply_continued,
    ev.InterruptRaised: attention_transitions.apply_interrupt,
    ev.InterruptEnded: attention_transitions.apply_interrupt_ended,
    ev.WorkPutAside: attention_transitions.apply_put_aside,
    ev.WorkResumed: attention_transitions.apply_resumed,
    ev.WorkFinished: attention_transitions.apply_finished,
    ev.AttentionLapsed: attention_transitions.apply_lapsed,
    ev.RequestOpened: requests.apply_opened,
    ev.RequestExtended: requests.apply_extended,
    ev.RequestEnded: requests.apply_ended,
    ev.ApprovalRequested: approvals.apply_requested,
    ev.ApprovalOverdue: approvals.apply_overdue,
    ev.ApprovalEnded: approvals.apply_ended,
    ev.MessageReleased: approvals.apply_released,
    ev.DiscussionOpened: discussions.apply_opened,
    ev.DiscussionSpoken: discussions.apply_spoken,
    ev.VoteCast: discussions.apply_vote,
    ev.DiscussionLeft: discussions.apply_left,
    ev.ConsensusReached: discussions.apply_consensus,
    ev.DiscussionClosed: discussions.apply_closed,
    ev.Subscribed: topics.apply_subscribed,
    ev.Unsubscribed: topics.apply_unsubscribed,
    ev.TopicPublished: _nothing,
    **dict.fromkeys(
        (
            *(ev.HealthBreached, ev.HealthRecovered, ev.AlertRaised),
            *(ev.AlertEased, ev.AlertWorsened, ev.AlertCleared),
        ),
        health.apply_change,
    ),
    ev.EscalationOpened: opening.apply_opened,
    ev.EscalationDeferred: opening.apply_deferred,
    ev.EscalationMoved: steps.apply_moved,
    ev.EscalationsForgotten: closing.apply_forgotten,
    ev.SessionWindowChanged: registry.apply_window,
    ev.WaitBegan: waits.apply_wait_began,
    ev.WaitShifted: waits.apply_wait_shifted,
    ev.WaitRaised: waits.apply_wait_raised,
    ev.WaitEnded: waits.apply_wait_ended,
    ev.DeadlockFound: _nothing,
    ev.PriorityInherited: inheritance.apply_inherited,
    ev.PriorityRestored: inheritance.apply_restored,
    ev.LeaseRefused: _nothing,
    ev.LeaseQueued: transitions.apply_lease_queued,
    ev.LeaseGranted: transitions.apply_lease_granted,
    ev.LeaseRenewed: transitions.apply_lease_renewed,
    ev.LeaseExpiring: transitions.apply_lease_expiring,
    ev.LeaseReleased: transitions.apply_lease_released,
    ev.LeaseLapsed: transitions.apply_lease_ended,
    ev.LeaseReclaimed: transitions.apply_lease_ended,
    ev.LeaseWaitEnded: transitions.apply_lease_wait_ended,
    ev.LeaseContended: _nothing,
    ev.WakersDeclared: wakes.apply_declared,
    ev.AgentWakeRequested: wakes.apply_requested,
    ev.AgentWoken: wakes.apply_woken,
    ev.AgentWakeFailed: wakes.apply_failed,
    ev.WakerExited: wakes.apply_exited,
    ev.ChannelIgnored: wakes.apply_ignored,
    ev.ChannelAnswered: wakes.apply_answered,
}

Decide = Callable[[Decision, Any], Reply]

_DECIDERS: Final[dict[type, Decide]] = {
    cmd.AdoptPolicy: policy_adoption.decide_adopt,
    cmd.RegisterAgent: registry.decide_register,
    cmd.RetireAgent: registry.decide_retire,
    cmd.OpenSession: registry.decide_open,
    cmd.Heartbeat: registry.decide_heartbeat,
    cmd.GrantCredit: registry.decide_credit,
    cmd.CloseSession: registry.decide_close,
    cmd.Send: sending.decide_send,
    cmd.Drain: drain.decide_drain,
    cmd.Confirm: settlement.decide_confirm,
    cmd.Acknowledge: settlement.decide_acknowledge,
    cmd.Reject: settlement.decide_reject,
    cmd.MarkProcessed: settlement.decide_processed,
    cmd.Recall: recall.decide_recall,
    cmd.Redrive: dead_letters.decide_redrive,
    cmd.ReportShedding: frame_reports.decide_shedding,
    cmd.AcquireLease: leases.decide_acquire,
    cmd.RenewLease: leases.decide_renew,
    cmd.ReleaseLease: leases.decide_release,
    cmd.ForceRelease: leases.decide_force,
    cmd.BeginWork: attention.decide_begin,
    cmd.ReachPausePoint: attention.decide_pause_point,
    cmd.PutAside: attention.decide_put_aside,
    cmd.ResumeWork: attention.decide_resume,
    cmd.FinishWork: attention.decide_finish,
    cmd.SendRequest: requests.decide_request,
    cmd.CancelRequest: requests.decide_cancel,
    cmd.ExtendRequest: requests.decide_extend,
    cmd.RequestApproval: approvals.decide_ask,
    cmd.DecideApproval: approvals.decide_approval,
    cmd.WithdrawApproval: approvals.decide_withdraw,
    cmd.OpenDiscussion: discussions.decide_open,
    cmd.Speak: discussions.decide_speak,
    cmd.Vote: discussions.decide_vote,
    cmd.CancelDiscussion: discussions.decide_cancel,
    cmd.Subscribe: topics.decide_subscribe,
    cmd.Unsubscribe: topics.decide_unsubscribe,
    cmd.Publish: topics.decide_publish,
    cmd.ReportHealth: health.decide_report,
    cmd.ResolveEscalation: escalation.decide_resolve,
    cmd.EscalateToHuman: escalation.decide_escalate,
    cmd.DeclareWakers: wake.decide_declare,
    cmd.ReportWaker: wake.decide_report,
    cmd.Tick: tick.decide_tick,
}


def _conclude(decision: Decision) -> None:
    """Decide what follows from the events of a decision."""
    reactions.react(decision)
    admission.charge_owed(decision)
    retention.trim(decision)
    closing.trim_history(decision)


class Exchange:
    """Decides the commands of one project."""

    def __init__(self, ids: IdSource, state: ProjectState | None = None) -> None:
        #: State of the project: read-only for callers.
        self.state = ProjectState() if state is None else state
        self._ids = ids

    def handle(self, command: Command, caller: Caller, now: int) -> Outcome:
        """Decide a command at a time given in microseconds since the epoch."""
        state = self.state
        if type(command) is cmd.Send and state.has_policy:
            sent = sends.decide_send(state, caller, command.envelope, now)
            if sent is not None:
                return self._accept(sent, caller, now)
        elif type(command) is cmd.Acknowledge and state.has_policy:
            acked = receipts.decide_acknowledge(state, caller, command, now)
            if acked is not None:
                return self._acknowledge(acked, caller, now)
        return self.handle_in_full(command, caller, now)

    def handle_in_full(self, command: Command, caller: Caller, now: int) -> Outcome:
        """Decide a command without a plan: the definition of every decision."""
        has_policy = self.state.has_policy
        if not has_policy and not (isinstance(command, cmd.AdoptPolicy) and caller == cmd.SYSTEM):
            return Outcome(Problem("E_POLICY_002", "this project has no policy yet: adopt one first"), [])
        decision = Decision(self.state, self.apply, caller, now, self._ids)
        try:
            reply = _DECIDERS[type(command)](decision, command)
        except TocsinError as error:
            reply = error.problem
        if has_policy:
            _conclude(decision)
        return Outcome(reply, decision.events)

    def confirm(self, message_id: str, caller: Caller, now: int) -> list[Event]:
        """Decide a receipt that nobody waits for an answer to; return its events."""
        state = self.state
        event = receipts.decide_confirm(state, caller, message_id, now) if state.has_policy else None
        if event is None:
            return self.handle_in_full(cmd.Confirm((message_id,)), caller, now).events
        self.apply(event)
        if not receipts.has_consequences(state, caller.agent, now):
            return [event]
        decision = Decision(state, self.apply, caller, now, self._ids)
        decision.events.append(event)
        settlement.follow_receipt(decision, state.message(event.message))
        _conclude(decision)
        return decision.events

    def _accept(self, sent: sends.Sent, caller: Caller, now: int) -> Outcome:
        """Apply the events of an ordinary send, and decide in full what follows from them."""
        accepted, offered, receipt, request, follows = sent
        events: list[Event]
        if offered is None:
            events = [accepted]
            self.apply(accepted)
        else:
            events = [accepted, offered]
            self.apply_pushed(accepted, offered)
        if not follows:
            return Outcome(receipt, events)
        decision = Decision(self.state, self.apply, caller, now, self._ids)
        decision.events += events
        if request is not None:
            sending.settle_request(decision, request, held=False)
        _conclude(decision)
        return Outcome(receipt, decision.events)

    def _acknowledge(self, acked: receipts.Acked, caller: Caller, now: int) -> Outcome:
        """Apply the events of an ordinary acknowledgement, and decide in full what follows from them."""
        received, acknowledged = acked
        events: list[Event] = [acknowledged]
        if received is not None:
            events = [received, acknowledged]
            self.apply(received)
        self.apply(acknowledged)
        state = self.state
        message = state.messages[acknowledged.message]
        reply = cmd.Acknowledged(message.message_id, message.state)
        if not receipts.has_consequences(state, caller.agent, now):
            return Outcome(reply, events)
        decision = Decision(state, self.apply, caller, now, self._ids)
        decision.events += events
        settlement.follow_ack(decision)
        _conclude(decision)
        return Outcome(reply, decision.events)

    def apply_pushed(self, accepted: ev.MessageAccepted, offered: ev.MessageOffered) -> None:
        """Apply an acceptance and the offer that follows it at once."""
        state = self.state
        state.seq += 2
        acceptance.apply_pushed(state, accepted, offered)

    def apply(self, event: Event) -> None:
        """Apply an event of a decision or of the journal to the state."""
        state = self.state
        state.seq += 1
        _APPLIERS[type(event)](state, event)

    def replay(self, events: Iterable[Event]) -> None:
        """Rebuild the state by applying a journal, or the rest of one."""
        for event in events:
            self.apply(event)

    def next_due(self) -> int | None:
        """Return when the next `Tick` is due, if nothing else happens."""
        return tick.next_due(self.state)

    def deliveries(self, events: Iterable[Event]) -> list[cmd.Delivery]:
        """Return the deliveries offered by some events; call it before the next command is handled."""
        state = self.state
        offers = [event for event in events if type(event) is ev.MessageOffered]
        return [delivery.delivery_of(state, state.message(event.message)) for event in offers]

    def in_flight(self, session: str) -> list[cmd.Delivery]:
        """Return what a session was offered and has not confirmed, oldest offer first."""
        state = self.state
        return [delivery.delivery_of(state, state.message(seq)) for seq in state.session(session).in_flight]
