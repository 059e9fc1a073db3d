"""`tocsin quickstart`: a hub with two agents, a message and, if wanted, the entries for Claude Code.

The hub runs in this process, as with `tocsin serve`. Once it serves, a thread performs the steps over HTTP, as the
commands do that it names afterwards.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.context import HERE, Level
from tocsin.cli.identity import AGENT_FILE, TreeAgent
from tocsin.cli.output import fail, say
from tocsin.cli.remote import DEFAULT_URL, Exit, Refused, Remote, Unreachable, token_from
from tocsin.core.errors import TocsinError

__all__ = ["quickstart"]

#: The agents: name, role and type.
_AGENTS = (("lead", "director", "Manager"), ("dev", "primary", "Implementation"))
_TEXT = "Welcome to the team. Tell me what you see in this folder."
_QUESTION = """\
This starts a hub with two agents, lead and dev, and a message from lead to dev. Its data goes to {data}.
Connect Claude Code in this folder as dev? It changes {files}. [Y/n] """
#: What to do next: words of a command, and what it does.
_NEXT = (
    ("--as dev inbox --take", "fetch the message as dev"),
    ('--as lead send dev "how is it?"', "send another one"),
    ("top", "watch agents, messages and events"),
    ("dashboard", "a link to the dashboard"),
)
_CLAUDE = ("claude", "start Claude Code as dev: tell it to fetch its inbox and answer")


def quickstart(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of the project; it is created if it does not exist.")] = Path(),
    port: Annotated[
        int | None, typer.Option(help="TCP port of the hub; by default 7077; 0 takes any free one.", min=0, max=65_535)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Connect Claude Code without asking.")] = False,
) -> None:
    """Try it: start a hub with two agents and a message, and connect Claude Code if you like."""
    if context.find_root().params["data"] != HERE:
        raise fail("quickstart takes the folder of the project as its argument: leave --data out", Exit.USAGE)
    data = folder / HERE
    if data.exists():
        again = "tocsin serve" if folder == Path() else f"tocsin serve --data {data}"
        raise fail(
            f"{data} exists, so there is a project already: `{again}` serves it. For another one name a folder: "
            "tocsin quickstart FOLDER",
            Exit.REFUSED,
        )
    from tocsin.cli.serve import check_port, run_hub

    check_port(port)
    files = _claude_files(folder)
    connects = yes or _is_wanted(_QUESTION.format(data=data, files=" and ".join(files)))
    failures: list[str] = []

    def perform(url: str) -> None:
        try:
            _perform(Remote(url, token_from(data, None)), folder, connects=connects)
        except (Unreachable, Refused, TocsinError, OSError) as error:
            failures.append(str(error))
            os.kill(os.getpid(), signal.SIGTERM)  # The hub stops in order.

    def ready(url: str) -> None:
        threading.Thread(target=perform, args=(url,), name="quickstart", daemon=True).start()

    folder.mkdir(parents=True, exist_ok=True)
    run_hub(data, "default", "", trusting=False, log_level=Level.WARNING, workers=1, port=port, ready=ready)
    if failures:
        raise fail(f"the hub was stopped, because a step failed: {failures[0]}", Exit.FAILED)


def _claude_files(folder: Path) -> list[str]:
    from tocsin.cli.hooks.files import ClaudeFiles, Unreadable

    try:
        return [str(path) for path in ClaudeFiles(folder, user=False).installed()]
    except Unreadable as error:
        raise fail(f"Claude Code cannot be connected: {error}", Exit.FAILED) from None


def _is_wanted(question: str) -> bool:
    """Ask; without a terminal the answer is no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        answer = input(question)
    except EOFError:
        say("")
        return False
    except KeyboardInterrupt:
        say("\nStopped before anything was made.")
        raise typer.Exit(130) from None
    return answer.strip().lower() in ("", "y", "yes")


def _perform(admin: Remote, folder: Path, *, connects: bool) -> None:
    """Add the agents, send the message, connect Claude Code, and tell what to do next."""
    from tocsin.cli.operations.sending import write
    from tocsin.hub.token_files import keep_secret
    from tocsin.wire.drafts import Draft

    data = folder / HERE
    for name, role, kind in _AGENTS:
        issued = admin.ask("issue_token", {"agent": name, "role": role, "type": kind})
        _step(f"agent {name}, {role}: its token is in {keep_secret(data / 'tokens' / f'{name}.token', issued.token)}")
    lead = Remote(admin.url, token_from(data, "lead"))
    lead.ask("send_message", {}, write(lead, Draft(to="dev", type="StatusUpdate", payload={"text": _TEXT})))
    _step(f"lead has sent dev a message: {_TEXT}")
    url = "" if admin.url == DEFAULT_URL else f"--url {admin.url} "
    if connects:
        _connect(folder, admin.url if url else None)
    else:
        say(f"Claude Code is not connected. To do it later: tocsin {url}--as dev hooks install claude")
    _say_next_steps(folder, url, connects=connects)


def _say_next_steps(folder: Path, url: str, *, connects: bool) -> None:
    rows = [(f"tocsin {url}{words}", what) for words, what in _NEXT]
    if connects:
        rows.insert(1, _CLAUDE)
    width = max(len(command) for command, _ in rows)
    say("next, in another terminal:", "bold")
    if folder != Path():
        say(f"  cd {folder}", "cyan")
    for command, what in rows:
        say(f"  {command:{width}}", "cyan", end="   ")
        say(what)
    again = f"tocsin serve --port {url.rpartition(':')[2].strip()}" if url else "tocsin serve"
    say(f"{folder / HERE} has the data and the tokens: keep it out of git. `{again}` serves it again.", "dim")
    say("Ctrl-C stops the hub.")


def _connect(folder: Path, url: str | None) -> None:
    """Write the entries for Claude Code."""
    from importlib.util import find_spec

    from tocsin.cli.hooks.files import ClaudeFiles, Unreadable, Wiring, apply
    from tocsin.cli.hooks.trees import agent_changes

    agent = TreeAgent(AGENT_FILE, "dev", (folder / HERE).resolve())
    try:
        for change in [*ClaudeFiles(folder, user=False).changes(Wiring("", url, agent)), *agent_changes(folder, agent)]:
            apply(change)
            _step(f"Claude Code: {change.path}")
    except (Unreadable, OSError) as error:
        say(f"Claude Code is not connected: {error}")
    if find_spec("mcp") is None:
        say("Its tools need one more package: pip install 'tocsin[mcp]'")


def _step(text: str) -> None:
    say("✓", "green", end=" ")
    say(text)
