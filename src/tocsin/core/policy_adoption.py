"""Adoption of a policy: the command, and the rescheduling of everything that is open."""

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import Adopted, AdoptPolicy
from tocsin.core.decision import Decision, bounded_text
from tocsin.core.policy import document_of, policy_from, stored_policy
from tocsin.core.queueing import queue_manager
from tocsin.core.queueing.mailbox import Mailbox
from tocsin.core.scheduling import schedule_all
from tocsin.core.state import ProjectState

__all__ = ["apply_policy", "decide_adopt"]


def decide_adopt(decision: Decision, command: AdoptPolicy) -> Adopted:
    """Put another policy in force."""
    decision.must_direct("change the policy")
    policy = policy_from(command.policy)
    reason = bounded_text(command.reason, "$.reason", policy.limits.text_max)
    version = decision.state.policy_version + 1
    encoded = msgspec.json.encode(document_of(policy), order="sorted")
    decision.emit(ev.PolicyAdopted(decision.now, decision.caller.agent, version, reason, encoded))
    decision.policy = decision.state.policy  # the rest of this decision uses the new policy
    return Adopted(version)


def apply_policy(state: ProjectState, event: ev.PolicyAdopted) -> None:
    """Replace the policy; timers of everything open are computed by the new one."""
    state.adopt(stored_policy(msgspec.json.decode(event.policy)))
    state.policy_version = event.version
    queue_manager.keep_in_bounds(state)
    for agent in state.agents.values():
        agent.mailbox = Mailbox(state.messages, state.policy.aging.top_level)
    schedule_all(state)
