"""Policies with numbers so small that a short run meets every limit and every timer."""

import random
from typing import Any

from tocsin.core.policy import Policy, document_of, policy_from
from tocsin.policies import default_policy

__all__ = ["drawn_policy"]

#: For each field that is worth varying, what to draw from.
CHOICES: dict[str, list[Any]] = {
    "limits.mailbox_depth_max": [3, 20, 1000],
    "limits.mailbox_reserve": [0, 2, 1000],
    "limits.mailbox_bytes_max": [2000, 10_000, 1_000_000],
    "limits.sender_bytes_max": [700, 10_000, 1_000_000],
    "limits.project_bytes_max": [6000, 1_000_000],
    "limits.critical_bytes_share": [0, 0.5, 1],
    "limits.dead_letters_bytes_max": [500, 1_000_000],
    "limits.sessions_per_agent_max": [1, 3],
    "limits.broadcast_recipients_max": [2, 1000],
    "limits.drain_bytes_max": [200, 100_000],
    "limits.threads_max": [2, 1000],
    "limits.dead_letters_max": [2, 100],
    "limits.timers_per_tick": [1, 3, 256],
    "limits.agents_max": [6, 100],
    "bucket.capacity": [30, 1000],
    "bucket.refill_per_s": [1, 100],
    "quotas.critical.refill_per_s": [0.1, 2],
    "gaming.messages_min": [2, 5],
    "gaming.window_s": [10, 60],
    "sessions.stale_after_s": [5, 60],
    "sessions.lapse_after_s": [90, 600],
    "sessions.heartbeat_record_s": [0, 1],
    "sessions.announce": [False, False, True],
    "delivery.channel_retries_max": [0, 1, 3],
    "delivery.window_default": [1, 4, 32],
    "aging.enabled": [True, True, True, False],
    "aging.threshold_s": [3, 20, 60],
    "aging.boost_levels": [1, 1, 2],
    "aging.top": ["Blocking", "Blocking", "Blocking", "Coordinate", "Critical"],
    "decay.stale_threshold": [0, 1, 3],
    "queue_manager.latency_high_s": [2, 30],
    "queue_manager.latency_low_s": [0.5, 1.5],
    "queue_manager.cooldown_s": [1, 10],
    "queue_manager.window_s": [10, 60],
    "queue_manager.samples_min": [1, 5],
    "queue_manager.samples_max": [5, 50],
    "sweeper.interval_s": [1, 60],
    "retention.settled_s": [5, 3600],
    "retention.settled_max": [3, 1000],
    "retention.settled_bytes_max": [300, 1_000_000],
    "retention.batch_bytes": [1, 1000],
    "retention.acknowledged_s": [3600, 7200],
    "retention.acknowledged_max": [2, 1000],
    "retention.thread_idle_s": [10, 3600],
    "retention.dead_s": [30, 3600],
    "retention.batch": [1, 3, 64],
    "leases.ttl_default_s": [3, 60],
    "leases.warn_before_s": [1, 20],
    "leases.wait_default_s": [10, 300],
    "leases.wait_max_s": [300, 600],
    "leases.overtakes_max": [0, 1, 3],
    "leases.per_agent_max": [2, 20],
    "leases.leases_max": [6, 1000],
    "leases.waiters_max": [2, 64],
    "leases.lapsed_max": [1, 3, 1000],
    "inheritance.messages_max": [1, 3, 100],
    "attention.work_max_s": [5, 3600],
    "attention.aside_max": [1, 8],
    "health.sustained_s": [2, 60],
    "health.clear_s": [2, 60],
    "approvals.open_max": [2, 1000],
    "approvals.per_agent_max": [1, 3, 100],
    "approvals.give_up_after_s": [2, 86400],
    "approvals.handoffs.plan_approval.timeout_s": [3, 300],
    "approvals.handoffs.ratification.enabled": [True, False],
    "discussions.per_agent_max": [1, 100],
    "notices.per_subject_max": [1, 2, 20],
    "requests.timeout_s": [3, 300],
    "requests.open_max": [1, 100],
    "escalation.rules.coordinate_blocks.after_s": [2, 60],
    "escalation.rules.blocking_blocks.after_s": [3, 60],
    "escalation.rules.blocking_waits.after_s": [2, 60],
    "escalation.rules.contention.count": [2, 3],
    "escalation.boost_levels": [1, 1, 2],
    "escalation.director_s": [3, 300],
    "escalation.human_s": [5, 86400],
    "escalation.open_max": [2, 1000],
    "escalation.deferred_max": [1, 3, 1000],
    "escalation.history_max": [1, 1000],
    "routing.enforce_direction": [True, False],
    "wake.level": ["Info", "Coordinate", "Blocking"],
    "wake.after_s": [0, 2],
    "wake.grace_s": [3, 20],
    "wake.run_s": [20, 300],
    "wake.cooldown_s": [0, 5, 60],
    "wake.per_hour_max": [1, 3, 100],
    "wake.retries_max": [0, 1, 3],
    "wake.backoff_s": [[0], [2, 10]],
    "wake.rest_s": [0, 30],
    "wake.processes_max": [1, 2, 10],
    "wake.notifications_max": [1, 3],
    "wake.notify_again_s": [[2], [3, 10]],
}


_ACTIONS = ("boost", "interrupt_recipient", "notify_director", "escalate_to_human")


def drawn_policy(rng: random.Random) -> Policy:
    """Draw a policy; every rule does what it does by default, or any of what can be done."""
    document = document_of(default_policy())
    for rule in document["escalation"]["rules"].values():
        if rng.random() < 0.5:
            rule["actions"] = rng.sample(_ACTIONS, rng.randint(1, 3))
    for path, choices in CHOICES.items():
        *parents, field = path.split(".")
        place = document
        for parent in parents:
            place = place[parent]
        place[field] = rng.choice(choices)
    return policy_from(document)
