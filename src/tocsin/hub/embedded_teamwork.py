"""What an embedded team coordinates by, asked for as over HTTP and answered as a client is told.

The operations have the names and parameters that a hub's gateway gives them. What is done is a command whose fields are
the parameters; what is listed is read from the live state and answered once that is durable.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from tocsin.client import operations as op
from tocsin.client import teamwork_replies
from tocsin.core import commands as cmd
from tocsin.core.agents.attention import attending
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.leases.decisions import checked_resource, held_of, queued_of
from tocsin.core.protocol.envelope import parse_envelope
from tocsin.core.protocol.priority import VOCABULARY, Priority, liminal_name
from tocsin.core.protocol.validation import explain
from tocsin.core.state import ProjectState
from tocsin.hub.host import Host
from tocsin.hub.receipts import moment, receipt_of

__all__ = ["EmbeddedTeamwork"]

Shape = TypeVar("Shape")

#: The operations that are one command each, whose fields they name.
_COMMANDS: dict[str, type[cmd.Command]] = {
    "acquire_lease": cmd.AcquireLease,
    "renew_lease": cmd.RenewLease,
    "release_lease": cmd.ReleaseLease,
    "release_resources": cmd.ReleaseLease,
    "force_release": cmd.ForceRelease,
    "begin_work": cmd.BeginWork,
    "reach_pause_point": cmd.ReachPausePoint,
    "put_aside": cmd.PutAside,
    "resume_work": cmd.ResumeWork,
    "finish_work": cmd.FinishWork,
    "send_request": cmd.SendRequest,
    "cancel_request": cmd.CancelRequest,
    "subscribe": cmd.Subscribe,
    "unsubscribe": cmd.Unsubscribe,
    "publish": cmd.Publish,
    "open_discussion": cmd.OpenDiscussion,
    "speak": cmd.Speak,
    "vote": cmd.Vote,
    "cancel_discussion": cmd.CancelDiscussion,
    "ask_approval": cmd.AskApproval,
    "decide_approval": cmd.DecideApproval,
    "withdraw_approval": cmd.WithdrawApproval,
    "resolve_escalation": cmd.ResolveEscalation,
    "escalate_to_human": cmd.EscalateToHuman,
    "report_health": cmd.ReportHealth,
}


class EmbeddedTeamwork:
    """Answers embedded agents that coordinate."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lists: dict[str, Callable[[op.Call, Caller], object]] = {
            "lease": self._lease,
            "leases": self._leases,
            "attention": lambda _, caller: attending(self._state, caller.agent),
            "requests": self._requests,
            "topics": self._topics,
            "discussions": self._discussions,
            "approvals": self._approvals,
            "escalations": self._escalations,
            "alerts": self._alerts,
        }

    def answers(self) -> dict[str, Callable[[op.Call, Caller], Awaitable[object]]]:
        """Return what can be asked, by name."""
        return {**dict.fromkeys(self._lists, self._list), **dict.fromkeys(_COMMANDS, self._do)}

    @property
    def _state(self) -> ProjectState:
        return self._host.exchange.state

    async def _do(self, call: op.Call, caller: Caller) -> object:
        return _told(await self._must(self._host.submit(self._command(call), caller)))

    async def _list(self, call: op.Call, caller: Caller) -> object:
        view = self._lists[call.operation](call, caller)
        await self._must(self._host.durable())
        return view

    async def _must(self, reply: Awaitable[Any]) -> Any:
        told = await reply
        if isinstance(told, Problem):
            raise error_for(told)
        return told

    def _command(self, call: op.Call) -> cmd.Command:
        shape = _COMMANDS[call.operation]
        fields: dict[str, Any] = {**call.query, **call.body, **call.path}
        if call.operation == "acquire_lease":
            fields["priority"] = _level(fields.get("priority"))
        elif call.operation == "put_aside":
            return cmd.PutAside(str(fields.get("saved", "")).encode())
        elif call.operation == "decide_approval":
            changed = fields.pop("payload", None)
            payload = None if changed is None else msgspec.json.encode(changed)
            return cmd.DecideApproval(**fields, payload=payload)
        raw = bytes(call.envelope)
        if raw:
            envelope = parse_envelope(raw, self._state.policy.limits.message_bytes_max)
            return shape(**fields, envelope=envelope)  # type: ignore[call-arg]
        try:
            return msgspec.convert(fields, shape)
        except msgspec.ValidationError:
            raise error_for(explain(shape, fields)) from None

    def _directs(self, caller: Caller) -> bool:
        role = self._state.policy.roles.get(caller.role)
        return role is not None and role.directs

    def _lease(self, call: op.Call, caller: Caller) -> teamwork_replies.LeaseRecord:
        book, name = self._state.leases, call.path["lease"]
        if name in book.leases:
            return _lease_told(held_of(book.leases[name]))
        if name in book.queue:
            return _lease_told(queued_of(self._state, book.queue[name]))
        raise refusal("E_LEASE_001", f"nobody holds or waits for {name[:128]}", found=name[:128])

    def _leases(self, call: op.Call, caller: Caller) -> teamwork_replies.LeaseRecords:
        book, resource, agent = self._state.leases, call.query.get("resource"), call.query.get("agent")
        if resource is not None:
            checked_resource(resource, self._state.policy)
            held, waiting = book.holding(resource), book.waiting_for(resource)
        else:
            held = sorted(book.leases.values(), key=lambda lease: lease.seq)
            waiting = sorted(book.queue.values(), key=book.order)
        return teamwork_replies.LeaseRecords(
            [_lease_told(held_of(lease)) for lease in held if agent in (None, lease.holder)],
            [_lease_told(queued_of(self._state, row)) for row in waiting if agent in (None, row.agent)],
        )

    def _requests(self, call: op.Call, caller: Caller) -> list[teamwork_replies.OpenRequest]:
        seen = self._state.requests.values()
        mine = [row for row in seen if self._directs(caller) or caller.agent in (row.requester, row.responder)]
        return [_shown(row, teamwork_replies.OpenRequest) for row in mine]

    def _topics(self, call: op.Call, caller: Caller) -> list[teamwork_replies.Topic]:
        known = self._state.topics
        return [
            teamwork_replies.Topic(name, len(known[name].subscribers), caller.agent in known[name].subscribers)
            for name in sorted(known)
        ]

    def _discussions(self, call: op.Call, caller: Caller) -> list[teamwork_replies.Discussion]:
        seen, directs = self._state.discussions.values(), self._directs(caller)
        mine = [row for row in seen if directs or caller.agent in (row.opener, *row.participants)]
        return [_shown(row, teamwork_replies.Discussion) for row in mine]

    def _approvals(self, call: op.Call, caller: Caller) -> list[teamwork_replies.Approval]:
        return [
            _shown(row, teamwork_replies.Approval, due_at=row.escalates_at)
            for row in self._state.approvals.values()
            if self._directs(caller) or row.asker == caller.agent
        ]

    def _escalations(self, call: op.Call, caller: Caller) -> list[teamwork_replies.Escalation]:
        if not self._directs(caller):
            raise refusal("E_AUTH_003", f"{caller.agent} may not see escalations: a director or a human may")
        seen = [row for row in self._state.escalations.values() if call.query.get("closed") or not row.closed_at]
        seen.sort(key=lambda row: (bool(row.closed_at), row.opened_at))
        return [
            _shown(
                row, teamwork_replies.Escalation, steps=tuple(_shown(step, teamwork_replies.Step) for step in row.steps)
            )
            for row in seen
        ]

    def _alerts(self, call: op.Call, caller: Caller) -> list[teamwork_replies.Alert]:
        known = self._state.alerts
        return [
            _shown(
                row,
                teamwork_replies.Alert,
                state="breached" if not row.raised_at else "easing" if row.easing else "raised",
            )
            for row in (known[name] for name in sorted(known))
        ]


def _level(name: str | None) -> int | None:
    if name is None:
        return None
    if name not in VOCABULARY:
        expected = "one of " + ", ".join(liminal_name(level) for level in Priority)
        raise refusal("E_VALIDATION_003", f"{name[:64]!r} is no priority", field="$.priority", expected=expected)
    return int(VOCABULARY[name])


_MOMENTS = ("at", "since", "opened_at", "closed_at", "due_at", "raised_at")


def _shown(row: Any, shape: type[Shape], **more: Any) -> Shape:
    """Write a document of the team down as a client is told it."""
    names: tuple[str, ...] = shape.__struct_fields__  # type: ignore[attr-defined]
    values = {name: more[name] if name in more else getattr(row, name) for name in names}
    for name in _MOMENTS:
        if name in values:
            values[name] = moment(values[name])
    return msgspec.convert(values, shape, from_attributes=True)


def _lease_told(reply: cmd.Held | cmd.Queued) -> teamwork_replies.LeaseRecord:
    priority = liminal_name(Priority(reply.priority))
    if isinstance(reply, cmd.Held):
        return teamwork_replies.LeaseRecord(
            reply.lease,
            "held",
            reply.holder,
            reply.exclusive,
            reply.shared,
            priority,
            expires_at=moment(reply.expires_at),
            duplicate=reply.duplicate,
        )
    return teamwork_replies.LeaseRecord(
        reply.lease,
        "waiting",
        reply.agent,
        reply.exclusive,
        reply.shared,
        priority,
        place=reply.place,
        wait_until=moment(reply.wait_until),
        holders=reply.holders,
        duplicate=reply.duplicate,
    )


def _told(reply: cmd.Reply) -> object:
    match reply:
        case cmd.Held() | cmd.Queued():
            return _lease_told(reply)
        case cmd.Resumed():
            saved = reply.saved.decode(errors="replace")
            return teamwork_replies.Resumed(reply.message_id, saved, reply.interruptible, reply.duplicate)
        case cmd.Requested():
            return teamwork_replies.Requested(reply.request, receipt_of(reply.receipt), moment(reply.due_at))
        case cmd.Published():
            receipts = () if reply.receipt is None else tuple(map(receipt_of, reply.receipt.receipts))
            return teamwork_replies.Published(
                reply.topic, receipts, {} if reply.receipt is None else reply.receipt.failed
            )
    return reply
