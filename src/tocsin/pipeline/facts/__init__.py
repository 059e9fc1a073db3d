"""Fact tables: counts and sums of messages by hour and minute, queue steps by second, and rare events."""

from tocsin.pipeline.facts.message_hour import MESSAGE_HOUR
from tocsin.pipeline.facts.message_minute import MESSAGE_MINUTE
from tocsin.pipeline.facts.occurrence import OCCURRENCE
from tocsin.pipeline.facts.queue_second import QUEUE_SECOND

__all__ = ["MESSAGE_HOUR", "MESSAGE_MINUTE", "OCCURRENCE", "QUEUE_SECOND"]
