"""Replies of operations as tables."""

import json
from datetime import datetime
from typing import Any

import msgspec
import typer

from tocsin.cli.output import record, say, show_json, table
from tocsin.cli.remote import Exit
from tocsin.cli.style import in_words, shown_time
from tocsin.core import commands as cmd
from tocsin.core.errors import Problem
from tocsin.core.protocol.previews import preview
from tocsin.wire import agents, archive, history, project, teamwork

__all__ = ["COLUMNS", "cell", "preview_of", "rows_of", "show"]

#: Characters of a preview.
_PREVIEW_MAX = 100

#: Columns of the records in a table, where not all scalar fields are shown; a dot leads to a field of a field.
COLUMNS: dict[type, str] = {
    agents.AgentRecord: "agent role type presence waiting unread.mailbox_bytes version",
    cmd.LeaseRecord: "lease agent state exclusive shared priority place expires_at wait_until",
    cmd.Receipt: "signal_id recipient recipient_state publish_path reach priority durability",
    history.DeadLetterRecord: "message.signal_id message.sender message.recipient message.type last_failed_at "
    "detail message.preview",
    history.DeadLetterSummary: "signal_id sender recipient type dead_at detail preview",
    history.MessageFields: "signal_id sender recipient type level state expires_at preview",
    project.PolicyVersion: "version adopted_at by reason",
    project.AgentDetails: "agent role type presence attention.status waiting unread.mailbox_bytes gaming",
    teamwork.ApprovalRecord: "approval handoff asker due_at question",
    teamwork.DiscussionRecord: "discussion opener question state participants due_at",
    teamwork.EscalationRecord: "escalation trigger about state opened_at detail",
}


def show(reply: Any, as_json: bool, *, whole: bool = False) -> None:
    """Print a reply; end with an exit code if it contains refusals.

    Lists of records are tables, and everything else is one line per field. `whole` prints every field of the records.
    """
    problems = _problems(reply)
    if as_json:
        show_json(reply)
    elif isinstance(reply, list):
        _show_records(reply, whole=whole)
    elif isinstance(reply, archive.TableRows):
        names = [column.name for column in reply.columns]
        table([dict(zip(names, map(cell, row), strict=True)) for row in reply.rows], *names)
        say(f"{len(reply.rows)} of {reply.total} rows")
    else:
        _show_struct(reply)
        for name, problem in problems.items():
            say(f"{name}: {problem.detail}")
    if problems:
        raise typer.Exit(Exit.REFUSED)


def _show_struct(reply: msgspec.Struct) -> None:
    tables: dict[type, list[Any]] = {}
    facts: dict[str, str] = {}
    for name, value in msgspec.structs.asdict(reply).items():
        records = [value] if isinstance(value, msgspec.Struct) else value
        if isinstance(records, list | tuple) and records and isinstance(records[0], msgspec.Struct):
            tables.setdefault(type(records[0]), []).extend(records)
        elif text := cell(value):
            facts[name] = text
    for records in tables.values():
        _show_records(records, whole=False)
    if facts:
        record(facts)
    elif not tables:
        say("done" if isinstance(reply, cmd.Done) else "nothing")


def _show_records(records: list[Any], *, whole: bool) -> None:
    if not records:
        say("nothing")
    elif whole:
        for one in records:
            record({name: cell(value) for name, value in msgspec.structs.asdict(one).items()})
    else:
        columns = _columns(type(records[0]))
        table(rows_of(records, columns), *(column.split(".")[-1] for column in columns))
        for one in records:
            if isinstance(one, cmd.Receipt):
                _say_surprises(one)


def _say_surprises(receipt: cmd.Receipt) -> None:
    """Say that a message is held, or was accepted at another priority than its sender asked for."""
    name = receipt.signal_id
    if receipt.held:
        say(f"{name} is held until a director or a human approves it: `tocsin approvals list`")
    if receipt.priority != receipt.requested_priority:
        changed = f"{receipt.priority} instead of {receipt.requested_priority}"
        say(f"{name} was accepted at {changed}: `tocsin trace {name}` shows why")


def _columns(kind: type) -> list[str]:
    declared = next((COLUMNS[base] for base in kind.__mro__ if base in COLUMNS), None)
    if declared is not None:
        return declared.split()
    fields = msgspec.structs.fields(kind)
    return [field.name for field in fields]


def rows_of(records: list[Any], columns: list[str]) -> list[dict[str, str]]:
    """Return the cells of records by the last part of each column's name."""
    return [{column.split(".")[-1]: cell(_value(one, column)) for column in columns} for one in records]


def _value(found: Any, path: str) -> Any:
    for name in path.split("."):
        if name == "preview" and isinstance(found, history.MessageRecord):
            return preview_of(found.payload)
        if name == "question" and isinstance(found, teamwork.ApprovalRecord):
            return found.preview or ": ".join(filter(None, (found.subject, found.details)))
        found = getattr(found, name)
    return found


def preview_of(payload: Any) -> str:
    """Return the text of a payload in a line."""
    return preview(msgspec.json.encode(payload), _PREVIEW_MAX)


def cell(value: Any) -> str:
    """Return a value as a text of one line; counts of zero are left out."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return shown_time(value)
        case float():
            return f"{value:.10g}"
        case dict():
            if any(isinstance(part, dict | list) for part in value.values()):
                return json.dumps(value, ensure_ascii=False)
            return ", ".join(f"{name}: {cell(part)}" for name, part in value.items() if part != 0 and part is not None)
        case list() | tuple():
            return ", ".join(map(cell, value))
        case msgspec.Struct() | msgspec.Raw():
            return msgspec.json.encode(value).decode()
    return in_words(str(value))


def _problems(reply: Any) -> dict[str, Problem]:
    """Return the refusals of a reply that was successful in part."""
    if not isinstance(reply, msgspec.Struct):
        return {}
    return {
        str(name): problem
        for value in msgspec.structs.asdict(reply).values()
        if isinstance(value, dict)
        for name, problem in value.items()
        if isinstance(problem, Problem)
    }
