"""What agents asked of each other, whom they wait for meanwhile, and whether each of them was told how it ended.

Who waits for whom is worked out anew from the documents; a notice is looked for among the messages of its decision.
"""

from tests.simulation.promises import must
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import Event
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import ProjectState

__all__ = ["TeamworkChecks"]

#: Endings that an agent brought about itself, or of which there is nobody left to tell; a held message that ends
#: otherwise is told of by its sender's recall or its death.
_KNOWN = {"withdrawn", "retired", "expired"}
#: Bytes that a notice has at most.
_NOTICE_BYTES = 2000
_LEFT_LINE = {"timeout", "deadlock", "forced"}


class TeamworkChecks:
    """The requests, approvals and discussions that are open, and the words that are owed."""

    def __init__(self) -> None:
        self.requests: set[str] = set()
        self.approvals: set[str] = set()
        self.discussions: set[str] = set()
        #: The discussion of each approval that a ratification waits for, or waited.
        self.ratifications: dict[str, str] = {}
        #: Discussions that a director has said yes to.
        self.ratified: set[str] = set()
        #: Leases that somebody stood in line for.
        self.in_line: set[str] = set()
        #: Who is to be told of what in this decision.
        self.owed: list[tuple[str, str, bool]] = []
        #: What the bus told whom in this decision.
        self.told: list[tuple[str, bytes]] = []
        #: Who was not told of the end of somebody else's discussion in this decision, because the notice was folded.
        self.folded: set[str] = set()

    def follow(self, event: Event, state: ProjectState) -> None:
        """Check an event against the state before it."""
        match event:
            case ev.MessageAccepted() if event.sender == SYSTEM.agent:
                self.told.append((event.recipient, event.payload))
            case ev.NoticeFolded():
                waiting = state.noticed.get((event.recipient, event.subject), ())
                full = len(waiting) >= state.policy.notices.per_subject_max
                must(full or not event.count, f"a notice about {event.subject} was folded, and yet there is room")
                if event.notice_type == "DiscussionClosed":
                    self.folded.add(event.recipient)
            case ev.RequestOpened():
                must(event.request not in self.requests, f"{event.request} was opened twice")
                self.requests.add(event.request)
            case ev.RequestEnded():
                must(event.request in self.requests, f"{event.request} ended twice")
                self.requests.remove(event.request)
                if event.outcome == "answered":
                    answer = state.copy_for(event.requester, event.detail)
                    must(answer is not None and answer.state != "held", f"{event.request} ended by what is held")
                if event.outcome in ("timeout", "failed", "deadlock"):
                    self._owe(state, event.requester, event.request)
            case ev.ApprovalRequested():
                must(event.approval not in self.approvals, f"{event.approval} was asked for twice")
                self.approvals.add(event.approval)
            case ev.ApprovalOverdue():
                self._owe(state, state.approvals[event.approval].asker, event.approval)
            case ev.ApprovalEnded():
                must(event.approval in self.approvals, f"{event.approval} ended twice")
                self.approvals.remove(event.approval)
                if event.outcome not in _KNOWN:
                    self._owe(state, event.asker, event.approval)
                if event.outcome in ("approved", "changed") and event.approval in self.ratifications:
                    self.ratified.add(self.ratifications[event.approval])
            case ev.DiscussionOpened():
                self.discussions.add(event.discussion)
            case ev.ConsensusReached():
                self.ratifications[event.approval] = event.discussion
            case ev.DiscussionClosed():
                self._check_closing(event)
                self._owe(state, event.opener, event.discussion)
                for agent in {*state.discussions[event.discussion].participants} - {event.opener}:
                    self._owe(state, agent, event.discussion, may_fold=True)
            case ev.LeaseQueued():
                self.in_line.add(event.lease)
            case ev.LeaseGranted() if event.lease in self.in_line:
                self.in_line.remove(event.lease)
                self._owe(state, event.holder, event.lease)
            case ev.LeaseWaitEnded():
                self.in_line.discard(event.lease)
                if event.reason in _LEFT_LINE:
                    self._owe(state, event.agent, event.lease)
            case _:
                pass

    def _check_closing(self, event: ev.DiscussionClosed) -> None:
        must(event.discussion in self.discussions, f"{event.discussion} was closed twice")
        self.discussions.remove(event.discussion)
        asked = event.discussion in self.ratifications.values()
        said = event.discussion in self.ratified
        must(not asked or said is (event.outcome == "consensus"), f"{event.discussion} was ratified by nobody's word")
        open_still = any(self.ratifications.get(name) == event.discussion for name in self.approvals)
        must(not open_still or event.outcome == "cancelled", f"{event.discussion} was closed by another's approval")
        undone = asked and event.outcome not in ("consensus", "not_ratified", "cancelled")
        must(not undone, f"{event.discussion} had agreed, and yet it is {event.outcome}")

    def _owe(self, state: ProjectState, agent: str, ref: str, *, may_fold: bool = False) -> None:
        if _has_room(state, agent):
            self.owed.append((agent, ref, may_fold))

    def decided(self, state: ProjectState) -> None:
        """Check, at the end of a decision, that who waited for what is over was told, unless its mailbox is full."""
        for agent, ref, may_fold in self.owed:
            if _has_room(state, agent) and not (may_fold and agent in self.folded):
                named = f'{ref}"'.encode()
                words = [payload for recipient, payload in self.told if recipient == agent and named in payload]
                must(bool(words), f"{agent} was not told of {ref}")
        self.owed.clear()
        self.told.clear()
        self.folded.clear()

    def check(self, state: ProjectState) -> None:
        """Check what must hold between steps: what is open, and whom each of it waits for."""
        must(self.requests == state.requests.keys(), "a request was lost, or ended without a word")
        must(self.approvals == state.approvals.keys(), "an approval was lost, or ended without a word")
        must(self.discussions == state.discussions.keys(), "a discussion was lost, or ended without a word")
        roles = state.policy.roles
        directors = {name for name, agent in state.agents.items() if roles[agent.role].directs}
        expected: dict[tuple[str, str, str], set[str]] = {}
        for request in state.requests.values():
            asked = state.messages.get(request.about)
            held = asked is not None and asked.state == "held"
            on = directors if held else {request.responder}
            expected["request", request.request, request.requester] = on - {request.requester}
        for approval in state.approvals.values():
            if not approval.holds:
                expected["approval", approval.approval, approval.asker] = directors - {approval.asker}
            over = approval.handoff == "lease_override" and approval.subject not in state.leases.leases
            must(not over, f"{approval.approval} waits for a word on a lease that is not held")
            must(not approval.holds or approval.overdue or bool(approval.due_at), f"{approval.approval} is never late")
            must(approval.holds or bool(approval.due_at), f"{approval.approval} may wait for ever")
            discussion = self.ratifications.get(approval.approval)
            must(discussion is None or discussion in state.discussions, f"{discussion} is over, its approval is not")
        for talk in state.discussions.values():
            if talk.state == "open":
                missing = {*talk.participants} - talk.votes.keys() - {talk.opener}
                expected["discussion", talk.discussion, talk.opener] = missing
            else:
                must(talk.approval in state.approvals, f"{talk.discussion} waits for a word that nobody is asked for")
        waits = {
            (wait.kind, wait.ref, wait.waiter): {*wait.on}
            for wait in state.waits.waits.values()
            if wait.kind in ("request", "approval", "discussion")
        }
        must(waits == expected, f"somebody waits for the wrong ones: {waits} instead of {expected}")

    def check_ended(self, state: ProjectState) -> None:
        """Check, after everybody has caught up, that nobody waits any more."""
        must(not self.discussions, f"somebody still discusses: {sorted(self.discussions)}")
        must(not self.approvals, f"somebody still waits for a word: {sorted(self.approvals)}")
        must(not self.requests, f"somebody still waits for an answer: {sorted(self.requests)}")
        must(not state.waits.waits, f"somebody still waits: {sorted(state.waits.waits)}")
        full = len(state.open_escalations) >= state.policy.escalation.open_max
        must(full or not state.deferred, f"there is room, and yet these wait: {sorted(state.deferred)}")


def _has_room(state: ProjectState, agent: str) -> bool:
    known = state.agents.get(agent)
    limits, volume = state.policy.limits, state.volume
    bytes_left = min(
        limits.with_reserve(limits.mailbox_bytes_max, Priority.CRITICAL) - volume.to(agent),
        limits.with_reserve(limits.project_bytes_max, Priority.CRITICAL) - volume.unsettled,
    )
    depth_left = 0 if known is None else limits.mailbox_depth_max - known.mailbox.depth
    return depth_left > 0 and bytes_left >= _NOTICE_BYTES
