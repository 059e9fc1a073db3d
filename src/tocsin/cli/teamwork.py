"""`tocsin discussions`, `topics`, `requests`, `attention`: how a team talks, and what its agents are at."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.output import console, missing, refusals_told, show_json, table
from tocsin.cli.remote import Exit
from tocsin.cli.sending import begun

__all__ = ["attention", "discussions", "requests", "topics"]

discussions = typer.Typer(help="Discussions: questions that agents speak about and vote on.", no_args_is_help=True)
topics = typer.Typer(help="Topics: what is published, and who wants it.", no_args_is_help=True)
requests = typer.Typer(help="Requests: who waits for whose answer.", no_args_is_help=True)
attention = typer.Typer(help="Attention: what agents are busy with.", no_args_is_help=True)

Discussion = Annotated[str, typer.Argument(help="Its id, as `tocsin discussions list` shows it.")]
Topic = Annotated[str, typer.Argument(help="Its name.")]


def _listed(context: typer.Context, what: str, as_json: bool, *columns: str) -> None:
    with refusals_told(as_json):
        rows = remote_of(context).get("v1", what)
        if as_json:
            show_json(rows)
        else:
            table([row | _short(row) for row in rows], *columns)


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Write what has parts in a line."""
    short = {name: ", ".join(value) for name, value in row.items() if isinstance(value, list)}
    votes = row.get("votes")
    return short | ({"votes": ", ".join(f"{who}: {what}" for who, what in votes.items())} if votes else {})


def _done(context: typer.Context, as_json: bool, say: Callable[[Any], str], body: dict[str, Any], *path: str) -> None:
    """Ask for a change, and say what has become of it."""
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", *path, body=body)
        if as_json:
            show_json(answer)
        else:
            console.print(say(answer), markup=False, soft_wrap=True)


@discussions.command("list")
def discussions_list(context: typer.Context, as_json: Json = False) -> None:
    """List the open discussions; who does not direct sees those it takes part in."""
    _listed(context, "discussions", as_json, "discussion", "opener", "question", "state", "participants", "due_at")


@discussions.command("show")
def discussions_show(context: typer.Context, discussion: Discussion, as_json: Json = False) -> None:
    """Show an open discussion: its question, its options, who voted for what."""
    with refusals_told(as_json):
        rows = remote_of(context).get("v1", "discussions")
        found = next((row for row in rows if row["discussion"] == discussion), None)
        if found is None:
            raise missing(f"{discussion} is no open discussion that you may see", as_json)
        if as_json:
            show_json(found)
        else:
            table([{"what": name, "is": value} for name, value in (found | _short(found)).items()], "what", "is")


@discussions.command("open")
def discussions_open(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="What it is about.")],
    participants: Annotated[list[str], typer.Argument(help="Who takes part.")],
    option: Annotated[list[str] | None, typer.Option(help="What can be voted for; agree and disagree.")] = None,
    consensus: Annotated[str, typer.Option(help="majority, two_thirds or unanimous.")] = "majority",
    max_s: Annotated[float | None, typer.Option(help="How long, seconds.")] = None,
    as_json: Json = False,
) -> None:
    """Ask others to come to a common view."""
    body: dict[str, Any] = {"question": question, "participants": participants, "consensus": consensus, "max_s": max_s}
    _done(context, as_json, _standing, body | ({"options": option} if option else {}), "discussions")


@discussions.command("speak")
def discussions_speak(
    context: typer.Context,
    discussion: Discussion,
    text: Annotated[str, typer.Argument(help="What to say.")],
    as_json: Json = False,
) -> None:
    """Say something in a discussion, to all who take part."""
    _done(context, as_json, _standing, {"text": text}, "discussions", discussion, "speak")


@discussions.command("vote")
def discussions_vote(
    context: typer.Context,
    discussion: Discussion,
    option: Annotated[str, typer.Argument(help="One of its options.")],
    as_json: Json = False,
) -> None:
    """Vote in a discussion, or vote otherwise than before."""
    _done(context, as_json, _standing, {"option": option}, "discussions", discussion, "vote")


@discussions.command("cancel")
def discussions_cancel(context: typer.Context, discussion: Discussion, as_json: Json = False) -> None:
    """End a discussion without an outcome: its opener, or a director."""
    _done(context, as_json, _standing, {}, "discussions", discussion, "cancel")


def _standing(answer: dict[str, Any]) -> str:
    return f"{answer['discussion']} is {answer['state']}"


@topics.command("list")
def topics_list(context: typer.Context, as_json: Json = False) -> None:
    """List the topics that somebody is subscribed to."""
    _listed(context, "topics", as_json, "topic", "subscribers", "subscribed")


@topics.command("subscribe")
def topics_subscribe(context: typer.Context, topic: Topic, as_json: Json = False) -> None:
    """Want what is published to a topic from now on."""
    _done(context, as_json, _subscribed, {"topic": topic}, "topics", "subscribe")


@topics.command("unsubscribe")
def topics_unsubscribe(context: typer.Context, topic: Topic, as_json: Json = False) -> None:
    """Want it no longer."""
    _done(context, as_json, _subscribed, {"topic": topic}, "topics", "unsubscribe")


def _subscribed(answer: dict[str, Any]) -> str:
    return f"subscribed to: {', '.join(answer['topics']) or 'nothing'}"


@topics.command("publish")
def topics_publish(
    context: typer.Context,
    topic: Topic,
    text: Annotated[str, typer.Argument(help="What to say: payload.text.")],
    message_type: Annotated[str, typer.Option("--type", help="The message type.")] = "StatusUpdate",
    priority: Annotated[str | None, typer.Option(help="Info, Coordinate, Blocking, Critical, …")] = None,
    guarantee: Annotated[str, typer.Option(help="each: whoever can take it; all: all or none.")] = "each",
    as_json: Json = False,
) -> None:
    """Publish to everybody who is subscribed to a topic, but oneself."""
    with refusals_told(as_json):
        remote = remote_of(context)
        envelope = begun(remote, "*", message_type, {"text": text})
        envelope |= {"correlationId": envelope["messageId"]} | ({} if priority is None else {"priority": priority})
        query = {"topic": topic, "guarantee": guarantee}
        answer = remote.call("POST", ("v1", "topics", "publish"), envelope, query, signed=True)
        if as_json:
            show_json(answer)
        else:
            table(answer["receipts"], "signal_id", "recipient", "recipient_state", "priority")
            for who, problem in answer["failed"].items():
                console.print(f"{who}: {problem['detail']}", markup=False, soft_wrap=True)
        if answer["failed"]:
            raise typer.Exit(Exit.REFUSED)


@requests.command("list")
def requests_list(context: typer.Context, as_json: Json = False) -> None:
    """List who waits for whose answer; who does not direct sees its own."""
    _listed(context, "requests", as_json, "request", "requester", "responder", "opened_at", "due_at")


@requests.command("cancel")
def requests_cancel(
    context: typer.Context,
    request: Annotated[str, typer.Argument(help="Its id, as `tocsin requests list` shows it.")],
    as_json: Json = False,
) -> None:
    """Wait no longer for an answer; the message itself goes its way."""
    _done(context, as_json, lambda _: f"{request} is not waited for any more", {}, "requests", request, "cancel")


@attention.command("show")
def attention_show(
    context: typer.Context,
    agent: Annotated[
        str | None, typer.Argument(help="Whose; your own without. A director or a human sees any.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what an agent is busy with, what interrupts it, and what it has put aside."""
    with refusals_told(as_json):
        if agent is None:
            found = remote_of(context).get("v1", "attention")
        else:
            page = remote_of(context).get("v1", "roster", q=agent, limit=100)
            found = next((row["attention"] for row in page["items"] if row["agent"] == agent), None)
        if found is None:
            raise missing(f"{agent} is not registered in this project", as_json)
        if as_json:
            show_json(found)
        else:
            table([found | {"aside": ", ".join(found["aside"])}], "status", "working_on", "interrupted_by", "aside")
