"""Requests, topics and discussions over HTTP."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import Envelope, parse_envelope
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.problems import ProblemDocument, document_of
from tocsin.gateways.http.views import ReceiptView, moment, receipt_view
from tocsin.wire.traces import carry

__all__ = ["OPERATIONS"]

Time = Annotated[float, Meta(gt=0, le=3.2e9)]


class RequestQuery(msgspec.Struct, frozen=True):
    """How to wait."""

    #: Seconds; absent is the policy's.
    timeout_s: Time | None = None
    #: Whether the message is raised, and given the same time again, when the time is over.
    boost_on_timeout: bool = False
    #: Whether the end of the time is escalated; otherwise only the requester is told.
    escalate: bool = True


class RequestedView(msgspec.Struct, frozen=True):
    """A request under way."""

    request: str
    receipt: ReceiptView
    #: When its time is over; null where it has ended already.
    due_at: str | None


class RequestView(msgspec.Struct, frozen=True):
    """An open request."""

    request: str
    requester: str
    responder: str
    correlation_id: str
    opened_at: str | None
    due_at: str | None


class TopicBody(msgspec.Struct, frozen=True):
    """A topic."""

    topic: str


class PublishQuery(msgspec.Struct, frozen=True):
    """Where to publish."""

    topic: str
    #: `each` reaches whom it can and names the others; `all` reaches all or none.
    guarantee: Literal["each", "all"] = "each"


class TopicView(msgspec.Struct, frozen=True):
    """A topic that somebody is subscribed to."""

    topic: str
    subscribers: int
    #: Whether the caller is one of them.
    subscribed: bool


class PublishedView(msgspec.Struct, frozen=True):
    """What became of a publication."""

    topic: str
    #: By subscriber.
    receipts: list[ReceiptView]
    #: Who could not take it, and why.
    failed: dict[str, ProblemDocument]


class OpenBody(msgspec.Struct, frozen=True):
    """A question to discuss."""

    question: str
    participants: list[str]
    options: tuple[str, ...] = ("agree", "disagree")
    #: How many must have voted; absent is the policy's.
    voters_min: int | None = None
    consensus: Literal["majority", "two_thirds", "unanimous"] = "majority"
    #: Seconds; absent is the policy's, which is also the longest.
    max_s: Time | None = None


class SpeakBody(msgspec.Struct, frozen=True):
    """A contribution."""

    text: str


class VoteBody(msgspec.Struct, frozen=True):
    """A vote."""

    option: str


class DiscussionView(msgspec.Struct, frozen=True):
    """An open discussion of the caller's."""

    discussion: str
    opener: str
    question: str
    participants: list[str]
    options: list[str]
    consensus: str
    #: `open` or `ratifying`.
    state: str
    #: By participant.
    votes: dict[str, str]
    due_at: str | None


def _envelope(call: Call) -> Envelope:
    limit = call.hub.host.exchange.state.policy.limits.message_bytes_max
    return carry(parse_envelope(call.raw, limit), call.headers)


async def send_request(call: Call) -> RequestedView:
    """Send one envelope and wait for its answer, which comes to the inbox in the same thread."""
    query = call.query
    command = cmd.SendRequest(_envelope(call), query.timeout_s, query.boost_on_timeout, query.escalate)
    reply = await call.submit(command)
    if not isinstance(reply, cmd.Requested):
        raise refusal("E_STATE_002", "that is no request")
    return RequestedView(reply.request, receipt_view(reply.receipt), moment(reply.due_at))


async def requests(call: Call) -> list[RequestView]:
    """List the requests that the caller waits for or is to answer; a director sees all."""
    known = call.hub.host.exchange.state.requests.values()
    me = call.caller.agent
    views = [
        RequestView(
            row.request, row.requester, row.responder, row.correlation_id, moment(row.opened_at), moment(row.due_at)
        )
        for row in known
        if call.directs or me in (row.requester, row.responder)
    ]
    await call.durable()
    return views


async def cancel_request(call: Call) -> cmd.Reply:
    """Wait no longer; the message itself goes its way."""
    return await call.submit(cmd.CancelRequest(call.path["request"]))


async def topics(call: Call) -> list[TopicView]:
    """List the topics that somebody is subscribed to."""
    known, me = call.hub.host.exchange.state.topics, call.caller.agent
    views = [TopicView(name, len(known[name].subscribers), me in known[name].subscribers) for name in sorted(known)]
    await call.durable()
    return views


async def subscribe(call: Call) -> cmd.Reply:
    """Want what is published to a topic from now on."""
    return await call.submit(cmd.Subscribe(call.body.topic))


async def unsubscribe(call: Call) -> cmd.Reply:
    """Want it no longer."""
    return await call.submit(cmd.Unsubscribe(call.body.topic))


async def publish(call: Call) -> PublishedView:
    """Publish one envelope, addressed to `*`, to the subscribers of a topic."""
    reply = await call.submit(cmd.Publish(call.query.topic, _envelope(call), call.query.guarantee))
    receipt = reply.receipt if isinstance(reply, cmd.Published) else None
    if receipt is None:
        return PublishedView(call.query.topic, [], {})
    failed = {agent: document_of(problem) for agent, problem in receipt.failed.items()}
    if failed:
        call.status = 207
    return PublishedView(call.query.topic, [receipt_view(row) for row in receipt.receipts], failed)


async def open_discussion(call: Call) -> cmd.Reply:
    """Ask others to come to a common view."""
    body = call.body
    return await call.submit(
        cmd.OpenDiscussion(
            body.question, tuple(body.participants), body.options, body.voters_min, body.consensus, body.max_s
        )
    )


async def discussions(call: Call) -> list[DiscussionView]:
    """List the open discussions that the caller takes part in; a director sees all."""
    me = call.caller.agent
    views = [
        DiscussionView(
            discussion=row.discussion,
            opener=row.opener,
            question=row.question,
            participants=list(row.participants),
            options=list(row.options),
            consensus=row.consensus,
            state=row.state,
            votes=dict(row.votes),
            due_at=moment(row.due_at),
        )
        for row in call.hub.host.exchange.state.discussions.values()
        if call.directs or me == row.opener or me in row.participants
    ]
    await call.durable()
    return views


async def speak(call: Call) -> cmd.Reply:
    """Say something in a discussion, to all who take part."""
    return await call.submit(cmd.Speak(call.path["discussion"], call.body.text))


async def vote(call: Call) -> cmd.Reply:
    """Vote in a discussion, or vote otherwise than before."""
    return await call.submit(cmd.Vote(call.path["discussion"], call.body.option))


async def cancel_discussion(call: Call) -> cmd.Reply:
    """End a discussion without an outcome: its opener, or a director."""
    return await call.submit(cmd.CancelDiscussion(call.path["discussion"]))


_DISCUSSION = "/v1/discussions/{discussion}"

OPERATIONS = (
    Operation(
        "POST",
        "/v1/requests",
        send_request,
        RequestedView,
        body="Envelope",
        query=RequestQuery,
        envelope=True,
        tag="requests",
    ),
    Operation("GET", "/v1/requests", requests, list[RequestView], tag="requests"),
    Operation("POST", "/v1/requests/{request}/cancel", cancel_request, cmd.Done, tag="requests"),
    Operation("GET", "/v1/topics", topics, list[TopicView], tag="topics"),
    Operation("POST", "/v1/topics/subscribe", subscribe, cmd.Subscriptions, body=TopicBody, tag="topics"),
    Operation("POST", "/v1/topics/unsubscribe", unsubscribe, cmd.Subscriptions, body=TopicBody, tag="topics"),
    Operation(
        "POST",
        "/v1/topics/publish",
        publish,
        PublishedView,
        body="Envelope",
        query=PublishQuery,
        envelope=True,
        tag="topics",
        also=(207,),
    ),
    Operation("POST", "/v1/discussions", open_discussion, cmd.Discussed, body=OpenBody, tag="discussions"),
    Operation("GET", "/v1/discussions", discussions, list[DiscussionView], tag="discussions"),
    Operation("POST", _DISCUSSION + "/speak", speak, cmd.Discussed, body=SpeakBody, tag="discussions"),
    Operation("POST", _DISCUSSION + "/vote", vote, cmd.Discussed, body=VoteBody, tag="discussions"),
    Operation("POST", _DISCUSSION + "/cancel", cancel_discussion, cmd.Discussed, tag="discussions"),
)
