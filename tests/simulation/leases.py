"""Agents that hold things, stand in line for them, forget to renew them and want what is not theirs."""

from typing import TYPE_CHECKING

from tocsin.core import commands as cmd
from tocsin.core.protocol.priority import PRIORITY_NAMES

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["acquire", "force", "release", "renew"]

_RESOURCES = ("x", "y", "port 80", "src/**", "src/a", "src/b", "src/*", "src/[ab]", "docs/*.md", "docs/a.md", "**/a")


def acquire(world: "World") -> None:
    """Ask for something; mostly willing to wait, now and then what was asked before."""
    rng, book = world.rng, world.exchange.state.leases
    caller = world.somebody()
    wanted = rng.sample(_RESOURCES, rng.choice((1, 1, 1, 2, 3)))
    shares = rng.choice((0, 0, 1, len(wanted)))
    lease: str | None = f"lease_{world.steps}" if rng.random() < 0.3 else None
    if rng.random() < 0.05 and (book.leases or book.queue):
        lease = rng.choice([*book.leases, *book.queue])
    if rng.random() < 0.03:
        wanted.append(rng.choice(("a//b", "x", "**c")))
    command = cmd.AcquireLease(
        tuple(wanted[shares:]),
        tuple(wanted[:shares]),
        ttl_s=rng.choice((None, 0.5, 5, 60, 600)),
        wait_s=rng.choice((None, None, 0, 2, 30, 300)),
        priority=rng.choice((None, None, *PRIORITY_NAMES)),
        lease=lease,
    )
    world.ask(command, caller)


def renew(world: "World") -> None:
    """Renew something: the caller's own, mostly."""
    leases = list(world.exchange.state.leases.leases.values())
    lapsed = list(world.exchange.state.leases.lapsed)
    if leases:
        lease = world.rng.choice(leases)
        caller = world.callers[lease.holder] if world.rng.random() < 0.9 else world.somebody()
        world.ask(cmd.RenewLease(lease.lease, world.rng.choice((None, 5, 600))), caller)
    elif lapsed:
        world.ask(cmd.RenewLease(world.rng.choice(lapsed)), world.somebody())


def release(world: "World") -> None:
    """Release something, leave a line, or release what is not held."""
    rng, book = world.rng, world.exchange.state.leases
    mine = [(lease.lease, lease.holder) for lease in book.leases.values()]
    mine += [(request.lease, request.agent) for request in book.queue.values() if rng.random() < 0.3]
    if not mine or rng.random() < 0.1:
        world.ask(cmd.ReleaseLease(resources=(rng.choice(_RESOURCES),)), world.somebody())
        return
    name, agent = rng.choice(mine)
    lease = book.leases.get(name)
    caller = world.callers[agent] if rng.random() < 0.95 else world.somebody()
    if lease is not None and rng.random() < 0.3:
        world.ask(cmd.ReleaseLease(resources=(lease.claims[0].resource,)), caller)
    else:
        world.ask(cmd.ReleaseLease(name), caller)


def force(world: "World") -> None:
    """Take something away, as one who may or one who may not."""
    book = world.exchange.state.leases
    names = [*book.leases, *book.queue, "nothing"]
    world.ask(cmd.ForceRelease(world.rng.choice(names), "simulated"), world.somebody())
