"""The tools that a team coordinates by: leases, work and interruptions, topics, discussions, approvals, escalations.

A docstring here is read by models: it says when to use the tool and what then happens.
"""

from typing import Any

import msgspec

from tocsin.core.errors import Problem
from tocsin.gateways.http.leases import LeaseView
from tocsin.gateways.mcp import arguments_coordination as take
from tocsin.gateways.mcp import results as say
from tocsin.gateways.mcp import results_coordination as give
from tocsin.gateways.mcp.refusals import refused
from tocsin.gateways.mcp.tool import Outcome, ToolRow, envelope_of
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.gateways.mcp.tools_requests import REQUEST_TOOLS

__all__ = ["COORDINATION_TOOLS"]

#: Nothing below this interrupts.
_INTERRUPTS = "Blocking"


async def acquire_lease(tool_call: ToolCall, given: take.AcquireArguments) -> Outcome:
    """Hold files, folders or other things, so that nobody else changes them meanwhile: all that you name, or nothing.

    Call it before you change what others may change too. `held`: it is yours until it expires, is renewed or released.
    `waiting`: somebody else holds it; do something else, a LEASE_GRANTED or LEASE_REFUSED comes to your inbox. Do not
    touch it before. A lease keeps other agents away who ask for theirs; it does not lock files.
    """
    row = await tool_call.ask("acquire_lease", body=msgspec.to_builtins(given))
    if row["state"] == "held":
        return Outcome(row, f"You hold {row['lease']} until {row['expires_at']}.")
    told = f"{row['lease']} waits at place {row['place']}, for {', '.join(row['holders']) or 'those before you'}."
    return Outcome(row, told)


async def renew_lease(tool_call: ToolCall, given: take.RenewArguments) -> Outcome:
    """Keep a lease for longer; a LEASE_EXPIRING in your inbox says that it is time.

    A lease that you do not renew lapses, and others get what it held.
    """
    row = await tool_call.ask("renew_lease", path={"lease": given.lease}, body={"ttl_s": given.ttl_s})
    return Outcome(row, f"You hold {row['lease']} until {row['expires_at']}.")


async def release_lease(tool_call: ToolCall, given: take.ReleaseArguments) -> Outcome:
    """Set free what a lease holds, or leave the line that it waits in; or set free some of what you hold, by name.

    Call it as soon as you are done: others wait. Releasing what you do not hold is refused; then it has lapsed or been
    taken away, and what you did since may conflict with what others do.
    """
    if (given.lease is None) is not bool(given.resources):
        detail = "name a lease, or resources that you hold: one of both"
        raise refused(Problem("E_VALIDATION_001", detail, "$.lease", expected="a lease, or resources"))
    if given.lease is None:
        done = await tool_call.ask("release_resources", body={"resources": list(given.resources)})
    else:
        done = await tool_call.ask("release_lease", path={"lease": given.lease})
    return Outcome(done, f"Free now: {', '.join(done['resources']) or 'nothing; you have left the line'}.")


async def list_leases(tool_call: ToolCall, given: take.ListLeasesArguments) -> Outcome:
    """List who holds what and who waits for it; with resource, only what stands in the way of that.

    Use it before you plan what to change, or to find out whom to ask.
    """
    query = {name: value for name, value in msgspec.to_builtins(given).items() if value is not None}
    found = await tool_call.ask("leases", query=query)
    told = f"{len(found['held'])} held, {len(found['waiting'])} waiting."
    return Outcome(found, f"{told} {say.data_of_others([*found['held'], *found['waiting']])}")


async def begin_work(tool_call: ToolCall, given: take.BeginArguments) -> Outcome:
    """Say that you work on a message from now on; that acknowledges it.

    Until finish_work only what may interrupt you is urgent to you. Call it again to take up work that was put aside:
    what you had saved is in the answer.
    """
    now = await tool_call.ask("attention")
    if given.message_id in (now["working_on"], *now["aside"]):
        resumed = await tool_call.ask("resume_work", body={"message_id": given.message_id})
        now, saved = await tool_call.ask("attention"), resumed["saved"]
    else:
        now, saved = await tool_call.ask("begin_work", body=msgspec.to_builtins(given)), ""
    note = f" What you had saved: {say.data_of_others([saved])}" if saved else ""
    result = {"working_on": now["working_on"], "aside": now["aside"], "saved": saved}
    return Outcome(result, f"You work on {given.message_id}.{note}")


async def pause_point(tool_call: ToolCall, given: take.PauseArguments) -> Outcome:
    """Say that you could be interrupted now, with what you need to go on later; call it between two steps of long work.

    Where nothing interrupts you, go on. Where something does, your work is put aside: deal with the message that
    interrupted_by names, then call finish_work for it, which gives back what you saved.
    """
    now = await tool_call.ask("reach_pause_point", body={})
    by = now["interrupted_by"]
    if by is None:
        result = {"interrupted_by": None, "working_on": now["working_on"], "aside": now["aside"], "messages": []}
        return Outcome(result, "Nothing interrupts you: go on.")
    mail = await tool_call.fetch(1, _INTERRUPTS, None)
    now = await tool_call.ask("put_aside", body={"saved": given.saved})
    messages = [say.mail_view(envelope, tool_call.carrying.metadata_bytes_max) for envelope in mail.envelopes]
    result = {"interrupted_by": by, "working_on": now["working_on"], "aside": now["aside"]}
    told = f"You are interrupted by {by}; your work is put aside."
    shown = f" {say.data_of_others(messages)}" if messages else ""
    return Outcome(result | {"messages": msgspec.to_builtins(messages)}, told + shown, mail)


async def finish_work(tool_call: ToolCall, given: take.FinishArguments) -> Outcome:
    """Say that you are done with what you worked on; the message counts as processed.

    If you had put other work aside, you go on with it: `resumed` names it, and `saved` is what you saved of it.
    """
    now = await tool_call.ask("attention")
    if now["working_on"] != given.message_id:
        busy = now["working_on"] or "nothing"
        raise refused(Problem("E_STATE_002", f"you work on {busy}, not on {given.message_id}", found=busy))
    now = await tool_call.ask("finish_work", body={"processed": given.processed})
    if not now["aside"]:
        return Outcome({"resumed": None, "saved": ""}, f"{given.message_id} is finished.")
    back = await tool_call.ask("resume_work", body={"message_id": now["aside"][-1]})
    note = f" What you had saved: {say.data_of_others([back['saved']])}" if back["saved"] else ""
    told = f"{given.message_id} is finished. You go on with {back['message_id']}.{note}"
    return Outcome({"resumed": back["message_id"], "saved": back["saved"]}, told)


async def publish_topic(tool_call: ToolCall, given: take.PublishArguments) -> Outcome:
    """Publish a message to everybody who is subscribed to a topic, but yourself.

    Use it for news that you do not know the readers of. It reaches them also where they are not there now.
    """
    agent, kind = await tool_call.me()
    envelope = envelope_of(given, agent, kind)
    envelope |= {"receiver": {"agentId": "*", "type": "*"}, "messageType": given.message_type}
    envelope["correlationId"] = envelope["messageId"]
    done = await tool_call.ask("publish", query={"topic": given.topic, "guarantee": given.guarantee}, body=envelope)
    reached = ", ".join(receipt["recipient"] for receipt in done["receipts"]) or "nobody"
    left_out = "".join(f" Not to {who}: {problem['detail']}." for who, problem in done["failed"].items())
    return Outcome({"message_id": envelope["messageId"]} | done, f"Published for {reached}.{left_out}")


async def subscribe_topic(tool_call: ToolCall, given: take.SubscribeArguments) -> Outcome:
    """Get what is published to a topic from now on, whether you are there or not; or no longer.

    Subscribing twice does no harm. What is published comes to your inbox.
    """
    done = await tool_call.ask("subscribe" if given.subscribed else "unsubscribe", body={"topic": given.topic})
    return Outcome(done, f"You are subscribed to: {', '.join(done['topics']) or 'nothing'}.")


async def open_discussion(tool_call: ToolCall, given: take.DiscussionArguments) -> Outcome:
    """Ask some agents to agree on something: they speak, and vote.

    A DiscussionClosed comes to your inbox when the outcome is certain or the time is over.
    """
    done = await tool_call.ask("open_discussion", body=msgspec.to_builtins(given))
    return Outcome(done, _discussed(done))


async def speak_in_discussion(tool_call: ToolCall, given: take.SpeakArguments) -> Outcome:
    """Say something in a discussion that you take part in; all others who do get it."""
    done = await tool_call.ask("speak", path={"discussion": given.discussion}, body={"text": given.text})
    return Outcome(done, _discussed(done))


async def vote(tool_call: ToolCall, given: take.VoteArguments) -> Outcome:
    """Vote in a discussion that you take part in; voting again changes your vote.

    The discussion ends as soon as the outcome is certain.
    """
    done = await tool_call.ask("vote", path={"discussion": given.discussion}, body={"option": given.option})
    return Outcome(done, _discussed(done))


async def request_approval(tool_call: ToolCall, given: take.ApprovalArguments) -> Outcome:
    """Ask the directors before you do something that needs their word, and wait for it.

    An ApprovalDecided comes to your inbox: do not do it before, and only if its outcome is approved. An ApprovalOverdue
    says that nobody has decided yet.
    """
    done = await tool_call.ask("ask_approval", body=msgspec.to_builtins(given))
    return Outcome({"approval": done["approval"]}, f"The directors are asked, under {done['approval']}.")


async def list_approvals(tool_call: ToolCall, given: take.NoArguments) -> Outcome:
    """List what waits for a director's word: a director sees all, anybody else what it asked for itself."""
    found = await tool_call.ask("approvals")
    return Outcome({"approvals": found}, _listed(found, "approvals wait"))


async def decide_approval(tool_call: ToolCall, given: take.DecideArguments) -> Outcome:
    """Give a director's word: approve, approve a held message with another payload, or refuse with a reason.

    Only directors and humans may. A held message goes out when it is approved, and dies when it is refused.
    """
    body = {"verdict": given.verdict, "reason": given.reason, "payload": given.payload}
    done = await tool_call.ask("decide_approval", path={"approval": given.approval}, body=body)
    return Outcome(done, f"{given.approval} is {done['outcome']}.")


async def list_escalations(tool_call: ToolCall, given: take.EscalationsArguments) -> Outcome:
    """List what has been unresolved for too long or gone wrong, and how far it has been escalated, open ones first.

    Only directors and humans may. What you can settle, settle, and say so with resolve_escalation.
    """
    found = await tool_call.ask("escalations", query={"closed": given.closed})
    return Outcome({"escalations": found}, _listed(found, "escalations"))


async def resolve_escalation(tool_call: ToolCall, given: take.ResolveArguments) -> Outcome:
    """Say how you took care of an escalation; it is closed then. Only directors and humans may."""
    path, body = {"escalation": given.escalation}, {"resolution": given.resolution}
    done = await tool_call.ask("resolve_escalation", path=path, body=body)
    return Outcome(done, f"{given.escalation} is {done['state']}.")


async def list_alerts(tool_call: ToolCall, given: take.NoArguments) -> Outcome:
    """List what of the bus is slower or fuller than it should be, and since when; nothing is good news."""
    found = await tool_call.ask("alerts")
    lines = [f"{row['metric']}: {row['value']:g} where {row['limit']:g} is the limit, {row['state']}" for row in found]
    return Outcome({"alerts": found}, "\n".join(lines) or "All is well.")


def _discussed(done: dict[str, Any]) -> str:
    votes = ", ".join(f"{option}: {count}" for option, count in done["votes"].items())
    return f"{done['discussion']} is {done['state']}{f' ({votes})' if votes else ''}."


def _listed(found: list[Any], what: str) -> str:
    return f"{len(found)} {what}. {say.data_of_others(found)}" if found else f"No {what}."


COORDINATION_TOOLS = (
    ToolRow(acquire_lease, take.AcquireArguments, LeaseView, "Hold something"),
    ToolRow(renew_lease, take.RenewArguments, LeaseView, "Hold it for longer", repeats=True),
    ToolRow(release_lease, take.ReleaseArguments, give.ReleasedView, "Set it free", destroys=True),
    ToolRow(list_leases, take.ListLeasesArguments, give.HeldLeasesView, "List who holds what", reads=True),
    ToolRow(begin_work, take.BeginArguments, give.BegunView, "Begin work", repeats=True),
    ToolRow(pause_point, take.PauseArguments, give.PausedView, "Let work be interrupted"),
    ToolRow(finish_work, take.FinishArguments, give.FinishedView, "Finish work"),
    ToolRow(publish_topic, take.PublishArguments, give.PublicationView, "Publish to a topic"),
    ToolRow(subscribe_topic, take.SubscribeArguments, give.SubscribedView, "Subscribe to a topic", repeats=True),
    ToolRow(open_discussion, take.DiscussionArguments, give.DiscussedView, "Open a discussion"),
    ToolRow(speak_in_discussion, take.SpeakArguments, give.DiscussedView, "Speak in a discussion"),
    ToolRow(vote, take.VoteArguments, give.DiscussedView, "Vote in a discussion", repeats=True),
    ToolRow(request_approval, take.ApprovalArguments, give.ApprovalAskedView, "Ask for approval"),
    ToolRow(list_approvals, take.NoArguments, give.ApprovalsView, "List approvals", reads=True),
    ToolRow(decide_approval, take.DecideArguments, give.ApprovalDecidedView, "Decide on an approval", destroys=True),
    ToolRow(list_escalations, take.EscalationsArguments, give.EscalationsView, "List escalations", reads=True),
    ToolRow(resolve_escalation, take.ResolveArguments, give.EscalatedView, "Resolve an escalation"),
    ToolRow(list_alerts, take.NoArguments, give.AlertsView, "List alerts", reads=True),
    *REQUEST_TOOLS,
)
