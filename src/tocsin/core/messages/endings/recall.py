"""Recall of messages that have not been offered yet.

Requirement: SPEC-071 §4.4.
"""

from tocsin.core import events as ev
from tocsin.core.commands import Recall, RecallResult
from tocsin.core.decision import Decision
from tocsin.core.messages.endings.expiry import expire_if_due
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.scheduling import move, schedule
from tocsin.core.state import ProjectState

__all__ = ["apply_recalled", "decide_recall"]

_BEST_FIRST = ("recalled", "already_delivered", "already_expired", "not_found")


def decide_recall(decision: Decision, command: Recall) -> RecallResult:
    """Recall a message of the caller; another sender's message is not found."""
    caller = decision.caller.agent
    copies = [copy for copy in decision.state.copies_of(command.message_id) if copy.sender == caller]
    outcomes = {copy.recipient: _recall(decision, copy) for copy in copies}
    outcome = min(outcomes.values(), key=_BEST_FIRST.index, default="not_found")
    if outcome != "recalled":
        decision.emit(ev.RecallRefused(decision.now, command.message_id[:192], caller, outcome))
    return RecallResult(outcome, outcomes)


def _recall(decision: Decision, message: Message) -> str:
    if message.state in (State.QUEUED, State.HELD) and not message.offers and not expire_if_due(decision, message):
        decision.emit(ev.MessageRecalled(decision.now, message.seq, decision.caller.agent))
    if message.state is State.RECALLED:
        return "recalled"
    if message.state is State.EXPIRED or (message.state is State.DEAD and not message.offers):
        return "already_expired"
    return "already_delivered"


def apply_recalled(state: ProjectState, event: ev.MessageRecalled) -> None:
    """Mark the message as recalled."""
    message = move(state, event.message, ev.MessageRecalled)
    message.recalled_at = event.at
    schedule(state, message)
    state.settle(message, event.at)
