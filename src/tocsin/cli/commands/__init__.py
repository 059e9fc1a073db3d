"""The `tocsin` command: its options, and where its commands are."""

from pathlib import Path
from typing import Annotated

import typer

from tocsin import __version__
from tocsin.cli.context import HERE
from tocsin.cli.loading import Entry, LazyGroup
from tocsin.cli.remote import DEFAULT_URL

__all__ = ["app"]

_HUB, _MESSAGES, _TEAM, _PROGRAMS, _PAST = "Hub", "Messages", "Team", "Coding agents, git and shells", "History"


class _Commands(LazyGroup):
    """All commands, in the order of the help."""

    entries = (
        Entry(
            "quickstart",
            _HUB,
            "Try it: start a hub with two agents and a message, and connect Claude Code if you like.",
            "quickstart:quickstart",
        ),
        Entry("init", _HUB, "Create a project's directory, its policy file and its admin token.", "commands.hub:init"),
        Entry("serve", _HUB, "Serve a project until stopped; create it if it does not exist.", "commands.hub:serve"),
        Entry(
            "doctor",
            _HUB,
            "Check that a hub answers, serves its project and accepts the token; or check what is stored.",
            "commands.doctor:doctor",
        ),
        Entry(
            "import",
            _HUB,
            "Import messages of another system into a project that no hub serves.",
            "commands.importing:import_messages",
        ),
        Entry(
            "projects", _HUB, "The projects of a hub: add, list, archive, export, remove.", "commands.projects:projects"
        ),
        Entry(
            "backup", _HUB, "Back up the projects of a data folder, while a hub serves them.", "commands.backup:backup"
        ),
        Entry("restore", _HUB, "Restore a backup to a new data folder.", "commands.backup:restore"),
        Entry(
            "dashboard",
            _HUB,
            "Print a link that signs in to the dashboard, once.",
            "commands.dashboard:dashboard",
        ),
        Entry("status", _HUB, "Show counts and condition of the project."),
        Entry("policy", _HUB, "The policy: show it, check a file, adopt one.", "commands.policy:policy"),
        Entry("health", _HUB, "Report health measurements from outside the hub."),
        Entry("call", _HUB, "Perform any operation by its name.", "commands.call:call"),
        Entry("send", _MESSAGES, "Send a message to an agent, or to all: a text, or a JSON payload."),
        Entry(
            "inbox",
            _MESSAGES,
            "List the messages that wait for an agent (--as NAME); --take fetches them.",
            "commands.messages:inbox",
        ),
        Entry("recall", _MESSAGES, "Recall a message that has not been handed out yet.", "commands.messages:recall"),
        Entry(
            "trace",
            _MESSAGES,
            "Show the history of a message, with the reason of each step.",
            "commands.messages:trace",
        ),
        Entry("search", _MESSAGES, "Search messages by words of their payload."),
        Entry("messages", _MESSAGES, "Messages: find, show, acknowledge, reject."),
        Entry("dlq", _MESSAGES, "Dead letters: messages that could not be delivered.", "commands.dead_letters:dlq"),
        Entry(
            "top",
            _TEAM,
            "Watch the project: waiting messages, agents, events; q or Ctrl-C ends it.",
            "commands.top:top",
        ),
        Entry("alerts", _TEAM, "List the metrics over their limits, and the alerts."),
        Entry("overview", _TEAM, "Figures and lists for directors and administrators."),
        Entry("agents", _TEAM, "Agents and their tokens.", "commands.agents:agents"),
        Entry(
            "leases",
            _TEAM,
            "Leases on files and other resources: who may edit what, and who waits.",
            "commands.leases:leases",
        ),
        Entry("approvals", _TEAM, "Approvals: ask for one, list them, decide.", "commands.teamwork:approvals"),
        Entry("escalations", _TEAM, "Problems that were passed on to directors and humans."),
        Entry("discussions", _TEAM, "Discussions in which agents vote on a question.", "commands.teamwork:discussions"),
        Entry("topics", _TEAM, "Topics: publish to subscribers."),
        Entry("requests", _TEAM, "Requests that wait for an answer."),
        Entry(
            "attention",
            _TEAM,
            "What agents are working on, and what may interrupt them.",
            "commands.teamwork:attention",
        ),
        Entry(
            "mcp",
            _PROGRAMS,
            "Serve MCP over standard input and output, for a coding agent that starts it.",
            "commands.hub:mcp",
        ),
        Entry(
            "work",
            _PROGRAMS,
            "Run a command for each message of an agent; its exit code settles the message.",
            "commands.work:work",
        ),
        Entry(
            "wake",
            _PROGRAMS,
            "Start agents that are idle or not running: templates for server.yaml, and logs.",
            "commands.wake:wake",
        ),
        Entry(
            "hooks",
            _PROGRAMS,
            "Connect Claude Code or Codex, and guard commits in git: install, show, uninstall.",
            "hooks.commands:hooks",
        ),
        Entry(
            "completion",
            _PROGRAMS,
            "Completion of commands and options in a shell: install or show it.",
            "completion:completion",
        ),
        Entry("archive", _PAST, "Tables, advice and reports that the pipeline has made."),
        Entry(
            "segments", _PAST, "Copy the journal's closed files to where the pipeline reads them.", "segments:segments"
        ),
        Entry("pipeline", _PAST, "The data pipeline: make tables and reports from the history.", "pipeline:pipeline"),
        Entry("lab", _PAST, "Try other policies on recorded or simulated messages.", "lab:lab"),
    )


app = typer.Typer(
    cls=_Commands,
    help="A message bus for teams of AI agents. The options below come before the command.",
    epilog="Begin with: tocsin quickstart. `tocsin COMMAND --help` explains a command.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def agents_with_tokens(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the names of the agents whose tokens are in the data directory."""
    found = (ctx.params.get("data") or HERE) / "tokens"
    return sorted(path.stem for path in found.glob("*.token") if path.stem.startswith(incomplete))


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tocsin {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    url: Annotated[str, typer.Option(envvar="TOCSIN_URL", help="URL of the hub.")] = DEFAULT_URL,
    data: Annotated[
        Path, typer.Option(envvar="TOCSIN_DATA", help="The project's directory: its data, settings and tokens.")
    ] = HERE,
    agent: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="Act as this agent, with the token that `tocsin agents add NAME --save` stored. Without --as the token"
            " is TOCSIN_TOKEN, or the content of the file TOCSIN_TOKEN_FILE, or the project's admin token.",
            metavar="NAME",
            autocompletion=agents_with_tokens,
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            help="Act in this project of the hub: with its own tokens if they are stored here, or else with the admin"
            " token of the hub's home project.",
            metavar="NAME",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that come before a command; the commands read them from the context."""
