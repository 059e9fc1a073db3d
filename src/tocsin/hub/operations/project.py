"""Handlers of the operations on the policy and the project as a whole."""

import asyncio

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.agents.attention import attending
from tocsin.core.agents.presence import is_fresh, presence
from tocsin.core.errors import TocsinError
from tocsin.core.messages.admission import levels
from tocsin.core.policy import Policy, document_of
from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.core.protocol.timestamps import as_datetime, as_datetime_or_none
from tocsin.core.state import Agent, Session
from tocsin.core.wake.reach import reach_of
from tocsin.frames import Priority as SubscriberPriority
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.pages import in_turns, live_page
from tocsin.hub.operations.records import by_priority, message_summary, record_of, unread_bytes, wake_record
from tocsin.hub.policy_file import AdoptedPolicy, adopted_policies
from tocsin.policies import Difference, changed_policy, differences, whole_policy
from tocsin.wire import project as wire
from tocsin.wire.operation import Page, PageRequest, Request

__all__ = ["HANDLERS"]


async def _policy(call: Call, request: wire.ChangePolicy) -> Policy:
    """Return the policy of a request, checked in a thread: one of the largest size takes a tenth of a second."""
    if request.scope == "change":
        return await asyncio.to_thread(changed_policy, call.state.policy, request.policy)
    return await asyncio.to_thread(whole_policy, request.policy)


async def get_policy(call: Call, request: Request) -> wire.PolicyRecord:
    """Return the policy in force."""
    record = wire.PolicyRecord(call.state.policy_version, document_of(call.state.policy))
    await call.durable()
    return record


async def adopt_policy(call: Call, request: wire.ChangePolicy) -> cmd.Adopted:
    """Adopt a whole policy, or a change to the one in force."""
    adopted: cmd.Adopted = await call.submit(cmd.AdoptPolicy(document_of(await _policy(call, request)), request.reason))
    return adopted


async def check_policy(call: Call, request: wire.ChangePolicy) -> wire.PolicyCheck:
    """Check a policy without adopting it."""
    try:
        await _policy(call, request)
    except TocsinError as error:
        return wire.PolicyCheck(False, error.problem)
    return wire.PolicyCheck(True)


async def list_policies(call: Call, request: PageRequest) -> Page[wire.PolicyVersion]:
    """List the adopted policies, each with its differences from the one before it."""
    limit = min(request.limit, call.project.page_max)
    found = await call.project.reader.ask(
        lambda tables: adopted_policies(tables, request.after, limit + 1), fresh=request.fresh
    )
    items = [
        wire.PolicyVersion(
            one.version,
            as_datetime(one.adopted_at),
            one.by,
            one.reason,
            []
            if one.version == 1
            else [wire.PolicyDifference(*msgspec.structs.astuple(each)) for each in _changes(found, index)],
        )
        for index, one in enumerate(found[:limit])
    ]
    return Page(items, items[-1].version if len(found) > limit else None)


def _changes(found: list[AdoptedPolicy], index: int) -> list[Difference]:
    """Return what a policy changed; the one before it follows it in the list."""
    return [] if index + 1 == len(found) else differences(found[index + 1].document, found[index].document)


async def get_status(call: Call, request: Request) -> wire.ProjectStatus:
    """Count what the project has."""
    host, state = call.project.host, call.state
    states = dict[str, int]()
    async with call.project.listing:
        async for message in in_turns(call, state.messages.values()):
            states[message.state] = states.get(message.state, 0) + 1
    volume, limits = state.volume, state.policy.limits
    return wire.ProjectStatus(
        project=host.project,
        condition=host.condition,
        policy_version=state.policy_version,
        seq=state.seq,
        agents=len(state.agents),
        sessions=len(state.sessions),
        waiting=by_priority(tuple(state.depths)),
        states=states,
        dead_letters=len(state.dead),
        events={} if call.project.hub is None else dict(call.project.hub.metrics.totals),
        bytes={"unsettled": volume.unsettled, "dead_letters": volume.dead, "ended": volume.kept_bytes},
        bytes_max={
            "unsettled": limits.project_bytes_max,
            "dead_letters": limits.dead_letters_bytes_max,
            "ended": state.policy.retention.settled_bytes_max,
        },
    )


async def get_overview(call: Call, request: Request) -> wire.Overview:
    """Return the hub's counters and latencies."""
    metrics = call.hub.metrics
    stats = call.hub.feed.stats()
    return wire.Overview(
        since=as_datetime_or_none(call.hub.opened_at),
        undeliverable=[
            wire.UndeliverableCount(signal_type, sender, count)
            for (signal_type, sender), count in metrics.unknown_recipient.rows()
        ],
        expired=[
            wire.ExpiredCount(signal_type, reason, count)
            for (signal_type, reason), count in metrics.signal_expired.rows()
        ],
        recalls={outcome: count for (outcome,), count in metrics.signal_recalled.rows()},
        bounds_s=list(metrics.time_to_drain.bounds_s),
        time_to_drain=[
            wire.Histogram(kind, path, counts, total_s)
            for (kind, path), counts, total_s in metrics.time_to_drain.rows()
        ],
        delivery_latency=[
            wire.Histogram(priority, "", counts, total_s)
            for (priority,), counts, total_s in metrics.delivery_latency.rows()
        ],
        frames=wire.FrameBusStatus(
            stats.published,
            [
                wire.SubscriberStatus(name, one.priority.name.lower(), one.sent, one.dropped, one.shed, one.depth)
                for name, one in stats.subscribers.items()
            ],
            [
                wire.ShedCount(level.name.lower(), tally.offered, tally.dropped, tally.shed)
                for level in SubscriberPriority
                for tally in (stats.priorities[level],)
            ],
        ),
    )


async def list_pending(call: Call, request: Request) -> wire.PendingMessages:
    """List undelivered messages; the answer is shared by callers within a short time."""
    hub, config = call.hub, call.hub.config.dashboard

    async def find() -> wire.PendingMessages:
        # Expired messages are listed until the sweeper has removed them.
        after_at = hub.now() - 2 * call.state.policy.sweeper.interval_us
        found = await hub.reader.ask(lambda tables: tables.expiring(after_at, config.pending_max), fresh=False)
        summaries = [message_summary(brief, call.project.preview_max) for brief in found]
        return wire.PendingMessages(summaries, config.pending_max)

    return await hub.answer_cache.ask("pending", config.shared_s, find)


async def list_conversations(call: Call, request: Request) -> wire.Conversations:
    """Count recent messages by sender and recipient; the answer is shared by callers within a short time."""
    hub, config = call.hub, call.hub.config.dashboard
    latest, limit = config.conversations_window, config.conversations_max

    async def find() -> wire.Conversations:
        found = await hub.reader.ask(lambda tables: tables.conversations(latest, limit), fresh=False)
        rows = [
            wire.ConversationRecord(row.sender, row.recipient, row.messages, as_datetime_or_none(row.last_at))
            for row in found
        ]
        return wire.Conversations(latest, rows)

    return await hub.answer_cache.ask("conversations", config.shared_s, find)


async def list_roster(call: Call, request: wire.ListRoster) -> wire.AgentDetailsPage:
    """List agents with their sessions, attention and budget."""
    agents, part = call.state.agents, request.q.lower()
    page = await live_page(
        call,
        request,
        agents.values(),
        lambda agent: (0, agent.agent),
        lambda agent: _details(call, agent),
        lambda agent: part in agent.agent.lower(),
    )
    return wire.AgentDetailsPage(page.items, page.next, len(agents))


def _details(call: Call, agent: Agent) -> wire.AgentDetails:
    state, now = call.state, call.project.now()
    inherited = state.inherited.get(agent.agent)
    return wire.AgentDetails(
        agent=agent.agent,
        type=agent.agent_type,
        role=agent.role,
        version=agent.version,
        capabilities=list(agent.capabilities),
        presence=presence(agent, state.policy, now),
        sessions=[_session(state.policy, session, now) for session in agent.sessions.values()],
        attention=attending(state, agent.agent),
        waiting=by_priority(agent.mailbox.depths()),
        budget=_budget(state.policy, agent, now),
        recent=len(agent.usage),
        recent_high=agent.usage_high,
        gaming=agent.gaming,
        inherited=None if inherited is None else PRIORITY_NAMES[inherited],
        registered_at=as_datetime_or_none(agent.registered_at),
        reach=reach_of(state, agent),
        wake=wake_record(state.wakes.get(agent.agent), now),
        unread=unread_bytes(state, agent.agent),
    )


def _session(policy: Policy, session: Session, now: int) -> wire.SessionRecord:
    fresh = is_fresh(session, policy, now)
    return record_of(wire.SessionRecord, session, fresh=fresh, in_flight=len(session.in_flight))


def _budget(policy: Policy, agent: Agent, now: int) -> wire.Budget | None:
    multiplier = policy.roles[agent.role].quota_multiplier
    if multiplier is None:
        return None
    tokens, critical, blocking = levels(agent, policy, now)
    return wire.Budget(
        tokens=tokens,
        tokens_max=policy.bucket.capacity * multiplier,
        critical=critical,
        critical_max=policy.quotas.critical.cap * multiplier,
        blocking=blocking,
        blocking_max=policy.quotas.blocking.cap * multiplier,
    )


HANDLERS: dict[str, Handler] = {
    "get_policy": get_policy,
    "adopt_policy": adopt_policy,
    "check_policy": check_policy,
    "list_policies": list_policies,
    "get_status": get_status,
    "get_overview": get_overview,
    "list_pending": list_pending,
    "list_conversations": list_conversations,
    "list_roster": list_roster,
}
