"""`tocsin hooks check`: the inbox check that a coding agent runs between two steps.

It runs after every tool call of an agent, so it imports only the standard library; this is why it uses HTTP paths and
not the table of operations. It prints nothing if no messages wait, and it never disturbs the agent: if the hub is
down, the token is missing or the reply takes too long, it prints nothing and exits with 0.

A check confirms nothing: the coding agent may drop or cut what it prints. It looks at the inbox without taking anything
out, shows each urgent message once per session of the client, and names it in one line after that, until the agent
itself has fetched, answered or acknowledged it.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tocsin.cli.hooks.firings import noted
from tocsin.cli.hooks.notice import Notice, notice_of
from tocsin.cli.hooks.sessions import ShownMessages
from tocsin.cli.identity import identify
from tocsin.cli.remote import DEFAULT_URL, Remote, Unusable

__all__ = ["EVENTS", "check", "main", "output_of"]

#: Maximum number of messages that a check looks at.
_LOOKED_AT_MAX = 20
#: Maximum size of the output, bytes: Claude Code and Codex show about 9,900 characters of a hook whole, and cut more.
_OUTPUT_BYTES_MAX = 9_000
#: Events at which an agent begins something; only then messages that are not urgent are mentioned.
_BEGINNINGS = ("SessionStart", "UserPromptSubmit", "BeforeAgent")
#: Events whose output the model is shown, by the names of Claude Code and Codex, and of Gemini CLI (BeforeAgent and
#: AfterTool). The clients drop what is printed at any other event.
EVENTS = (*_BEGINNINGS, "PostToolUse", "AfterTool", "Stop")


def main(arguments: Sequence[str]) -> int:
    """Run a check and return 0, or 1 for a wrong command line; 2 would block the agent."""
    parser = argparse.ArgumentParser("tocsin hooks check", add_help=False)  # `--help` is left to the command line.
    parser.add_argument("--url", default=os.environ.get("TOCSIN_URL") or DEFAULT_URL)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TOCSIN_DATA") or ".tocsin"))
    parser.add_argument("--as", dest="agent", default=None)
    parser.add_argument("--token-file", type=Path, default=None)
    parser.add_argument("--timeout-s", type=float, default=2.0)
    parser.add_argument("--event", default=None)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    try:
        given = parser.parse_args(arguments)
    except SystemExit:
        return 1
    check(given.url, given.data, given.agent, given.token_file, given.timeout_s, given.event)
    return 0


def check(
    url: str, data: Path, agent: str | None, token_file: Path | None, timeout_s: float, event: str | None
) -> None:
    """Print the waiting messages in the format of the event; print nothing if there are none."""
    event_input = _input()
    event = event or str(event_input.get("hook_event_name") or "UserPromptSubmit")
    if event not in EVENTS or event_input.get("agent_id"):
        return  # Nobody would see it, or only a sub-agent, which is another model.
    try:
        identity = identify(data, agent, token_file)
    except Unusable:
        return
    if not identity.is_known:
        return
    with noted(identity, event, event_input):
        if event == "Stop" and event_input.get("stop_hook_active"):
            return  # It was held up already.
        remote = Remote(url, identity.token(), agent=identity.agent or "", timeout_s=timeout_s)
        shown = ShownMessages(identity.data, identity.key(), str(event_input.get("session_id") or ""))
        if event == "SessionStart":
            shown.clear()  # The context is new, or was compacted or cleared.
        body = {"limit": _LOOKED_AT_MAX, "at_least": "Blocking", "payload_bytes_max": _OUTPUT_BYTES_MAX}
        looked = remote.post("v1", "inbox", "peek", body=body)
        notice = notice_of(looked["messages"], looked["waiting"], shown.ids, _OUTPUT_BYTES_MAX, event in _BEGINNINGS)
        if event == "Stop" and not _goes_on(notice, shown, "stop_hook_active" in event_input):
            return
        answer = output_of(event, notice)
        if answer is None:
            return
        sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
        sys.stdout.flush()
        shown.add(notice.shown)


def _goes_on(notice: Notice, shown: ShownMessages, has_limit: bool) -> bool:
    """Return whether an agent goes on instead of stopping: once for each message, or as often as its client allows."""
    new = [name for name in (*notice.shown, *notice.named) if name not in shown.held_up]
    return bool(new) and (shown.hold_up(new) or has_limit)


def output_of(event: str, notice: Notice) -> dict[str, Any] | None:
    """Return the output for an event; None if there is nothing to say."""
    if not notice.text:
        return None
    if event == "Stop":
        return {"decision": "block", "reason": notice.text}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": notice.text}}


def _input() -> dict[str, Any]:
    """Read the coding agent's description of the event; return an empty one if it cannot be read."""
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    try:
        document = json.loads(sys.stdin.read() or "{}")
    except (ValueError, OSError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
