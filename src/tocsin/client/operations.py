"""Operations of the table as methods of an agent; written by `make generate`, do not edit."""

# `type` is the name of a message's type, and of an agent's, on every interface.
# ruff: noqa: A002

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tocsin.client.operation_caller import OperationCaller
from tocsin.core.commands import (
    Adopted,
    ApprovalDecided,
    ApprovalRequested,
    Attending,
    Discussed,
    Done,
    Escalated,
    HealthReported,
    LeaseRecord,
    RecallResult,
    Redriven,
    Released,
    Subscriptions,
    TimeoutExtended,
)
from tocsin.wire.agents import AgentRecord, IssuedToken, Me, TokenRecord
from tocsin.wire.archive import AdviceRecord, ArchiveStatus, ReportRecord, TableRows
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
from tocsin.wire.messages import WaitingMessages
from tocsin.wire.operation import NamedPage, Page
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

__all__ = ["Operations"]

_PEEK_INBOX = msgspec.json.Decoder(WaitingMessages)
_RECALL_MESSAGE = msgspec.json.Decoder(RecallResult)
_FIND_MESSAGES = msgspec.json.Decoder(Page[MessageSummary])
_GET_MESSAGE = msgspec.json.Decoder(list[MessageRecord])
_TRACE_MESSAGE = msgspec.json.Decoder(list[MessageHistory])
_LIST_INBOX = msgspec.json.Decoder(Page[MessageRecord])
_LIST_THREAD = msgspec.json.Decoder(Page[MessageRecord])
_SEARCH_MESSAGES = msgspec.json.Decoder(Page[MessageRecord])
_LIST_DEAD_LETTERS = msgspec.json.Decoder(Page[DeadLetterRecord])
_REDRIVE_DEAD_LETTERS = msgspec.json.Decoder(Redriven)
_COUNT_DEAD_LETTERS = msgspec.json.Decoder(list[DeadLetterGroup])
_FIND_DEAD_LETTERS = msgspec.json.Decoder(Page[DeadLetterSummary])
_REDRIVE_MATCHING = msgspec.json.Decoder(RedrivenMatching)
_GET_ME = msgspec.json.Decoder(Me)
_LIST_AGENTS = msgspec.json.Decoder(NamedPage[AgentRecord])
_GET_AGENT = msgspec.json.Decoder(AgentRecord)
_RETIRE_AGENT = msgspec.json.Decoder(Done)
_LIST_TOKENS = msgspec.json.Decoder(NamedPage[TokenRecord])
_ISSUE_TOKEN = msgspec.json.Decoder(IssuedToken)
_ROTATE_TOKENS = msgspec.json.Decoder(IssuedToken)
_REVOKE_TOKENS = msgspec.json.Decoder(list[TokenRecord])
_LIST_LEASES = msgspec.json.Decoder(LeaseRecords)
_RELEASE_RESOURCES = msgspec.json.Decoder(Released)
_CHECK_PATHS = msgspec.json.Decoder(list[PathConflict])
_GET_LEASE = msgspec.json.Decoder(LeaseRecord)
_RELEASE_LEASE = msgspec.json.Decoder(Released)
_RENEW_LEASE = msgspec.json.Decoder(LeaseRecord)
_FORCE_RELEASE = msgspec.json.Decoder(Released)
_LIST_WAITS = msgspec.json.Decoder(WaitGraphRecord)
_GET_POLICY = msgspec.json.Decoder(PolicyRecord)
_ADOPT_POLICY = msgspec.json.Decoder(Adopted)
_CHECK_POLICY = msgspec.json.Decoder(PolicyCheck)
_LIST_POLICIES = msgspec.json.Decoder(Page[PolicyVersion])
_GET_STATUS = msgspec.json.Decoder(ProjectStatus)
_GET_OVERVIEW = msgspec.json.Decoder(Overview)
_LIST_PENDING = msgspec.json.Decoder(PendingMessages)
_LIST_ROSTER = msgspec.json.Decoder(AgentDetailsPage)
_LIST_CONVERSATIONS = msgspec.json.Decoder(Conversations)
_GET_ATTENTION = msgspec.json.Decoder(Attending)
_LIST_REQUESTS = msgspec.json.Decoder(NamedPage[RequestRecord])
_CANCEL_REQUEST = msgspec.json.Decoder(Done)
_EXTEND_REQUEST = msgspec.json.Decoder(TimeoutExtended)
_LIST_TOPICS = msgspec.json.Decoder(NamedPage[TopicRecord])
_SUBSCRIBE_TOPIC = msgspec.json.Decoder(Subscriptions)
_UNSUBSCRIBE_TOPIC = msgspec.json.Decoder(Subscriptions)
_OPEN_DISCUSSION = msgspec.json.Decoder(Discussed)
_LIST_DISCUSSIONS = msgspec.json.Decoder(NamedPage[DiscussionRecord])
_SPEAK_IN_DISCUSSION = msgspec.json.Decoder(Discussed)
_VOTE = msgspec.json.Decoder(Discussed)
_CANCEL_DISCUSSION = msgspec.json.Decoder(Discussed)
_LIST_APPROVALS = msgspec.json.Decoder(NamedPage[ApprovalRecord])
_REQUEST_APPROVAL = msgspec.json.Decoder(ApprovalRequested)
_DECIDE_APPROVAL = msgspec.json.Decoder(ApprovalDecided)
_WITHDRAW_APPROVAL = msgspec.json.Decoder(Done)
_LIST_ESCALATIONS = msgspec.json.Decoder(NamedPage[EscalationRecord])
_RESOLVE_ESCALATION = msgspec.json.Decoder(Escalated)
_ESCALATE_TO_HUMAN = msgspec.json.Decoder(Escalated)
_LIST_ALERTS = msgspec.json.Decoder(NamedPage[AlertRecord])
_REPORT_HEALTH = msgspec.json.Decoder(HealthReported)
_GET_ARCHIVE = msgspec.json.Decoder(ArchiveStatus)
_READ_TABLE = msgspec.json.Decoder(TableRows)
_GET_ADVICE = msgspec.json.Decoder(AdviceRecord)
_LIST_REPORTS = msgspec.json.Decoder(NamedPage[ReportRecord])


class Operations:
    """Operations that are one call each."""

    _caller: OperationCaller

    async def peek_inbox(
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
        return await self._caller.call(
            "peek_inbox", {"limit": limit, "at_least": at_least, "payload_bytes_max": payload_bytes_max}, _PEEK_INBOX
        )

    async def recall_message(
        self,
        message_id: str,
    ) -> RecallResult:
        """Recall a message that has not been handed out yet; only its sender can.

        Args:
            message_id: The message_id of the message.
        """
        return await self._caller.call("recall_message", {"message_id": message_id}, _RECALL_MESSAGE)

    async def find_messages(
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
        return await self._caller.call(
            "find_messages",
            {
                "after": after,
                "limit": limit,
                "fresh": fresh,
                "q": q,
                "states": states,
                "level": level,
                "sender": sender,
                "recipient": recipient,
                "type": type,
                "delivery_class": delivery_class,
                "correlation_id": correlation_id,
                "publish_path": publish_path,
                "since": since,
                "until": until,
            },
            _FIND_MESSAGES,
        )

    async def get_message(
        self,
        message_id: str,
        *,
        fresh: bool = True,
        limit: int = 100,
    ) -> list[MessageRecord]:
        """Show all copies of a message that the caller may see, newest first.

        Args:
            message_id: The message_id of the message, or the signal_id of one copy of a broadcast.
            fresh: Wait until the history contains everything that is durable now.
            limit: Maximum number of items.
        """
        return await self._caller.call(
            "get_message", {"message_id": message_id, "fresh": fresh, "limit": limit}, _GET_MESSAGE
        )

    async def trace_message(
        self,
        message_id: str,
        *,
        fresh: bool = True,
        limit: int = 100,
    ) -> list[MessageHistory]:
        """Show the events of a message: every decision about it, in order.

        Args:
            message_id: The message_id of the message, or the signal_id of one copy of a broadcast.
            fresh: Wait until the history contains everything that is durable now.
            limit: Maximum number of items.
        """
        return await self._caller.call(
            "trace_message", {"message_id": message_id, "fresh": fresh, "limit": limit}, _TRACE_MESSAGE
        )

    async def list_inbox(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        fresh: bool = True,
        states: str = "queued,offered",
    ) -> Page[MessageRecord]:
        """List the caller's messages without taking them out of the inbox.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
            states: States, separated by commas.
        """
        return await self._caller.call(
            "list_inbox", {"after": after, "limit": limit, "fresh": fresh, "states": states}, _LIST_INBOX
        )

    async def list_thread(
        self,
        correlation_id: str,
        *,
        after: int = 0,
        limit: int = 100,
        fresh: bool = True,
    ) -> Page[MessageRecord]:
        """List the messages of a thread, oldest first.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
            correlation_id: The correlationId of the thread.
        """
        return await self._caller.call(
            "list_thread",
            {"after": after, "limit": limit, "fresh": fresh, "correlation_id": correlation_id},
            _LIST_THREAD,
        )

    async def search_messages(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        fresh: bool = True,
        q: str = "",
    ) -> Page[MessageRecord]:
        """Search messages by words of their payload, newest first.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
            q: Words of the payload.
        """
        return await self._caller.call(
            "search_messages", {"after": after, "limit": limit, "fresh": fresh, "q": q}, _SEARCH_MESSAGES
        )

    async def list_dead_letters(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        fresh: bool = True,
    ) -> Page[DeadLetterRecord]:
        """List dead letters with their reasons, oldest first.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
        """
        return await self._caller.call(
            "list_dead_letters", {"after": after, "limit": limit, "fresh": fresh}, _LIST_DEAD_LETTERS
        )

    async def redrive_dead_letters(
        self,
        signal_ids: Sequence[str],
    ) -> Redriven:
        """Queue dead letters again; senders may redrive their own, directors all.

        Args:
            signal_ids: Signal ids of the dead letters.
        """
        return await self._caller.call("redrive_dead_letters", {"signal_ids": signal_ids}, _REDRIVE_DEAD_LETTERS)

    async def count_dead_letters(
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
        return await self._caller.call(
            "count_dead_letters",
            {"reason": reason, "code": code, "type": type, "recipient": recipient},
            _COUNT_DEAD_LETTERS,
        )

    async def find_dead_letters(
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
        return await self._caller.call(
            "find_dead_letters",
            {"reason": reason, "code": code, "type": type, "recipient": recipient, "after": after, "limit": limit},
            _FIND_DEAD_LETTERS,
        )

    async def redrive_matching(
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
        return await self._caller.call(
            "redrive_matching",
            {"reason": reason, "code": code, "type": type, "recipient": recipient},
            _REDRIVE_MATCHING,
        )

    async def get_me(self) -> Me:
        """Show the caller's identity.

        Only a hub serves it.
        """
        return await self._caller.call("get_me", {}, _GET_ME)

    async def list_agents(
        self,
        *,
        limit: int | None = None,
    ) -> list[AgentRecord]:
        """List agents and their presence, by name.

        Args:
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_agents", {}, _LIST_AGENTS, limit)

    async def get_agent(
        self,
        agent: str,
    ) -> AgentRecord:
        """Show one agent and its presence.

        Args:
            agent: Name of the agent.
        """
        return await self._caller.call("get_agent", {"agent": agent}, _GET_AGENT)

    async def retire_agent(
        self,
        agent: str,
        *,
        reason: str = "",
    ) -> Done:
        """Remove an agent from the project; messages that wait for it become dead letters.

        Args:
            agent: The agent to remove.
            reason: Reason, recorded with the removal.
        """
        return await self._caller.call("retire_agent", {"agent": agent, "reason": reason}, _RETIRE_AGENT)

    async def list_tokens(
        self,
        *,
        agent: str | None = None,
        limit: int | None = None,
    ) -> list[TokenRecord]:
        """List tokens that the caller may administer, and its own, without their secrets.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            agent: Only tokens of this agent.
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_tokens", {"agent": agent}, _LIST_TOKENS, limit)

    async def issue_token(
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
        return await self._caller.call(
            "issue_token",
            {"agent": agent, "role": role, "type": type, "admin": admin, "types": types, "lifetime_s": lifetime_s},
            _ISSUE_TOKEN,
        )

    async def rotate_tokens(
        self,
        agent: str,
        *,
        overlap_s: float = 0.0,
        lifetime_s: float | UnsetType | None = UNSET,
    ) -> IssuedToken:
        """Issue a new token for an agent that replaces all its tokens.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            agent: Name of the agent.
            overlap_s: Seconds for which the old tokens remain valid.
            lifetime_s: Seconds until the new token expires; null is never; by default as long as the last one.
        """
        return await self._caller.call(
            "rotate_tokens", {"agent": agent, "overlap_s": overlap_s, "lifetime_s": lifetime_s}, _ROTATE_TOKENS
        )

    async def revoke_tokens(
        self,
        agent: str,
    ) -> list[TokenRecord]:
        """Revoke all tokens of an agent.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            agent: Name of the agent.
        """
        return await self._caller.call("revoke_tokens", {"agent": agent}, _REVOKE_TOKENS)

    async def list_leases(
        self,
        *,
        after: str = "",
        limit: int = 100,
        resource: str | None = None,
        agent: str | None = None,
    ) -> LeaseRecords:
        """List leases and the requests that wait for them.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            resource: Only leases that conflict with this name or glob.
            agent: Only leases of this agent.
        """
        return await self._caller.call(
            "list_leases", {"after": after, "limit": limit, "resource": resource, "agent": agent}, _LIST_LEASES
        )

    async def release_resources(
        self,
        resources: Sequence[str],
    ) -> Released:
        """Release resources by the names they are held under.

        Args:
            resources: Resources, by the names they are held under.
        """
        return await self._caller.call("release_resources", {"resources": resources}, _RELEASE_RESOURCES)

    async def check_paths(
        self,
        paths: Sequence[str],
    ) -> list[PathConflict]:
        """List which of the given paths other agents hold.

        Args:
            paths: Paths that are about to be changed.
        """
        return await self._caller.call("check_paths", {"paths": paths}, _CHECK_PATHS)

    async def get_lease(
        self,
        lease: str,
    ) -> LeaseRecord:
        """Show one lease or waiting request.

        Args:
            lease: Id of the lease or of the waiting request.
        """
        return await self._caller.call("get_lease", {"lease": lease}, _GET_LEASE)

    async def release_lease(
        self,
        *,
        lease: str | None = None,
        resources: Sequence[str] = (),
    ) -> Released:
        """Release a lease, or cancel a waiting request.

        Args:
            lease: Id of the lease or of the waiting request.
            resources: Resources to release, by the names they are held under.
        """
        return await self._caller.call("release_lease", {"lease": lease, "resources": resources}, _RELEASE_LEASE)

    async def renew_lease(
        self,
        lease: str,
        *,
        ttl_s: float | None = None,
    ) -> LeaseRecord:
        """Extend a lease.

        Args:
            lease: Id of the lease or of the waiting request.
            ttl_s: Seconds from now on; as before if absent.
        """
        return await self._caller.call("renew_lease", {"lease": lease, "ttl_s": ttl_s}, _RENEW_LEASE)

    async def force_release(
        self,
        lease: str,
        reason: str,
    ) -> Released:
        """Release another agent's lease, or cancel its waiting request.

        Only directors and humans may call it.

        Args:
            lease: Id of the lease or of the waiting request.
            reason: Reason, sent to the agent that loses the lease.
        """
        return await self._caller.call("force_release", {"lease": lease, "reason": reason}, _FORCE_RELEASE)

    async def list_waits(
        self,
        *,
        after: str = "",
        limit: int = 100,
    ) -> WaitGraphRecord:
        """Show the wait-for graph: which agents wait for which, and the priorities that they lend.

        Only directors and humans may call it.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
        """
        return await self._caller.call("list_waits", {"after": after, "limit": limit}, _LIST_WAITS)

    async def get_policy(self) -> PolicyRecord:
        """Show the policy in force."""
        return await self._caller.call("get_policy", {}, _GET_POLICY)

    async def adopt_policy(
        self,
        policy: dict[str, Any],
        *,
        reason: str = "",
        scope: Literal["whole", "change"] = "whole",
    ) -> Adopted:
        """Adopt a policy: a whole one, or a change to the one in force.

        Only directors and humans may call it.

        Args:
            policy: Settings.
            reason: Reason, recorded with the policy.
            scope: `whole`: settings that are not named have their defaults; `change`: they stay as they are in the
                policy in force.
        """
        return await self._caller.call(
            "adopt_policy", {"policy": policy, "reason": reason, "scope": scope}, _ADOPT_POLICY
        )

    async def check_policy(
        self,
        policy: dict[str, Any],
        *,
        reason: str = "",
        scope: Literal["whole", "change"] = "whole",
    ) -> PolicyCheck:
        """Check whether a policy is valid, without adopting it.

        Args:
            policy: Settings.
            reason: Reason, recorded with the policy.
            scope: `whole`: settings that are not named have their defaults; `change`: they stay as they are in the
                policy in force.
        """
        return await self._caller.call(
            "check_policy", {"policy": policy, "reason": reason, "scope": scope}, _CHECK_POLICY
        )

    async def list_policies(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        fresh: bool = True,
    ) -> Page[PolicyVersion]:
        """List the policies that were adopted, the newest first, with what each changed.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            fresh: Wait until the history contains everything that is durable now.
        """
        return await self._caller.call(
            "list_policies", {"after": after, "limit": limit, "fresh": fresh}, _LIST_POLICIES
        )

    async def get_status(self) -> ProjectStatus:
        """Show counts and condition of the project."""
        return await self._caller.call("get_status", {}, _GET_STATUS)

    async def get_overview(self) -> Overview:
        """Show counts and latencies since the hub started.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return await self._caller.call("get_overview", {}, _GET_OVERVIEW)

    async def list_pending(self) -> PendingMessages:
        """List undelivered messages, the soonest to expire first.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return await self._caller.call("list_pending", {}, _LIST_PENDING)

    async def list_roster(
        self,
        *,
        after: str = "",
        limit: int = 100,
        q: str = "",
    ) -> AgentDetailsPage:
        """List agents with their sessions, attention and budget.

        Only directors, humans and administrators may call it.

        Args:
            after: `next` of the previous page; leave it out for the first page.
            limit: Maximum number of items.
            q: Part of an agent's name.
        """
        return await self._caller.call("list_roster", {"after": after, "limit": limit, "q": q}, _LIST_ROSTER)

    async def list_conversations(self) -> Conversations:
        """Count recent messages by sender and recipient, largest first.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return await self._caller.call("list_conversations", {}, _LIST_CONVERSATIONS)

    async def get_attention(self) -> Attending:
        """Show what the calling agent is working on."""
        return await self._caller.call("get_attention", {}, _GET_ATTENTION)

    async def list_requests(
        self,
        *,
        request: str | None = None,
        limit: int | None = None,
    ) -> list[RequestRecord]:
        """List the open requests of the caller; directors see all.

        Args:
            request: Only the request with this messageId.
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_requests", {"request": request}, _LIST_REQUESTS, limit)

    async def cancel_request(
        self,
        request: str,
    ) -> Done:
        """Stop waiting for the answer to a request; the message itself is still delivered.

        Args:
            request: messageId of the request.
        """
        return await self._caller.call("cancel_request", {"request": request}, _CANCEL_REQUEST)

    async def extend_request(
        self,
        request: str,
        *,
        timeout_s: float | None = None,
    ) -> TimeoutExtended:
        """Wait longer for the answer to a request.

        Args:
            request: messageId of the request.
            timeout_s: Seconds to wait from now on; the policy's default if absent.
        """
        return await self._caller.call("extend_request", {"request": request, "timeout_s": timeout_s}, _EXTEND_REQUEST)

    async def list_topics(
        self,
        *,
        limit: int | None = None,
    ) -> list[TopicRecord]:
        """List the topics that have subscribers.

        Args:
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_topics", {}, _LIST_TOPICS, limit)

    async def subscribe_topic(
        self,
        topic: str,
    ) -> Subscriptions:
        """Subscribe the calling agent to a topic.

        Args:
            topic: Name of the topic.
        """
        return await self._caller.call("subscribe_topic", {"topic": topic}, _SUBSCRIBE_TOPIC)

    async def unsubscribe_topic(
        self,
        topic: str,
    ) -> Subscriptions:
        """Cancel the calling agent's subscription to a topic.

        Args:
            topic: Name of the topic.
        """
        return await self._caller.call("unsubscribe_topic", {"topic": topic}, _UNSUBSCRIBE_TOPIC)

    async def open_discussion(
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
        return await self._caller.call(
            "open_discussion",
            {
                "question": question,
                "participants": participants,
                "options": options,
                "voters_min": voters_min,
                "consensus": consensus,
                "max_s": max_s,
            },
            _OPEN_DISCUSSION,
        )

    async def list_discussions(
        self,
        *,
        limit: int | None = None,
    ) -> list[DiscussionRecord]:
        """List the open discussions of the caller; directors see all.

        Args:
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_discussions", {}, _LIST_DISCUSSIONS, limit)

    async def speak_in_discussion(
        self,
        discussion: str,
        text: str,
    ) -> Discussed:
        """Send a contribution to all participants of a discussion.

        Args:
            discussion: Id of the discussion.
            text: The contribution.
        """
        return await self._caller.call(
            "speak_in_discussion", {"discussion": discussion, "text": text}, _SPEAK_IN_DISCUSSION
        )

    async def vote(
        self,
        discussion: str,
        option: str,
    ) -> Discussed:
        """Vote in a discussion, or change a vote.

        Args:
            discussion: Id of the discussion.
            option: The option to vote for.
        """
        return await self._caller.call("vote", {"discussion": discussion, "option": option}, _VOTE)

    async def cancel_discussion(
        self,
        discussion: str,
    ) -> Discussed:
        """Cancel a discussion; its opener and directors may.

        Args:
            discussion: Id of the discussion.
        """
        return await self._caller.call("cancel_discussion", {"discussion": discussion}, _CANCEL_DISCUSSION)

    async def list_approvals(
        self,
        *,
        subject: str | None = None,
        limit: int | None = None,
    ) -> list[ApprovalRecord]:
        """List the open approval requests of the caller; directors see all.

        Args:
            subject: Only requests with this subject: a messageId of a held message, or as the asker named it.
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_approvals", {"subject": subject}, _LIST_APPROVALS, limit)

    async def request_approval(
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
        return await self._caller.call(
            "request_approval", {"handoff": handoff, "subject": subject, "details": details}, _REQUEST_APPROVAL
        )

    async def decide_approval(
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
        return await self._caller.call(
            "decide_approval",
            {"approval": approval, "verdict": verdict, "reason": reason, "payload": payload},
            _DECIDE_APPROVAL,
        )

    async def withdraw_approval(
        self,
        approval: str,
    ) -> Done:
        """Withdraw an approval request; to withdraw a held message, recall it instead.

        Args:
            approval: Id of the approval request.
        """
        return await self._caller.call("withdraw_approval", {"approval": approval}, _WITHDRAW_APPROVAL)

    async def list_escalations(
        self,
        *,
        closed: bool = False,
        limit: int | None = None,
    ) -> list[EscalationRecord]:
        """List escalations, open ones first.

        Only directors and humans may call it.

        Args:
            closed: Include closed escalations.
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_escalations", {"closed": closed}, _LIST_ESCALATIONS, limit)

    async def resolve_escalation(
        self,
        escalation: str,
        resolution: str,
    ) -> Escalated:
        """Close an escalation and record how it was resolved.

        Only directors and humans may call it.

        Args:
            escalation: Id of the escalation.
            resolution: How it was resolved.
        """
        return await self._caller.call(
            "resolve_escalation", {"escalation": escalation, "resolution": resolution}, _RESOLVE_ESCALATION
        )

    async def escalate_to_human(
        self,
        escalation: str,
        *,
        reason: str = "",
    ) -> Escalated:
        """Pass an escalation to a human.

        Only directors and humans may call it.

        Args:
            escalation: Id of the escalation.
            reason: Why a human should look at it.
        """
        return await self._caller.call(
            "escalate_to_human", {"escalation": escalation, "reason": reason}, _ESCALATE_TO_HUMAN
        )

    async def list_alerts(
        self,
        *,
        limit: int | None = None,
    ) -> list[AlertRecord]:
        """List the metrics over their limits, and the alerts.

        Args:
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_alerts", {}, _LIST_ALERTS, limit)

    async def report_health(
        self,
        values: dict[str, float],
    ) -> HealthReported:
        """Report health measurements from outside the hub, such as the start-up time of clones.

        Only directors and humans may call it.

        Args:
            values: Measurements by metric; durations in seconds.
        """
        return await self._caller.call("report_health", {"values": values}, _REPORT_HEALTH)

    async def get_archive(self) -> ArchiveStatus:
        """Show which tables of the pipeline exist and how far they are behind.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return await self._caller.call("get_archive", {}, _GET_ARCHIVE)

    async def read_table(
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
        return await self._caller.call(
            "read_table",
            {
                "table": table,
                "since": since,
                "until": until,
                "type": type,
                "after": after,
                "limit": limit,
                "figure": figure,
                "fold": fold,
            },
            _READ_TABLE,
        )

    async def get_advice(self) -> AdviceRecord:
        """Show the pipeline's advice on the policy, with its evidence.

        Only directors, humans and administrators may call it. Only a hub serves it.
        """
        return await self._caller.call("get_advice", {}, _GET_ADVICE)

    async def list_reports(
        self,
        *,
        limit: int | None = None,
    ) -> list[ReportRecord]:
        """List the reports of the pipeline and the lab, newest first.

        Only directors, humans and administrators may call it. Only a hub serves it.

        Args:
            limit: Maximum number of items; all by default.
        """
        return await self._caller.call_pages("list_reports", {}, _LIST_REPORTS, limit)
