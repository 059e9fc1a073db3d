"""What a team coordinates by, for code that does not await: the verbs of `Coordination` as plain calls.

What is held goes on being renewed meanwhile, by the loop in the background.
"""

# `type` is what everyone calls a message's type.
# ruff: noqa: A002

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Unpack

from tocsin.client import teamwork_replies
from tocsin.client.agent import Agent
from tocsin.client.envelopes import Options, Payload
from tocsin.client.leases import Acquiring, Lease
from tocsin.client.loop_thread import LoopThread
from tocsin.client.sync_message import SyncMessage
from tocsin.client.teamwork import Handoff
from tocsin.client.work import Interruption, Resuming, Working
from tocsin.core.commands import HealthTaken
from tocsin.core.protocol.priority import Priority

__all__ = ["SyncInterruption", "SyncLease", "SyncTeamwork", "SyncWorking"]


class SyncTeamwork:
    """Coordinates for one agent."""

    _background: LoopThread
    _agent: Agent

    def acquire(
        self,
        resources: str | Sequence[str] = (),
        *,
        shared: str | Sequence[str] = (),
        ttl_s: float | None = None,
        priority: str | Priority | None = None,
        wait_s: float | None = None,
    ) -> "SyncLease":
        """Hold resources, all or nothing: wait for them, and return them held, for `with` or `release()`."""
        asked = self._agent.acquire(resources, shared=shared, ttl_s=ttl_s, priority=priority, wait_s=wait_s)
        return SyncLease(self._background, self._background.run(_held(asked)))

    def leases(self, *, resource: str | None = None, agent: str | None = None) -> teamwork_replies.LeaseRecords:
        """List who holds what and who waits."""
        return self._background.run(self._agent.leases(resource=resource, agent=agent))

    def release(self, *resources: str) -> teamwork_replies.Released:
        """Set free what this agent holds under these very names, or leave the line for it."""
        return self._background.run(self._agent.release(*resources))

    def force_release(self, lease: str, reason: str) -> teamwork_replies.Released:
        """Take a lease, or a place in line, away from whoever has it: a director or a human."""
        return self._background.run(self._agent.force_release(lease, reason))

    def working_on(self, message: SyncMessage, *, interruptible: bool = True) -> "SyncWorking":
        """Work on a message, as `with`: only what may interrupt it comes until it is over."""
        return SyncWorking(self._background, self._agent.working_on(message._message, interruptible=interruptible))

    def resuming(self, message_id: str | None = None) -> "SyncResuming":
        """Go on with work that was put aside, as `with`: such as after a crash."""
        return SyncResuming(self._background, self._agent.resuming(message_id))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Let the work be interrupted here, and return by what."""
        return _interrupted(self._background, self._background.run(self._agent.pause_point(save)))

    def attention(self) -> teamwork_replies.Attending:
        """Say what this agent is busy with, as the hub knows it."""
        return self._background.run(self._agent.attention())

    def subscribe(self, topic: str) -> teamwork_replies.Subscriptions:
        """Want what is published to a topic from now on, whether attached or not."""
        return self._background.run(self._agent.subscribe(topic))

    def unsubscribe(self, topic: str) -> teamwork_replies.Subscriptions:
        """Want it no longer."""
        return self._background.run(self._agent.unsubscribe(topic))

    def publish(
        self,
        topic: str,
        type: str,
        payload: Payload | None = None,
        *,
        guarantee: Literal["each", "all"] = "each",
        **options: Unpack[Options],
    ) -> teamwork_replies.Published:
        """Publish to all subscribers of a topic but oneself; `all` reaches all of them or none."""
        return self._background.run(self._agent.publish(topic, type, payload, guarantee=guarantee, **options))

    def topics(self) -> list[teamwork_replies.Topic]:
        """List the topics that somebody is subscribed to."""
        return self._background.run(self._agent.topics())

    def open_requests(self) -> list[teamwork_replies.OpenRequest]:
        """List the requests that this agent waits for or is to answer; a director sees all."""
        return self._background.run(self._agent.open_requests())

    def discuss(
        self,
        question: str,
        participants: Sequence[str],
        *,
        options: Sequence[str] = ("agree", "disagree"),
        voters_min: int | None = None,
        consensus: Literal["majority", "two_thirds", "unanimous"] = "majority",
        max_s: float | None = None,
    ) -> teamwork_replies.Discussed:
        """Ask others to come to a common view; a `DiscussionClosed` says what became of it."""
        opened = self._agent.discuss(
            question, participants, options=options, voters_min=voters_min, consensus=consensus, max_s=max_s
        )
        return self._background.run(opened)

    def speak(self, discussion: str, text: str) -> teamwork_replies.Discussed:
        """Say something in a discussion, to all who take part."""
        return self._background.run(self._agent.speak(discussion, text))

    def vote(self, discussion: str, option: str) -> teamwork_replies.Discussed:
        """Vote in a discussion, or vote otherwise than before."""
        return self._background.run(self._agent.vote(discussion, option))

    def cancel_discussion(self, discussion: str) -> teamwork_replies.Discussed:
        """End a discussion without an outcome: its opener, or a director."""
        return self._background.run(self._agent.cancel_discussion(discussion))

    def discussions(self) -> list[teamwork_replies.Discussion]:
        """List the open discussions that this agent takes part in; a director sees all."""
        return self._background.run(self._agent.discussions())

    def ask_approval(self, handoff: Handoff, subject: str, details: str = "") -> teamwork_replies.ApprovalAsked:
        """Ask the directors before doing something; their word comes as an `ApprovalDecided`."""
        return self._background.run(self._agent.ask_approval(handoff, subject, details))

    def withdraw_approval(self, approval: str) -> None:
        """Want a director's word no longer."""
        self._background.run(self._agent.withdraw_approval(approval))

    def approvals(self) -> list[teamwork_replies.Approval]:
        """List what waits for a director's word; who does not direct sees its own."""
        return self._background.run(self._agent.approvals())

    def decide(
        self,
        approval: str,
        verdict: Literal["approve", "refuse"],
        reason: str = "",
        *,
        payload: dict[str, Any] | None = None,
    ) -> teamwork_replies.ApprovalDecided:
        """Approve, refuse with a reason, or approve a held message with another payload: a director or a human."""
        return self._background.run(self._agent.decide(approval, verdict, reason, payload=payload))

    def escalations(self, *, closed: bool = False) -> list[teamwork_replies.Escalation]:
        """List the escalations, open ones first: a director or a human."""
        return self._background.run(self._agent.escalations(closed=closed))

    def resolve(self, escalation: str, resolution: str) -> teamwork_replies.Escalated:
        """Say how an escalation was taken care of: a director or a human."""
        return self._background.run(self._agent.resolve(escalation, resolution))

    def escalate(self, escalation: str, reason: str = "") -> teamwork_replies.Escalated:
        """Bring an escalation before a human: a director."""
        return self._background.run(self._agent.escalate(escalation, reason))

    def report_health(self, **values: float) -> HealthTaken:
        """Report what the hub cannot measure, by the metric's name in the policy: a director or a human."""
        return self._background.run(self._agent.report_health(**values))

    def alerts(self) -> list[teamwork_replies.Alert]:
        """List the metrics that are over their limits, and the alerts."""
        return self._background.run(self._agent.alerts())


class SyncLease:
    """Something held: renewed until it is released, or lost."""

    def __init__(self, background: LoopThread, lease: Lease) -> None:
        self._background = background
        self._lease = lease
        #: Its id.
        self.lease = lease.lease
        self.exclusive = lease.exclusive
        self.shared = lease.shared

    @property
    def is_held(self) -> bool:
        """Tell whether it is held, as far as is known here."""
        return self._lease.is_held

    def must_hold(self) -> None:
        """Raise `LeaseLost` where it was lost: ask before what cannot be undone."""
        self._lease.must_hold()

    def renew(self, ttl_s: float | None = None) -> teamwork_replies.LeaseRecord:
        """Keep it for longer."""
        return self._background.run(self._lease.renew(ttl_s))

    def release(self) -> teamwork_replies.Released:
        """Set it free; one that was lost meanwhile is an error."""
        return self._background.run(self._lease.release())

    def __enter__(self) -> "SyncLease":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._lease.__aexit__(kind, error, trace))


class SyncWorking:
    """Work on one message."""

    def __init__(self, background: LoopThread, work: Working) -> None:
        self._background = background
        self._work = work

    @property
    def saved(self) -> str:
        """Return what had been saved of it, where it had been put aside."""
        return self._work.saved

    def __enter__(self) -> "SyncWorking":
        self._background.run(self._work.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._work.__aexit__(kind, error, trace))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Let the work be interrupted here; where it is, it is put aside with the text that `save` returns."""
        return _interrupted(self._background, self._background.run(self._work.pause_point(save)))


class SyncResuming:
    """Work that goes on after a crash."""

    def __init__(self, background: LoopThread, work: Resuming) -> None:
        self._background = background
        self._work = work

    @property
    def message_id(self) -> str:
        """Return what is worked on."""
        return self._work.message_id

    @property
    def saved(self) -> str:
        """Return what was saved of it."""
        return self._work.saved

    @property
    def duplicate(self) -> bool:
        """Tell whether this agent had been given that before."""
        return self._work.duplicate

    def __enter__(self) -> "SyncResuming":
        self._background.run(self._work.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._work.__aexit__(kind, error, trace))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Let the work be interrupted here; where it is, it is put aside with the text that `save` returns."""
        return _interrupted(self._background, self._background.run(self._work.pause_point(save)))


class SyncInterruption:
    """What interrupts: `with` it as the message to deal with; then the work goes on where it was."""

    def __init__(self, background: LoopThread, interruption: Interruption) -> None:
        self._background = background
        self._interruption = interruption

    @property
    def saved(self) -> str:
        """Return what was saved of the work, once it goes on."""
        return self._interruption.saved

    def __enter__(self) -> SyncMessage:
        return SyncMessage(self._background, self._interruption.message)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._interruption.__aexit__(kind, error, trace))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Let this be interrupted in its turn."""
        return _interrupted(self._background, self._background.run(self._interruption.pause_point(save)))


async def _held(asked: Acquiring) -> Lease:
    return await asked


def _interrupted(background: LoopThread, interruption: Interruption | None) -> SyncInterruption | None:
    return None if interruption is None else SyncInterruption(background, interruption)
