"""Attention over HTTP: what the caller works on, and what interrupts it."""

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.agents.attention import attending
from tocsin.core.errors import refusal
from tocsin.gateways.http.operation import Call, Operation

__all__ = ["OPERATIONS"]


class WorkBody(msgspec.Struct, frozen=True):
    """What is worked on."""

    message_id: str
    #: Whether it may be interrupted outside pause points.
    interruptible: bool = True


class PausePointBody(msgspec.Struct, frozen=True):
    """A point where the work could be interrupted."""

    #: Whether the work stays there until it is resumed or put aside.
    stay: bool = False


class AsideBody(msgspec.Struct, frozen=True):
    """What to remember of work put aside."""

    #: Given back as it is when the work is resumed.
    saved: str = ""


class ResumeBody(msgspec.Struct, frozen=True):
    """What to go on with."""

    #: Which work put aside; the latest where it is not said.
    message_id: str | None = None


class FinishBody(msgspec.Struct, frozen=True):
    """How the work ends."""

    #: Whether the message is processed with it.
    processed: bool = True


class ResumedView(msgspec.Struct, frozen=True):
    """The work goes on."""

    message_id: str
    #: What was saved of it.
    saved: str
    interruptible: bool
    #: Whether this had been given back before.
    duplicate: bool


async def attention(call: Call) -> cmd.Attending:
    """Say what the caller is busy with, as far as it said."""
    view = attending(call.hub.host.exchange.state, call.caller.agent)
    await call.durable()
    return view


async def begin_work(call: Call) -> cmd.Reply:
    """Say that one works on a message from now on; only what may interrupt is pushed until it is finished."""
    return await call.submit(cmd.BeginWork(call.body.message_id, call.body.interruptible))


async def reach_pause_point(call: Call) -> cmd.Reply:
    """Say that the work could be interrupted now, and learn whether it is."""
    return await call.submit(cmd.ReachPausePoint(call.body.stay))


async def put_aside(call: Call) -> cmd.Reply:
    """Put the work aside, with what to remember of it, for what interrupts it."""
    return await call.submit(cmd.PutAside(call.body.saved.encode()))


async def resume_work(call: Call) -> ResumedView:
    """Go on with work put aside, or past a pause point, and get back what was saved."""
    reply = await call.submit(cmd.ResumeWork(call.body.message_id))
    if not isinstance(reply, cmd.Resumed):
        raise refusal("E_STATE_002", "there is nothing to resume")
    saved = reply.saved.decode(errors="replace")
    return ResumedView(reply.message_id, saved, reply.interruptible, reply.duplicate)


async def finish_work(call: Call) -> cmd.Reply:
    """Say that the work is done."""
    return await call.submit(cmd.FinishWork(call.body.processed))


_HERE = "/v1/attention"

OPERATIONS = (
    Operation("GET", _HERE, attention, cmd.Attending, tag="attention"),
    Operation("POST", _HERE + "/begin", begin_work, cmd.Attending, body=WorkBody, tag="attention"),
    Operation("POST", _HERE + "/pause-point", reach_pause_point, cmd.Attending, body=PausePointBody, tag="attention"),
    Operation("POST", _HERE + "/aside", put_aside, cmd.Attending, body=AsideBody, tag="attention"),
    Operation("POST", _HERE + "/resume", resume_work, ResumedView, body=ResumeBody, tag="attention"),
    Operation("POST", _HERE + "/finish", finish_work, cmd.Attending, body=FinishBody, tag="attention"),
)
