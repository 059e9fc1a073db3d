"""Policy of limits on sizes and counts."""

from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Seconds, Share
from tocsin.core.protocol.priority import Priority

__all__ = ["Limits"]


class Limits(Concern, frozen=True):
    """Limits on sizes and counts; a request over a limit is refused."""

    #: Size of an envelope, bytes of JSON.
    message_bytes_max: Count
    #: Longest TTL that a sender may set, seconds.
    ttl_max_s: Seconds
    #: Registered agents in the project.
    agents_max: Count
    #: Open sessions of one agent.
    sessions_per_agent_max: Count
    #: Queued messages in one mailbox.
    mailbox_depth_max: Count
    #: Places beyond that, for messages at Critical and above.
    mailbox_reserve: Annotated[int, Meta(ge=0, le=10**12)]
    #: Bytes of the unsettled messages to one agent: payloads and metadata, from acceptance until the receipt, or until
    #: the ACK where the contract requires one.
    mailbox_bytes_max: Count
    #: Bytes of the unsettled messages from one agent. Keep it well below the two others: then one sender fills neither
    #: a mailbox nor the project.
    sender_bytes_max: Count
    #: Bytes of all unsettled messages of the project.
    project_bytes_max: Count
    #: Share of each of these three limits that messages at Critical and above may use in addition.
    critical_bytes_share: Share
    #: Recipients of one broadcast.
    broadcast_recipients_max: Count
    #: Messages returned by one drain.
    drain_max: Count
    #: Bytes of payloads and metadata returned by one drain; the first message always fits.
    drain_bytes_max: Count
    #: Offers without receipt at a time that a push session may ask for.
    window_max: Count
    #: Threads kept at once; the least recently used is forgotten first.
    threads_max: Count
    #: Dead letters kept at once; the oldest is purged first.
    dead_letters_max: Count
    #: Bytes of all dead letters, payloads and metadata; the oldest is purged first.
    dead_letters_bytes_max: Count
    #: Timers fired by one tick, which also ends once its events fill a group; the next tick fires the rest.
    timers_per_tick: Count
    #: Message ids in one receipt, acknowledgement or redrive command.
    batch_max: Count
    #: Prepared send decisions kept: one for each sender and type in use, and its recipients; all are dropped above it.
    plans_max: Count
    #: Characters of a free-text field in a command, such as a reason.
    text_max: Count

    def mailbox_limit(self, priority: int) -> int:
        """Return the depth at which a mailbox is full for a message of this priority."""
        return self.mailbox_depth_max + (self.mailbox_reserve if priority >= Priority.CRITICAL else 0)

    def with_reserve(self, bytes_max: int, priority: int) -> int:
        """Return a limit in bytes for a message of this priority."""
        return bytes_max + (int(bytes_max * self.critical_bytes_share) if priority >= Priority.CRITICAL else 0)
