"""What happens to messages, from the refusal at the door to the dead letters."""

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
    "RecallRefused",
    "SendRefused",
]


class SendRefused(EventBase, frozen=True):
    """A well-formed message was not accepted; nothing of it is kept."""

    #: Its messageId.
    message_id: str
    #: Who sent it.
    sender: str
    #: Receiver as addressed, `*` for all.
    recipient: str
    #: Its type.
    message_type: str
    #: Priority asked for.
    requested: int
    #: Catalogue code.
    code: str
    #: The refusal in a sentence.
    detail: str
    #: When to try again, seconds, where that is known.
    retry_after_s: float | None = None
    #: What its sender was doing, by the `traceparent` of its metadata; empty where it did not say.
    traceparent: str = ""


class BroadcastAccepted(EventBase, frozen=True):
    """A message to several recipients was accepted; one `MessageAccepted` for each follows."""

    #: The messageId, which is the broadcast's id too.
    broadcast: str
    #: Who sent it.
    sender: str
    #: Its type.
    message_type: str
    #: Type that the recipients were filtered by, `*` for all.
    receiver_type: str
    #: How many copies were accepted.
    accepted: int
    #: Who was left out, with the catalogue code of each: `agent=code`.
    failed: tuple[str, ...]
    #: The payload, as JSON.
    payload: bytes
    #: The metadata, as JSON.
    metadata: bytes


class MessageAccepted(EventBase, frozen=True):
    """A message for one recipient is durable and queued. Its sequence number is the message's identity."""

    #: Its messageId.
    message_id: str
    #: Who sent it.
    sender: str
    #: Whom it is for.
    recipient: str
    #: Its type.
    message_type: str
    #: Priority asked for.
    requested: int
    #: Priority granted.
    priority: int
    #: Why granted differs from asked: `as_requested`, `contract_default`, `role_cap`, `gaming`, or `confirmation`,
    #: which costs nothing.
    rule: str
    #: Importance inside its level, 1 to 10.
    importance: int
    #: Share of the importance lost per decay interval.
    decay_rate: float
    #: `sync` or `async`.
    delivery_class: DeliveryClass
    #: Whether its contract awaits an ACK.
    ack_required: bool
    #: When it expires.
    expires_at: int
    #: When its sender says it was written.
    sent_at: int
    #: Protocol version of the envelope.
    version: str
    #: Its thread.
    correlation_id: str | None
    #: Whether its correlation id opens a thread here.
    opens_thread: bool
    #: Set for a copy of a broadcast, whose event before holds payload and metadata.
    broadcast: str | None
    #: The payload, as JSON.
    payload: bytes
    #: The metadata, as JSON.
    metadata: bytes
    #: `available`, `not_available_stale` or `not_available_offline`.
    recipient_state: RecipientState
    #: `pushed_to_ws`, `buffered_for_piggyback` or `queued_offline`.
    publish_path: PublishPath
    #: Session that the recipient was resolved to.
    resolved_session: str | None
    #: Tokens left in the sender's bucket; null where it has none, or for a copy of a broadcast but the first.
    tokens: float | None
    #: Critical quota left to the sender.
    critical_quota: float | None
    #: Blocking quota left to the sender.
    blocking_quota: float | None
    #: Handoff point at which it is held; empty where it is queued at once.
    held: str = ""


class MessageReleased(EventBase, frozen=True):
    """A director let a held message go."""

    #: The message.
    message: int
    #: The approval.
    approval: str
    #: Who did it.
    by: str
    #: When it expires now: its TTL counts from here.
    expires_at: int
    #: The payload, as JSON, that it goes with instead of its own; empty where it is unchanged.
    payload: bytes


class MessageOffered(EventBase, frozen=True):
    """A message was put on its way to its recipient."""

    #: The message.
    message: int
    #: The session.
    session: str
    #: Time it was offered, counted from 1.
    offer: int
    #: Priority that it counted with.
    level: int
    #: Microseconds since it was enqueued.
    waited_us: int
    #: Whether it went within its own send.
    pushed: bool


class MessageDelivered(EventBase, frozen=True):
    """The recipient has it."""

    #: The message.
    message: int
    #: `receipt`, `next_call`, or what implied it: `ack`, `nack`, `response`.
    how: str


class MessageAcknowledged(EventBase, frozen=True):
    """The recipient acknowledged it."""

    #: The message.
    message: int
    #: `received`, `queued` or `processed`, or `response` where an answer implied it.
    status: str
    #: Microseconds from offer to acknowledgement.
    latency_us: int
    #: What the recipient noted.
    notes: str = ""


class MessageRejected(EventBase, frozen=True):
    """The recipient rejected it; what becomes of it is the next event."""

    #: The message.
    message: int
    #: Why.
    reason: str
    #: Code that the recipient gave.
    code: str
    #: Whether another attempt may help.
    can_retry: bool
    #: What the recipient suggests.
    suggested_fix: str = ""


class MessageRequeued(EventBase, frozen=True):
    """A message went back to the queue."""

    #: The message.
    message: int
    #: `session_ended`, `receipt_timeout`, `ack_timeout` or `nack`.
    cause: str
    #: Retries used, this one included.
    attempts: int
    #: Retries that it has in all.
    attempts_max: int
    #: When it may be offered again.
    ready_at: int
    #: The time-out that it crossed, seconds; 0 where there was none.
    threshold_s: float


class MessageReady(EventBase, frozen=True):
    """A retry's backoff is over."""

    #: The message.
    message: int


class MessageProcessed(EventBase, frozen=True):
    """Its recipient is done with it."""

    #: The message.
    message: int
    #: `ack` with status processed, `processed` command, or `response` in its thread.
    how: str
    #: Microseconds from delivery to processed.
    latency_us: int


class MessageExpired(EventBase, frozen=True):
    """A message ended unread."""

    #: The message.
    message: int
    #: `ttl`, or `stale` where its importance had decayed away.
    reason: str
    #: When it was due.
    due_at: int
    #: Importance left.
    importance: float
    #: Importance under which it is stale.
    threshold: float


class MessageRecalled(EventBase, frozen=True):
    """Its sender took it back before it was offered."""

    #: The message.
    message: int
    #: Who did it.
    by: str


class RecallRefused(EventBase, frozen=True):
    """A recall came too late, or named nothing of the caller's."""

    #: Its messageId.
    message_id: str
    #: Who did it.
    by: str
    #: `already_delivered`, `already_expired` or `not_found`.
    outcome: str


class MessageBoosted(EventBase, frozen=True):
    """Waiting, or an escalation, raised a message."""

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
    #: The threshold that its age crossed again, or the escalation's, seconds.
    threshold_s: float
    #: Its age, microseconds.
    age_us: int
    #: How often its age has crossed the threshold in all.
    boosts: int
    #: Level after, without what it is lent; null where that is the same.
    own_level: int | None = None


class MessageDied(EventBase, frozen=True):
    """A message went to the dead letters."""

    #: The message.
    message: int
    #: `ack_timeout`, `receipt_timeout`, `rejected` or `recipient_gone`.
    reason: str
    #: Catalogue code.
    code: str
    #: Retries used.
    attempts: int
    #: The case in a sentence.
    detail: str


class DeadLetterRedriven(EventBase, frozen=True):
    """A dead letter was queued again, with a fresh TTL and retries."""

    #: The message.
    message: int
    #: Who did it.
    by: str
    #: When it expires now.
    expires_at: int
    #: Whether the recipient has still to be there: its state now.
    recipient_state: RecipientState


class DeadLetterPurged(EventBase, frozen=True):
    """A dead letter was dropped for good."""

    #: The message.
    message: int
    #: `age` or `limit`.
    reason: str
