"""Toolsets: the groups of tools that a server lists, by role or as asked for.

A model reads the description of every listed tool, so only a core set is listed by default. A tool that is not listed
can be called all the same; what a caller may do is decided by its role, not by the listing.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tocsin.core.errors import refusal
from tocsin.gateways.mcp.tools import TOOLS
from tocsin.wire.operation import Access, Operation

__all__ = ["ALL", "SCHEMAS", "TOOLSETS", "Selection", "parse_toolsets"]

#: Tools by toolset; a tool may be in several.
TOOLSETS: dict[str, tuple[str, ...]] = {
    "core": (
        *("register_agent", "list_team", "post_message", "send_request", "fetch_inbox", "reply_message"),
        *("acknowledge_message", "acquire_lease", "release_lease"),
    ),
    "history": (
        *("get_message", "trace_message", "list_thread", "search_messages", "list_dead_letters", "recall_message"),
        "reject_message",
    ),
    "leases": ("list_leases", "renew_lease"),
    "work": ("begin_work", "reach_pause_point", "put_aside", "resume_work", "finish_work"),
    "teamwork": (
        *("get_me", "get_agent", "list_requests", "cancel_request", "extend_request", "subscribe_topic"),
        *("unsubscribe_topic", "publish_topic", "open_discussion", "list_discussions", "speak_in_discussion", "vote"),
        *("cancel_discussion", "list_approvals", "request_approval", "withdraw_approval"),
    ),
    "directing": (
        *("list_approvals", "decide_approval", "list_escalations", "resolve_escalation", "escalate_to_human"),
        *("list_alerts", "force_release"),
    ),
}
#: Every tool.
ALL = "all"
#: Not tools, but the schemas of the results of those that are listed, for programs that check them.
SCHEMAS = "schemas"
_CORE = ("core",)
#: Roles that may use the tools of directors by default.
_DIRECTING = frozenset({"director", "human", ""})


class Selection(msgspec.Struct, frozen=True):
    """The toolsets that a caller asked for, and those of each role for a caller that did not ask."""

    by_role: Mapping[str, Sequence[str]]
    asked: tuple[str, ...] = ()

    def toolsets(self, role: str) -> tuple[str, ...]:
        """Return the toolsets for a caller of a role."""
        return self.asked or tuple(self.by_role.get(role, _CORE))

    def tools(self, role: str) -> list[Operation]:
        """Return the tools to list; those of directors only for roles that may use them. An unknown role is empty."""
        names = self.toolsets(role)
        wanted = TOOLS if ALL in names else dict.fromkeys(tool for name in names for tool in TOOLSETS.get(name, ()))
        rows = [TOOLS[name] for name in wanted]
        return [row for row in rows if row.access is Access.AGENT or role in _DIRECTING]


def parse_toolsets(text: str) -> tuple[str, ...]:
    """Read names of toolsets, separated by commas; refuse an unknown one with all names."""
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    known = (*TOOLSETS, ALL, SCHEMAS)
    for name in names:
        if name not in known:
            expected = ", ".join(known)
            detail = f"{name[:64]!r} is not a toolset; there are {expected}"
            raise refusal("E_VALIDATION_003", detail, field="toolsets", found=name[:64], expected=expected)
    return _CORE + names if names == (SCHEMAS,) else names
