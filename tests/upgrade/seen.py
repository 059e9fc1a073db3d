"""What agents and administrators see of a project, by the operations that every version has.

Only what does not change by itself is compared: names, ids, states and texts; no times, and no priorities, which a
policy may raise.
"""

from pathlib import Path
from typing import Any

import msgspec

from tocsin.cli.remote import Remote

__all__ = ["plain", "remotes", "seen"]


def remotes(data: Path, url: str) -> tuple[Remote, dict[str, Remote]]:
    """Return the hub as its administrator and as each agent calls it, with the tokens in its folder."""
    agents = {path.stem: path for path in sorted((data / "tokens").glob("*.token"))}
    admin = Remote(url, (data / "admin.token").read_text(encoding="utf-8").strip())
    return admin, {name: Remote(url, path.read_text(encoding="utf-8").strip()) for name, path in agents.items()}


def plain(value: Any) -> Any:
    """Return a reply as JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def seen(admin: Remote, agents: dict[str, Remote]) -> dict[str, Any]:
    """Return everything of a project that is compared, read with the tokens of its agents."""
    director = agents["dora"]
    messages = admin.list("find_messages")
    leases = admin.ask("list_leases")
    return {
        "identities": {
            name: _fields(remote.ask("get_me"), "agent", "role", "project") for name, remote in agents.items()
        },
        "tokens": sorted(
            ([t.token_id, t.agent, str(t.role), t.admin, t.revoked_at is not None] for t in admin.list("list_tokens")),
            key=str,
        ),
        "agents": sorted([a.agent, a.type, str(a.role)] for a in admin.list("list_agents")),
        "messages": {m.signal_id: [m.message_id, m.sender, m.recipient, m.type, str(m.state)] for m in messages},
        "bodies": {m.signal_id: _body(director, m.message_id) for m in messages},
        "inboxes": {name: [m.signal_id for m in remote.list("list_inbox")] for name, remote in agents.items()},
        "held leases": sorted(_lease(one) for one in leases.held),
        "waiting for leases": sorted(_lease(one) for one in leases.waiting),
        "approvals": sorted([a.approval, a.asker, a.subject, a.holds] for a in admin.list("list_approvals")),
        "discussions": [
            _fields(one, "discussion", "opener", "question", "votes") for one in admin.list("list_discussions")
        ],
        "topics": [_fields(one, "topic", "subscribers") for one in admin.list("list_topics")],
        "requests": [_fields(one, "request", "requester", "responder") for one in admin.list("list_requests")],
        "escalations": sorted([e.escalation, e.trigger, e.subject, e.state] for e in admin.list("list_escalations")),
        "dead letters": sorted(one.message.message_id for one in director.list("list_dead_letters")),
        "found by words": sorted(m.signal_id for m in admin.list("search_messages", {"q": "invoices"})),
        "policies": admin.list("list_policies")[-1].version,
    }


def _fields(record: Any, *names: str) -> dict[str, Any]:
    return {name: plain(getattr(record, name)) for name in names}


def _lease(record: Any) -> list[Any]:
    return [record.lease, record.agent, list(record.exclusive), list(record.shared)]


def _body(director: Remote, message_id: str) -> Any:
    return plain([copy.payload for copy in director.ask("get_message", {"message_id": message_id})])
