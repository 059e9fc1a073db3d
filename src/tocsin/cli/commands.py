"""The commands. Each asks a hub one thing and shows the answer; `--json` shows it as it came."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from tocsin import __version__
from tocsin.cli.context import HERE, DataHere, Json, Level, LogLevel, data_of
from tocsin.cli.explain import explained
from tocsin.cli.git_hook import wire
from tocsin.cli.hooks import hooks, install, uninstall
from tocsin.cli.lab import lab
from tocsin.cli.leases import leases
from tocsin.cli.output import UNREADABLE, console, fail, refusals_told, show_json, table
from tocsin.cli.oversight import alerts, approvals, escalations
from tocsin.cli.pipeline import pipeline
from tocsin.cli.remote import DEFAULT_URL, Exit, Refused, Remote, Unreachable, Unusable, token_from
from tocsin.cli.sending import send
from tocsin.cli.teamwork import attention, discussions, requests, topics
from tocsin.cli.top import top
from tocsin.core.errors import TocsinError
from tocsin.policies import load_policy

__all__ = ["app"]

app = typer.Typer(
    help="A message bus for teams of AI agents. The options below come before the command.",
    epilog="Begin with: tocsin serve; tocsin agents add ada --save; tocsin --as ada send ada hello; tocsin top",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
agents = typer.Typer(help="Agents and their tokens.", no_args_is_help=True)
dlq = typer.Typer(help="Dead letters: messages that could not be delivered.", no_args_is_help=True)
policy = typer.Typer(help="The policy: which is in force, and whether a file could be.", no_args_is_help=True)
wire(hooks, install, uninstall)
_HUB, _MESSAGES, _TEAM = "A hub", "Messages", "The team"
_PROGRAMS, _PAST = "Coding agents and git", "What happened"
app.add_typer(agents, name="agents", rich_help_panel=_TEAM)
app.add_typer(leases, name="leases", rich_help_panel=_TEAM)
app.add_typer(approvals, name="approvals", rich_help_panel=_TEAM)
app.add_typer(escalations, name="escalations", rich_help_panel=_TEAM)
app.add_typer(discussions, name="discussions", rich_help_panel=_TEAM)
app.add_typer(topics, name="topics", rich_help_panel=_TEAM)
app.add_typer(requests, name="requests", rich_help_panel=_TEAM)
app.add_typer(attention, name="attention", rich_help_panel=_TEAM)
app.add_typer(dlq, name="dlq", rich_help_panel=_MESSAGES)
app.add_typer(policy, name="policy", rich_help_panel=_HUB)
app.add_typer(hooks, name="hooks", rich_help_panel=_PROGRAMS)
app.add_typer(pipeline, name="pipeline", rich_help_panel=_PAST)
app.add_typer(lab, name="lab", rich_help_panel=_PAST)


Project = Annotated[str, typer.Option(envvar="TOCSIN_PROJECT", help="The project's name.")]
Store = Annotated[str, typer.Option(envvar="TOCSIN_STORE", help="postgresql://… instead of SQLite.")]

_AS = (
    "Act as this agent, with the token that `agents add NAME --save` kept; otherwise it is TOCSIN_TOKEN, the file"
    " TOCSIN_TOKEN_FILE, or the admin's."
)
AgentName = Annotated[str, typer.Argument(help="The agent's name: letters, digits, dots, dashes, underscores.")]
Save = Annotated[
    bool, typer.Option("--save", help="Keep the token in the project's directory, for --as, instead of printing it.")
]
MessageId = Annotated[str, typer.Argument(help="The message: the signal_id of its receipt.")]
Limit = Annotated[int, typer.Option(help="At most this many.")]


def agents_with_tokens(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the names of the agents whose tokens are in the data."""
    found = (ctx.params.get("data") or HERE) / "tokens"
    return sorted(path.stem for path in found.glob("*.token") if path.stem.startswith(incomplete))


class _Asking:
    """Where to ask, and as whom; filled in before a command runs."""

    url = DEFAULT_URL
    data = HERE
    agent: str | None = None

    def remote(self) -> Remote:
        """Return the hub."""
        return Remote(self.url, token_from(self.data, self.agent), agent=self.agent or "admin")


_asking = _Asking()


def _tell_version(asked: bool) -> None:
    if asked:
        console.print(f"tocsin {__version__}", highlight=False, markup=False)
        raise typer.Exit


@app.callback()
def _options(
    url: Annotated[str, typer.Option(envvar="TOCSIN_URL", help="Where the hub is.")] = _Asking.url,
    data: Annotated[
        Path, typer.Option(envvar="TOCSIN_DATA", help="The project's directory: its data, its settings, its tokens.")
    ] = HERE,
    agent: Annotated[
        str | None,
        typer.Option("--as", help=_AS, metavar="NAME", autocompletion=agents_with_tokens),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    _asking.url, _asking.data, _asking.agent = url, data, agent


@app.command(rich_help_panel=_HUB)
def init(
    context: typer.Context,
    data: DataHere = None,
    project: Project = "default",
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Make a project's directory, its policy file and its admin token."""
    from tocsin.cli.serve import initialise

    data = data_of(context, data)
    made = initialise(data, project, store)
    if as_json:
        show_json({"data": str(data), "admin_token_file": None if made is None else str(made)})
    else:
        console.print(f"project {project} in {data}", soft_wrap=True, markup=False)
        if made is not None:
            console.print(f"admin token: {made}", soft_wrap=True, markup=False)


@app.command(rich_help_panel=_HUB)
def serve(
    context: typer.Context,
    data: DataHere = None,
    project: Project = "default",
    store: Store = "",
    address: Annotated[str | None, typer.Option(help="Where to listen; as server.yaml says, or loopback.")] = None,
    port: Annotated[
        int | None,
        typer.Option(help="TCP port; as server.yaml says, or 7077; 0 takes any free one.", min=0, max=65_535),
    ] = None,
    channels: Annotated[
        Path | None, typer.Option(help="Directory of NDJSON channel files; without it there are none.")
    ] = None,
    insecure_loopback: Annotated[
        bool,
        typer.Option("--insecure-loopback", help="Believe any caller on this machine: no tokens."),
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait until no other hub serves the project (PostgreSQL).")
    ] = False,
    log_level: LogLevel = Level.INFO,
) -> None:
    """Serve a project until told to stop; the first time, make it."""
    from tocsin.cli.serve import run_hub

    files = None if channels is None else {"directory": str(channels)}
    doors = {"address": address, "port": port, "channels": files}
    run_hub(
        data_of(context, data),
        project,
        store,
        trusting=insecure_loopback,
        log_level=log_level,
        standby=standby,
        **doors,
    )


@app.command(rich_help_panel=_PROGRAMS)
def mcp(
    token_file: Annotated[Path | None, typer.Option(help="A file with the agent's token, instead of --as.")] = None,
    log_level: LogLevel = Level.WARNING,
) -> None:
    """Speak MCP over standard input and output, for a coding agent that starts it."""
    try:
        from tocsin.cli.mcp import serve_stdio
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        raise fail(f"MCP needs {error.name}: pip install 'tocsin[mcp]'", Exit.FAILED) from None
    try:
        serve_stdio(_asking.url, _asking.data, _asking.agent, token_file, log_level)
    except Unusable as error:
        raise fail(str(error), Exit.USAGE) from None
    except (TocsinError, OSError) as error:
        raise fail(f"the server cannot start: {error}", Exit.FAILED) from None


@agents.command("add")
def agents_add(
    agent: AgentName,
    role: Annotated[str, typer.Option(help="director, primary, clone or human.")] = "primary",
    kind: Annotated[
        str, typer.Option("--type", help="What it is for routing: Manager, Implementation, AdHoc or any other name.")
    ] = "AdHoc",
    lifetime_s: Annotated[float | None, typer.Option(help="Seconds until the token ends; never otherwise.")] = None,
    save: Save = False,
    as_json: Json = False,
) -> None:
    """Make a token for an agent, and register it."""
    body = {"agent": agent, "role": role, "type": kind, "lifetime_s": lifetime_s}
    with refusals_told(as_json):
        _show_token(agent, _asking.remote().post("v1", "admin", "tokens", body=body), save, as_json)


@agents.command("list")
def agents_list(as_json: Json = False) -> None:
    """List the agents and whether they are there."""
    with refusals_told(as_json):
        found = _asking.remote().get("v1", "agents")
        if as_json:
            show_json(found)
        else:
            rows = [row | {"waiting": sum(row["waiting"].values())} for row in found]
            table(rows, "agent", "role", "type", "presence", "waiting", "version")


@agents.command("rotate")
def agents_rotate(
    agent: AgentName,
    overlap_s: Annotated[float, typer.Option(help="Seconds for which the old token stays good.")] = 0.0,
    lifetime_s: Annotated[
        float | None, typer.Option(min=0, help="Seconds until the token ends, 0: never; else as long as the last one.")
    ] = None,
    save: Save = False,
    as_json: Json = False,
) -> None:
    """Give an agent a new token in place of all it has."""
    body = {"overlap_s": overlap_s} | ({} if lifetime_s is None else {"lifetime_s": lifetime_s or None})
    with refusals_told(as_json):
        answer = _asking.remote().post("v1", "admin", "tokens", agent, "rotate", body=body)
    _show_token(agent, answer, save, as_json)


@agents.command("revoke")
def agents_revoke(agent: AgentName, as_json: Json = False) -> None:
    """Take all tokens of an agent away."""
    with refusals_told(as_json):
        gone = _asking.remote().post("v1", "admin", "tokens", agent, "revoke")
        if as_json:
            show_json(gone)
        else:
            console.print(f"{len(gone)} tokens of {agent} revoked", markup=False)


def _show_token(agent: str, answer: dict[str, Any], save: bool, as_json: bool) -> None:
    with refusals_told(as_json):
        token = answer["token"]
        if save:
            del answer["token"]
            answer["token_file"] = str(_kept(agent, token))
        if as_json:
            show_json(answer)
        elif save:
            console.print(f"token of {agent}: {answer['token_file']}", soft_wrap=True, markup=False)
        else:
            console.print(token, soft_wrap=True, markup=False)


def _kept(agent: str, token: str) -> Path:
    from tocsin.hub.service import keep_secret

    try:
        return keep_secret(_asking.data / "tokens" / f"{agent}.token", token)
    except OSError as error:
        again = f"it is good all the same; `tocsin agents rotate {agent}` makes another"
        raise fail(f"the token of {agent} cannot be kept: {error}; {again}", Exit.FAILED) from None


app.command(rich_help_panel=_MESSAGES)(send)


@app.command(rich_help_panel=_MESSAGES)
def inbox(
    take: Annotated[bool, typer.Option("--take", help="Take the messages instead of looking at them.")] = False,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Show what waits for the agent that one acts as; `--take` takes it out."""
    with refusals_told(as_json):
        if take:
            answer = _asking.remote().post("v1", "inbox", "drain", body={"limit": limit})
        else:
            answer = _asking.remote().get("v1", "inbox", limit=limit)
        if as_json:
            show_json(answer)
        elif take:
            rows = [
                {"signal_id": item["signal_id"], "from": item["envelope"]["sender"]["agentId"]}
                | {"type": item["envelope"]["messageType"], "payload": item["envelope"]["payload"]}
                for item in answer["deliveries"]
            ]
            table(rows, "signal_id", "from", "type", "payload")
        else:
            columns = ("signal_id", "sender", "message_type", "level", "state", "expires_at", "publish_path")
            table(answer["items"], *columns)


@app.command(rich_help_panel=_MESSAGES)
def recall(message_id: MessageId, as_json: Json = False) -> None:
    """Take a message back that nobody has been offered yet."""
    with refusals_told(as_json):
        answer = _asking.remote().post("v1", "messages", message_id, "recall")
        outcome = answer["outcome"]
        if as_json:
            show_json(answer)
        else:
            console.print(outcome, markup=False)
        if outcome != "recalled":
            raise typer.Exit(Exit.NOT_FOUND if outcome == "not_found" else Exit.REFUSED)


@app.command(rich_help_panel=_MESSAGES)
def trace(message_id: MessageId, as_json: Json = False) -> None:
    """Tell a message's whole life, and why each thing happened."""
    with refusals_told(as_json):
        copies = _asking.remote().get("v1", "messages", message_id, "life")
        lines = [line for copy in copies for line in explained(copy)]
        if as_json:
            show_json(copies)
        else:
            console.print("\n".join(lines), soft_wrap=True, markup=False)


app.command(rich_help_panel=_TEAM)(top)
app.command("alerts", rich_help_panel=_TEAM)(alerts)


@dlq.command("list")
def dlq_list(limit: Limit = 50, as_json: Json = False) -> None:
    """List the dead letters."""
    with refusals_told(as_json):
        answer = _asking.remote().get("v1", "dead-letters", limit=limit)
        rows = [item["message"] | item for item in answer["items"]]
        columns = ("signal_id", "sender", "recipient", "message_type", "reason", "code", "failures", "last_failed_at")
        if as_json:
            show_json(answer)
        else:
            table(rows, *columns)


@dlq.command("show")
def dlq_show(signal_id: MessageId, as_json: Json = False) -> None:
    """Tell how a message died."""
    trace(signal_id, as_json)


@dlq.command("redrive")
def dlq_redrive(
    signal_ids: Annotated[list[str], typer.Argument(help="The messages, as `tocsin dlq list` shows them.")],
    as_json: Json = False,
) -> None:
    """Queue dead letters again."""
    with refusals_told(as_json):
        answer = _asking.remote().post("v1", "dead-letters", "redrive", body={"signal_ids": signal_ids})
        redriven, refused = answer["redriven"], answer["refused"]
        if as_json:
            show_json(answer)
        else:
            for signal in redriven:
                console.print(f"{signal} is queued again", markup=False)
            for signal, problem in refused.items():
                console.print(f"{signal}: {problem['detail']}", markup=False)
        if refused:
            raise typer.Exit(Exit.REFUSED)


@policy.command("show")
def policy_show(as_json: Json = False) -> None:
    """Show the policy in force."""
    with refusals_told(as_json):
        answer = _asking.remote().get("v1", "policy")
        text = f"# version {answer['version']}\n{yaml.safe_dump(answer['policy'], sort_keys=False)}"
        if as_json:
            show_json(answer)
        else:
            console.print(text, markup=False)


@policy.command("check")
def policy_check(
    file: Annotated[Path, typer.Argument(help="A tocsin.yaml: what differs from the defaults.")], as_json: Json = False
) -> None:
    """Say whether a policy file could be adopted; needs no hub."""
    try:
        load_policy(file)
    except (TocsinError, OSError, UnicodeDecodeError) as error:
        if as_json:
            show_json({"valid": False, "detail": str(error)})
        raise fail(str(error), Exit.REFUSED) from None
    if as_json:
        show_json({"valid": True})
    else:
        console.print(f"{file} is valid", soft_wrap=True, markup=False)


@app.command(rich_help_panel=_HUB)
def doctor(as_json: Json = False) -> None:
    """Check that a hub answers, serves its project and knows the token."""
    with refusals_told(as_json):
        remote = _asking.remote()
    checks = [
        _examined("the hub answers", lambda: _condition(remote.get("health"), "serving", "standing_by")),
        _examined("the project is served", lambda: _condition(remote.get("ready"), "serving")),
        _examined("the token is good", lambda: _identity(remote.get("v1", "me"))),
    ]
    if as_json:
        show_json(checks)
    else:
        table(checks, "check", "good", "detail")
    if not all(check["good"] for check in checks):
        raise typer.Exit(Exit.FAILED)


def _examined(name: str, look: Callable[[], tuple[bool, str]]) -> dict[str, Any]:
    try:
        good, detail = look()
    except (Unreachable, Refused, *UNREADABLE) as error:
        strange = isinstance(error, UNREADABLE)
        good, detail = False, "the answer is not one of a hub" if strange else str(error)
    return {"check": name, "good": good, "detail": detail}


def _condition(answer: dict[str, Any], *good: str) -> tuple[bool, str]:
    """Judge what a hub says of itself; one that stands by says who serves instead."""
    if "condition" not in answer:
        return False, str(answer["detail"])
    return answer["condition"] in good, f"{answer['condition']} {answer['reason']}".strip()


def _identity(answer: dict[str, Any]) -> tuple[bool, str]:
    return True, f"{answer['agent']}, {answer['role']}"
