"""The conformance story: one sequence of calls that uses every operation of the table.

Each interface plays the whole story in a project of its own. Identifiers that a reply brings are kept under a name and
used by later steps. The recipients `idle` and `worker` are attached nowhere, so that what they are sent waits.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tests.envelopes import envelope

__all__ = ["ROLES", "STORY", "Step"]

#: Agents of the story, by role and type.
ROLES = {
    "boss": ("director", "Manager"),
    "ada": ("primary", "Manager"),
    "worker": ("primary", "Implementation"),
    "idle": ("primary", "Implementation"),
    "root": ("human", "Human"),
}

Arguments = dict[str, Any] | Callable[[dict[str, str]], dict[str, Any]]


class Step(msgspec.Struct, frozen=True):
    """One call."""

    agent: str
    operation: str
    arguments: Arguments = {}
    envelope: dict[str, Any] | None = None
    #: Name under which a field of the reply is kept, and the field.
    keep: tuple[str, str] | None = None
    #: Code of the refusal that is expected; empty for success.
    refused: str = ""
    #: Items that the reply has once the search index has followed.
    items: int = 0

    def given(self, kept: dict[str, str]) -> dict[str, Any]:
        """Return the arguments."""
        return self.arguments if isinstance(self.arguments, dict) else self.arguments(kept)


STORY: tuple[Step, ...] = (
    Step("ada", "register_agent", {"type": "Manager"}),
    Step("ada", "register_agent", {}),
    Step("ada", "register_agent", {"agent_type": "Manager"}, refused="E_VALIDATION_004"),
    Step("ada", "get_me"),
    Step("ada", "list_agents"),
    Step("ada", "list_agents", {"limit": 1}),
    Step("ada", "list_agents", {"limit": 0}, refused="E_VALIDATION_004"),
    Step("ada", "get_agent", {"agent": "idle"}),
    Step("ada", "get_agent", {"agent": "nobody"}, refused="E_ROUTING_001"),
    Step("ada", "get_agent", {}, refused="E_VALIDATION_001"),
    Step("ada", "get_agent", {"agent": "idle", "agnt": "idle"}, refused="E_VALIDATION_004"),
    # Messages.
    Step("ada", "send_message", envelope=envelope("msg_1_story", receiver="idle", priority="Blocking")),
    Step("ada", "send_message", envelope=envelope("msg_2_story", receiver="nobody"), refused="E_ROUTING_001"),
    Step("ada", "send_messages", envelope=envelope("msg_3_story", receiver="worker")),
    Step("ada", "send_message", envelope=envelope("msg_4_story", receiver="worker", correlationId="thread_1")),
    Step("ada", "send_message", envelope=envelope("msg_5_story", receiver="worker")),
    Step("ada", "send_message", envelope=envelope("msg_6_story", receiver="worker")),
    Step("ada", "send_message", envelope=envelope("msg_7_story", receiver="idle")),
    Step("ada", "recall_message", {"message_id": "msg_7_story"}),
    Step("ada", "recall_message", {"message_id": "msg_7_story", "why": "x"}, refused="E_VALIDATION_004"),
    Step("worker", "list_inbox", {"limit": 2}),
    Step("worker", "peek_inbox", {"limit": 2, "payload_bytes_max": 1000}),
    Step("worker", "fetch_inbox", {"limt": 1}, refused="E_VALIDATION_004"),
    Step("worker", "fetch_inbox", {"limit": 10}),
    Step("worker", "confirm_messages", {"message_ids": ["msg_3_story", "msg_9_story"]}),
    Step("worker", "acknowledge_message", {"message_id": "msg_3_story", "notes": "seen"}),
    Step("worker", "acknowledge_message", {"message_id": "msg_3_story", "status": "maybe"}, refused="E_VALIDATION_003"),
    Step("worker", "reject_message", {"message_id": "msg_5_story", "reason": "cannot"}),
    Step("worker", "mark_processed", {"message_id": "msg_6_story"}),
    # History.
    Step("ada", "get_message", {"message_id": "msg_1_story"}),
    Step("worker", "get_message", {"message_id": "msg_1_story"}, refused="E_STATE_001"),
    Step("ada", "trace_message", {"message_id": "msg_1_story"}),
    Step("ada", "list_thread", {"correlation_id": "thread_1"}),
    Step("ada", "search_messages", {"q": "number"}, items=6),
    Step("ada", "find_messages", {"type": "StatusUpdate", "recipient": "idle"}),
    Step("ada", "find_messages", {"message_type": "StatusUpdate"}, refused="E_VALIDATION_004"),
    Step("boss", "list_dead_letters"),
    Step("boss", "count_dead_letters"),
    Step("ada", "count_dead_letters", refused="E_AUTH_003"),
    Step("boss", "find_dead_letters", {"recipient": "worker"}),
    Step("ada", "redrive_dead_letters", {"signal_ids": ["msg_5_story", "msg_0_story"]}),
    Step("boss", "redrive_matching", {"reason": "nothing"}),
    # Leases.
    Step("ada", "acquire_lease", {"exclusive": ["src/a.py"], "lease": "lease_1", "ttl_s": 600}),
    Step(
        "worker",
        "acquire_lease",
        {"exclusive": ["src/*.py"], "lease": "lease_2", "wait_s": 300, "priority": "Blocking"},
    ),
    Step("worker", "acquire_lease", {"exclusive": ["src/b.py"], "priority": "Very"}, refused="E_VALIDATION_003"),
    Step("worker", "list_leases", {"limit": 5}),
    Step("worker", "get_lease", {"lease": "lease_2"}),
    Step("worker", "get_lease", {"lease": "lease_9"}, refused="E_LEASE_001"),
    Step("worker", "check_paths", {"paths": ["src/a.py", "docs/a.md"]}),
    Step("boss", "list_waits"),
    Step("ada", "list_waits", refused="E_AUTH_003"),
    Step("ada", "renew_lease", {"lease": "lease_1", "ttl_s": 900}),
    Step("ada", "force_release", {"lease": "lease_2", "reason": "no"}, refused="E_AUTH_003"),
    Step("boss", "force_release", {"lease": "lease_2", "reason": "not needed"}),
    Step("ada", "acquire_lease", {"exclusive": ["docs"], "lease": "lease_3"}),
    Step("ada", "release_resources", {"resources": ["docs"]}),
    Step("ada", "release_lease", {"lease": "lease_1"}),
    # Attention.
    Step("ada", "send_message", envelope=envelope("msg_10_story", receiver="worker")),
    Step("worker", "fetch_inbox"),
    Step("worker", "begin_work", {"message_id": "msg_10_story"}),
    Step("worker", "get_attention"),
    Step("worker", "reach_pause_point", {"stay": True}),
    Step("worker", "put_aside", {"saved": "half done"}),
    Step("worker", "resume_work"),
    Step("worker", "finish_work"),
    # Requests, topics, discussions.
    Step(
        "ada",
        "send_request",
        {"timeout_s": 600},
        envelope("msg_11_story", receiver="worker", messageType="Question", priority=None, correlationId="question_1"),
    ),
    Step("ada", "list_requests"),
    Step("ada", "extend_request", {"request": "msg_11_story", "timeout_s": 900}),
    Step("worker", "extend_request", {"request": "msg_11_story"}, refused="E_STATE_001"),
    Step("ada", "cancel_request", {"request": "msg_11_story"}),
    Step("worker", "subscribe_topic", {"topic": "builds"}),
    Step("ada", "publish_topic", {"topic": "builds"}, envelope("msg_12_story", receiver="*")),
    Step("ada", "list_topics"),
    Step("worker", "unsubscribe_topic", {"topic": "builds"}),
    Step(
        "ada",
        "open_discussion",
        {"question": "Which?", "participants": ["worker", "idle"]},
        keep=("talk", "discussion"),
    ),
    Step("worker", "speak_in_discussion", lambda kept: {"discussion": kept["talk"], "text": "This one."}),
    Step("worker", "vote", lambda kept: {"discussion": kept["talk"], "option": "agree"}),
    Step("worker", "vote", lambda kept: {"discussion": kept["talk"], "option": "perhaps"}, refused="E_VALIDATION_003"),
    Step("worker", "list_discussions"),
    Step("ada", "cancel_discussion", lambda kept: {"discussion": kept["talk"]}),
    # Approvals, escalations, health.
    Step("ada", "request_approval", {"handoff": "plan_approval", "subject": "the plan"}, keep=("first", "approval")),
    Step("ada", "list_approvals"),
    Step(
        "ada", "decide_approval", lambda kept: {"approval": kept["first"], "verdict": "approve"}, refused="E_AUTH_003"
    ),
    Step("boss", "decide_approval", lambda kept: {"approval": kept["first"], "verdict": "approve"}),
    Step("ada", "request_approval", {"handoff": "plan_approval", "subject": "another"}, keep=("second", "approval")),
    Step("ada", "withdraw_approval", lambda kept: {"approval": kept["second"]}),
    Step("boss", "list_escalations", {"closed": True}),
    Step("ada", "list_escalations", refused="E_AUTH_003"),
    Step("boss", "resolve_escalation", {"escalation": "esc_0", "resolution": "done"}, refused="E_STATE_001"),
    Step("boss", "escalate_to_human", {"escalation": "esc_0"}, refused="E_STATE_001"),
    Step("boss", "report_health", {"values": {"clone_spawn_p99_s": 0.001}}),
    Step("ada", "list_alerts"),
    # The project.
    Step("ada", "get_policy"),
    Step("ada", "check_policy", {"policy": {"aging": {"threshold_s": -1}}}),
    Step("ada", "adopt_policy", {"policy": {}}, refused="E_AUTH_003"),
    Step("boss", "adopt_policy", {"policy": {"storage": {"projection_interval_s": 0.02}}, "reason": "the story"}),
    Step("boss", "adopt_policy", {"policy": {"aging": {"threshold_s": 61}}, "scope": "change"}),
    Step("ada", "list_policies", {"limit": 2}),
    Step("ada", "get_status"),
    Step("boss", "get_overview"),
    Step("boss", "list_pending"),
    Step("boss", "list_roster", {"q": "idle"}),
    Step("ada", "list_roster", refused="E_AUTH_003"),
    Step("boss", "list_conversations"),
    Step("boss", "get_archive"),
    Step("boss", "read_table", {"table": "traffic"}, refused="E_STATE_004"),
    Step("boss", "get_advice"),
    Step("boss", "list_reports"),
    # Projects of the hub.
    Step("root", "add_project", {"project": "more"}),
    Step("root", "add_project", {"project": "more"}, refused="E_STATE_007"),
    Step("ada", "add_project", {"project": "other"}, refused="E_AUTH_003"),
    Step("root", "list_projects"),
    Step("root", "list_open_projects"),
    Step("ada", "list_open_projects", refused="E_AUTH_003"),
    Step("root", "remove_project", {"project": "more"}, refused="E_STATE_002"),
    Step("root", "archive_project", {"project": "more"}),
    Step("root", "archive_project", {"project": "nothing"}, refused="E_STATE_005"),
    Step("root", "restore_project", {"project": "more"}),
    Step("root", "archive_project", {"project": "more"}),
    Step("root", "remove_project", {"project": "more"}),
    # Tokens, and the end.
    Step("root", "issue_token", {"agent": "late", "role": "clone", "type": "AdHoc"}),
    Step("ada", "issue_token", {"agent": "late"}, refused="E_AUTH_003"),
    Step("boss", "issue_token", {"agent": "new", "role": "human"}, refused="E_AUTH_003"),
    Step("boss", "issue_token", {"agent": "new", "role": "clone"}),
    Step("boss", "list_tokens", {"agent": "new"}),
    Step("boss", "rotate_tokens", {"agent": "root"}, refused="E_AUTH_003"),
    Step("boss", "revoke_tokens", {"agent": "new"}),
    Step("root", "list_tokens"),
    Step("root", "rotate_tokens", {"agent": "late"}),
    Step("root", "revoke_tokens", {"agent": "late"}),
    Step("boss", "retire_agent", {"agent": "idle"}),
)
