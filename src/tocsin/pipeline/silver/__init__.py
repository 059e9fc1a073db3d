"""Silver layer: lives of messages, and sessions, threads, leases, escalations and policies."""

from tocsin.pipeline.silver.agent_session import AGENT_SESSION
from tocsin.pipeline.silver.escalation import ESCALATION
from tocsin.pipeline.silver.lease_span import LEASE_SPAN
from tocsin.pipeline.silver.policy_span import POLICY_SPAN
from tocsin.pipeline.silver.session_part import SESSION_PART
from tocsin.pipeline.silver.thread import THREAD
from tocsin.pipeline.silver.thread_day import THREAD_DAY
from tocsin.pipeline.tables.table import View

__all__ = ["SESSION_PART", "THREAD_DAY", "VIEWS"]

#: Silver views; each comes after its inputs.
VIEWS: tuple[View, ...] = (POLICY_SPAN, AGENT_SESSION, THREAD, LEASE_SPAN, ESCALATION)
