"""The policy: every number and switch that decisions use, as frozen structs.

No field has a default here: the defaults are in the packaged `tocsin.yaml`, so that one file shows them all. Durations
end in `_s` and are seconds in the document; the core works in whole microseconds, through the `_us` properties. There
is one module per subject; this one re-exports them. `tocsin.policies` reads the files.
"""

from tocsin.core.policy.admission import Bucket, Gaming, Quota, Quotas, Role, Security
from tocsin.core.policy.attention import AttentionPolicy
from tocsin.core.policy.base import microseconds
from tocsin.core.policy.decay import Decay, QueueManager
from tocsin.core.policy.delivery import Aging, Delivery, Retention, Routing, Sessions, Sweeper, TimerPolicy
from tocsin.core.policy.document import Policy, document_of, policy_from, stored_policy
from tocsin.core.policy.escalation import Action, EscalationPolicy, EscalationRule, Trigger
from tocsin.core.policy.health import HealthPolicy
from tocsin.core.policy.limits import Limits
from tocsin.core.policy.storage import Storage
from tocsin.core.policy.teamwork import (
    ApprovalPolicy,
    DiscussionPolicy,
    Handoff,
    NoticePolicy,
    RequestPolicy,
    TopicPolicy,
)
from tocsin.core.policy.waiting import Inheritance, Leases
from tocsin.core.policy.wake import WakePolicy

__all__ = [
    "Action",
    "Aging",
    "ApprovalPolicy",
    "AttentionPolicy",
    "Bucket",
    "Decay",
    "Delivery",
    "DiscussionPolicy",
    "EscalationPolicy",
    "EscalationRule",
    "Gaming",
    "Handoff",
    "HealthPolicy",
    "Inheritance",
    "Leases",
    "Limits",
    "NoticePolicy",
    "Policy",
    "QueueManager",
    "Quota",
    "Quotas",
    "RequestPolicy",
    "Retention",
    "Role",
    "Routing",
    "Security",
    "Sessions",
    "Storage",
    "Sweeper",
    "TimerPolicy",
    "TopicPolicy",
    "Trigger",
    "WakePolicy",
    "document_of",
    "microseconds",
    "policy_from",
    "stored_policy",
]
