"""The whole at a glance, for whoever may see everything: counts, rosters and lists rather than single messages.

Counts are those of the metrics, since the hub was opened; the rest is the live state as it is.
"""

import heapq
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.agents.attention import attending
from tocsin.core.agents.presence import is_fresh, presence
from tocsin.core.errors import refusal
from tocsin.core.messages.admission import levels
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.core.state import Agent, Session
from tocsin.frames import Priority as SubscriberPriority
from tocsin.gateways.http.identity import may_see_everything
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.views import BriefView, brief_view, moment

__all__ = ["OPERATIONS"]

_LEVELS = tuple(map(liminal_name, Priority))


class UndeliverableView(msgspec.Struct, frozen=True):
    """Sends to agents that are not there."""

    message_type: str
    sender: str
    sends: int


class HistogramView(msgspec.Struct, frozen=True):
    """How long something took, in buckets."""

    #: What it is about: a message type, or a priority.
    about: str
    #: `push` or `drain`; empty where both count.
    path: str
    #: How many in each bucket; the last is over every bound.
    counts: list[int]
    total_s: float


class SubscriberView(msgspec.Struct, frozen=True):
    """Somebody who watches the feed."""

    subscriber: str
    priority: str
    sent: int
    dropped: int
    #: Of the dropped: those shed for the sake of a more important subscriber.
    shed: int
    depth: int


class ShedView(msgspec.Struct, frozen=True):
    """What the subscribers of one priority were offered and lost, of those who left too."""

    priority: str
    offered: int
    dropped: int
    shed: int


class FramesView(msgspec.Struct, frozen=True):
    """How the frame bus of the feed does."""

    published: int
    subscribers: list[SubscriberView]
    priorities: list[ShedView]


class ExpiredView(msgspec.Struct, frozen=True):
    """Messages that ended unread."""

    message_type: str
    reason: str
    messages: int


class OverviewView(msgspec.Struct, frozen=True):
    """What has been counted."""

    #: Since when.
    since: str | None
    undeliverable: list[UndeliverableView]
    expired: list[ExpiredView]
    #: Recalls by what became of them.
    recalls: dict[str, int]
    #: Upper bounds of all buckets, seconds.
    bounds_s: list[float]
    #: From enqueued to offered, by message type and path.
    time_to_drain: list[HistogramView]
    #: The same by priority.
    delivery_latency: list[HistogramView]
    frames: FramesView


class SessionView(msgspec.Struct, frozen=True):
    """A live attachment of an agent."""

    session: str
    kind: str
    opened_at: str | None
    heartbeat_at: str | None
    fresh: bool
    #: Offers without receipt, and how many it takes at a time.
    in_flight: int
    window: int


class BudgetView(msgspec.Struct, frozen=True):
    """What a sender may still spend, and the most that it can have."""

    tokens: float
    tokens_max: float
    critical: float
    critical_max: float
    blocking: float
    blocking_max: float


class RosterView(msgspec.Struct, frozen=True):
    """Everything about an agent that a director may want to know."""

    agent: str
    type: str
    role: str
    version: str
    capabilities: list[str]
    presence: str
    sessions: list[SessionView]
    attention: cmd.Attending
    #: Messages that wait for it, by priority.
    waiting: dict[str, int]
    #: Null where its role may spend without limit.
    budget: BudgetView | None
    #: Recent sends that gaming detection looks at, and those of them that asked for a high priority.
    recent: int
    recent_high: int
    #: Whether it is taken to inflate its priorities.
    gaming: bool
    #: What it is lent by those who wait for it; null where nobody does.
    inherited: str | None
    registered_at: str | None


class RosterQuery(msgspec.Struct, frozen=True):
    """Which agents."""

    #: Part of a name.
    q: Annotated[str, Meta(max_length=64)] = ""
    #: `next` of the page before.
    after: Annotated[str, Meta(max_length=64)] = ""
    #: At most this many.
    limit: Annotated[int, Meta(ge=1)] = 100


class RosterPage(msgspec.Struct, frozen=True):
    """Agents by name, and where to go on."""

    items: list[RosterView]
    #: Cursor of the next page; null where this is the last.
    next: str | None
    #: Agents in all.
    total: int


class PendingView(msgspec.Struct, frozen=True):
    """What has not been delivered, the soonest to expire first."""

    items: list[BriefView]
    #: How many are shown at most.
    limit: int


class ConversationView(msgspec.Struct, frozen=True):
    """How much one agent said to another."""

    sender: str
    recipient: str
    messages: int
    last_at: str | None


class ConversationsView(msgspec.Struct, frozen=True):
    """Who talks to whom, most first."""

    #: Among how many of the latest messages.
    latest: int
    items: list[ConversationView]


def _must_see_everything(call: Call) -> None:
    if not may_see_everything(call.hub, call.grant):
        raise refusal("E_AUTH_003", f"{call.caller.agent} may not see everything: a director or a human may")


async def overview(call: Call) -> OverviewView:
    """Show what has been counted since the hub was opened: for directors and humans."""
    _must_see_everything(call)
    metrics = call.hub.metrics
    stats = call.hub.feed.stats()
    return OverviewView(
        since=moment(call.hub.opened_at),
        undeliverable=[
            UndeliverableView(labels["signal_type"], labels["sender"], count)
            for labels, count in metrics.counted(metrics.unknown_recipient)
        ],
        expired=[
            ExpiredView(labels["signal_type"], labels["reason"], count)
            for labels, count in metrics.counted(metrics.signal_expired)
        ],
        recalls={labels["outcome"]: count for labels, count in metrics.counted(metrics.signal_recalled)},
        bounds_s=list(metrics.time_to_drain.bounds_s),
        time_to_drain=[
            HistogramView(kind, path, counts, total_s) for (kind, path), counts, total_s in metrics.time_to_drain.rows()
        ],
        delivery_latency=[
            HistogramView(priority, "", counts, total_s)
            for (priority,), counts, total_s in metrics.delivery_latency.rows()
        ],
        frames=FramesView(
            stats.published,
            [
                SubscriberView(name, one.priority.name.lower(), one.sent, one.dropped, one.shed, one.depth)
                for name, one in stats.subscribers.items()
            ],
            [
                ShedView(level.name.lower(), tally.offered, tally.dropped, tally.shed)
                for level in SubscriberPriority
                for tally in (stats.priorities[level],)
            ],
        ),
    )


async def pending(call: Call) -> PendingView:
    """List what has not been delivered, the soonest to expire first: for directors and humans."""
    _must_see_everything(call)
    hub, config = call.hub, call.hub.config.dashboard

    async def find() -> PendingView:
        # What is over its time waits for the sweeper, and is still to be seen until then.
        after_at = hub.now() - 2 * hub.host.exchange.state.policy.sweeper.interval_us
        found = await hub.reader.ask(lambda tables: tables.expiring(after_at, config.pending_max), fresh=False)
        return PendingView([brief_view(brief) for brief in found], config.pending_max)

    return await hub.shared.ask("pending", config.shared_s, find)


async def roster(call: Call) -> RosterPage:
    """Show agents with sessions, attention, budget and standing: for directors and humans."""
    _must_see_everything(call)
    query, agents = call.query, call.hub.host.exchange.state.agents
    limit, part = min(query.limit, call.hub.config.page_max), query.q.lower()
    names = heapq.nsmallest(limit + 1, (name for name in agents if name > query.after and part in name.lower()))
    views = [_roster_view(call, agents[name]) for name in names[:limit]]
    page = RosterPage(views, names[limit - 1] if len(names) > limit else None, len(agents))
    await call.durable()
    return page


def _roster_view(call: Call, agent: Agent) -> RosterView:
    state, now = call.hub.host.exchange.state, call.hub.now()
    inherited = state.inherited.get(agent.agent)
    return RosterView(
        agent=agent.agent,
        type=agent.agent_type,
        role=agent.role,
        version=agent.version,
        capabilities=list(agent.capabilities),
        presence=presence(agent, state.policy, now),
        sessions=[_session_view(call, session, now) for session in agent.sessions.values()],
        attention=attending(state, agent.agent),
        waiting=dict(zip(_LEVELS, agent.mailbox.depths(), strict=True)),
        budget=_budget_view(call, agent, now),
        recent=len(agent.usage),
        recent_high=agent.usage_high,
        gaming=agent.gaming,
        inherited=None if inherited is None else _LEVELS[inherited],
        registered_at=moment(agent.registered_at),
    )


def _session_view(call: Call, session: Session, now: int) -> SessionView:
    fresh = is_fresh(session, call.hub.host.exchange.state.policy, now)
    opened_at, heartbeat_at = moment(session.opened_at), moment(session.heartbeat_at)
    in_flight = len(session.in_flight)
    return SessionView(session.session, session.kind, opened_at, heartbeat_at, fresh, in_flight, session.window)


def _budget_view(call: Call, agent: Agent, now: int) -> BudgetView | None:
    policy = call.hub.host.exchange.state.policy
    multiplier = policy.roles[agent.role].quota_multiplier
    if multiplier is None:
        return None
    tokens, critical, blocking = levels(agent, policy, now)
    return BudgetView(
        tokens,
        policy.bucket.capacity * multiplier,
        critical,
        policy.quotas.critical.cap * multiplier,
        blocking,
        policy.quotas.blocking.cap * multiplier,
    )


async def conversations(call: Call) -> ConversationsView:
    """Count who said how much to whom among the latest messages, most first: for directors and humans."""
    _must_see_everything(call)
    hub, config = call.hub, call.hub.config.dashboard
    latest, limit = config.conversations_window, config.conversations_max

    async def find() -> ConversationsView:
        found = await hub.reader.ask(lambda tables: tables.conversations(latest, limit), fresh=False)
        items = [ConversationView(one.sender, one.recipient, one.messages, moment(one.last_at)) for one in found]
        return ConversationsView(latest, items)

    return await hub.shared.ask("conversations", config.shared_s, find)


OPERATIONS = (
    Operation("GET", "/v1/overview", overview, OverviewView, tag="overview"),
    Operation("GET", "/v1/pending", pending, PendingView, tag="overview"),
    Operation("GET", "/v1/roster", roster, RosterPage, query=RosterQuery, tag="overview"),
    Operation("GET", "/v1/conversations", conversations, ConversationsView, tag="overview"),
)
