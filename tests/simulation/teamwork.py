"""How a random team coordinates: what it does, and what must hold of it.

The actions are drawn beside those of the world; `Accounts` follows the events on its own, beside the ledger.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from tests.simulation.promises import must
from tests.simulation.teamwork_checks import TeamworkChecks
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller, Command
from tocsin.core.escalation.paths import PATHS
from tocsin.core.events import Event
from tocsin.core.messages.model import State
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.state import ProjectState

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["ACTIONS", "Accounts", "finish_affairs"]


def begin_work(world: "World") -> None:
    """Let somebody begin to work on something that it has, or has not."""
    caller = world.somebody()
    messages = world.exchange.state.messages.values()
    mine = [m.message_id for m in messages if m.recipient == caller.agent and m.state is not State.QUEUED]
    chosen = world.rng.choice(mine) if mine else "msg_none_0"
    world.ask(cmd.BeginWork(chosen, world.rng.random() < 0.6), caller)


def go_on_with_work(world: "World") -> None:
    """Let somebody say something of its work; mostly somebody who has some."""
    known = world.exchange.state.attention
    interrupted = [name for name, attention in known.items() if attention.interrupted_by and name in world.callers]
    busy = interrupted or [name for name in known if name in world.callers]
    caller = world.callers[world.rng.choice(busy)] if busy and world.rng.random() < 0.9 else world.somebody()
    attention = world.exchange.state.attention.get(caller.agent)
    aside = [] if attention is None else [work.message_id for work in attention.aside]
    idle = attention is None or attention.work is None
    interrupter = None if attention is None else world.exchange.state.messages.get(attention.interrupted_by)
    command: Command = world.rng.choice(
        (
            cmd.MarkProcessed("msg_none_0" if interrupter is None else interrupter.message_id),
            cmd.ReachPausePoint(),
            cmd.ReachPausePoint(stay=True),
            cmd.PutAside(world.rng.randbytes(world.rng.choice((0, 3, 40))).decode("latin-1")),
            cmd.ResumeWork(),
            cmd.ResumeWork(world.rng.choice([*aside, "msg_none_0"])),
            cmd.FinishWork(world.rng.random() < 0.8),
        )
    )
    reply = world.ask(command, caller)
    if isinstance(reply, cmd.Resumed):
        work = world.exchange.state.attention[caller.agent].work
        must(work is not None and work.message_id == reply.message_id, f"{caller.agent} resumed something else")
        if work is not None:
            world.ledger.accounts.given_back(caller.agent, work.message, reply, idle=idle)


def ask(world: "World") -> None:
    """Let somebody send something and wait for the answer, ask again, or wait no longer."""
    caller = world.somebody()
    mine = [name for name, request in world.exchange.state.requests.items() if request.requester == caller.agent]
    if mine and world.rng.random() < 0.2:
        world.ask(cmd.CancelRequest(world.rng.choice(mine)), caller)
        return
    document = msgspec.json.decode(world.envelope(caller))
    document.setdefault("correlationId", f"ask_{world.steps}")
    others = [name for name in world.exchange.state.agents if name != caller.agent]
    if others and world.rng.random() < 0.7:
        kind = _HELD if world.rng.random() < 0.4 else {"messageType": "CUSTOM_THING", "payload": {}}
        document |= kind | {"receiver": {"agentId": world.rng.choice(others), "type": "*"}}
    data = msgspec.json.encode(document)
    envelope = parse_envelope(data, world.policy.limits.message_bytes_max)
    timeout_s = world.rng.choice((None, 0.5, 4, 40))
    request = cmd.SendRequest(envelope, timeout_s, world.rng.random() < 0.4)
    for _ in range(world.rng.choice((1, 1, 1, 2))):
        world.ask(request, caller)


def answer(world: "World") -> None:
    """Let somebody answer a request that waits for it."""
    waiting = list(world.exchange.state.requests.values())
    if not waiting:
        return
    request = world.rng.choice(waiting)
    caller = world.callers[request.responder]
    document = msgspec.json.decode(world.envelope(caller))
    document["receiver"] = {"agentId": request.requester, "type": "*"}
    document["correlationId"] = request.correlation_id
    if world.rng.random() < 0.3:
        document |= world.rng.choice((_HELD, {"receiver": {"agentId": "*", "type": "*"}}))
    world.submit(caller, msgspec.json.encode(document))


def seek_approval(world: "World") -> None:
    """Let somebody send what is held, or ask before an action; now and then take it back."""
    caller = world.somebody()
    draw = world.rng.random()
    if draw < 0.6:
        document = msgspec.json.decode(world.envelope(caller))
        document |= _HELD
        document.pop("correlationId", None)
        world.submit(caller, msgspec.json.encode(document))
    elif draw < 0.9:
        handoff = world.rng.choice(_HANDOFFS)
        leases = [*world.exchange.state.leases.leases, "something"]
        about = [*leases, *leases, *world.exchange.state.discussions]
        world.ask(cmd.RequestApproval(handoff, world.rng.choice(about), "more"), caller)
    else:
        chosen = world.rng.choice([*world.exchange.state.approvals, "apr_none"])
        known = world.exchange.state.approvals.get(chosen)
        asker = caller if known is None or world.rng.random() < 0.2 else world.callers[known.asker]
        world.ask(cmd.WithdrawApproval(chosen), asker)


def decide_approval(world: "World") -> None:
    """Let somebody decide what waits for a word; mostly somebody who may."""
    chosen = world.rng.choice([*world.exchange.state.approvals, "apr_none"])
    changed = world.rng.choice((None, None, {"plan": "other"}))
    commands: tuple[Command, ...] = (
        cmd.DecideApproval(chosen, "approve", "", changed),
        cmd.DecideApproval(chosen, "refuse", "no"),
    )
    roles = world.policy.roles
    directors = [caller for caller in world.callers.values() if roles[caller.role].directs]
    likely = directors and world.rng.random() < 0.8
    world.ask(world.rng.choice(commands), world.rng.choice(directors) if likely else world.somebody())


def discuss(world: "World") -> None:
    """Let somebody open a discussion, speak, vote, or end one."""
    caller, known = world.somebody(), list(world.exchange.state.discussions.values())
    if not known or world.rng.random() < 0.3:
        others = tuple(world.rng.sample(list(world.callers), world.rng.randint(1, min(3, len(world.callers)))))
        command = cmd.OpenDiscussion("what now?", others, ("a", "b"), world.rng.choice((None, 1, 2)))
        rule = world.rng.choice(("majority", "two_thirds", "unanimous"))
        max_s = world.rng.choice((None, 2.0))
        world.ask(msgspec.structs.replace(command, consensus=rule, max_s=max_s), caller)
        return
    discussion = world.rng.choice(known)
    silent = [name for name in discussion.participants if name not in discussion.votes]
    voter = world.callers[world.rng.choice(silent or discussion.participants or [discussion.opener])]
    ender = world.callers[discussion.opener] if world.rng.random() < 0.5 else caller
    name = discussion.discussion
    choices: tuple[tuple[Command, Caller], ...] = (
        (cmd.Speak(name, "well"), voter),
        (cmd.Vote(name, "a"), voter),
        (cmd.Vote(name, world.rng.choice("ab")), voter),
        (cmd.CancelDiscussion(name), ender),
    )
    world.ask(*world.rng.choices(choices, (2, 4, 2, 1))[0])


def meddle(world: "World") -> None:
    """Let somebody come between a vote and its ratification: by asking about it, withdrawing, ending it or leaving."""
    waiting = [talk for talk in world.exchange.state.discussions.values() if talk.state != "open"]
    if not waiting:
        return
    talk, caller = world.rng.choice(waiting), world.somebody()
    match world.rng.choice(("ask", "ask", "withdraw", "cancel", "leave")):
        case "ask":
            reply = world.ask(cmd.RequestApproval(world.rng.choice(_HANDOFFS), talk.discussion), caller)
            if isinstance(reply, cmd.ApprovalRequested):
                world.ask(cmd.WithdrawApproval(reply.approval), caller)
        case "withdraw":
            world.ask(cmd.WithdrawApproval(talk.approval), world.callers[talk.opener])
        case "cancel":
            world.ask(cmd.CancelDiscussion(talk.discussion), world.callers[talk.opener])
        case "leave":
            gone = world.callers[world.rng.choice(talk.participants or [talk.opener])]
            world.ask(cmd.RetireAgent(gone.agent, "simulated"), gone)


def publish(world: "World") -> None:
    """Let somebody subscribe, unsubscribe or publish."""
    caller, topic = world.somebody(), world.rng.choice(("build", "tests"))
    draw = world.rng.random()
    if draw < 0.3:
        world.ask(cmd.Subscribe(topic), caller)
    elif draw < 0.4:
        world.ask(cmd.Unsubscribe(topic), caller)
    else:
        document = msgspec.json.decode(world.envelope(caller))
        document |= {"receiver": {"agentId": "*", "type": "*"}}
        envelope = parse_envelope(msgspec.json.encode(document), world.policy.limits.message_bytes_max)
        world.ask(cmd.Publish(topic, envelope, world.rng.choice(("each", "all"))), caller)


def report_health(world: "World") -> None:
    """Let the hub, or somebody, report how things are."""
    limits = world.policy.health.limits
    values = {metric: world.rng.choice((0.0, limits[metric] * 3)) for metric in world.rng.sample(list(limits), 2)}
    for _ in range(world.rng.choice((1, 4))):
        world.ask(cmd.ReportHealth(values), world.rng.choice((SYSTEM, SYSTEM, world.somebody())))
        world.now += 3_000_000


def finish_affairs(world: "World") -> None:
    """Give a last word on what waits for one, of every sort; some of it must wait for the next round."""
    state = world.exchange.state
    for approval in list(state.approvals.values()):
        name = approval.approval
        last_words: tuple[tuple[Command, Caller] | None, ...] = (
            (cmd.DecideApproval(name, "approve"), SYSTEM),
            (cmd.DecideApproval(name, "refuse", "no"), SYSTEM),
            (cmd.WithdrawApproval(name), world.callers[approval.asker]),
            (cmd.CancelDiscussion(approval.subject), SYSTEM),
            None,
        )
        word = world.rng.choice(last_words)
        if word is not None and name in state.approvals:
            world.ask(*word)


def look_after(world: "World") -> None:
    """Let somebody resolve an escalation or bring it before a human; mostly somebody who may."""
    known = list(world.exchange.state.escalations)
    chosen = world.rng.choice(known) if known else "esc_none_0"
    command: Command = world.rng.choice((cmd.ResolveEscalation(chosen, "seen to"), cmd.EscalateToHuman(chosen, "help")))
    world.ask(command, world.somebody())


class Accounts:
    """What was promised in coordinating, and how far it has been kept."""

    def __init__(self) -> None:
        #: Works put aside and not yet given back, by agent.
        self.aside: dict[str, list[int]] = {}
        #: What an agent saved last of a work, by agent and work.
        self.saved: dict[tuple[str, int], bytes] = {}
        #: Of which works an agent has been given back what it saved last.
        self.given: set[tuple[str, int]] = set()
        self.teamwork_checks = TeamworkChecks()
        #: Alerts that stand.
        self.alerts: set[str] = set()
        #: What has set off an escalation.
        self.causes: set[str] = set()
        #: What is to set one off once there is room.
        self.deferred: set[str] = set()

    def follow(self, event: Event, state: ProjectState) -> None:
        """Check an event against the state before it."""
        self.teamwork_checks.follow(event, state)
        match event:
            case ev.WorkPutAside() | ev.AttentionLapsed():
                if isinstance(event, ev.WorkPutAside):
                    self._put_aside(event)
                self.aside.setdefault(event.agent, []).append(event.work)
            case ev.WorkResumed():
                must(event.work in self.aside.get(event.agent, []), f"{event.agent} got work back twice: {event.work}")
                self.aside[event.agent].remove(event.work)
            case ev.WorkFinished():
                self._forget(event.agent, event.work)
            case ev.AgentRetired():
                self.aside.pop(event.agent, None)
                for agent, work in [*self.saved, *self.given]:
                    if agent == event.agent:
                        self._forget(agent, work)
            case ev.InterruptRaised():
                allowed = event.level == 4 or event.level > event.work_level + 1
                must(allowed, f"level {event.level} interrupted work of level {event.work_level}")
            case ev.AlertRaised():
                must(event.metric not in self.alerts, f"the alert of {event.metric} was raised twice")
                self.alerts.add(event.metric)
            case ev.AlertCleared():
                must(event.metric in self.alerts, f"the alert of {event.metric} was cleared twice")
                self.alerts.remove(event.metric)
            case ev.EscalationOpened():
                must(event.cause not in self.causes, f"{event.cause} was escalated twice")
                self.causes.add(event.cause)
                self.deferred.discard(event.cause)
            case ev.EscalationDeferred():
                must(event.cause not in self.causes | self.deferred, f"{event.cause} was deferred in vain")
                must(len(state.open_escalations) >= state.policy.escalation.open_max, f"{event.cause} had room")
                self.deferred |= {event.cause} if event.kept else set()
            case ev.EscalationsForgotten():
                self.deferred -= set(event.causes)
            case ev.EscalationMoved():
                arrow = (event.old_state, event.step, event.new_state)
                must(arrow in _ARROWS, f"{event.escalation} moved as no table says: {arrow}")
            case _:
                pass

    def given_back(self, agent: str, work: int, reply: cmd.Resumed, *, idle: bool) -> None:
        """Check that what an agent got back is what it saved last, and that it got it once, but for duplicates."""
        key = (agent, work)
        if not idle and not reply.duplicate:
            must(reply.saved == "", f"{agent} only went on, and got something back")
            return
        must(reply.saved.encode() == self.saved.get(key, b""), f"{agent} got back something else than it saved")
        if idle:
            must(reply.duplicate is (key in self.given), f"{agent} got back what it saved twice, or never")
            self.given.add(key)

    def _put_aside(self, event: ev.WorkPutAside) -> None:
        key = (event.agent, event.work)
        if event.reason == "detached":
            must(event.saved == self.saved.get(key, b""), f"{event.agent} lost what it had saved of {event.work}")
        else:
            self.saved[key] = event.saved
            self.given.discard(key)

    def _forget(self, agent: str, work: int) -> None:
        self.saved.pop((agent, work), None)
        self.given.discard((agent, work))

    def check(self, state: ProjectState) -> None:
        """Check what must hold between steps."""
        for name, attention in state.attention.items():
            must(name in state.agents, f"{name} is gone and still busy")
            must(attention.work is not None or bool(attention.aside), f"{name} attends to nothing")
            must(attention.work is None or bool(attention.due_at), f"{name} may be busy for ever")
            interrupter = state.messages.get(attention.interrupted_by)
            over = interrupter is not None and interrupter.state in _OVER
            must(not over, f"{name} is interrupted by message {attention.interrupted_by}, which has ended")
        for name, approval in state.approvals.items():
            held = [copy.state == "held" for copy in state.copies_of(approval.subject)] if approval.holds else [True]
            must(any(held), f"{name} waits for a word on what is not held")
        held_for = {approval.subject for approval in state.approvals.values() if approval.holds}
        for message in state.messages.values():
            must(message.state != "held" or message.message_id in held_for, f"message {message.seq} is held for ever")
        self.teamwork_checks.check(state)
        standing = {name for name, alert in state.alerts.items() if alert.raised_at}
        must(standing == self.alerts, f"alerts were lost: {standing ^ self.alerts}")
        self._check_escalations(state)
        aside = {name: works for name, works in self.aside.items() if works}
        kept = {
            name: [work.message for work in attention.aside]
            for name, attention in state.attention.items()
            if attention.aside
        }
        must(aside == kept, f"work put aside was lost: {aside} became {kept}")

    def _check_escalations(self, state: ProjectState) -> None:
        for name, escalation in state.escalations.items():
            is_open = escalation.state != "normal"
            must(is_open is (name in state.open_escalations), f"{name} is {escalation.state} and counted wrongly")
            must(is_open is (name not in state.closed_escalations), f"{name} is {escalation.state} and kept as closed")
            must(not is_open or bool(escalation.due_at), f"{name} is open and nobody will look at it")
        must(self.deferred == state.deferred.keys(), f"what waits to be escalated was lost: {self.deferred}")
        must(state.causes.keys() == {known.cause for known in state.escalations.values()}, "causes were mixed up")


_HANDOFFS: tuple[cmd.Handoff, ...] = ("plan_approval", "lease_override", "pre_merge_review", "ratification")
#: What makes a message one that is held.
_HELD: dict[str, object] = {"messageType": "CUSTOM_PLAN", "payload": {"plan": "x"}}
_OVER = (State.PROCESSED, State.EXPIRED, State.RECALLED, State.DEAD)
_ARROWS = {(route.before, route.step, route.after) for route in PATHS}

ACTIONS: tuple[tuple[Callable[["World"], None], float], ...] = (
    (begin_work, 4),
    (go_on_with_work, 6),
    (look_after, 1.5),
    (ask, 5),
    (answer, 3),
    (seek_approval, 3),
    (decide_approval, 2.5),
    (discuss, 5),
    (meddle, 3),
    (publish, 3),
    (report_health, 3),
)
