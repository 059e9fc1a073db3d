"""`tocsin wake`: templates of wakers for common clients, and the logs of wakes."""

import re
from enum import StrEnum
from typing import Annotated

import typer

from tocsin.cli.context import DataHere, Json, data_of
from tocsin.cli.output import fail, missing, show_json
from tocsin.cli.programs.tmux import PROMPT, TEXT_MAX, NotSubmitted, Pacing, Pane, is_typeable, submit
from tocsin.cli.remote import Exit
from tocsin.wire.explanations import WAKER_REASON

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
# server.yaml: type into a client that is idle in the tmux session "{agent}". The prompt must be empty; the wake has
# worked when the agent fetches the message. The hub and tmux must belong to the same user.
wakers:
  agents:
    {agent}:
      command: [tocsin, wake, tmux, "{agent}"]
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


@wake.command("tmux")
def tmux(
    pane: Annotated[str, typer.Argument(help="The pane: a session's name, or any target that tmux takes.")],
    text: Annotated[str, typer.Option(help="What to type: one line.")] = _PROMPT,
    prompt: Annotated[
        str, typer.Option(help="Regular expression of an empty prompt's line, up to the cursor.", show_default=False)
    ] = PROMPT,
    wait_s: Annotated[float, typer.Option(help="Time for the prompt to become empty.", min=0, max=3600)] = 20.0,
    pause_s: Annotated[float, typer.Option(help="Pause between the text and Enter.", min=0, max=60)] = 0.4,
    again_s: Annotated[float, typer.Option(help="Time after which Enter is pressed again.", min=0.1, max=60)] = 2.0,
    submit_s: Annotated[float, typer.Option(help="Time in which the text must be submitted.", min=1, max=600)] = 10.0,
) -> None:
    """Type a line into a client that is idle in a pane of tmux, and submit it: a waker for server.yaml.

    Nothing is typed unless the prompt is empty, so that no draft is changed, and Enter is pressed only while the prompt
    has the line and nothing else. Exit codes: 0 submitted, 1 not submitted, 4 no such pane, 6 the prompt is not empty,
    no prompt is shown, or no client runs in the pane.
    """
    if not is_typeable(text):
        raise fail(f"{WAKER_REASON}--text must be one line with a letter, of up to {TEXT_MAX} characters", Exit.USAGE)
    try:
        submit(Pane(pane), text, re.compile(prompt), Pacing(wait_s, pause_s, submit_s, again_s))
    except re.error as error:
        raise fail(f"{WAKER_REASON}--prompt is no regular expression: {error}", Exit.USAGE) from None
    except NotSubmitted as error:
        raise fail(f"{WAKER_REASON}{error}", error.code) from None


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
