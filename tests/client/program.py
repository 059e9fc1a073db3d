"""A program with agents, for tests that end it: it prints each message that it takes, and confirms none.

It runs as `python -m tests.client.program KIND URL`, with its token in the environment.
"""

import asyncio
import os
import signal
import sys
import time
from typing import Any

import uvloop

from tocsin.client import Agent, SyncAgent, client_config

CONFIG = client_config(close_on_sigterm="off" not in sys.argv, close_timeout_s=0.3 if "hurried" in sys.argv else 30)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def take(agent: Agent, *, once: bool = False) -> None:
    async for message in agent.inbox(receipts="manual"):
        say(message.message_id)
        if once:
            return
    say("the inbox has ended")


def take_sync(agent: SyncAgent, *, once: bool = False) -> None:
    for message in agent.inbox(receipts="manual"):
        say(message.message_id)
        if once:
            return
    say("the inbox has ended")


async def listen(url: str) -> None:
    async with Agent.connect(url, config=CONFIG) as agent:
        await take(agent)


def listen_sync(url: str) -> None:
    with SyncAgent.connect(url, config=CONFIG) as agent:
        take_sync(agent)


async def both(url: str) -> None:
    """Have an agent on this loop and one on a loop of its own."""
    agent = await asyncio.to_thread(SyncAgent.connect, url, config=CONFIG)
    await asyncio.gather(listen(url), asyncio.to_thread(take_sync, agent))


async def leave(url: str) -> None:
    """End without closing the agent."""
    await take(await Agent.connect(url, config=CONFIG), once=True)


async def decide(url: str) -> None:
    """Have a handler of its own."""
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    async with Agent.connect(url, config=CONFIG) as agent:
        await take(agent, once=True)
        await terminated.wait()
    say("orderly")


async def restore(url: str) -> None:
    """Show what SIGTERM does while an agent is open, and afterwards."""
    async with Agent.connect(url, config=CONFIG):
        say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    with await asyncio.to_thread(SyncAgent.connect, url, config=CONFIG):
        say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "only the main thread can handle signals")


def restore_sync(url: str) -> None:
    with SyncAgent.connect(url, config=CONFIG):
        say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)


def fork(url: str) -> None:
    """End a forked process by SIGTERM: it does not close the session of this one."""
    with SyncAgent.connect(url, config=CONFIG) as agent:
        child = os.fork()
        if not child:
            time.sleep(600)
        os.kill(child, signal.SIGTERM)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        take_sync(agent, once=True)


KINDS: dict[str, Any] = {
    "async": listen, "sync": listen_sync, "uvloop": listen, "both": both, "leave": leave, "decide": decide,
    "restore": restore, "restore_sync": restore_sync, "fork": fork,
}  # fmt: skip


if __name__ == "__main__":
    kind, url = sys.argv[1:3]
    if kind == "leave_sync":
        take_sync(SyncAgent.connect(url, config=CONFIG), once=True)
    elif kind == "uvloop":
        uvloop.run(listen(url))
    else:
        running = KINDS[kind](url)
        if asyncio.iscoroutine(running):
            asyncio.run(running)
