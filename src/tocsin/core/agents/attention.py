"""Commands about an agent's work, and the interrupts of that work.

Theory of operation. An agent that never reports its work is pushed messages up to its window. An agent that sends
`BeginWork` is busy until it finishes: from then on a message is pushed to it only if the decision below allows it, and
the rest waits until the agent is idle, in delivery order. A drain is not restricted.

The decision combines two rules of the requirements (LIMINAL's flow chart and its `can_preempt`). The chart gives the
time of delivery: DirectorOverride at once; Critical at once to an agent that is idle, at a pause point or
interruptible, else at the next pause point; everything else when the agent is idle. `can_preempt` decides whether the
delivery interrupts: the message must be two levels above the work, or be an override. So Critical does not interrupt
Critical work: it waits for the pause point and is delivered there without interrupting. Blocking, whose time the chart
leaves open, is delivered at a pause point of Info work. A message counts at its present level, boosts included. The
head of a mailbox always has the highest level, so if the head must wait, all must.

An interrupt loses nothing. The agent puts its work aside with some saved data, works on the interrupting message, and
resumes: the saved data is returned exactly once, and once more only to an agent that missed the reply. If an agent's
last session ends, or it does not report for too long, the bus puts its work aside.

The interrupting message may end before the agent turns to it: processed at once, rejected, dead. Then the interrupt
ends, and another message that was offered or is queued may interrupt.
"""

from tocsin.core import events as ev
from tocsin.core.agents.attention_transitions import DEADLINE_KIND
from tocsin.core.agents.preemption import ENDED, Status, Verdict, interrupt, interrupter_of, judge, status_of
from tocsin.core.commands import Attending, BeginWork, FinishWork, PutAside, ReachPausePoint, Resumed, ResumeWork
from tocsin.core.decision import Decision
from tocsin.core.errors import TocsinError, refusal
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.message import Message, is_open_to_recipient
from tocsin.core.messages.model import NEVER, State
from tocsin.core.messages.settlement import acknowledge, arrive, process
from tocsin.core.state import Agent, ProjectState
from tocsin.core.teamwork.model import Attention, Work

__all__ = [
    "attending",
    "decide_begin",
    "decide_finish",
    "decide_pause_point",
    "decide_put_aside",
    "decide_resume",
    "detach",
    "end_interrupt",
    "fire_attention",
]


def decide_begin(decision: Decision, command: BeginWork) -> Attending:
    """Record that the caller works on a message that was offered to it."""
    me = decision.me()
    message = decision.state.copy_for(me.agent, command.message_id)
    if message is None or not is_open_to_recipient(message):
        raise _not_found(command.message_id)
    if message.state in ENDED:
        raise refusal("E_STATE_002", f"{message.message_id} is {message.state}: it cannot be worked on")
    attention = decision.state.attention.get(me.agent)
    if attention is not None:
        _must_be_free(decision, attention, message)
    if message.ack_required:
        acknowledge(decision, message, "received")
    else:
        arrive(decision, message, "ack")
    _begin(decision, me, message, interruptible=command.interruptible)
    return _attending(decision, me)


def _must_be_free(decision: Decision, attention: Attention, message: Message) -> None:
    busy, most = attention.work, decision.policy.attention.aside_max
    if busy is not None and busy.message != message.seq:
        raise refusal(
            "E_STATE_002",
            f"{attention.agent} already works on {busy.message_id}: finish it or put it aside first",
            found=busy.message_id,
        )
    if any(work.message == message.seq for work in attention.aside):
        raise refusal("E_STATE_002", f"{message.message_id} was put aside: resume it instead", found=message.message_id)
    if len(attention.aside) > most:
        raise _too_many_aside(attention.agent, most)


def _begin(decision: Decision, me: Agent, message: Message, *, interruptible: bool) -> None:
    attention = decision.state.attention.get(me.agent)
    work = None if attention is None else attention.work
    if work is not None and work.interruptible == interruptible:
        return
    decision.emit(
        ev.WorkBegun(
            decision.now, me.agent, message.seq, message.message_id, message.level, interruptible, _busy_until(decision)
        )
    )
    pump(decision, me)


def decide_pause_point(decision: Decision, command: ReachPausePoint) -> Attending:
    """Deliver what may interrupt at a pause point; record nothing if nothing may and the agent does not stay."""
    me = decision.me()
    attention, work = _at_work(decision)
    if interrupter_of(decision.state, attention) is not None and not command.stay:
        return _attending(decision, me)
    if command.stay or _comes_at_pause_point(decision, me, work):
        decision.emit(ev.PausePointReached(decision.now, me.agent, work.message, _busy_until(decision)))
        pump(decision, me)
        _interrupt_unpushed(decision, me, attention)
        if not command.stay and interrupter_of(decision.state, attention) is None:
            decision.emit(ev.WorkContinued(decision.now, me.agent, work.message, _busy_until(decision)))
    return _attending(decision, me)


def _comes_at_pause_point(decision: Decision, me: Agent, work: Work) -> bool:
    head = me.mailbox.head(decision.now, decision.policy.decay)
    if head is None:
        return False
    verdict = judge(head.level, Status.PAUSE_POINT, work.level, interruptible=work.interruptible)
    return verdict in (Verdict.DELIVER, Verdict.INTERRUPT)


def _interrupt_unpushed(decision: Decision, me: Agent, attention: Attention) -> None:
    """Let the head of the mailbox interrupt although it could not be pushed; the agent gets it with its next drain."""
    head = me.mailbox.head(decision.now, decision.policy.decay)
    work = attention.work
    if work is None or interrupter_of(decision.state, attention) is not None or head is None:
        return
    if judge(head.level, Status.PAUSE_POINT, work.level, interruptible=True) is Verdict.INTERRUPT:
        interrupt(decision, attention, head)


def decide_put_aside(decision: Decision, command: PutAside) -> Attending:
    """Put the caller's work aside with its saved data, and begin the message that interrupted it."""
    me = decision.me()
    attention, work = _at_work(decision)
    limits = decision.policy.attention
    saved = command.saved.encode(errors="replace")
    if len(saved) > limits.saved_bytes_max:
        raise refusal(
            "E_VALIDATION_005",
            f"{len(saved)} bytes of saved data are too many: at most {limits.saved_bytes_max} are allowed",
            field="$.saved",
            found=f"{len(saved)} bytes",
            expected=f"at most {limits.saved_bytes_max} bytes",
        )
    if len(attention.aside) >= limits.aside_max:
        raise _too_many_aside(me.agent, limits.aside_max)
    interrupter = interrupter_of(decision.state, attention)
    if interrupter is not None and interrupter.state is State.QUEUED:
        interrupter = None
    _put_aside(decision, me, work, saved, "chosen" if interrupter is None else "interrupted", interrupter)
    if interrupter is not None:
        if interrupter.ack_required:
            acknowledge(decision, interrupter, "received")
        else:
            arrive(decision, interrupter, "ack")
    pump(decision, me)
    return _attending(decision, me)


def _put_aside(decision: Decision, me: Agent, work: Work, saved: bytes, reason: str, instead: Message | None) -> None:
    decision.emit(
        ev.WorkPutAside(
            at=decision.now,
            agent=me.agent,
            work=work.message,
            saved=saved,
            reason=reason,
            instead=NEVER if instead is None else instead.seq,
            instead_id="" if instead is None else instead.message_id,
            instead_level=0 if instead is None else instead.level,
            due_at=NEVER if instead is None else _busy_until(decision),
        )
    )


def decide_resume(decision: Decision, command: ResumeWork) -> Resumed:
    """Resume the caller's work and return the saved data."""
    me = decision.me()
    attention = decision.state.attention.get(me.agent)
    if attention is None:
        raise refusal("E_STATE_002", f"{me.agent} has nothing to resume")
    work, wanted = attention.work, command.message_id
    if work is not None:
        if wanted is not None and wanted != work.message_id:
            raise refusal(
                "E_STATE_002", f"{me.agent} already works on {work.message_id}: finish it or put it aside first"
            )
        if attention.paused or interrupter_of(decision.state, attention) is not None:
            decision.emit(ev.WorkContinued(decision.now, me.agent, work.message, _busy_until(decision)))
            return Resumed(work.message_id, "", work.interruptible)
        return Resumed(work.message_id, work.saved.decode(errors="replace"), work.interruptible, duplicate=True)
    found = [aside for aside in attention.aside if wanted in (None, aside.message_id)]
    if not found:
        raise refusal("E_STATE_001", f"{me.agent} has no work with that id put aside", found=(wanted or "")[:128])
    resumed = found[-1]
    had = resumed.resumed
    decision.emit(ev.WorkResumed(decision.now, me.agent, resumed.message, _busy_until(decision)))
    return Resumed(resumed.message_id, resumed.saved.decode(errors="replace"), resumed.interruptible, duplicate=had)


def decide_finish(decision: Decision, command: FinishWork) -> Attending:
    """Record that the caller's work is done."""
    me = decision.me()
    _, work = _at_work(decision)
    message = decision.state.messages.get(work.message)
    decision.emit(ev.WorkFinished(decision.now, me.agent, work.message))
    if command.processed and message is not None and message.state not in ENDED:
        process(decision, message, "processed")
    pump(decision, me)
    return _attending(decision, me)


def end_interrupt(decision: Decision, seq: int) -> None:
    """End an interrupt whose message has ended or waits for a retry; another message may interrupt then."""
    message = decision.state.messages.get(seq)
    attention = None if message is None else decision.state.attention.get(message.recipient)
    if message is None or attention is None or attention.work is None or attention.interrupted_by != seq:
        return
    if message.state in ENDED or message.backing_off:
        me = decision.state.agents[attention.agent]
        decision.emit(ev.InterruptEnded(decision.now, me.agent, attention.work.message, seq, message.state))
        _interrupt_on_its_way(decision, me, attention, attention.work)
        pump(decision, me)


def _interrupt_on_its_way(decision: Decision, me: Agent, attention: Attention, work: Work) -> None:
    """Let the most urgent message that was offered and not confirmed interrupt, if it may."""
    offered = [decision.state.message(seq) for session in me.sessions.values() for seq in session.in_flight]
    others = [message for message in offered if message.seq != work.message]
    first = max(others, key=lambda message: (message.level, -message.seq), default=None)
    if first is None:
        return
    if judge(first.level, status_of(attention), work.level, interruptible=work.interruptible) is Verdict.INTERRUPT:
        interrupt(decision, attention, first)


def detach(decision: Decision, agent: Agent) -> None:
    """Put aside the work of an agent that has no session left, so that it can resume later."""
    attention = decision.state.attention.get(agent.agent)
    if attention is not None and attention.work is not None and not agent.sessions:
        _put_aside(decision, agent, attention.work, attention.work.saved, "detached", None)


def fire_attention(decision: Decision, name: str) -> None:
    """Put aside the work of an agent that has not reported for too long."""
    attention = decision.state.attention.get(name)
    if attention is None or attention.work is None:
        return
    if decision.now < attention.due_at:
        decision.state.timers.deadlines.schedule(f"{DEADLINE_KIND} {name}", attention.due_at)
        return
    threshold_s = decision.policy.attention.work_max_s
    decision.emit(ev.AttentionLapsed(decision.now, name, attention.work.message, threshold_s))
    pump(decision, decision.state.agents[name])


def _at_work(decision: Decision) -> tuple[Attention, Work]:
    attention = decision.state.attention.get(decision.caller.agent)
    if attention is None or attention.work is None:
        raise refusal("E_STATE_002", f"{decision.caller.agent} is idle: begin work first")
    return attention, attention.work


def _busy_until(decision: Decision) -> int:
    return decision.now + decision.policy.attention.work_max_us


def _attending(decision: Decision, me: Agent) -> Attending:
    return attending(decision.state, me.agent)


def attending(state: ProjectState, agent: str) -> Attending:
    """Return what an agent is busy with, as far as it reported."""
    attention = state.attention.get(agent)
    if attention is None:
        return Attending(Status.IDLE)
    work = attention.work
    interrupter = interrupter_of(state, attention)
    return Attending(
        status_of(attention),
        None if work is None else work.message_id,
        None if interrupter is None else interrupter.message_id,
        tuple(aside.message_id for aside in attention.aside),
    )


def _too_many_aside(agent: str, most: int) -> TocsinError:
    return refusal(
        "E_ADMISSION_008", f"{agent} has reached its limit of {most} works put aside: resume one first", retryable=False
    )


def _not_found(message_id: str) -> TocsinError:
    return refusal(
        "E_STATE_001",
        f"{message_id[:128]} was not found: unknown, not addressed to you, or no longer kept",
        found=message_id[:128],
    )
