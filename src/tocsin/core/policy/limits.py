"""A named limit on everything."""

from tocsin.core.policy.base import Concern, Count, Seconds

__all__ = ["Limits"]


class Limits(Concern, frozen=True):
    """A named limit on everything; crossing one is a defined refusal."""

    #: Largest envelope, bytes of JSON (APM §9.1: 1 MB).
    message_bytes_max: Count
    #: Longest TTL that a sender may ask for, seconds.
    ttl_max_s: Seconds
    #: Registered agents in the project.
    agents_max: Count
    #: Open sessions of one agent.
    sessions_per_agent_max: Count
    #: Queued messages in one mailbox.
    mailbox_depth_max: Count
    #: Recipients of one broadcast.
    broadcast_recipients_max: Count
    #: Messages handed out by one drain.
    drain_max: Count
    #: Payload bytes handed out by one drain; the first message always fits.
    drain_bytes_max: Count
    #: Offers without receipt that one push session may ask for.
    window_max: Count
    #: Threads remembered at once; the one idle longest is forgotten first.
    threads_max: Count
    #: Dead letters kept at once; the oldest is purged first.
    dead_letters_max: Count
    #: Timers fired by one tick; the rest by the next.
    timers_per_tick: Count
    #: Message ids in one receipt, acknowledgement or redrive command.
    batch_max: Count
    #: Characters of a free-text field in a command, such as a reason.
    text_max: Count
