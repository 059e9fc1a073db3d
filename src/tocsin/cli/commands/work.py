"""`tocsin work`: a command for each message, so that any program is an agent."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.context import Level, LogLevel
from tocsin.cli.identity import identify
from tocsin.cli.output import fail, say
from tocsin.cli.remote import Exit, Unusable
from tocsin.core.errors import TocsinError
from tocsin.hub.observability.logs import log_to_stderr

if TYPE_CHECKING:
    from tocsin.cli.programs.worker import Worker

__all__ = ["work"]

#: Signals that stop a worker.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Messages that the last words of a worker name.
_NAMED_MAX = 10


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
    kill_after_s: Annotated[
        float,
        typer.Option(help="Seconds from asking a command to end (SIGTERM) to ending it by force (SIGKILL).", min=0),
    ] = 5.0,
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
    """Run a command for each message of an agent; its exit code settles the message.

    SIGTERM, SIGHUP and Ctrl-C stop the worker: it takes nothing more, ends the running commands with all that they have
    started, and gives their messages back. A command that ends with 0 nevertheless has done its work. The second signal
    ends the commands by force.
    """
    from tocsin.cli.programs.worker import Worker, WorkerOptions
    from tocsin.client.agent import Agent
    from tocsin.client.connection.connection import ConnectionState

    if pause_every_s is not None and concurrency != 1:
        raise fail("--pause-every-s needs --concurrency 1: an agent works on one message at a time", Exit.USAGE)
    log_to_stderr(log_level)
    given = context.find_root().params
    name = agent or given["agent"]
    options = WorkerOptions(
        concurrency=concurrency,
        timeout_s=timeout_s,
        kill_after_s=kill_after_s,
        never_code=never_code,
        receipt_after_s=receipt_after_s,
        ack_after_s=ack_after_s,
        pause_every_s=pause_every_s,
        idle_s=idle_s,
        reply=reply,
        output_bytes_max=output_bytes_max,
    )

    async def run() -> None:
        identity = identify(given["data"], name, tree=False)
        if not identity.is_known:
            raise Unusable("no token: `tocsin work` needs TOCSIN_TOKEN, TOCSIN_TOKEN_FILE or --as")
        token = identity.token()
        me = await Agent.connect(given["url"], token=token, agent=None if token else name, type=agent_type)
        if name not in (None, me.name):
            await me.close()
            raise Unusable(f"{identity.source} is a token of {me.name}, and --as names {name}: choose one of them")
        environment = dict(os.environ) | {"TOCSIN_URL": given["url"], "TOCSIN_AGENT": me.name}
        if identity.file is not None and identity.file.is_file():
            environment["TOCSIN_TOKEN_FILE"] = str(identity.file.resolve())
        worker = Worker(me, list(command), environment, options)
        with _stopping(worker.stop):
            try:
                say(f"{me.name} waits for messages")
                await worker.run()
            finally:
                left, is_connected = me.unconfirmed, me.state is ConnectionState.CONNECTED
                await me.close()
        _tell(worker, left, is_connected=is_connected)

    try:
        asyncio.run(run())
    except Unusable as error:
        raise fail(str(error), Exit.USAGE) from None
    except TocsinError as error:
        raise fail(str(error), Exit.FAILED) from None
    except KeyboardInterrupt:
        return


@contextmanager
def _stopping(stop: Callable[[str], None]) -> Iterator[None]:
    """Call a function with the name of each signal that is to end this process."""
    loop = asyncio.get_running_loop()
    # A shell starts programs in the background with SIGINT ignored, and `nohup` with SIGHUP.
    heeded = [number for number in _STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, stop, number.name)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)


def _tell(worker: "Worker", left: int, *, is_connected: bool) -> None:
    """Say what a worker has done, and what has become of the messages that it had when it was stopped."""
    if worker.stopped_by:
        named = ", ".join(worker.ended[:_NAMED_MAX])
        more = len(worker.ended) - _NAMED_MAX
        named = f" ({named}, and {more} more)" if more > 0 else f" ({named})" if named else ""
        back = worker.given_back + left if is_connected else worker.given_back
        text = f"ended by {worker.stopped_by}: {_count(len(worker.ended), 'command')} ended{named}"
        text = f"{text}, {_count(back, 'message')} given back"
        if left and not is_connected:
            text = f"{text}; the hub cannot be reached, and offers {_count(left, 'message')} again by itself"
        say(text)
    say(f"{_count(worker.handled, 'message')} handled")


def _count(number: int, of: str) -> str:
    return f"1 {of}" if number == 1 else f"{number} {of}s"
