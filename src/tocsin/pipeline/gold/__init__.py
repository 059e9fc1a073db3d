"""Gold layer: the tables for the dashboard, the report and the advice."""

from tocsin.pipeline.gold.aging import AGING_WAIT, BOOST
from tocsin.pipeline.gold.delivery import DELIVERY_SLA, SLA_BREACH
from tocsin.pipeline.gold.frames import FRAME_DROP, LOAD_SHEDDING
from tocsin.pipeline.gold.lead_time import LEAD_TIME, THREAD_OUTCOME
from tocsin.pipeline.gold.policy_use import LATE_PICKUP, LEVEL_USE, PICKUP, RECIPIENT_LOAD, TTL_USE
from tocsin.pipeline.gold.priority_mix import PRIORITY_MIX
from tocsin.pipeline.gold.processing import DECAY_RATE, PROCESSING_LATENCY
from tocsin.pipeline.gold.queue import QUEUE_DEPTH, QUEUE_FLOW
from tocsin.pipeline.gold.recall import RECALL
from tocsin.pipeline.gold.refusal import REFUSAL
from tocsin.pipeline.gold.retry import DEAD_LETTER, RETRY
from tocsin.pipeline.gold.session import AGENT_ATTACHMENT, SESSION_COUNT
from tocsin.pipeline.gold.signal_state import SIGNAL_STATE
from tocsin.pipeline.gold.teamwork import DEADLOCK, ESCALATION_OUTCOME, INVERSION, LEASE_WAIT
from tocsin.pipeline.gold.time_to_drain import TIME_TO_DRAIN
from tocsin.pipeline.gold.traffic import TRAFFIC
from tocsin.pipeline.tables.table import Table

__all__ = ["TABLES"]

#: All gold tables; each comes after its inputs.
TABLES: tuple[Table, ...] = (
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
    TRAFFIC,
    LEAD_TIME,
    THREAD_OUTCOME,
    TTL_USE,
    PICKUP,
    LATE_PICKUP,
    LEVEL_USE,
    RECIPIENT_LOAD,
)
