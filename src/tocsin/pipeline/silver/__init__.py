"""Silver layer: one row per message, session, lease, thread, escalation and policy."""

from tocsin.pipeline.silver.agent_session import AGENT_SESSION, SESSION_DAY
from tocsin.pipeline.silver.escalation import ESCALATION
from tocsin.pipeline.silver.lease_span import LEASE_SPAN
from tocsin.pipeline.silver.policy_span import POLICY_SPAN
from tocsin.pipeline.silver.thread import THREAD, THREAD_DAY
from tocsin.pipeline.tables.table import Table

__all__ = ["TABLES"]

#: All derived silver tables; each comes after its inputs.
TABLES: tuple[Table, ...] = (
    POLICY_SPAN,
    SESSION_DAY,
    AGENT_SESSION,
    THREAD_DAY,
    THREAD,
    LEASE_SPAN,
    ESCALATION,
)
