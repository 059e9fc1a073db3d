"""`tocsin wake`: templates of wakers for common clients, and the logs of wakes."""

from enum import StrEnum
from typing import Annotated

import typer

from tocsin.cli.context import DataHere, Json, data_of
from tocsin.cli.output import missing, show_json

__all__ = ["wake"]

wake = typer.Typer(help="Wakers: templates for server.yaml, and the logs of wakes.", no_args_is_help=True)


class Client(StrEnum):
    """Clients that there is a template for."""

    CLAUDE = "claude"
    CODEX = "codex"
    TMUX = "tmux"
    SYSTEMD = "systemd"


_PROMPT = "You were woken because an urgent message waits. Call fetch_inbox, act on the messages, answer them, and end."
_TEMPLATES = {
    Client.CLAUDE: """\
# server.yaml: start Claude Code without a terminal; it ends when it has answered. Install the tools first, in its
# directory: tocsin --as {agent} hooks install claude
wakers:
  agents:
    {agent}:
      command: [claude, -p, "{prompt}", --allowedTools, "mcp__tocsin"]
      directory: /path/to/the/project
""",
    Client.CODEX: """\
# server.yaml: start Codex without a terminal; it ends when it has answered. Install the tools first, in its directory:
# tocsin --as {agent} hooks install codex
wakers:
  agents:
    {agent}:
      command: [codex, exec, "{prompt}"]
      directory: /path/to/the/project
""",
    Client.TMUX: """\
# server.yaml: type into a client that is idle in the tmux session "{agent}". tmux ends at once, which is fine: the wake
# has worked when the agent fetches the message. -l types the text as it is; Enter is a command of its own.
wakers:
  agents:
    {agent}:
      command: [tmux, send-keys, -t, "{agent}", -l, "{prompt}", ";", send-keys, -t, "{agent}", Enter]
""",
    Client.SYSTEMD: """\
# server.yaml: start a user service. The service does not get the waker's environment: give it TOCSIN_URL and
# TOCSIN_TOKEN_FILE in its unit.
wakers:
  agents:
    {agent}:
      command: [systemctl, --user, start, "{agent}.service"]

# ~/.config/systemd/user/{agent}.service
# [Service]
# Type=oneshot
# Environment=TOCSIN_URL=http://127.0.0.1:7077 TOCSIN_TOKEN_FILE=/path/to/.tocsin/tokens/{agent}.token
# ExecStart=/path/to/tocsin work --idle-s 60 -- /path/to/a/program
""",
}


@wake.command("template")
def template(
    client: Annotated[Client, typer.Argument(help="The client to wake.")],
    agent: Annotated[str, typer.Option(help="Name of the agent.")] = "bob",
    as_json: Json = False,
) -> None:
    """Print a waker for server.yaml; nothing is installed."""
    text = _TEMPLATES[client].format(agent=agent, prompt=_PROMPT)
    if as_json:
        show_json({"client": client, "agent": agent, "template": text})
    else:
        typer.echo(text, nl=False)


@wake.command("log")
def log(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(help="The agent that was woken.")],
    data: DataHere = None,
    as_json: Json = False,
) -> None:
    """Print the output of an agent's latest wake."""
    folder = data_of(context, data) / "wakes" / agent
    logs = sorted(folder.glob("*.log"), key=lambda path: path.name) if ".." not in agent else []
    if not logs:
        raise missing(f"there is no log of a wake of {agent} in {folder}", as_json)
    text = logs[-1].read_text(encoding="utf-8", errors="replace")
    if as_json:
        show_json({"agent": agent, "file": str(logs[-1]), "output": text})
    else:
        typer.echo(text, nl=False)
