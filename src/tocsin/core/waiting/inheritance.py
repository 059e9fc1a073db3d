"""Priority inheritance: a wait lends its priority to the agents waited for, through chains, until it ends.

An agent inherits the highest priority among the waits for it, directly and through others: a wait counts at its own
level or at what its waiter has inherited, whichever is higher. It is never more than that, and never lasts longer.

The inherited priority applies to what helps the agent to finish: its places in lease queues; the queued messages that
it has sent or sends meanwhile; and the answers queued for it in threads that it opened. Messages rise to Critical at
most: no boost reaches DirectorOverride.
"""

from collections.abc import Iterable
from itertools import islice

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import LENT_BY_RECIPIENT, LENT_BY_SENDER, State
from tocsin.core.protocol.priority import Priority
from tocsin.core.scheduling import schedule, unschedule
from tocsin.core.state import ProjectState
from tocsin.core.waiting.graph import WaitGraph

__all__ = [
    "apply_inherited",
    "apply_restored",
    "follow_waits",
    "inherited_levels",
    "lend_on_acceptance",
    "level_on_acceptance",
    "relevel",
]

_NOTHING = -1


def follow_waits(decision: Decision) -> bool:
    """Update what every agent inherits from the present waits; return whether anything changed."""
    state, graph = decision.state, decision.state.waits
    if not graph.lent:
        return False
    changed = inherited_levels(graph, state.inherited, graph.lent)
    graph.lent.clear()
    # By name: the order in which changes are found is another one in a rebuilt state.
    for agent, level in sorted(changed.items()):
        old = state.inherited.get(agent)
        if old is not None and level < old:
            lowered = tuple(sorted(seq for seq in state.lent.get(agent, ()) if seq in state.messages))
            decision.emit(ev.PriorityRestored(decision.now, agent, old, None if level == _NOTHING else level, lowered))
        else:
            waits = graph.upon[agent].values()
            wait = min(
                (wait for wait in waits if max(wait.level, changed.get(wait.waiter, _of(state, wait.waiter))) == level),
                key=lambda wait: wait.seq,
            )
            raised = _raised(decision, agent)
            decision.emit(ev.PriorityInherited(decision.now, agent, old, level, wait.waiter, wait.label, raised))
    return bool(changed)


def inherited_levels(graph: WaitGraph, inherited: dict[str, int], dirty: Iterable[str]) -> dict[str, int]:
    """Return the changed inherited levels after the waits for some agents have changed; -1 is nothing."""
    changed: dict[str, int] = {}
    if graph.alternatives:
        _spread_anew(graph, inherited, dirty, changed)
    else:
        _spread(graph, inherited, dirty, changed)
    return {agent: level for agent, level in changed.items() if level != inherited.get(agent, _NOTHING)}


def _spread(graph: WaitGraph, inherited: dict[str, int], dirty: Iterable[str], changed: dict[str, int]) -> None:
    """Propagate changes from agent to agent; exact as long as there is no cycle of waits."""
    pending = list(dirty)
    for agent in pending:
        level = _NOTHING
        for wait in graph.upon.get(agent, {}).values():
            lender = changed.get(wait.waiter)
            if lender is None:
                lender = inherited.get(wait.waiter, _NOTHING)
            level = max(level, wait.level, lender)
        known = changed.get(agent)
        if known is None:
            known = inherited.get(agent, _NOTHING)
        if level != known:
            changed[agent] = level
            for wait in graph.by_waiter.get(agent, {}).values():
                pending.extend(wait.on)


def _spread_anew(graph: WaitGraph, inherited: dict[str, int], dirty: Iterable[str], changed: dict[str, int]) -> None:
    """Compute everything affected again; cycles with `any_of` waits may persist and must not raise themselves."""
    region = list(dict.fromkeys(dirty))
    inside = set(region)
    for agent in region:
        for wait in graph.by_waiter.get(agent, {}).values():
            for other in wait.on:
                if other not in inside:
                    inside.add(other)
                    region.append(other)
    buckets: list[list[str]] = [[] for _ in Priority]
    for agent in region:
        changed[agent] = _NOTHING
        for wait in graph.upon.get(agent, {}).values():
            lender = _NOTHING if wait.waiter in inside else inherited.get(wait.waiter, _NOTHING)
            changed[agent] = max(changed[agent], wait.level, lender)
        if changed[agent] != _NOTHING:
            buckets[changed[agent]].append(agent)
    for level in reversed(range(len(buckets))):
        for agent in buckets[level]:
            for wait in graph.by_waiter.get(agent, {}).values():
                for other in wait.on:
                    if changed[other] < level <= changed[agent]:
                        changed[other] = level
                        buckets[level].append(other)


def _of(state: ProjectState, agent: str) -> int:
    return state.inherited.get(agent, _NOTHING)


def _raised(decision: Decision, agent: str) -> tuple[int, ...]:
    """Return the messages that rise with an agent: those raised already, and others up to a limit."""
    state, most = decision.state, decision.policy.inheritance.messages_max
    chosen = dict.fromkeys(islice(state.outgoing.get(agent, ()), most))
    known = state.agents.get(agent)
    if known is not None:
        answers: dict[int, None] = {}
        for message in known.mailbox:  # A loop, because the compiled form would evaluate a generator to its end.
            if len(answers) >= most:
                break
            if _answers(state, message):
                answers[message.seq] = None
        chosen |= answers
    return tuple(sorted({*chosen, *[seq for seq in state.lent.get(agent, ()) if seq in state.messages]}))


def _answers(state: ProjectState, message: Message) -> bool:
    """Return whether a message continues a thread that its recipient opened."""
    if message.correlation_id is None:
        return False
    thread = state.threads.get(message.correlation_id)
    return thread is not None and thread.sender == message.recipient


def level_on_acceptance(state: ProjectState, event: ev.MessageAccepted) -> int:
    """Return the level that a message gets when it is accepted: its priority, or what it inherits."""
    level = event.priority
    if event.sender in state.inherited:
        level = max(level, min(state.inherited[event.sender], Priority.CRITICAL))
    if event.recipient in state.inherited and event.correlation_id is not None:
        thread = state.threads.get(event.correlation_id)
        opener = thread.sender if thread is not None else event.sender if event.opens_thread else None
        if opener == event.recipient:
            level = max(level, min(state.inherited[event.recipient], Priority.CRITICAL))
    return level


def lend_on_acceptance(state: ProjectState, message: Message) -> None:
    """Raise a message just accepted to what its sender, or the agent that it answers, has inherited."""
    if message.sender in state.inherited:
        message.lent |= LENT_BY_SENDER
        state.lent.setdefault(message.sender, {})[message.seq] = None
    if message.recipient in state.inherited and _answers(state, message):
        message.lent |= LENT_BY_RECIPIENT
        state.lent.setdefault(message.recipient, {})[message.seq] = None
    if message.lent:
        relevel(state, message)


def relevel(state: ProjectState, message: Message) -> None:
    """Set a message's level to its own or its inherited one, whichever is higher; it must be unscheduled before."""
    level = message.own_level
    if message.lent & LENT_BY_SENDER:
        level = max(level, min(state.inherited.get(message.sender, 0), Priority.CRITICAL))
    if message.lent & LENT_BY_RECIPIENT:
        level = max(level, min(state.inherited.get(message.recipient, 0), Priority.CRITICAL))
    message.level = level


def apply_inherited(state: ProjectState, event: ev.PriorityInherited) -> None:
    """Raise the agent and its messages."""
    state.inherited[event.agent] = event.new_level
    lent = state.lent.setdefault(event.agent, {})
    for seq in event.raised:
        message = state.message(seq)
        lent[seq] = None
        message.lent |= _lenders(message, event.agent)
        _move(state, message)
    state.leases.reorder(event.agent)


def apply_restored(state: ProjectState, event: ev.PriorityRestored) -> None:
    """Lower the agent and its messages."""
    if event.new_level is None:
        del state.inherited[event.agent]
    else:
        state.inherited[event.agent] = event.new_level
    for seq in event.lowered:
        message = state.message(seq)
        if event.new_level is None:
            message.lent &= ~_lenders(message, event.agent)
        _move(state, message)
    if event.new_level is None:
        state.lent.pop(event.agent, None)
    state.leases.reorder(event.agent)


def _lenders(message: Message, agent: str) -> int:
    """Return the bits of `Message.lent` that stand for an agent."""
    return (message.sender == agent) * LENT_BY_SENDER | (message.recipient == agent) * LENT_BY_RECIPIENT


def _move(state: ProjectState, message: Message) -> None:
    if message.state is State.QUEUED:
        unschedule(state, message)
        relevel(state, message)
        schedule(state, message)
    else:
        relevel(state, message)
