"""Gold layer: views over the facts, for the dashboard, the report, the advice and anyone who asks in SQL."""

from tocsin.pipeline.tables.table import View
from tocsin.pipeline.views.messages.aging_wait import AGING_WAIT
from tocsin.pipeline.views.messages.dead_letter import DEAD_LETTER
from tocsin.pipeline.views.messages.delivery_sla import DELIVERY_SLA
from tocsin.pipeline.views.messages.processing_latency import PROCESSING_LATENCY
from tocsin.pipeline.views.messages.queue_depth import QUEUE_DEPTH
from tocsin.pipeline.views.messages.queue_flow import QUEUE_FLOW
from tocsin.pipeline.views.messages.retry import RETRY
from tocsin.pipeline.views.messages.signal_state import SIGNAL_STATE
from tocsin.pipeline.views.messages.sla_breach import SLA_BREACH
from tocsin.pipeline.views.messages.time_to_drain import TIME_TO_DRAIN
from tocsin.pipeline.views.messages.traffic import TRAFFIC
from tocsin.pipeline.views.occurrences.boost import BOOST
from tocsin.pipeline.views.occurrences.deadlock import DEADLOCK
from tocsin.pipeline.views.occurrences.decay_rate import DECAY_RATE
from tocsin.pipeline.views.occurrences.frame_drop import FRAME_DROP
from tocsin.pipeline.views.occurrences.inversion import INVERSION
from tocsin.pipeline.views.occurrences.load_shedding import LOAD_SHEDDING
from tocsin.pipeline.views.occurrences.recall import RECALL
from tocsin.pipeline.views.occurrences.refusal import REFUSAL
from tocsin.pipeline.views.policy_use.late_pickup import LATE_PICKUP
from tocsin.pipeline.views.policy_use.level_use import LEVEL_USE
from tocsin.pipeline.views.policy_use.pickup import PICKUP
from tocsin.pipeline.views.policy_use.priority_mix import PRIORITY_MIX
from tocsin.pipeline.views.policy_use.recipient_load import RECIPIENT_LOAD
from tocsin.pipeline.views.policy_use.ttl_use import TTL_USE
from tocsin.pipeline.views.teamwork.agent_attachment import AGENT_ATTACHMENT
from tocsin.pipeline.views.teamwork.agent_wake import AGENT_WAKE
from tocsin.pipeline.views.teamwork.escalation_outcome import ESCALATION_OUTCOME
from tocsin.pipeline.views.teamwork.lead_time import LEAD_TIME
from tocsin.pipeline.views.teamwork.lease_wait import LEASE_WAIT
from tocsin.pipeline.views.teamwork.session_count import SESSION_COUNT
from tocsin.pipeline.views.teamwork.thread_outcome import THREAD_OUTCOME

__all__ = ["VIEWS"]

#: All gold views; each comes after its inputs.
VIEWS: tuple[View, ...] = (
    SIGNAL_STATE,
    TIME_TO_DRAIN,
    RECALL,
    DELIVERY_SLA,
    SLA_BREACH,
    AGING_WAIT,
    BOOST,
    PRIORITY_MIX,
    REFUSAL,
    RETRY,
    DEAD_LETTER,
    QUEUE_FLOW,
    QUEUE_DEPTH,
    ESCALATION_OUTCOME,
    DEADLOCK,
    INVERSION,
    LEASE_WAIT,
    FRAME_DROP,
    LOAD_SHEDDING,
    PROCESSING_LATENCY,
    DECAY_RATE,
    SESSION_COUNT,
    AGENT_ATTACHMENT,
    AGENT_WAKE,
    TRAFFIC,
    LEAD_TIME,
    THREAD_OUTCOME,
    TTL_USE,
    PICKUP,
    LATE_PICKUP,
    LEVEL_USE,
    RECIPIENT_LOAD,
)
