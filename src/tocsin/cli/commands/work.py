"""`tocsin work`: a command for each message, so that any program is an agent."""

import asyncio
import os
from typing import Annotated

import typer

from tocsin.cli.context import Level, LogLevel
from tocsin.cli.output import fail, say
from tocsin.cli.remote import Exit, Unusable, agent_token
from tocsin.core.errors import TocsinError
from tocsin.hub.observability.logs import log_to_stderr

__all__ = ["work"]


def work(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(help="Program and arguments, after --. The payload is its standard input.")
    ],
    agent: Annotated[
        str | None, typer.Option("--as", help="Work as this agent; also before the command.", metavar="NAME")
    ] = None,
    agent_type: Annotated[
        str | None, typer.Option("--type", help="Register the agent with this type; by default it stays as it is.")
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Commands that run at the same time.", min=1, max=1000)] = 1,
    timeout_s: Annotated[
        float, typer.Option(help="Seconds after which a command is ended, and its message retried.", min=0.001)
    ] = 300.0,
    never_code: Annotated[
        int, typer.Option(help="Exit code that rejects a message for good; others but 0 retry it.", min=1, max=255)
    ] = 100,
    receipt_after_s: Annotated[
        float,
        typer.Option(help="Seconds after which the receipt of a message is sent while its command runs on.", min=0),
    ] = 10.0,
    ack_after_s: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which a message is acknowledged as queued while its command runs on; a failure after"
            " that is not retried. For long commands and types that require an ACK.",
            min=0,
        ),
    ] = None,
    pause_every_s: Annotated[
        float | None,
        typer.Option(
            help="Seconds between pause points: a running command is stopped there while a message that may"
            " interrupt it is handled. Needs --concurrency 1.",
            min=0.01,
        ),
    ] = None,
    idle_s: Annotated[
        float | None, typer.Option(help="End after so many seconds without a message; by default never.", min=0.001)
    ] = None,
    reply: Annotated[
        str | None,
        typer.Option(help="Answer with the command's output in a message of this type, such as TaskCompleted."),
    ] = None,
    output_bytes_max: Annotated[
        int, typer.Option(help="Bytes of output that an answer may have.", min=1, max=1_000_000)
    ] = 65_536,
    log_level: LogLevel = Level.INFO,
) -> None:
    """Run a command for each message of an agent; its exit code settles the message."""
    from tocsin.cli.programs.worker import Worker, WorkerOptions
    from tocsin.client.agent import Agent

    if pause_every_s is not None and concurrency != 1:
        raise fail("--pause-every-s needs --concurrency 1: an agent works on one message at a time", Exit.USAGE)
    log_to_stderr(log_level)
    given = context.find_root().params
    name = agent or given["agent"]
    options = WorkerOptions(
        concurrency, timeout_s, never_code, receipt_after_s, ack_after_s, pause_every_s, idle_s, reply, output_bytes_max
    )

    async def run() -> int:
        token = agent_token(given["data"], name)
        if token is None and name is None:
            raise Unusable("no token: `tocsin work` needs TOCSIN_TOKEN, TOCSIN_TOKEN_FILE or --as")
        connecting = Agent.connect(given["url"], token=token, agent=None if token else name, type=agent_type)
        async with connecting as me:
            say(f"{me.name} waits for messages")
            environment = dict(os.environ) | {"TOCSIN_URL": given["url"], "TOCSIN_AGENT": me.name}
            token_file = given["data"] / "tokens" / f"{me.name}.token"
            if token_file.is_file():
                environment["TOCSIN_TOKEN_FILE"] = str(token_file.resolve())
            return await Worker(me, list(command), environment, options).run()

    try:
        handled = asyncio.run(run())
    except Unusable as error:
        raise fail(str(error), Exit.USAGE) from None
    except TocsinError as error:
        raise fail(str(error), Exit.FAILED) from None
    except KeyboardInterrupt:
        return
    say("1 message handled" if handled == 1 else f"{handled} messages handled")
