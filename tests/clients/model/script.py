"""The answers of a scripted model: texts and calls of tools."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.clients.model.record import Request
from tocsin.gateways.mcp.tools import TOOLS

__all__ = ["Answer", "Call", "Say", "Step", "answer_of"]

#: A server in Codex's list of servers whose tools are deferred.
_NAMESPACE = re.compile(r"^- (mcp__tocsin):", re.MULTILINE)


class Say(NamedTuple):
    """The model ends its turn with a text."""

    text: str


class Call(NamedTuple):
    """The model calls a tool, and is shown the result.

    A tool of Tocsin has its own name here; the client's name for it is taken from the tools that it lists.
    """

    tool: str
    arguments: dict[str, Any] = {}  # noqa: RUF012


#: Calls that take half a second, by the name of the client's own tool for commands.
_WAITS = {
    "Bash": Call("Bash", {"command": "sleep 0.5", "description": "Wait"}),
    "exec_command": Call("exec_command", {"cmd": "sleep 0.5"}),
    "run_shell_command": Call("run_shell_command", {"command": "sleep 0.5"}),
    "bash": Call("bash", {"command": "sleep 0.5", "description": "Wait"}),
}

#: One answer of the model. A function is given the request and returns the answer; it may wait.
Step = Say | Call | list[Call] | Callable[[Request], "Say | Call | list[Call]"]


class Answer(NamedTuple):
    """What the model says, with the names that the client gives to tools."""

    said: Say | list[Call]
    #: Whether the model has to wait, because a tool of Tocsin is not listed yet; then the step is taken again.
    early: bool


def answer_of(step: Step, request: Request) -> Answer:
    """Return the answer of a step.

    A client may ask its model before Tocsin's server has started. The model then runs a command that waits, as often as
    it takes, unless the client has no tool for commands.
    """
    answer = step(request) if callable(step) else step
    if isinstance(answer, Say):
        return Answer(answer, early=False)
    calls = [answer] if isinstance(answer, Call) else answer
    names = [full_name(call.tool, request) for call in calls]
    waiting = next((call for name in request.tools if (call := _WAITS.get(name))), None)
    if waiting is not None and None in names:
        return Answer([waiting], early=True)
    return Answer(
        [Call(name or call.tool, call.arguments) for name, call in zip(names, calls, strict=True)], early=False
    )


def full_name(tool: str, request: Request) -> str | None:
    """Return the client's name of a tool; null for a tool of Tocsin that the client has not named to the model.

    Clients defer tools: Claude Code then tells only their names, and Codex only the namespace of a server.
    """
    if tool in request.tools or tool not in TOOLS:
        return tool
    pattern = re.compile(rf"\b\w*tocsin\w*_{re.escape(tool)}\b")
    listed = next((name for name in request.tools if pattern.fullmatch(name)), None)
    if listed or (told := pattern.search(request.text)) is None:
        deferred = _NAMESPACE.search(request.text)
        return listed or (f"{deferred[1]}__{tool}" if deferred else None)
    return told[0]
