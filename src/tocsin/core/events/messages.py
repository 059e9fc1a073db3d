"""Events of messages, from acceptance or refusal to the dead letters."""

from tocsin.core.events.base import EventBase
from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.protocol.contracts import DeliveryClass

__all__ = [
    "BroadcastAccepted",
    "DeadLetterPurged",
    "DeadLetterRedriven",
    "MessageAccepted",
    "MessageAcknowledged",
    "MessageBoosted",
    "MessageDelivered",
    "MessageDied",
    "MessageExpired",
    "MessageOffered",
    "MessageProcessed",
    "MessageReady",
    "MessageRecalled",
    "MessageRejected",
    "MessageReleased",
    "MessageRequeued",
    "NoticeFolded",
    "RecallRefused",
    "SendRefused",
]


class SendRefused(EventBase, frozen=True):
    """A well-formed message was refused; nothing of it is kept."""

    #: Its messageId.
    message_id: str
    #: Sender.
    sender: str
    #: Receiver as addressed, `*` for all.
    recipient: str
    #: Its type.
    message_type: str
    #: Priority asked for.
    requested: int
    #: Error code.
    code: str
    #: Description of the refusal.
    detail: str
    #: Seconds after which to retry, where known.
    retry_after_s: float | None = None
    #: `traceparent` of its metadata; empty for none.
    traceparent: str = ""


class BroadcastAccepted(EventBase, frozen=True):
    """A message to several recipients was accepted; one `MessageAccepted` for each follows."""

    #: The messageId, which is also the broadcast's id.
    broadcast: str
    #: Sender.
    sender: str
    #: Its type.
    message_type: str
    #: Type that the recipients were filtered by, `*` for all.
    receiver_type: str
    #: Number of accepted copies.
    accepted: int
    #: Recipients that were left out, each with its error code: `agent=code`.
    failed: tuple[str, ...]
    #: The payload, as JSON.
    payload: bytes
    #: The metadata, as JSON.
    metadata: bytes


class MessageAccepted(EventBase, frozen=True):
    """A message for one recipient was accepted. The sequence number of this event identifies the message."""

    #: Its messageId.
    message_id: str
    #: Sender.
    sender: str
    #: Recipient.
    recipient: str
    #: Its type.
    message_type: str
    #: Priority asked for.
    requested: int
    #: Priority granted.
    priority: int
    #: Rule that set the priority: `as_requested`, `contract_default`, `role_cap`, `gaming`, or `confirmation` and
    #: `imported`, which cost nothing.
    rule: str
    #: Importance within its level, 1 to 10.
    importance: int
    #: Share of the importance lost per decay interval.
    decay_rate: float
    #: `sync` or `async`.
    delivery_class: DeliveryClass
    #: Whether its contract requires an ACK.
    ack_required: bool
    #: Time at which it expires.
    expires_at: int
    #: Time in the sender's envelope.
    sent_at: int
    #: Protocol version of the envelope.
    version: str
    #: Thread that it belongs to.
    correlation_id: str | None
    #: Whether its correlationId opens a thread.
    opens_thread: bool
    #: Id of the broadcast that it is a copy of; the `BroadcastAccepted` event has payload and metadata then.
    broadcast: str | None
    #: The payload, as JSON.
    payload: bytes
    #: The metadata, as JSON.
    metadata: bytes
    #: `available`, `not_available_stale` or `not_available_offline`; `unknown` if it was imported.
    recipient_state: RecipientState
    #: `pushed_to_ws`, `buffered_for_piggyback` or `queued_offline`; `unknown` if it was not recorded.
    publish_path: PublishPath
    #: Session that the recipient was resolved to.
    resolved_session: str | None
    #: Tokens left in the sender's bucket; null if it is unlimited, and for all but the first copy of a broadcast.
    tokens: float | None
    #: Critical quota left to the sender.
    critical_quota: float | None
    #: Blocking quota left to the sender.
    blocking_quota: float | None
    #: Handoff point at which it is held; empty if it is queued at once.
    held: str = ""
    #: For the rule `gaming`: messages of the sender at Blocking or above in the window.
    high: int = 0
    #: For the rule `gaming`: all messages of the sender in the window.
    messages: int = 0
    #: Limit of the rule: for `gaming` the share that is allowed, for `role_cap` the highest level; null for none.
    limit: float | None = None
    #: For the rule `gaming`: length of the window, seconds; null for the others.
    window_s: float | None = None


class MessageReleased(EventBase, frozen=True):
    """A held message was released by a director."""

    #: The message.
    message: int
    #: The approval.
    approval: str
    #: Director that released it.
    by: str
    #: New time of expiry: its TTL starts again.
    expires_at: int
    #: Payload that replaces its own, as JSON; empty if it is unchanged.
    payload: bytes


class MessageOffered(EventBase, frozen=True):
    """A message was offered to its recipient."""

    #: The message.
    message: int
    #: The session.
    session: str
    #: Number of this offer, from 1.
    offer: int
    #: Priority level at the offer.
    level: int
    #: Time since it was enqueued, microseconds.
    waited_us: int
    #: Whether it was offered in the same decision that accepted it.
    pushed: bool


class MessageDelivered(EventBase, frozen=True):
    """A message arrived at its recipient."""

    #: The message.
    message: int
    #: `receipt`, or the confirmation that implied it: `ack`, `nack`, `response`; `next_call` before receipts quoted a
    #: cursor; `imported` if another system had delivered it.
    how: str


class MessageAcknowledged(EventBase, frozen=True):
    """A message was acknowledged by its recipient."""

    #: The message.
    message: int
    #: `received`, `queued` or `processed`, or `response` if an answer implied it.
    status: str
    #: Time from offer to acknowledgement, microseconds.
    latency_us: int
    #: Notes of the recipient.
    notes: str = ""


class MessageRejected(EventBase, frozen=True):
    """A message was rejected by its recipient; a requeue or a death follows."""

    #: The message.
    message: int
    #: Reason given.
    reason: str
    #: Error code given by the recipient.
    code: str
    #: Whether another attempt may help.
    can_retry: bool
    #: Fix suggested by the recipient.
    suggested_fix: str = ""


class MessageRequeued(EventBase, frozen=True):
    """A message was returned to the queue."""

    #: The message.
    message: int
    #: `session_ended`, `receipt_timeout`, `ack_timeout` or `nack`.
    cause: str
    #: Retries used, this one included.
    attempts: int
    #: Maximum number of retries.
    attempts_max: int
    #: Time at which it may be offered again.
    ready_at: int
    #: Timeout that was exceeded, seconds; 0 for none.
    threshold_s: float


class MessageReady(EventBase, frozen=True):
    """A retry became eligible: its backoff is over."""

    #: The message.
    message: int


class MessageProcessed(EventBase, frozen=True):
    """A message was processed by its recipient."""

    #: The message.
    message: int
    #: `ack` with status processed, `processed` command, or `response` in its thread.
    how: str
    #: Time from delivery to processed, microseconds.
    latency_us: int


class MessageExpired(EventBase, frozen=True):
    """A message expired before it was delivered."""

    #: The message.
    message: int
    #: `ttl`, or `stale` if its importance fell below the threshold.
    reason: str
    #: Time at which it was due.
    due_at: int
    #: Importance left.
    importance: float
    #: Importance below which it is stale.
    threshold: float


class MessageRecalled(EventBase, frozen=True):
    """A message was recalled by its sender before it was offered."""

    #: The message.
    message: int
    #: Agent that recalled it.
    by: str


class RecallRefused(EventBase, frozen=True):
    """A recall was refused: it came too late, or named no message of the caller."""

    #: The messageId named.
    message_id: str
    #: Agent that asked.
    by: str
    #: `already_delivered`, `already_expired` or `not_found`.
    outcome: str


class MessageBoosted(EventBase, frozen=True):
    """A message was raised by aging or by an escalation."""

    #: The message.
    message: int
    #: Level before.
    old_level: int
    #: Level after.
    new_level: int
    #: Whether it now goes first in its level.
    overdue: bool
    #: `aging` or `escalation`.
    rule: str
    #: Threshold of aging, or of the escalation, seconds.
    threshold_s: float
    #: Age of the message, microseconds.
    age_us: int
    #: Number of times that its age has crossed the threshold.
    boosts: int
    #: Level after, without inherited priority; null if that is the same.
    own_level: int | None = None


class MessageDied(EventBase, frozen=True):
    """A message became a dead letter."""

    #: The message.
    message: int
    #: `ack_timeout`, `receipt_timeout`, `rejected` or `recipient_gone`.
    reason: str
    #: Error code.
    code: str
    #: Retries used.
    attempts: int
    #: Description of the case.
    detail: str
    #: Maximum number of retries; 0 if none are allowed, or none would have helped.
    attempts_max: int = 0
    #: Timeout that was exceeded, seconds; 0 for none.
    threshold_s: float = 0.0


class DeadLetterRedriven(EventBase, frozen=True):
    """A dead letter was queued again, with a fresh TTL and retries."""

    #: The message.
    message: int
    #: Agent that redrove it.
    by: str
    #: New time of expiry.
    expires_at: int
    #: Availability of the recipient.
    recipient_state: RecipientState


class DeadLetterPurged(EventBase, frozen=True):
    """A dead letter was purged."""

    #: The message.
    message: int
    #: `age`, `limit` or `bytes`.
    reason: str
    #: Limit that was exceeded: seconds for `age`, dead letters for `limit`, bytes of all dead letters for `bytes`; null
    #: if it was not recorded.
    limit: float | None = None


class NoticeFolded(EventBase, frozen=True):
    """A notice of the bus was not sent, because too many about its subject wait in the mailbox of its recipient."""

    #: Agent that it was for.
    recipient: str
    #: What it was about.
    subject: str
    #: Its message type.
    notice_type: str
    #: Its priority.
    level: int
    #: Notices about that subject folded so far; 0 when the one that counts them is sent.
    count: int
