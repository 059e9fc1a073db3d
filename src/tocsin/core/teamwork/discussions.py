"""Discussions: agents contribute, vote, and reach consensus or time out.

The opener names the participants and the kind of consensus. Each contribution is sent to the other participants as a
message from the bus. A discussion ends as soon as its outcome is certain: enough agree, all have voted and too few
agree, or its time is over, which is escalated. The opener meanwhile waits for any of those who have not voted. If the
policy requires ratification, a director must approve the result before it becomes the outcome.

Requirement: LIMINAL's AsyncDiscussion.
"""

from tocsin.core import events as ev
from tocsin.core.commands import CancelDiscussion, Discussed, OpenDiscussion, Speak, Vote
from tocsin.core.decision import Decision, bounded_text
from tocsin.core.errors import TocsinError, refusal
from tocsin.core.escalation.opening import open_escalation
from tocsin.core.messages.admission import bill, owe
from tocsin.core.messages.notices import notify
from tocsin.core.policy import microseconds
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Agent, ProjectState
from tocsin.core.teamwork.approvals import ask_directors, deciders, end_moot
from tocsin.core.teamwork.model import Discussion
from tocsin.core.waiting.graph import Wait
from tocsin.core.waiting.waits import BREAKERS, begin_wait, end_wait, shift_wait

__all__ = [
    "apply_closed",
    "apply_consensus",
    "apply_left",
    "apply_opened",
    "apply_spoken",
    "apply_vote",
    "decide_cancel",
    "decide_open",
    "decide_speak",
    "decide_vote",
    "fire_discussion",
    "leave",
    "ratified",
]

_KIND = "discussion"
_NAME_MAX = 64


def decide_open(decision: Decision, command: OpenDiscussion) -> Discussed:
    """Open a discussion; its opener waits for the votes."""
    me = decision.me()
    _check(decision, command)
    policy = decision.policy.discussions
    voters_min = min(policy.participants_min, len(command.participants))
    if command.voters_min is not None:
        voters_min = command.voters_min
    max_s = policy.max_s if command.max_s is None else command.max_s
    told = {*command.participants, me.agent}
    # It pays for the notices of its opening and of its end, so that neither a vote nor a cancellation can be refused.
    charge = bill(decision, me, _KIND, _priority(decision, me), max(1, len(told) - 1), len(told))
    name = decision.ids.fresh("dis", decision.now)
    due_at = decision.now + max(1, microseconds(max_s))
    decision.emit(
        ev.DiscussionOpened(
            at=decision.now,
            discussion=name,
            opener=me.agent,
            question=decision.text(command.question, "$.question"),
            participants=command.participants,
            options=command.options,
            voters_min=voters_min,
            consensus=command.consensus,
            due_at=due_at,
        )
    )
    discussion = decision.state.discussions[name]
    _notify(
        decision,
        discussion,
        "DiscussionOpened",
        {"question": command.question, "options": command.options, "participants": command.participants},
        Priority.COORDINATE,
        but=me.agent,
    )
    others = [agent for agent in command.participants if agent != me.agent]
    begin_wait(decision, me.agent, _KIND, name, on=others, level=_priority(decision, me), any_of=True)
    if charge is not None:
        decision.emit(charge)
    return _reply(discussion)


def _priority(decision: Decision, opener: Agent) -> Priority:
    """Return the priority of a discussion: Coordinate, or the cap of its opener's role if that is lower."""
    return min(Priority.COORDINATE, decision.policy.roles[opener.role].cap)


def _check(decision: Decision, command: OpenDiscussion) -> None:
    policy, known = decision.policy.discussions, decision.state.agents
    participants, options = command.participants, command.options
    unknown = [agent for agent in participants if agent not in known]
    if unknown:
        raise refusal(
            "E_ROUTING_001", f"there is no agent {unknown[0][:_NAME_MAX]} in this project", field="$.participants"
        )
    if len(decision.state.discussions) >= policy.open_max:
        raise refusal("E_ADMISSION_008", f"the project has reached its limit of {policy.open_max} open discussions")
    me = decision.caller.agent
    if sum(discussion.opener == me for discussion in decision.state.discussions.values()) >= policy.per_agent_max:
        raise refusal("E_ADMISSION_008", f"{me} has reached its limit of {policy.per_agent_max} open discussions")
    least = policy.participants_min if command.voters_min is None else command.voters_min
    wrong = (
        (len(set(participants)) != len(participants), "$.participants", "a list that names each participant once"),
        (not 1 <= least <= len(participants), "$.participants", f"at least the {max(least, 1)} who must vote"),
        (len(participants) > policy.participants_max, "$.participants", f"at most {policy.participants_max} agents"),
        (not 2 <= len(set(options)) == len(options), "$.options", "at least two different options"),
        (len(options) > policy.options_max, "$.options", f"at most {policy.options_max} options"),
        (
            command.max_s is not None and not 0 < command.max_s <= policy.max_s,
            "$.max_s",
            f"more than 0, at most {policy.max_s:g}",
        ),
    )
    for broken, field, expected in wrong:
        if broken:
            raise refusal("E_VALIDATION_004", f"{field} must be {expected}", field=field, expected=expected)
    for option in options:
        bounded_text(option, "$.options", _NAME_MAX)


def decide_speak(decision: Decision, command: Speak) -> Discussed:
    """Send a contribution of a participant or the opener to the others."""
    discussion = _open(decision, command.discussion, among_voters=False)
    most = decision.policy.discussions.contributions_max
    if discussion.contributions >= most:
        raise refusal(
            "E_ADMISSION_008", f"{discussion.discussion} has reached its limit of {most} contributions", retryable=False
        )
    text, speaker = decision.text(command.text, "$.text"), decision.caller.agent
    told = {*discussion.participants, discussion.opener} - {speaker}
    charge = bill(decision, decision.me(), "contribution", Priority.INFO, max(1, len(told)))
    decision.emit(ev.DiscussionSpoken(decision.now, discussion.discussion, speaker, text))
    _notify(decision, discussion, "DiscussionSpoken", {"speaker": speaker, "text": text}, Priority.INFO, but=speaker)
    if charge is not None:
        decision.emit(charge)
    return _reply(discussion)


def decide_vote(decision: Decision, command: Vote) -> Discussed:
    """Count a vote, and end the discussion if the outcome is certain."""
    discussion = _open(decision, command.discussion, among_voters=True)
    voter = decision.caller.agent
    if command.option not in discussion.options:
        raise refusal(
            "E_VALIDATION_003",
            f"{command.option[:_NAME_MAX]!r} is not an option of this discussion",
            field="$.option",
            found=command.option[:_NAME_MAX],
            expected="one of " + ", ".join(discussion.options),
        )
    if discussion.votes.get(voter) != command.option:
        decision.emit(ev.VoteCast(decision.now, discussion.discussion, voter, command.option))
        return _conclude(decision, discussion)
    return _reply(discussion)


def _conclude(decision: Decision, discussion: Discussion) -> Discussed:
    """End a discussion whose outcome is certain; else the opener waits for those who have not voted."""
    option = _agreed(discussion)
    everybody = len(discussion.votes) == len(discussion.participants)
    if option is not None:
        if decision.policy.approvals.handoffs["ratification"].enabled:
            return _ask_to_ratify(decision, discussion, option)
        return _close(decision, discussion, "consensus", option, f"agreed on {option}")
    if everybody:
        return _close(decision, discussion, "no_consensus", "", "all have voted and too few agree")
    _await_votes(decision, discussion)
    return _reply(discussion)


def _ask_to_ratify(decision: Decision, discussion: Discussion, option: str) -> Discussed:
    approval = decision.ids.fresh("apr", decision.now)
    decision.emit(ev.ConsensusReached(decision.now, discussion.discussion, option, approval))
    end_wait(decision, _KIND, discussion.discussion, discussion.opener)
    details = f"{discussion.question[:_NAME_MAX]}: {option}"
    owe(decision, discussion.opener, len(deciders(decision)))
    ask_directors(decision, "ratification", discussion.opener, discussion.discussion, details, name=approval)
    return _reply(discussion)


def _agreed(discussion: Discussion) -> str | None:
    if len(discussion.votes) < discussion.voters_min:
        return None
    everyone = len(discussion.participants)
    for option, count in _votes(discussion).items():
        if _suffices(discussion.consensus, count, everyone):
            return option
    return None


def _suffices(consensus: str, count: int, everyone: int) -> bool:
    match consensus:
        case "majority":
            return 2 * count > everyone
        case "two_thirds":
            return 3 * count >= 2 * everyone
    return count == everyone


def _await_votes(decision: Decision, discussion: Discussion) -> None:
    missing = [name for name in discussion.participants if name not in discussion.votes and name != discussion.opener]
    shift_wait(decision, _KIND, discussion.discussion, discussion.opener, missing)


def decide_cancel(decision: Decision, command: CancelDiscussion) -> Discussed:
    """End a discussion without an outcome."""
    discussion = decision.state.discussions.get(command.discussion)
    if discussion is None or (discussion.opener != decision.caller.agent and not decision.directs()):
        raise _unknown(command.discussion)
    return _close(decision, discussion, "cancelled", "", f"{decision.caller.agent} cancelled it")


def fire_discussion(decision: Decision, name: str) -> None:
    """End and escalate a discussion whose time is over."""
    discussion = decision.state.discussions.get(name)
    if discussion is None or discussion.state != "open":
        return
    if decision.now < discussion.due_at:
        decision.state.timers.deadlines.schedule(f"{_KIND} {name}", discussion.due_at)
        return
    lasted_s = (discussion.due_at - discussion.opened_at) / 1_000_000
    detail = f"no consensus within {lasted_s:g} s on: {discussion.question[:_NAME_MAX]}"
    _close(decision, discussion, "timeout", "", detail)
    cause, payer = f"consensus_timeout {name}", discussion.opener
    open_escalation(decision, "consensus_timeout", cause, name, detail, threshold=lasted_s, payer=payer)


def ratified(decision: Decision, event: ev.ApprovalEnded) -> None:
    """End the discussion whose ratification has ended; only an approval makes its result the consensus."""
    for discussion in list(decision.state.discussions.values()):
        if discussion.approval == event.approval:
            if event.outcome in ("approved", "changed"):
                _close(decision, discussion, "consensus", discussion.agreed, f"agreed on {discussion.agreed}")
            else:
                _close(decision, discussion, "not_ratified", "", f"{event.by}: {event.reason or event.outcome}")


def leave(decision: Decision, agent: str) -> None:
    """Remove an agent that has left from all discussions; a discussion without its opener ends."""
    for discussion in list(decision.state.discussions.values()):
        if discussion.opener == agent:
            _close(decision, discussion, "cancelled", "", f"{agent} left the project")
        elif agent in discussion.participants:
            decision.emit(ev.DiscussionLeft(decision.now, discussion.discussion, agent))
            if discussion.state != "open":
                continue  # the result that was agreed on is already with the directors
            if len(discussion.participants) < discussion.voters_min:
                _close(decision, discussion, "too_few", "", f"{agent} left the project")
            else:
                _conclude(decision, discussion)


def _close(decision: Decision, discussion: Discussion, outcome: str, option: str, detail: str) -> Discussed:
    votes = _votes(discussion)
    counted = tuple(f"{name}={count}" for name, count in votes.items())
    decision.emit(
        ev.DiscussionClosed(decision.now, discussion.discussion, discussion.opener, outcome, option, counted, detail)
    )
    reason = {"consensus": "served", "no_consensus": "served"}.get(outcome, outcome)
    end_wait(decision, _KIND, discussion.discussion, discussion.opener, reason)
    end_moot(decision, discussion.approval, f"{discussion.discussion} is over: {outcome}")
    payload: dict[str, object] = {"outcome": outcome, "option": option or None, "votes": votes, "detail": detail}
    _notify(decision, discussion, "DiscussionClosed", payload, Priority.COORDINATE)
    return Discussed(discussion.discussion, outcome, votes, option or None)


def _votes(discussion: Discussion) -> dict[str, int]:
    cast = list(discussion.votes.values())
    return {option: cast.count(option) for option in discussion.options}


def _reply(discussion: Discussion) -> Discussed:
    return Discussed(discussion.discussion, discussion.state, _votes(discussion), discussion.agreed or None)


def _notify(
    decision: Decision,
    discussion: Discussion,
    message_type: str,
    payload: dict[str, object],
    priority: Priority,
    *,
    but: str = "",
) -> None:
    for name in sorted({*discussion.participants, discussion.opener} - {but}):
        agent = decision.state.agents.get(name)
        # A contribution is what somebody said, and the end is the answer to the opener: neither is folded.
        answer = message_type == "DiscussionSpoken" or name == discussion.opener
        subject = "" if answer else f"discussions of {discussion.opener}"
        if agent is not None:
            content = {"discussion": discussion.discussion} | payload
            notify(decision, agent, message_type, content, priority, subject=subject)


def _open(decision: Decision, name: str, *, among_voters: bool) -> Discussion:
    me, discussion = decision.me().agent, decision.state.discussions.get(name)
    if discussion is None or (me not in discussion.participants and (among_voters or me != discussion.opener)):
        raise _unknown(name)
    if discussion.state != "open":
        raise refusal("E_STATE_002", f"{name} takes no more contributions or votes: it is {discussion.state}")
    return discussion


def _unknown(name: str) -> TocsinError:
    return refusal(
        "E_STATE_001", f"{name[:_NAME_MAX]} is not an open discussion that you take part in", found=name[:_NAME_MAX]
    )


def _refuse(decision: Decision, wait: Wait, detail: str) -> None:
    """End a discussion to break a deadlock that its opener's wait is part of."""
    _close(decision, decision.state.discussions[wait.ref], "deadlock", "", detail)


BREAKERS[_KIND] = _refuse


def apply_opened(state: ProjectState, event: ev.DiscussionOpened) -> None:
    """Add the discussion."""
    state.discussions[event.discussion] = Discussion(
        discussion=event.discussion,
        opener=event.opener,
        question=event.question,
        participants=list(event.participants),
        options=event.options,
        voters_min=event.voters_min,
        consensus=event.consensus,
        opened_at=event.at,
        due_at=event.due_at,
        votes={},
    )
    state.timers.deadlines.schedule(f"{_KIND} {event.discussion}", event.due_at)


def apply_spoken(state: ProjectState, event: ev.DiscussionSpoken) -> None:
    """Count the contribution; its text is in the journal and the mailboxes."""
    state.discussions[event.discussion].contributions += 1


def apply_vote(state: ProjectState, event: ev.VoteCast) -> None:
    """Record the vote."""
    state.discussions[event.discussion].votes[event.voter] = event.option


def apply_left(state: ProjectState, event: ev.DiscussionLeft) -> None:
    """Remove the participant and its vote."""
    discussion = state.discussions[event.discussion]
    discussion.participants.remove(event.participant)
    discussion.votes.pop(event.participant, None)


def apply_consensus(state: ProjectState, event: ev.ConsensusReached) -> None:
    """Record the result that waits for ratification."""
    discussion = state.discussions[event.discussion]
    discussion.state, discussion.agreed, discussion.approval = "ratifying", event.option, event.approval


def apply_closed(state: ProjectState, event: ev.DiscussionClosed) -> None:
    """Remove the discussion."""
    discussion = state.discussions.pop(event.discussion)
    state.timers.deadlines.cancel(f"{_KIND} {event.discussion}", discussion.due_at)
