"""Threads: the rules for a correlationId, and the response that completes a request.

Requirement: APM §2.1, §4.2.
"""

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.errors import TocsinError, refusal
from tocsin.core.messages.message import Message
from tocsin.core.protocol.contracts import CorrelationRule, ResponseRule
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.state import ProjectState, Thread

__all__ = ["answered", "check_correlation", "follow", "may_join"]

_ASSIGNMENT = "TASK_ASSIGNMENT"


def check_correlation(decision: Decision, envelope: Envelope, rule: CorrelationRule, subject: Message | None) -> bool:
    """Refuse a correlationId that breaks its type's rule; return whether it opens a thread."""
    given = envelope.correlation_id
    if given is None:
        if rule is CorrelationRule.OPTIONAL:
            return False
        raise refusal(
            "E_VALIDATION_001",
            f"$.correlationId is missing: {envelope.message_type} needs one",
            field="$.correlationId",
            found="nothing",
            expected=_WANTED[rule],
        )
    thread = decision.state.threads.get(given)
    if may_join(thread, rule):
        return thread is None
    if rule is CorrelationRule.NEW and thread is not None:
        raise _invalid(given, rule, f"{given} is already the thread of {thread.message_id}: use a new id")
    if rule is CorrelationRule.MATCHES_ASSIGNMENT and (thread is None or thread.message_type != _ASSIGNMENT):
        raise _invalid(given, rule, f"{given} is not the thread of a known assignment")
    if rule is CorrelationRule.MATCHES_MESSAGE and (
        subject is None or given not in (subject.correlation_id, subject.message_id)
    ):
        raise _invalid(given, rule, f"{given} is not the correlationId or messageId of the message")
    return False


def may_join(thread: Thread | None, rule: CorrelationRule) -> bool:
    """Tell whether a message of a rule may join a thread, or open it if there is none.

    The id of a confirmation does not depend on a thread.
    """
    if rule is CorrelationRule.OPTIONAL:
        return True
    if rule is CorrelationRule.NEW:
        return thread is None
    return rule is CorrelationRule.MATCHES_ASSIGNMENT and thread is not None and thread.message_type == _ASSIGNMENT


_WANTED = {
    CorrelationRule.NEW: "an id that no thread has yet",
    CorrelationRule.MATCHES_ASSIGNMENT: "the id of the assignment",
    CorrelationRule.MATCHES_MESSAGE: "the correlationId of that message, or its messageId",
    CorrelationRule.OPTIONAL: "an id, or none",
}


def _invalid(given: str, rule: CorrelationRule, detail: str) -> TocsinError:
    return refusal("E_PROTOCOL_003", detail, field="$.correlationId", found=given, expected=_WANTED[rule])


def answered(
    state: ProjectState, correlation_id: str | None, sender: str, receiver: str, *, completes: bool
) -> Message | None:
    """Return the request that a message responds to, or null; a task also needs a response that `completes` it.

    A request that was neither offered nor settled by its recipient is not responded to: the messages may have crossed.
    """
    if correlation_id is None:
        return None
    thread = state.threads.get(correlation_id)
    if thread is None or thread.sender != receiver:
        return None
    request = state.copy_for(sender, thread.message_id)
    if request is None or not (request.offers or request.delivered_at):
        return None
    rule = state.contract(request).response
    if rule is ResponseRule.COMPLETION:
        return request if completes else None
    return request if rule is ResponseRule.ANY else None


def follow(state: ProjectState, event: ev.MessageAccepted) -> None:
    """Open the thread of a message, or record that its thread continues."""
    if event.correlation_id is None:
        return
    thread = state.threads.pop(event.correlation_id, None)
    if thread is None and event.opens_thread:
        thread = Thread(event.correlation_id, event.message_id, event.message_type, event.sender, event.at, event.at)
    if thread is not None:
        thread.last_at = event.at
        state.threads[event.correlation_id] = thread
