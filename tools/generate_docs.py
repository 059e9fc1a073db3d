"""Generate parts of docs/ from the code, or with --check fail if they are outdated."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from typer.main import get_group

from field_docs import field_docs
from generate_client import has_method
from requirements_page import requirements
from tocsin.cli.commands import app as cli_app
from tocsin.client.config import ClientConfig, client_config
from tocsin.core import policy as policies
from tocsin.core.errors import CATALOGUE
from tocsin.core.escalation.paths import PATHS, Place
from tocsin.core.events import EVENT_TYPES
from tocsin.core.messages.lifecycle import APM_STATES, TRANSITIONS
from tocsin.core.messages.model import State
from tocsin.core.policy import Policy, document_of
from tocsin.core.protocol.contracts import Contract
from tocsin.frames.policy import FramesPolicy
from tocsin.gateways.dashboard.gateway import ENDPOINTS as DASHBOARD_ENDPOINTS
from tocsin.gateways.http.app import ENDPOINTS as HTTP_ENDPOINTS
from tocsin.gateways.mcp.mount import ENDPOINTS as MCP_ENDPOINTS
from tocsin.gateways.mcp.schemas import input_schema
from tocsin.gateways.mcp.tools import TOOLS, description_of
from tocsin.gateways.mcp.toolsets import TOOLSETS
from tocsin.gateways.websocket.asyncapi import document as asyncapi_document
from tocsin.gateways.websocket.gateway import ENDPOINTS as SOCKET_ENDPOINTS
from tocsin.hub.config import (
    Channels,
    DashboardConfig,
    FileAgent,
    HistoryConfig,
    ReadinessConfig,
    ServerConfig,
    SocketConfig,
    load_config,
)
from tocsin.journal.terms import OwnershipTerms, StoreTimeouts
from tocsin.lab.figures.measures import METRICS
from tocsin.lab.scenario import Handling, LeaseContention, Load, Scenario, Team
from tocsin.lab.settings import Settings, load_settings
from tocsin.pipeline.advice import RULES, Thresholds
from tocsin.pipeline.catalogue import COLUMNS, SOURCES, TABLES, VIEWS
from tocsin.pipeline.tables.schemas import Column
from tocsin.pipeline.tables.table import Source, Table, View
from tocsin.policies import default_policy
from tocsin.wire.operation import Access, Operation, Where
from tocsin.wire.socket import OPERATION_NAMES
from tocsin.wire.table import OPERATIONS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def type_name(hint: Any) -> str:
    """Return the name of a type for readers."""
    text = str(hint) if not isinstance(hint, type) or hasattr(hint, "__args__") else hint.__name__
    text = re.sub(r"typing\.Annotated\[(\w+), Meta\([^)]*\)\]", r"\1", text)
    return re.sub(r"(?:tocsin\.core\.\w+|typing|collections)\.", "", text).replace("NoneType", "null")


def row(*cells: str) -> str:
    """Return a Markdown table row, with bars inside cells escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def lifecycle() -> str:
    """Return the state diagram, the transitions and the names on the wire."""
    diagram = ["```mermaid", "stateDiagram-v2", "    [*] --> queued: MessageAccepted"]
    diagram.append("    [*] --> held: MessageAccepted")
    for step in TRANSITIONS:
        diagram.append(f"    {step.before} --> {step.after}: {step.event.__name__}")
    diagram += [f"    {state} --> [*]" for state in (State.PROCESSED, State.EXPIRED, State.RECALLED)]
    rows = [row("from", "event", "to", "when"), row("---", "---", "---", "---")]
    rows += [row(step.before, f"`{step.event.__name__}`", step.after, step.when) for step in TRANSITIONS]
    names = [row("state", "state in protocol 1.0.0, awaiting an ACK", "otherwise"), row("---", "---", "---")]
    names += [row(state, awaiting or "none", other or "none") for state, (awaiting, other) in APM_STATES.items()]
    return "\n".join([*diagram, "```", "", *rows, "", *names])


def escalation() -> str:
    """Return the diagram of escalations, their steps and the default rules."""
    diagram = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Place.NORMAL}"]
    diagram += [f"    {route.before} --> {route.after}: {route.step}" for route in PATHS]
    rows = [row("from", "step", "to", "when", "origin"), row("---", "---", "---", "---", "---")]
    rows += [
        row(route.before, f"`{route.step}`", route.after, route.when, "required" if route.required else "added")
        for route in PATHS
    ]
    head = ("rule", "trigger", "level", "after, s", "count", "actions")
    rules = [row(*head), row(*["---"] * len(head))]
    for name, rule in default_policy().escalation.rules.items():
        cells = (rule.level, rule.after_s, rule.count, ", ".join(rule.actions))
        rules.append(row(f"`{name}`", f"`{rule.trigger}`", *map(_shown, cells)))
    return "\n".join([*diagram, "```", "", *rows, "", *rules])


def events() -> str:
    """List every event with every field."""
    parts: list[str] = []
    for kind in EVENT_TYPES:
        own = field_docs(kind)
        hints = get_type_hints(kind)
        parts += [f"### {kind.__name__}", "", (kind.__doc__ or "").strip(), ""]
        parts += [row("field", "type", "meaning"), row("---", "---", "---")]
        parts.append(row("`at`", "int", "When it happened, microseconds since the epoch."))
        parts += [row(f"`{name}`", f"`{type_name(hints[name])}`", text) for name, text in own.items()]
        parts.append("")
    return "\n".join(parts).rstrip()


def errors() -> str:
    """List the error catalogue."""
    head = ["code", "name", "meaning", "severity", "recoverable", "same request later?", "HTTP"]
    lines = [row(*head), row(*["---"] * len(head))]
    for entry in CATALOGUE.values():
        recoverable = f"{'yes' if entry.recoverable else 'no'} ({entry.remedy})"
        later = "may succeed" if entry.retryable else "fails the same"
        cells = (f"`{entry.code}`", f"`{entry.name}`", entry.title, entry.severity, recoverable, later)
        lines.append(row(*cells, str(entry.status)))
    return "\n".join(lines)


def config() -> str:
    """List every section of the policy with its settings and defaults."""
    document = document_of(default_policy())
    parts: list[str] = []
    for concern, hint in get_type_hints(Policy).items():
        if not (isinstance(hint, type) and issubclass(hint, msgspec.Struct)) or hint is Contract:
            continue
        parts += [f"### `{concern}`", "", (hint.__doc__ or "").strip(), ""]
        parts += [row("key", "default", "meaning"), row("---", "---", "---")]
        for name, text in field_docs(hint).items():
            parts.append(row(f"`{name}`", _shown(document[concern][name]), text))
        parts.append("")
    for concern, hint in get_type_hints(FramesPolicy).items():
        parts += [f"### `frames.{concern}`", "", (hint.__doc__ or "").strip(), ""]
        parts += [row("key", "default", "meaning"), row("---", "---", "---")]
        for name, text in field_docs(hint).items():
            parts.append(row(f"`{name}`", _shown(document["frames"][concern][name]), text))
        parts.append("")
    parts += _server()
    parts += ["### `roles`", "", (policies.Role.__doc__ or "").strip(), ""]
    parts += [row("role", *field_docs(policies.Role)), row(*["---"] * (1 + len(field_docs(policies.Role))))]
    parts += [row(name, *(f"`{value}`" for value in role.values())) for name, role in document["roles"].items()]
    parts += ["", *(f"- `{name}`: {text}" for name, text in field_docs(policies.Role).items()), ""]
    return "\n".join([*parts, *_contracts(document)])


def _server() -> list[str]:
    """List the settings of `server.yaml`."""
    values = msgspec.to_builtins(load_config())
    parts: list[str] = []
    sections = ("socket", "dashboard", "history", "ownership", "store", "readiness", "channels")
    # The channels have a separate page.
    for title, hint, section in (
        ("", ServerConfig, values),
        ("socket", SocketConfig, values["socket"]),
        ("dashboard", DashboardConfig, values["dashboard"]),
        ("history", HistoryConfig, values["history"]),
        ("ownership", OwnershipTerms, values["ownership"]),
        ("store", StoreTimeouts, values["store"]),
        ("readiness", ReadinessConfig, values["readiness"]),
    ):
        heading = f"`server.yaml`: `{title}`" if title else "`server.yaml`"
        parts += [f"### {heading}", "", (hint.__doc__ or "").strip(), ""]
        parts += [row("key", "default", "meaning"), row("---", "---", "---")]
        docs = field_docs(hint).items()
        parts += [row(f"`{name}`", _shown(section[name]), text) for name, text in docs if name not in sections]
        parts.append("")
    return parts


def _contracts(document: Any) -> list[str]:
    fields = field_docs(Contract)
    shown = [name for name in fields if name != "payload"]
    parts = ["### `contracts` and `custom_contract`", "", "What each message type promises.", ""]
    parts += [f"- `{name}`: {text}" for name, text in fields.items()]
    parts += ["", row("type", *shown), row(*["---"] * (1 + len(shown)))]
    rows = {**document["contracts"], "`CUSTOM_*`": document["custom_contract"]}
    parts += [row(name, *(_shown(contract[field]) for field in shown)) for name, contract in rows.items()]
    return parts


def client() -> str:
    """List the operations that are methods of an agent, and the settings of a client."""
    parts = ["### Operations", "", row("method", "returns", "what it does"), row(*["---"] * 3)]
    for operation in filter(has_method, OPERATIONS.values()):
        fields = msgspec.structs.fields(operation.request)
        arguments = [field.name for field in fields if field.required]
        arguments += [f"{field.name}=…" for field in fields if not field.required]
        reply = getattr(operation.reply, "__args__", (operation.reply,))[0].__name__
        shape = getattr(operation.reply, "__origin__", None)
        returned = f"`{reply}`" if shape is None else f"{'a list' if shape is list else 'a page'} of `{reply}`"
        notes = ["" if operation.access is Access.AGENT else "For directors and humans."]
        notes.append("Hub only." if operation.where is Where.HUB else "")
        about = " ".join([operation.summary, *filter(None, notes)])
        parts.append(row(f"`{operation.name}({', '.join(arguments)})`", returned, about))
    defaults = msgspec.to_builtins(client_config())
    parts += ["", "### Settings", "", row("key", "default", "meaning"), row("---", "---", "---")]
    parts += [row(f"`{name}`", _shown(defaults[name]), text) for name, text in field_docs(ClientConfig).items()]
    return "\n".join(parts)


def tables() -> str:
    """List every table with every column."""
    kept = dict.fromkeys(COLUMNS, "Stored, partitioned by project and day.")
    kept["quarantine"] = "Stored, partitioned by project."
    kept |= {view.name: "A view over " + ", ".join(f"`{name}`" for name in view.reads) + "." for view in VIEWS}
    everything: dict[str, list[tuple[str, str, tuple[Column, ...]]]] = {}
    items: list[Source | Table | View] = []
    items += SOURCES
    items += TABLES
    items += VIEWS
    for layer in ("bronze", "silver", "facts", "gold"):
        everything[layer] = [(item.name, item.about, item.columns) for item in items if item.layer == layer]
    parts: list[str] = []
    for layer, found in everything.items():
        parts += [f"## {layer.capitalize()}", ""]
        for name, about, columns in found:
            parts += [f"### {name}", "", f"{about} {kept[name]}", ""]
            parts += [row("column", "type", "meaning"), row("---", "---", "---")]
            parts += [row(f"`{column.name}`", f"`{column.type}`", column.about) for column in columns]
            parts.append("")
    return "\n".join(parts).rstrip()


def advice() -> str:
    """List the advice rules and their thresholds."""
    parts = [row("rule", "what it asks for"), row("---", "---")]
    parts += [row(f"`{rule.__name__}`", (rule.__doc__ or "").strip()) for rule in RULES]
    parts += ["", row("threshold", "default", "meaning"), row("---", "---", "---")]
    careful = Thresholds()
    parts += [row(f"`{name}`", _shown(getattr(careful, name)), text) for name, text in field_docs(Thresholds).items()]
    return "\n".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "any"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(item)}" for key, item in value.items())
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return "" if value is None else str(value)


def mcp() -> str:
    """List the tools with their arguments, and the limits."""
    parts: list[str] = []
    for name, tool in TOOLS.items():
        schema, reads = input_schema(tool), tool.kind == "question"
        hints = {"reads only": reads, "safe to repeat": reads or tool.idempotent, "can undo": tool.destructive}
        said = ", ".join(hint for hint, holds in hints.items() if holds) or "changes something each time"
        sets = ", ".join(f"`{name}`" for name, tools in TOOLSETS.items() if tool.tool_name in tools)
        said = f"*{said[0].upper()}{said[1:]}. Toolset: {sets}.*"
        parts += [f"### `{name}`", "", description_of(tool), "", said, ""]
        if schema["properties"]:
            parts += [row("argument", "type", "default", "meaning"), row("---", "---", "---", "---")]
        for name, field in schema["properties"].items():
            default = "required" if name in schema.get("required", []) else _default(field.get("default"))
            parts.append(row(f"`{name}`", _json_type(field), default, _described(field)))
        parts.append("")
    parts += ["## Limits", "", "Of the hub's `server.yaml`.", ""]
    parts += [row("key", "default", "meaning"), row("---", "---", "---")]
    defaults = load_config()
    for name, text in field_docs(ServerConfig).items():
        if name.startswith("mcp_"):
            value = getattr(defaults, name)
            shown = "none" if value == [] else f"`{value}`" if isinstance(value, dict) else _shown(value)
            parts.append(row(f"`{name}`", shown.replace("'", ""), text))
    return "\n".join(parts)


def _default(value: object) -> str:
    return "" if value in (None, "", []) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _json_type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return _json_type(next(one for one in field["anyOf"] if one.get("type") != "null"))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    bounds = {
        "minimum": "from {}",
        "maximum": "to {}",
        "exclusiveMinimum": "above {}",
        "maxLength": "up to {} characters",
    }
    limits = [text.format(field[name]) for name, text in bounds.items() if name in field and field[name] < 2**53]
    return ", ".join([str(field.get("type")), *limits])


def _described(field: dict[str, Any]) -> str:
    inner = [one for one in field.get("anyOf", []) if "description" in one]
    return str(field.get("description") or (inner[0]["description"] if inner else ""))


def cli() -> str:
    """List every command with its arguments and options, by the headings of the help."""
    panels: dict[str, list[str]] = {}
    for name, command in get_group(cli_app).commands.items():
        panels.setdefault(str(getattr(command, "rich_help_panel", "")), []).extend(_commands(name, command))
    parts: list[str] = []
    for panel, rows in panels.items():
        parts += [f"### {panel}", "", row("command", "summary"), row("---", "---"), *rows, ""]
    return "\n".join(parts).rstrip()


def _commands(name: str, command: Any) -> list[str]:
    if hasattr(command, "commands"):
        return [line for verb, one in command.commands.items() for line in _commands(f"{name} {verb}", one)]
    usage = [name]
    for parameter in sorted(command.params, key=lambda one: str(one.param_type_name)):  # arguments, then options
        if parameter.param_type_name == "argument":
            word = f"{parameter.name.upper()}{'…' if parameter.nargs == -1 else ''}"
            usage.append(word if parameter.required else f"[{word}]")
        elif parameter.opts[0] not in ("--help", "--json"):
            usage.append(parameter.opts[0] if parameter.required else f"[{parameter.opts[0]}]")
    return [row(f"`{' '.join(usage)}`", str(command.help).split("\n")[0])]


_CALLERS = {
    Access.AGENT: "all",
    Access.DIRECTOR: "directors, humans",
    Access.OVERSEER: "directors, humans, administrators",
    Access.ADMIN: "administrators",
}


def http() -> str:
    """List the operations by subject, and the other endpoints of the port."""
    subjects: dict[str, list[Operation]] = {}
    for operation in OPERATIONS.values():
        subjects.setdefault(operation.tag, []).append(operation)
    parts: list[str] = []
    for subject, operations in subjects.items():
        parts += [f"### {subject.capitalize()}", ""]
        parts += [row("operation", "request", "what it does", "callers"), row("---", "---", "---", "---")]
        parts += [row(f"`{one.name}`", f"`{one.http}`", one.summary, _CALLERS[one.access]) for one in operations]
        parts.append("")
    parts += ["### Other endpoints", "", row("endpoint", "request", "what it does", "token"), row(*["---"] * 4)]
    for endpoint in (*HTTP_ENDPOINTS, *SOCKET_ENDPOINTS, *MCP_ENDPOINTS, *DASHBOARD_ENDPOINTS):
        token = "not needed" if endpoint.public else "required"
        parts.append(row(f"`{endpoint.name}`", f"`{endpoint.http}`", endpoint.summary, token))
    return "\n".join(parts)


def websocket() -> str:
    """List the socket operations with the fields of their requests and answers."""
    schemas = asyncapi_document("")["components"]["schemas"]
    lines = [row("operation", "fields", "what it does", "`ok`"), row("---", "---", "---", "---")]
    for name, shape in OPERATION_NAMES.items():
        answer = schemas[shape.__name__]["x-answer"]
        if answer:
            properties = schemas[answer["$ref"].rsplit("/", 1)[1]]["properties"]
            replied = ", ".join(f"`{field}`" for field in properties) or "an empty object"
        else:
            replied = "the reply of the operation"
        fields = ", ".join(f"`{field}`" for field in shape.__struct_fields__)
        lines.append(row(f"`{name}`", fields, (shape.__doc__ or "").strip(), replied))
    return "\n".join(lines)


def channels() -> str:
    """List the fields of the file gateway's section and of a file agent."""
    defaults = msgspec.to_builtins(load_config().channels)
    lines = [row("key", "default", "meaning"), row("---", "---", "---")]
    lines += [row(f"`{name}`", _shown(defaults[name]), text) for name, text in field_docs(Channels).items()]
    agent = msgspec.to_builtins(FileAgent())
    lines += ["", "Each agent of `agents`:", "", row("key", "default", "meaning"), row("---", "---", "---")]
    lines += [row(f"`{name}`", _shown(agent[name]), text) for name, text in field_docs(FileAgent).items()]
    return "\n".join(lines)


def lab() -> str:
    """List the figures of the lab, its settings, and the keys of a scenario."""
    lines = [
        "## Figures",
        "",
        "Lower is better for all of them.",
        "",
        row("figure", "of", "meaning"),
        row(*["---"] * 3),
    ]
    lines += [
        row(f"`{metric.name}`", "all" if metric.whole else "each priority, and all", metric.about)
        for metric in METRICS.values()
    ]
    lines += ["", "## Settings", "", "`DATA/lab.yaml` overrides the defaults that it names.", ""]
    lines += [row("key", "default", "meaning"), row("---", "---", "---")]
    defaults = msgspec.to_builtins(load_settings())
    lines += [row(f"`{name}`", _shown(defaults[name]), text) for name, text in field_docs(Settings).items()]
    lines += [
        "",
        "## Scenarios",
        "",
        "A duration is seconds, or `{mean: …}` (exponential), or `{low: …, high: …}` (even).",
    ]
    for title, kind in _SCENARIO:
        lines += ["", f"### {title}", "", row("key", "default", "meaning"), row("---", "---", "---")]
        texts = field_docs(kind)
        for field in msgspec.structs.fields(kind):
            value = "" if field.default is msgspec.NODEFAULT else _shown(msgspec.to_builtins(field.default))
            lines.append(row(f"`{field.encode_name}`", value, texts[field.name]))
    return "\n".join(lines)


_SCENARIO: tuple[tuple[str, type], ...] = (
    ("The scenario", Scenario),
    ("A team", Team),
    ("How it handles a type", Handling),
    ("A load", Load),
    ("A fight over leases", LeaseContention),
)

GENERATED: dict[str, Callable[[], str]] = {
    "concepts/lifecycle.md": lifecycle,
    "concepts/escalation.md": escalation,
    "reference/advice.md": advice,
    "reference/cli.md": cli,
    "reference/events.md": events,
    "reference/errors.md": errors,
    "reference/http.md": http,
    "reference/websocket.md": websocket,
    "reference/lab.md": lab,
    "reference/config.md": config,
    "reference/mcp.md": mcp,
    "reference/client.md": client,
    "reference/channels.md": channels,
    "reference/tables.md": tables,
    "reference/requirements.md": requirements,
}
_BLOCK = re.compile(
    r"(<!-- generated by make docs: do not edit -->\n).*?(\n<!-- end of the generated part -->)", re.DOTALL
)


def fresh(path: Path, generate: Callable[[], str]) -> str:
    """Return a page with its generated part updated."""
    text = path.read_text(encoding="utf-8")
    if not _BLOCK.search(text):
        raise SystemExit(f"{path.name} has no markers for its generated part")
    return _BLOCK.sub(lambda match: f"{match[1]}\n{generate()}\n{match[2]}", text)


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(prog="make docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is outdated")
    check = parser.parse_args().check
    stale = [name for name, generate in GENERATED.items() if _update(DOCS / name, generate, check=check)]
    if check and stale:
        print("stale: " + ", ".join(f"docs/{name}" for name in stale) + "; update them with make docs")
        return 1
    return 0


def _update(path: Path, generate: Callable[[], str], *, check: bool) -> bool:
    wanted = fresh(path, generate)
    changed = wanted != path.read_text(encoding="utf-8")
    if changed and not check:
        path.write_text(wanted, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return changed


if __name__ == "__main__":
    sys.exit(main())
