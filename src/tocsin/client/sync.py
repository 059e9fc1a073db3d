"""The SDK for synchronous code; written by `make generate` from the asynchronous SDK, do not edit.

An agent runs on an event loop in a background thread; agents of a bus in the same process share the loop of the bus.
Any thread may call. Callbacks run on the loop's thread.
"""

# `type` is the name of a message's type, and of an agent's, on every interface.
# ruff: noqa: A002

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Never, Unpack, overload

from msgspec import UNSET, UnsetType

from tocsin.client.agent import Agent
from tocsin.client.config import ClientConfig
from tocsin.client.connection.backoff import Retry
from tocsin.client.connection.connection import ConnectionState
from tocsin.client.facade import AgentFacade, Facade, awaited
from tocsin.client.leases import Lease
from tocsin.client.loop_thread import SyncBus
from tocsin.client.messages.message import Message, Shape
from tocsin.client.messages.sending import Outcome
from tocsin.client.messages.work import Interruption, Resuming, Working
from tocsin.core.commands import (
    Acknowledged,
    AckStatus,
    Adopted,
    ApprovalDecided,
    ApprovalRequested,
    Attending,
    BroadcastReceipt,
    Discussed,
    Done,
    Escalated,
    HealthReported,
    LeaseRecord,
    Published,
    RecallResult,
    Receipt,
    Redriven,
    Rejected,
    Released,
    Subscriptions,
    TimeoutExtended,
)
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.priority import Priority
from tocsin.wire.agents import AgentRecord, IssuedToken, Me, TokenRecord
from tocsin.wire.archive import AdviceRecord, ArchiveStatus, ReportRecord, TableRows
from tocsin.wire.drafts import Draft, Options, Payload
from tocsin.wire.history import (
    DeadLetterGroup,
    DeadLetterRecord,
    DeadLetterSummary,
    MessageHistory,
    MessageRecord,
    MessageSummary,
    RedrivenMatching,
)
from tocsin.wire.leases import LeaseRecords, PathConflict, WaitGraphRecord
from tocsin.wire.messages import Sent, WaitingMessages
from tocsin.wire.operation import Page
from tocsin.wire.project import (
    AgentDetailsPage,
    Conversations,
    Overview,
    PendingMessages,
    PolicyCheck,
    PolicyRecord,
    PolicyVersion,
    ProjectStatus,
)
from tocsin.wire.teamwork import (
    AlertRecord,
    ApprovalRecord,
    DiscussionRecord,
    EscalationRecord,
    RequestRecord,
    TopicRecord,
)

__all__ = ["SyncAgent", "SyncInterruption", "SyncLease", "SyncMessage", "SyncResuming", "SyncWorking"]


class SyncMessage(Facade[Message]):
    """A received message, and the operations of its recipient on it."""

    @property
    def signal_id(self) -> str:
        """Id of this recipient's copy."""
        return self._wrapped.signal_id

    @property
    def offer(self) -> int:
        """How often it was offered, from 1."""
        return self._wrapped.offer

    @property
    def attempt(self) -> int:
        """Retries so far."""
        return self._wrapped.attempt

    @property
    def interrupts(self) -> str | None:
        """The messageId of the work that it interrupts, if it does."""
        return self._wrapped.interrupts

    @property
    def repeated(self) -> bool:
        """Return whether it was offered before without a receipt, so that it may have been seen."""
        return self._wrapped.repeated

    @property
    def ttl_s(self) -> float | None:
        """Return its time to live, seconds from its acceptance."""
        return self._wrapped.ttl_s

    @property
    def message_id(self) -> str:
        """Return the id that its sender gave it."""
        return self._wrapped.message_id

    @property
    def sender(self) -> str:
        """Return the agent that sent it."""
        return self._wrapped.sender

    @property
    def receiver(self) -> str:
        """Return the agent it was sent to, or `*`."""
        return self._wrapped.receiver

    @property
    def sender_type(self) -> str:
        """Return the type of the agent that sent it."""
        return self._wrapped.sender_type

    @property
    def type(self) -> str:
        """Return its message type."""
        return self._wrapped.type

    @property
    def priority(self) -> str:
        """Return the name of its priority."""
        return self._wrapped.priority

    @property
    def level(self) -> int:
        """Return its priority as a number, from 0."""
        return self._wrapped.level

    @property
    def correlation_id(self) -> str | None:
        """Return the thread that it belongs to."""
        return self._wrapped.correlation_id

    @property
    def timestamp(self) -> datetime:
        """Return the time at which its sender wrote it, by the sender's clock."""
        return self._wrapped.timestamp

    @property
    def delivery_class(self) -> DeliveryClass | None:
        """Return its delivery class."""
        return self._wrapped.delivery_class

    @property
    def importance(self) -> int | None:
        """Return its importance inside its priority, 1 to 10."""
        return self._wrapped.importance

    @property
    def payload(self) -> dict[str, Any]:
        """Return its payload."""
        return self._wrapped.payload

    def payload_as(self, shape: Callable[..., Shape]) -> Shape:
        """Return its payload as a struct or dataclass; raise `msgspec.ValidationError` if it does not fit."""
        return self._wrapped.payload_as(shape)

    @property
    def metadata(self) -> dict[str, Any]:
        """Return its metadata."""
        return self._wrapped.metadata

    def confirm(self) -> None:
        """Confirm its receipt; by default the inbox does it."""
        self._background.soon(lambda: self._wrapped.confirm())

    def acknowledge(self, status: AckStatus = "received", notes: str = "") -> Acknowledged:
        """Acknowledge it: `received`, `queued` or `processed`."""
        return self._background.run(self._wrapped.acknowledge(status, notes))

    def reject(self, reason: str, *, can_retry: bool = False, code: str = "", suggested_fix: str = "") -> Rejected:
        """Reject it: with `can_retry` it is delivered again later, otherwise it becomes a dead letter."""
        return self._background.run(
            self._wrapped.reject(reason, can_retry=can_retry, code=code, suggested_fix=suggested_fix)
        )

    def mark_processed(self) -> Done:
        """Mark it as processed."""
        return self._background.run(self._wrapped.mark_processed())

    def reply(self, payload: Payload, *, type: str | None = None, **options: Unpack[Options]) -> Sent:
        """Answer it in its thread; `options` are the fields of `Draft`."""
        return self._background.run(self._wrapped.reply(payload, type=type, **options))


class SyncLease(Facade[Lease]):
    """A lease that is renewed until it is released or lost."""

    @property
    def lease(self) -> str:
        """Its id."""
        return self._wrapped.lease

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Resources that it holds exclusively."""
        return self._wrapped.exclusive

    @property
    def shared(self) -> tuple[str, ...]:
        """Resources that it holds together with others."""
        return self._wrapped.shared

    @property
    def ttl_s(self) -> float:
        """Its duration, seconds; it is renewed before that."""
        return self._wrapped.ttl_s

    @property
    def wanted(self) -> str:
        """Return the names of its resources, for error messages."""
        return self._wrapped.wanted

    @property
    def is_held(self) -> bool:
        """Tell whether it is held, as far as this client has been notified."""
        return self._wrapped.is_held

    def must_hold(self) -> None:
        """Raise `LeaseLost` if it was lost; call it before an action that cannot be undone."""
        self._wrapped.must_hold()

    def lost(self) -> None:
        """Wait until it is lost or released."""
        self._background.run(self._wrapped.lost())

    def renew(self, ttl_s: float | None = None) -> LeaseRecord:
        """Extend it now, and use a new duration from now on if one is given."""
        return self._background.run(self._wrapped.renew(ttl_s))

    def release(self) -> Released:
        """Release it; raise the refusal if it was lost meanwhile."""
        return self._background.run(self._wrapped.release())

    def __enter__(self) -> "SyncLease":
        self._background.run(self._wrapped.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._wrapped.__aexit__(kind, error, trace))


class SyncInterruption(Facade[Interruption]):
    """An interruption: entering it returns the message that interrupts, leaving it resumes the work."""

    @property
    def message(self) -> "SyncMessage":
        """The message that interrupts."""
        return SyncMessage(self._background, self._wrapped.message)

    @property
    def saved(self) -> str:
        """Notes that were saved of the work, once it is resumed."""
        return self._wrapped.saved

    def __enter__(self) -> "SyncMessage":
        return SyncMessage(self._background, self._background.run(self._wrapped.__aenter__()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._wrapped.__aexit__(kind, error, trace))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Allow an interruption of the interruption."""
        return SyncInterruption.optional(self._background, self._background.run(self._wrapped.pause_point(save)))


class SyncWorking(Facade[Working]):
    """Work on one message."""

    @property
    def message(self) -> "SyncMessage":
        """The message that is worked on."""
        return SyncMessage(self._background, self._wrapped.message)

    @property
    def saved(self) -> str:
        """Notes that were saved when the work was put aside, by this agent or by the hub; empty otherwise."""
        return self._wrapped.saved

    def __enter__(self) -> "SyncWorking":
        self._background.run(self._wrapped.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._wrapped.__aexit__(kind, error, trace))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Allow an interruption here; if there is one, put the work aside with the notes that `save` returns.

        The message that interrupts is in the interruption, and is not handed out by the inbox as well.
        """
        return SyncInterruption.optional(self._background, self._background.run(self._wrapped.pause_point(save)))


class SyncResuming(Facade[Resuming]):
    """Work that is resumed after a crash; its message was confirmed and is not delivered again."""

    @property
    def message_id(self) -> str:
        """The messageId of the work; `Agent.get_message` looks the message up."""
        return self._wrapped.message_id

    @property
    def saved(self) -> str:
        """Notes that were saved when it was put aside."""
        return self._wrapped.saved

    @property
    def duplicate(self) -> bool:
        """Whether these notes were returned before."""
        return self._wrapped.duplicate

    def __enter__(self) -> "SyncResuming":
        self._background.run(self._wrapped.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self._wrapped.__aexit__(kind, error, trace))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Allow an interruption here; if there is one, put the work aside with the notes that `save` returns."""
        return SyncInterruption.optional(self._background, self._background.run(self._wrapped.pause_point(save)))


class SyncAgent(AgentFacade):
    """One agent, connected to a hub or to a project in the same process."""

    @classmethod
    def connect(
        cls,
        target: "str | SyncBus | None" = None,
        *,
        token: str | None = None,
        agent: str | None = None,
        role: str | None = None,
        type: str | None = None,
        capabilities: Sequence[str] = (),
        daemon: bool = False,
        sign: bool = False,
        retry: Retry | None = None,
        config: ClientConfig | None = None,
        **unknown: Never,
    ) -> "SyncAgent":
        """Connect an agent; use `with`.

        Args:
            target: Address of a hub, or an embedded bus; by default `TOCSIN_URL`, or else the configured address.
            token: The agent's token; by default `TOCSIN_TOKEN`, or else the content of the file `TOCSIN_TOKEN_FILE`.
            agent: Name of the agent, on an embedded bus or a hub that trusts this machine.
            role: Role of the agent, on an embedded bus or a hub that trusts this machine; `primary` by default.
            type: Register the agent with this type, or change its type; by default its registration stays as it is.
            capabilities: Message types that the agent accepts, registered with `type`; empty accepts any.
            daemon: Open a `daemon` session: the agent's always-on listener, shown apart from its other sessions.
            sign: Sign every envelope with the token.
            retry: When to retry sends that are refused for now; by default they are not retried.
            config: Timeouts and limits; `client_config(window=8)` makes one.
            unknown: Refused, with the name that an old spelling has now.
        """
        return cls._connected(
            target,
            lambda target: Agent.connect(
                target,
                token=token,
                agent=agent,
                role=role,
                type=type,
                capabilities=capabilities,
                daemon=daemon,
                sign=sign,
                retry=retry,
                config=config,
                **unknown,
            ),
        )

    @property
    def name(self) -> str:
        """Return the agent's name, as its token gives it."""
        return self._wrapped.name

    @property
    def session(self) -> str:
        """Return the id of its session."""
        return self._wrapped.session

    @property
    def state(self) -> ConnectionState:
        """Return the state of its connection."""
        return self._wrapped.state

    @property
    def waiting(self) -> Mapping[str, int]:
        """Return the number of messages that wait at the hub, by priority, as last reported."""
        return self._wrapped.waiting

    @property
    def unconfirmed(self) -> int:
        """Return the number of messages that have arrived and have no receipt yet."""
        return self._wrapped.unconfirmed

    @property
    def is_paused(self) -> bool:
        """Return whether the hub pushes no messages at present, because the application takes none."""
        return self._wrapped.is_paused

    def limit_window(self, window: int) -> None:
        """Take at most so many messages without a receipt from now on; 0 takes none.

        A worker keeps it at the number of messages that it can work on, so that the others stay at the hub.
        """
        self._wrapped.limit_window(window)

    def on_state(self, watcher: Callable[[ConnectionState], None]) -> None:
        """Call a function at every change of the connection's state."""
        self._background.soon(lambda: self._wrapped.on_state(watcher))

    def until(self, *states: ConnectionState) -> ConnectionState:
        """Wait until the connection has one of some states."""
        return self._background.run(self._wrapped.until(*states))

    @overload
    def send(  # type: ignore[overload-overlap]
        self,
        to: Literal["*"],
        type: str,
        payload: Payload | None = ...,
        *,
        timeout_s: float | None = ...,
        retry: Retry | None = ...,
        **options: Unpack[Options],
    ) -> BroadcastReceipt: ...

    @overload
    def send(
        self,
        to: str,
        type: str,
        payload: Payload | None = ...,
        *,
        timeout_s: float | None = ...,
        retry: Retry | None = ...,
        **options: Unpack[Options],
    ) -> Receipt: ...

    def send(
        self,
        to: str,
        type: str,
        payload: Payload | None = None,
        *,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        **options: Unpack[Options],
    ) -> Sent:
        """Send a message and return its receipt once it is durable.

        `to="*"` sends to all agents, or to all of `to_type`. `options` are the fields of `Draft`.
        """
        return self._background.run(self._wrapped.send(to, type, payload, timeout_s=timeout_s, retry=retry, **options))

    def send_many(
        self, drafts: Iterable[Draft], *, timeout_s: float | None = None, retry: Retry | None = None
    ) -> list[Outcome]:
        """Send many messages; return for each its receipt, or the refusal that `send` would raise."""
        return self._background.run(self._wrapped.send_many(drafts, timeout_s=timeout_s, retry=retry))

    def request(
        self,
        to: str,
        type: str,
        payload: Payload | None = None,
        *,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        escalate: bool = True,
        boost_on_timeout: bool = False,
        **options: Unpack[Options],
    ) -> "SyncMessage":
        """Send a message and return the first response in its thread; a rejection, or its death, is raised.

        The response is not handed out by `inbox` as well; one that arrives too late is. The hub records the wait for
        one other agent: the wait lends its priority, and it is ended (`Deadlock`) if it closes a cycle of waits. With
        `boost_on_timeout` the message gets a higher priority and the same time again at the timeout. With `escalate`,
        which is the default, the directors are notified at the timeout; otherwise only this agent is.
        """
        return SyncMessage(
            self._background,
            self._background.run(
                self._wrapped.request(
                    to,
                    type,
                    payload,
                    timeout_s=timeout_s,
                    retry=retry,
                    escalate=escalate,
                    boost_on_timeout=boost_on_timeout,
                    **options,
                )
            ),
        )

    def acquire(
        self,
        resources: str | Sequence[str] = (),
        *,
        shared: str | Sequence[str] = (),
        ttl_s: float | None = None,
        priority: str | Priority | None = None,
        wait_s: float | None = None,
    ) -> "SyncLease":
        """Acquire resources, all or none, and renew the lease while it is held; use `with`.

        `resources` are held exclusively, `shared` ones together with other agents that share them. It waits in the
        queue up to `wait_s` (0 fails at once; by default the policy's limit). If the lease is not granted it raises
        `LeaseConflict`, or `Deadlock` if the wait was ended to break a deadlock.
        """
        return SyncLease(
            self._background,
            self._background.run(
                awaited(self._wrapped.acquire(resources, shared=shared, ttl_s=ttl_s, priority=priority, wait_s=wait_s))
            ),
        )

    def working_on(self, message: "SyncMessage", *, interruptible: bool = True) -> "SyncWorking":
        """Work on a message, as `with`; only messages that may interrupt it are delivered until it ends.

        If the work was put aside, such as by a crash, it is resumed, and `Working.saved` has the notes saved then.
        """
        return SyncWorking(self._background, self._wrapped.working_on(message._wrapped, interruptible=interruptible))

    def resuming(self, message_id: str | None = None) -> "SyncResuming":
        """Resume work that was put aside, as `with`, such as after a crash, when its message is confirmed.

        By default it is the work that was put aside last; `get_attention` lists all.
        """
        return SyncResuming(self._background, self._wrapped.resuming(message_id))

    def pause_point(self, save: Callable[[], str] | None = None) -> "SyncInterruption | None":
        """Allow an interruption of the current work here; see `Working.pause_point`."""
        return SyncInterruption.optional(self._background, self._background.run(self._wrapped.pause_point(save)))

    def publish_topic(
        self,
        topic: str,
        type: str,
        payload: Payload | None = None,
        *,
        guarantee: Literal["each", "all"] = "each",
        **options: Unpack[Options],
    ) -> Published:
        """Publish a message to all other subscribers of a topic; `all` delivers to all of them or to none."""
        return self._background.run(self._wrapped.publish_topic(topic, type, payload, guarantee=guarantee, **options))

    def peek_inbox(
        self,
        *,
        limit: int = 20,
        at_least: Literal["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"] = "Info",
        payload_bytes_max: int = 0,
    ) -> WaitingMessages:
        """Show waiting messages, the most urgent first, without handing them out: they still wait.

        Args:
            limit: Maximum number of messages.
            at_least: Show only messages of this priority or higher.
            payload_bytes_max: Larger payloads are left out; their size is shown in any case.
        """
        return self._background.run(
            self._wrapped.peek_inbox(limit=limit, at_least=at_least, payload_bytes_max=payload_bytes_max)
        )

    def recall_message(self, message_id: str) -> RecallResult:
        """Recall a message that has not been handed out yet; only its sender can.

        Args:
            message_id: The message_id of the message.
        """
        return self._background.run(self._wrapped.recall_message(message_id))

    def find_messages(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        fresh: bool = True,
        q: str = "",
        states: str = "",
        level: Literal["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"] | None = None,
        sender: str | None = None,
        recipient: str | None = None,
        type: str | None = None,
        delivery_class: Literal["sync", "async"] | None = None,
        correlation_id: str | None = None,
        publish_path: Literal["pushed_to_ws", "buffered_for_piggyback", "queued_offline", "unknown"] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page[MessageSummary]:
        """Find messages by their properties and by words of their payload, newest first.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
            q: Words of the payload.
            states: States, separated by commas.
            level: Current priority, including boosts.
            sender: The sender.
            recipient: The recipient.
            type: The message type.
            delivery_class: The delivery class.
            correlation_id: The correlationId of the thread.
            publish_path: How it was handled when sent; `unknown` matches rows without a recorded path.
            since: Accepted at or after this time, ISO 8601.
            until: Accepted before this time, ISO 8601.
        """
        return self._background.run(
            self._wrapped.find_messages(
                after=after,
                limit=limit,
                fresh=fresh,
                q=q,
                states=states,
                level=level,
                sender=sender,
                recipient=recipient,
                type=type,
                delivery_class=delivery_class,
                correlation_id=correlation_id,
                publish_path=publish_path,
                since=since,
                until=until,
            )
        )

    def get_message(self, message_id: str, *, fresh: bool = True, limit: int = 100) -> list[MessageRecord]:
        """Show all copies of a message that the caller may see, newest first.

        Args:
            message_id: The message_id of the message, or the signal_id of one copy of a broadcast.
            fresh: Wait until the history contains everything that is durable now.
            limit: Maximum number of items.
        """
        return self._background.run(self._wrapped.get_message(message_id, fresh=fresh, limit=limit))

    def trace_message(self, message_id: str, *, fresh: bool = True, limit: int = 100) -> list[MessageHistory]:
        """Show the events of a message: every decision about it, in order.

        Args:
            message_id: The message_id of the message, or the signal_id of one copy of a broadcast.
            fresh: Wait until the history contains everything that is durable now.
            limit: Maximum number of items.
        """
        return self._background.run(self._wrapped.trace_message(message_id, fresh=fresh, limit=limit))

    def list_inbox(
        self, *, after: int = 0, limit: int = 100, fresh: bool = True, states: str = "queued,offered"
    ) -> Page[MessageRecord]:
        """List the caller's messages without taking them out of the inbox.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
            states: States, separated by commas.
        """
        return self._background.run(self._wrapped.list_inbox(after=after, limit=limit, fresh=fresh, states=states))

    def list_thread(
        self, correlation_id: str, *, after: int = 0, limit: int = 100, fresh: bool = True
    ) -> Page[MessageRecord]:
        """List the messages of a thread, oldest first.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
            correlation_id: The correlationId of the thread.
        """
        return self._background.run(self._wrapped.list_thread(correlation_id, after=after, limit=limit, fresh=fresh))

    def search_messages(
        self, *, after: int = 0, limit: int = 100, fresh: bool = True, q: str = ""
    ) -> Page[MessageRecord]:
        """Search messages by words of their payload, newest first.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
            q: Words of the payload.
        """
        return self._background.run(self._wrapped.search_messages(after=after, limit=limit, fresh=fresh, q=q))

    def list_dead_letters(self, *, after: int = 0, limit: int = 100, fresh: bool = True) -> Page[DeadLetterRecord]:
        """List dead letters with their reasons, oldest first.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
        """
        return self._background.run(self._wrapped.list_dead_letters(after=after, limit=limit, fresh=fresh))

    def redrive_dead_letters(self, signal_ids: Sequence[str]) -> Redriven:
        """Queue dead letters again; senders may redrive their own, directors all.

        Args:
            signal_ids: Signal ids of the dead letters.
        """
        return self._background.run(self._wrapped.redrive_dead_letters(signal_ids))

    def count_dead_letters(
        self,
        *,
        reason: str | None = None,
        code: str | None = None,
        type: str | None = None,
        recipient: str | None = None,
    ) -> list[DeadLetterGroup]:
        """Count dead letters by reason and code, largest group first.

        Only directors and humans may call it.

        Args:
            reason: Why they died, such as retries_exhausted.
            code: Code of the last failure.
            type: The message type.
            recipient: The recipient.
        """
        return self._background.run(
            self._wrapped.count_dead_letters(reason=reason, code=code, type=type, recipient=recipient)
        )

    def find_dead_letters(
        self,
        *,
        reason: str | None = None,
        code: str | None = None,
        type: str | None = None,
        recipient: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Page[DeadLetterSummary]:
        """Find dead letters by reason, code, type or recipient.

        Only directors and humans may call it.

        Args:
            reason: Why they died, such as retries_exhausted.
            code: Code of the last failure.
            type: The message type.
            recipient: The recipient.
            after: `next` of the previous page.
            limit: Maximum number of items.
        """
        return self._background.run(
            self._wrapped.find_dead_letters(
                reason=reason, code=code, type=type, recipient=recipient, after=after, limit=limit
            )
        )

    def redrive_matching(
        self,
        *,
        reason: str | None = None,
        code: str | None = None,
        type: str | None = None,
        recipient: str | None = None,
    ) -> RedrivenMatching:
        """Queue matching dead letters again, as many as one command may.

        Only directors and humans may call it.

        Args:
            reason: Why they died, such as retries_exhausted.
            code: Code of the last failure.
            type: The message type.
            recipient: The recipient.
        """
        return self._background.run(
            self._wrapped.redrive_matching(reason=reason, code=code, type=type, recipient=recipient)
        )

    def get_me(self) -> Me:
        """Show the caller's identity.

        Only a hub serves it.
        """
        return self._background.run(self._wrapped.get_me())

    def list_agents(self, *, limit: int | None = None) -> list[AgentRecord]:
        """List agents and their presence, by name.

        Args:
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_agents(limit=limit))

    def get_agent(self, agent: str) -> AgentRecord:
        """Show one agent and its presence.

        Args:
            agent: Name of the agent.
        """
        return self._background.run(self._wrapped.get_agent(agent))

    def retire_agent(self, agent: str, *, reason: str = "") -> Done:
        """Remove an agent from the project; messages that wait for it become dead letters.

        Args:
            agent: The agent to remove.
            reason: Reason, recorded with the removal.
        """
        return self._background.run(self._wrapped.retire_agent(agent, reason=reason))

    def list_tokens(self, *, agent: str | None = None, limit: int | None = None) -> list[TokenRecord]:
        """List tokens that the caller may administer, and its own, without their secrets.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            agent: Only tokens of this agent.
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_tokens(agent=agent, limit=limit))

    def issue_token(
        self,
        agent: str,
        *,
        role: Literal["director", "primary", "clone", "human"] = "primary",
        type: str | None = "AdHoc",
        admin: bool = False,
        types: Sequence[str] | None = None,
        lifetime_s: float | None = None,
    ) -> IssuedToken:
        """Issue a token for an agent, and register the agent if a type is given.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            agent: Name of the agent.
            role: Role of the agent.
            type: Register the agent with this type; null leaves that to the agent.
            admin: Whether the token may administer tokens.
            types: Agent types that the agent may register as; by default `type`, or any if that is null.
            lifetime_s: Seconds until the token expires; null is never.
        """
        return self._background.run(
            self._wrapped.issue_token(agent, role=role, type=type, admin=admin, types=types, lifetime_s=lifetime_s)
        )

    def rotate_tokens(
        self, agent: str, *, overlap_s: float = 0.0, lifetime_s: float | UnsetType | None = UNSET
    ) -> IssuedToken:
        """Issue a new token for an agent that replaces all its tokens.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            agent: Name of the agent.
            overlap_s: Seconds for which the old tokens remain valid.
            lifetime_s: Seconds until the new token expires; null is never; by default as long as the last one.
        """
        return self._background.run(self._wrapped.rotate_tokens(agent, overlap_s=overlap_s, lifetime_s=lifetime_s))

    def revoke_tokens(self, agent: str) -> list[TokenRecord]:
        """Revoke all tokens of an agent.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            agent: Name of the agent.
        """
        return self._background.run(self._wrapped.revoke_tokens(agent))

    def list_leases(
        self, *, after: str = "", limit: int = 100, resource: str | None = None, agent: str | None = None
    ) -> LeaseRecords:
        """List leases and the requests that wait for them.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            resource: Only leases that conflict with this name or glob.
            agent: Only leases of this agent.
        """
        return self._background.run(self._wrapped.list_leases(after=after, limit=limit, resource=resource, agent=agent))

    def release_resources(self, resources: Sequence[str]) -> Released:
        """Release resources by the names they are held under.

        Args:
            resources: Resources, by the names they are held under.
        """
        return self._background.run(self._wrapped.release_resources(resources))

    def check_paths(self, paths: Sequence[str]) -> list[PathConflict]:
        """List which of the given paths other agents hold.

        Args:
            paths: Paths that are about to be changed.
        """
        return self._background.run(self._wrapped.check_paths(paths))

    def get_lease(self, lease: str) -> LeaseRecord:
        """Show one lease or waiting request.

        Args:
            lease: Id of the lease or of the waiting request.
        """
        return self._background.run(self._wrapped.get_lease(lease))

    def release_lease(self, *, lease: str | None = None, resources: Sequence[str] = ()) -> Released:
        """Release a lease, or cancel a waiting request.

        Args:
            lease: Id of the lease or of the waiting request.
            resources: Resources to release, by the names they are held under.
        """
        return self._background.run(self._wrapped.release_lease(lease=lease, resources=resources))

    def renew_lease(self, lease: str, *, ttl_s: float | None = None) -> LeaseRecord:
        """Extend a lease.

        Args:
            lease: Id of the lease or of the waiting request.
            ttl_s: Seconds from now on; as before if absent.
        """
        return self._background.run(self._wrapped.renew_lease(lease, ttl_s=ttl_s))

    def force_release(self, lease: str, reason: str) -> Released:
        """Release another agent's lease, or cancel its waiting request.

        Only directors and humans may call it.

        Args:
            lease: Id of the lease or of the waiting request.
            reason: Reason, sent to the agent that loses the lease.
        """
        return self._background.run(self._wrapped.force_release(lease, reason))

    def list_waits(self, *, after: str = "", limit: int = 100) -> WaitGraphRecord:
        """Show the wait-for graph: which agents wait for which, and the priorities that they lend.

        Only directors and humans may call it.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
        """
        return self._background.run(self._wrapped.list_waits(after=after, limit=limit))

    def get_policy(self) -> PolicyRecord:
        """Show the policy in force."""
        return self._background.run(self._wrapped.get_policy())

    def adopt_policy(
        self, policy: dict[str, Any], *, reason: str = "", scope: Literal["whole", "change"] = "whole"
    ) -> Adopted:
        """Adopt a policy: a whole one, or a change to the one in force.

        Only directors and humans may call it.

        Args:
            policy: Settings.
            reason: Reason, recorded with the policy.
            scope: `whole`: settings that are not named have their defaults; `change`: they stay as they are in the
                policy in force.
        """
        return self._background.run(self._wrapped.adopt_policy(policy, reason=reason, scope=scope))

    def check_policy(
        self, policy: dict[str, Any], *, reason: str = "", scope: Literal["whole", "change"] = "whole"
    ) -> PolicyCheck:
        """Check whether a policy is valid, without adopting it.

        Args:
            policy: Settings.
            reason: Reason, recorded with the policy.
            scope: `whole`: settings that are not named have their defaults; `change`: they stay as they are in the
                policy in force.
        """
        return self._background.run(self._wrapped.check_policy(policy, reason=reason, scope=scope))

    def list_policies(self, *, after: int = 0, limit: int = 100, fresh: bool = True) -> Page[PolicyVersion]:
        """List the policies that were adopted, the newest first, with what each changed.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
        """
        return self._background.run(self._wrapped.list_policies(after=after, limit=limit, fresh=fresh))

    def get_status(self) -> ProjectStatus:
        """Show counts and condition of the project."""
        return self._background.run(self._wrapped.get_status())

    def get_overview(self) -> Overview:
        """Show counts and latencies since the hub started.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return self._background.run(self._wrapped.get_overview())

    def list_pending(self) -> PendingMessages:
        """List undelivered messages, the soonest to expire first.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return self._background.run(self._wrapped.list_pending())

    def list_roster(self, *, after: str = "", limit: int = 100, q: str = "") -> AgentDetailsPage:
        """List agents with their sessions, attention and budget.

        Only directors, humans and administrators may call it.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            q: Part of an agent's name.
        """
        return self._background.run(self._wrapped.list_roster(after=after, limit=limit, q=q))

    def list_conversations(self) -> Conversations:
        """Count recent messages by sender and recipient, largest first.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return self._background.run(self._wrapped.list_conversations())

    def get_attention(self) -> Attending:
        """Show what the calling agent is working on."""
        return self._background.run(self._wrapped.get_attention())

    def list_requests(self, *, request: str | None = None, limit: int | None = None) -> list[RequestRecord]:
        """List the open requests of the caller; directors see all.

        Args:
            request: Only the request with this messageId.
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_requests(request=request, limit=limit))

    def cancel_request(self, request: str) -> Done:
        """Stop waiting for the answer to a request; the message itself is still delivered.

        Args:
            request: messageId of the request.
        """
        return self._background.run(self._wrapped.cancel_request(request))

    def extend_request(self, request: str, *, timeout_s: float | None = None) -> TimeoutExtended:
        """Wait longer for the answer to a request.

        Args:
            request: messageId of the request.
            timeout_s: Seconds to wait from now on; the policy's default if absent.
        """
        return self._background.run(self._wrapped.extend_request(request, timeout_s=timeout_s))

    def list_topics(self, *, limit: int | None = None) -> list[TopicRecord]:
        """List the topics that have subscribers.

        Args:
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_topics(limit=limit))

    def subscribe_topic(self, topic: str) -> Subscriptions:
        """Subscribe the calling agent to a topic.

        Args:
            topic: Name of the topic.
        """
        return self._background.run(self._wrapped.subscribe_topic(topic))

    def unsubscribe_topic(self, topic: str) -> Subscriptions:
        """Cancel the calling agent's subscription to a topic.

        Args:
            topic: Name of the topic.
        """
        return self._background.run(self._wrapped.unsubscribe_topic(topic))

    def open_discussion(
        self,
        question: str,
        participants: Sequence[str],
        *,
        options: Sequence[str] = ("agree", "disagree"),
        voters_min: int | None = None,
        consensus: Literal["majority", "two_thirds", "unanimous"] = "majority",
        max_s: float | None = None,
    ) -> Discussed:
        """Open a discussion in which the participants vote on a question.

        Args:
            question: The question to decide.
            participants: Agents that take part.
            options: Options to vote for.
            voters_min: Votes required; the policy's number by default.
            consensus: Share of the votes that an option needs.
            max_s: Seconds until it ends without agreement; by default the policy's maximum.
        """
        return self._background.run(
            self._wrapped.open_discussion(
                question, participants, options=options, voters_min=voters_min, consensus=consensus, max_s=max_s
            )
        )

    def list_discussions(self, *, limit: int | None = None) -> list[DiscussionRecord]:
        """List the open discussions of the caller; directors see all.

        Args:
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_discussions(limit=limit))

    def speak_in_discussion(self, discussion: str, text: str) -> Discussed:
        """Send a contribution to all participants of a discussion.

        Args:
            discussion: Id of the discussion.
            text: The contribution.
        """
        return self._background.run(self._wrapped.speak_in_discussion(discussion, text))

    def vote(self, discussion: str, option: str) -> Discussed:
        """Vote in a discussion, or change a vote.

        Args:
            discussion: Id of the discussion.
            option: The option to vote for.
        """
        return self._background.run(self._wrapped.vote(discussion, option))

    def cancel_discussion(self, discussion: str) -> Discussed:
        """Cancel a discussion; its opener and directors may.

        Args:
            discussion: Id of the discussion.
        """
        return self._background.run(self._wrapped.cancel_discussion(discussion))

    def list_approvals(self, *, subject: str | None = None, limit: int | None = None) -> list[ApprovalRecord]:
        """List the open approval requests of the caller; directors see all.

        Args:
            subject: Only requests with this subject: a messageId of a held message, or as the asker named it.
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_approvals(subject=subject, limit=limit))

    def request_approval(
        self,
        handoff: Literal["plan_approval", "lease_override", "pre_merge_review", "ratification", "tool_permission"],
        subject: str,
        *,
        details: str = "",
    ) -> ApprovalRequested:
        """Ask the directors to approve something before it is done.

        Args:
            handoff: Kind of approval.
            subject: What needs approval; for lease_override, the id of the lease.
            details: Details that help the director decide.
        """
        return self._background.run(self._wrapped.request_approval(handoff, subject, details=details))

    def decide_approval(
        self,
        approval: str,
        verdict: Literal["approve", "refuse"],
        *,
        reason: str = "",
        payload: dict[str, Any] | None = None,
    ) -> ApprovalDecided:
        """Approve or refuse an approval request.

        Only directors and humans may call it.

        Args:
            approval: Id of the approval request.
            verdict: The decision.
            reason: Reason for the decision; required to refuse.
            payload: New payload for a held message, sent in place of the original one.
        """
        return self._background.run(self._wrapped.decide_approval(approval, verdict, reason=reason, payload=payload))

    def withdraw_approval(self, approval: str) -> Done:
        """Withdraw an approval request; to withdraw a held message, recall it instead.

        Args:
            approval: Id of the approval request.
        """
        return self._background.run(self._wrapped.withdraw_approval(approval))

    def list_escalations(self, *, closed: bool = False, limit: int | None = None) -> list[EscalationRecord]:
        """List escalations, open ones first.

        Only directors and humans may call it.

        Args:
            closed: Include closed escalations.
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_escalations(closed=closed, limit=limit))

    def resolve_escalation(self, escalation: str, resolution: str) -> Escalated:
        """Close an escalation and record how it was resolved.

        Only directors and humans may call it.

        Args:
            escalation: Id of the escalation.
            resolution: How it was resolved.
        """
        return self._background.run(self._wrapped.resolve_escalation(escalation, resolution))

    def escalate_to_human(self, escalation: str, *, reason: str = "") -> Escalated:
        """Pass an escalation to a human.

        Only directors and humans may call it.

        Args:
            escalation: Id of the escalation.
            reason: Why a human should look at it.
        """
        return self._background.run(self._wrapped.escalate_to_human(escalation, reason=reason))

    def list_alerts(self, *, limit: int | None = None) -> list[AlertRecord]:
        """List the metrics over their limits, and the alerts.

        Args:
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_alerts(limit=limit))

    def report_health(self, values: dict[str, float]) -> HealthReported:
        """Report health measurements from outside the hub, such as the start-up time of clones.

        Only directors and humans may call it.

        Args:
            values: Measurements by metric; durations in seconds.
        """
        return self._background.run(self._wrapped.report_health(values))

    def get_archive(self) -> ArchiveStatus:
        """Show which tables of the pipeline exist and how far they are behind.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return self._background.run(self._wrapped.get_archive())

    def read_table(
        self,
        table: str,
        *,
        since: str | None = None,
        until: str | None = None,
        type: str | None = None,
        after: int = 0,
        limit: int = 100,
        figure: str | None = None,
        fold: Literal["sum", "max"] = "sum",
    ) -> TableRows:
        """Read rows of a pipeline table: some days, one message type, page by page.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            table: Name of the table.
            since: First day, YYYY-MM-DD.
            until: Last day, YYYY-MM-DD.
            type: Only rows of this message type.
            after: Number of rows to skip.
            limit: Maximum number of items.
            figure: A numeric column to aggregate over time.
            fold: How to aggregate it.
        """
        return self._background.run(
            self._wrapped.read_table(
                table, since=since, until=until, type=type, after=after, limit=limit, figure=figure, fold=fold
            )
        )

    def get_advice(self) -> AdviceRecord:
        """Show the pipeline's advice on the policy, with its evidence.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return self._background.run(self._wrapped.get_advice())

    def list_reports(self, *, limit: int | None = None) -> list[ReportRecord]:
        """List the reports of the pipeline and the lab, newest first.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            limit: Maximum number of items; all by default.
        """
        return self._background.run(self._wrapped.list_reports(limit=limit))
