"""What a team coordinates by, as verbs: leases and work, topics, discussions, approvals, escalations, alerts.

Each is one call of the hub's table of operations. What goes on over time has a module of its own: holding a lease is in
`tocsin.client.leases`, working and being interrupted in `tocsin.client.work`.
"""

# `type` is what everyone calls a message's type.
# ruff: noqa: A002

from collections.abc import Callable, Sequence
from typing import Any, Literal, Unpack

import msgspec

from tocsin.client import operations as op
from tocsin.client.envelopes import Draft, Options, Payload
from tocsin.client.leases import Acquiring, Leases
from tocsin.client.message import Message
from tocsin.client.questions import Questions
from tocsin.client.replies import Nothing
from tocsin.client.sending import Sender
from tocsin.client.teamwork_replies import (
    Alert,
    Approval,
    ApprovalAsked,
    ApprovalDecided,
    Attending,
    Discussed,
    Discussion,
    Escalated,
    Escalation,
    LeaseRecords,
    OpenRequest,
    Published,
    Released,
    Subscriptions,
    Topic,
)
from tocsin.client.work import Interruption, Resuming, Worker, Working
from tocsin.core.commands import HealthTaken
from tocsin.core.protocol.envelope import ANYONE
from tocsin.core.protocol.priority import Priority

__all__ = ["Handoff", "Teamwork"]

Handoff = Literal["plan_approval", "lease_override", "pre_merge_review", "ratification"]

_LEASES = msgspec.json.Decoder(LeaseRecords)
_RELEASED = msgspec.json.Decoder(Released)
_ATTENDING = msgspec.json.Decoder(Attending)
_SUBSCRIPTIONS = msgspec.json.Decoder(Subscriptions)
_PUBLISHED = msgspec.json.Decoder(Published)
_TOPICS = msgspec.json.Decoder(list[Topic])
_REQUESTS = msgspec.json.Decoder(list[OpenRequest])
_DISCUSSED = msgspec.json.Decoder(Discussed)
_DISCUSSIONS = msgspec.json.Decoder(list[Discussion])
_ASKED = msgspec.json.Decoder(ApprovalAsked)
_APPROVALS = msgspec.json.Decoder(list[Approval])
_DECIDED = msgspec.json.Decoder(ApprovalDecided)
_ESCALATIONS = msgspec.json.Decoder(list[Escalation])
_ESCALATED = msgspec.json.Decoder(Escalated)
_HEALTH = msgspec.json.Decoder(HealthTaken)
_NOTHING = msgspec.json.Decoder(Nothing)
_ALERTS = msgspec.json.Decoder(list[Alert])


class Teamwork(Questions):
    """Coordinates for one agent."""

    _sender: Sender
    _leases: Leases
    _worker: Worker

    def acquire(
        self,
        resources: str | Sequence[str] = (),
        *,
        shared: str | Sequence[str] = (),
        ttl_s: float | None = None,
        priority: str | Priority | None = None,
        wait_s: float | None = None,
    ) -> Acquiring:
        """Hold resources, all or nothing, as `async with` or `await`; it waits in line and renews what it holds.

        `resources` are had alone, `shared` ones with others who share them. It waits up to `wait_s` (0 fails at once;
        else as long as the policy says). Without a lease in the end it raises `LeaseConflict`; `Deadlock`, where this
        wait was ended to break one.
        """
        return self._leases.acquire(_names(resources), _names(shared), ttl_s, priority, wait_s)

    async def leases(self, *, resource: str | None = None, agent: str | None = None) -> LeaseRecords:
        """List who holds what and who waits, of all or of what conflicts with a resource, or of an agent."""
        query = {name: value for name, value in (("resource", resource), ("agent", agent)) if value is not None}
        told: LeaseRecords = await self._call("leases", _LEASES, query=query)
        return told

    async def release(self, *resources: str) -> Released:
        """Set free what this agent holds under these very names, or leave the line for it, whatever lease it is of."""
        body = {"resources": list(resources)}
        told: Released = await self._call("release_resources", _RELEASED, body=body)
        return told

    async def force_release(self, lease: str, reason: str) -> Released:
        """Take a lease, or a place in line, away from whoever has it: a director or a human."""
        told: Released = await self._call("force_release", _RELEASED, path={"lease": lease}, body={"reason": reason})
        return told

    def working_on(self, message: Message, *, interruptible: bool = True) -> Working:
        """Work on a message, as `async with`: only what may interrupt it comes until it is over.

        Where it had been put aside, such as by a crash, the work goes on, and `Working.saved` is what was saved of it.
        """
        return self._worker.working_on(message, interruptible=interruptible)

    def resuming(self, message_id: str | None = None) -> Resuming:
        """Go on with work that was put aside, as `async with`: such as after a crash, when the message is read already.

        Without a message_id, with what was put aside last; `attention` says what there is.
        """
        return Resuming(self._worker, message_id)

    async def pause_point(self, save: Callable[[], str] | None = None) -> Interruption | None:
        """Let the work be interrupted here, and return by what; `Working.pause_point` says more."""
        return await self._worker.pause_point(save)

    async def attention(self) -> Attending:
        """Say what this agent is busy with, as the hub knows it."""
        told: Attending = await self._call("attention", _ATTENDING)
        return told

    async def subscribe(self, topic: str) -> Subscriptions:
        """Want what is published to a topic from now on, whether attached or not."""
        told: Subscriptions = await self._call("subscribe", _SUBSCRIPTIONS, body={"topic": topic})
        return told

    async def unsubscribe(self, topic: str) -> Subscriptions:
        """Want it no longer."""
        told: Subscriptions = await self._call("unsubscribe", _SUBSCRIPTIONS, body={"topic": topic})
        return told

    async def publish(
        self,
        topic: str,
        type: str,
        payload: Payload | None = None,
        *,
        guarantee: Literal["each", "all"] = "each",
        **options: Unpack[Options],
    ) -> Published:
        """Publish to all subscribers of a topic but oneself; `all` reaches all of them or none."""
        draft = Draft(to=ANYONE, type=type, payload={} if payload is None else payload, **options)
        written = self._sender.write(draft)
        query = {"topic": topic, "guarantee": guarantee}
        call = op.Call(operation="publish", query=query, envelope=written.envelope, signature=written.signature)
        told: Published = await self._connection.submit(call, _PUBLISHED, self._call_timeout_s)
        return told

    async def topics(self) -> list[Topic]:
        """List the topics that somebody is subscribed to."""
        told: list[Topic] = await self._call("topics", _TOPICS)
        return told

    async def open_requests(self) -> list[OpenRequest]:
        """List the requests that this agent waits for or is to answer; a director sees all."""
        told: list[OpenRequest] = await self._call("requests", _REQUESTS)
        return told

    async def discuss(
        self,
        question: str,
        participants: Sequence[str],
        *,
        options: Sequence[str] = ("agree", "disagree"),
        voters_min: int | None = None,
        consensus: Literal["majority", "two_thirds", "unanimous"] = "majority",
        max_s: float | None = None,
    ) -> Discussed:
        """Ask others to come to a common view; a `DiscussionClosed` says what became of it."""
        body: dict[str, Any] = {
            "question": question,
            "participants": list(participants),
            "options": list(options),
            "voters_min": voters_min,
            "consensus": consensus,
            "max_s": max_s,
        }
        told: Discussed = await self._call("open_discussion", _DISCUSSED, body=body)
        return told

    async def speak(self, discussion: str, text: str) -> Discussed:
        """Say something in a discussion, to all who take part."""
        told: Discussed = await self._call("speak", _DISCUSSED, path={"discussion": discussion}, body={"text": text})
        return told

    async def vote(self, discussion: str, option: str) -> Discussed:
        """Vote in a discussion, or vote otherwise than before."""
        told: Discussed = await self._call("vote", _DISCUSSED, path={"discussion": discussion}, body={"option": option})
        return told

    async def cancel_discussion(self, discussion: str) -> Discussed:
        """End a discussion without an outcome: its opener, or a director."""
        told: Discussed = await self._call("cancel_discussion", _DISCUSSED, path={"discussion": discussion})
        return told

    async def discussions(self) -> list[Discussion]:
        """List the open discussions that this agent takes part in; a director sees all."""
        told: list[Discussion] = await self._call("discussions", _DISCUSSIONS)
        return told

    async def ask_approval(self, handoff: Handoff, subject: str, details: str = "") -> ApprovalAsked:
        """Ask the directors before doing something; their word comes as an `ApprovalDecided`."""
        body = {"handoff": handoff, "subject": subject, "details": details}
        told: ApprovalAsked = await self._call("ask_approval", _ASKED, body=body)
        return told

    async def withdraw_approval(self, approval: str) -> None:
        """Want a director's word no longer; a message that is held is recalled instead."""
        await self._call("withdraw_approval", _NOTHING, path={"approval": approval})

    async def approvals(self) -> list[Approval]:
        """List what waits for a director's word; who does not direct sees its own."""
        told: list[Approval] = await self._call("approvals", _APPROVALS)
        return told

    async def decide(
        self,
        approval: str,
        verdict: Literal["approve", "refuse"],
        reason: str = "",
        *,
        payload: dict[str, Any] | None = None,
    ) -> ApprovalDecided:
        """Approve, refuse with a reason, or approve a held message with another payload: a director or a human."""
        body = {"verdict": verdict, "reason": reason, "payload": payload}
        told: ApprovalDecided = await self._call("decide_approval", _DECIDED, path={"approval": approval}, body=body)
        return told

    async def escalations(self, *, closed: bool = False) -> list[Escalation]:
        """List the escalations, open ones first: a director or a human."""
        told: list[Escalation] = await self._call("escalations", _ESCALATIONS, query={"closed": closed})
        return told

    async def resolve(self, escalation: str, resolution: str) -> Escalated:
        """Say how an escalation was taken care of: a director or a human."""
        path, body = {"escalation": escalation}, {"resolution": resolution}
        told: Escalated = await self._call("resolve_escalation", _ESCALATED, path=path, body=body)
        return told

    async def escalate(self, escalation: str, reason: str = "") -> Escalated:
        """Bring an escalation before a human: a director."""
        path, body = {"escalation": escalation}, {"reason": reason}
        told: Escalated = await self._call("escalate_to_human", _ESCALATED, path=path, body=body)
        return told

    async def report_health(self, **values: float) -> HealthTaken:
        """Report what the hub cannot measure, by the metric's name in the policy: a director or a human."""
        told: HealthTaken = await self._call("report_health", _HEALTH, body={"values": values})
        return told

    async def alerts(self) -> list[Alert]:
        """List the metrics that are over their limits, and the alerts."""
        told: list[Alert] = await self._call("alerts", _ALERTS)
        return told


def _names(resources: str | Sequence[str]) -> tuple[str, ...]:
    return (resources,) if isinstance(resources, str) else tuple(resources)
