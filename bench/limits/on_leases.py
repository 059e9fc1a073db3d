"""Cases with the most leases and the longest queues, of plain names and folders."""

from bench.limits.cases import Step, case, ground, work
from bench.limits.ground import Ground
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller

_HOLDERS = 380
_EACH = 256
_RESOURCES = 64
_WAITERS = 64


@ground("leases")
async def fill(g: Ground) -> None:
    """Take the most leases."""
    holders = g.some(_HOLDERS, 4)
    await g.agents("holder", holders)
    await g.agents("waiter", _WAITERS)
    await g.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller("ada", "primary"))
    await g.do(
        (cmd.AcquireLease((f"src/{one:03d}/{each:03d}/file.py",), ttl_s=86_400), Caller(f"holder-{one:06d}", "primary"))
        for one in range(holders)
        for each in range(_EACH)
    )


async def _contended(g: Ground) -> str:
    """Let ada hold the most resources of one lease, for all of which the most agents wait; return the lease."""
    number = next(g.numbers)
    names = tuple(f"hot/{number}/{each}" for each in range(_RESOURCES))
    lease = (await g.one(cmd.AcquireLease(names, ttl_s=86_400), Caller("ada", "primary"))).lease
    await g.do((cmd.AcquireLease(names, wait_s=86_400), Caller(f"waiter-{each:06d}", "primary")) for each in range(63))
    g.kept["hot"] = (lease, names)
    return str(lease)


@case("leases", "acquire_lease", "64 resources, the 64th to wait for each")
async def acquire(g: Ground) -> Step:
    await _contended(g)
    _, names = g.kept["hot"]
    return g.ask("acquire_lease", "boss", exclusive=names, wait_s=3600)


@case("leases", "release_lease", "64 resources, 63 wait for all of them")
async def release(g: Ground) -> Step:
    return g.ask("release_lease", "ada", lease=await _contended(g))


@case("leases", "release_resources", "the same, by name")
async def release_names(g: Ground) -> Step:
    await _contended(g)
    _, names = g.kept["hot"]
    return g.ask("release_resources", "ada", resources=names)


@case("leases", "force_release", "the same, by a director")
async def force(g: Ground) -> Step:
    return g.ask("force_release", lease=await _contended(g), reason="x" * 4096)


@case("leases", "renew_lease", "one of 100,000")
async def renew(g: Ground) -> Step:
    return g.ask("renew_lease", "ada", lease=await _contended(g), ttl_s=86_400)


@case("leases", "list_leases", "100,000 leases")
async def list_leases(g: Ground) -> Step:
    return g.ask("list_leases", limit=500)


@case("leases", "check_paths", "500 paths, 100,000 leases")
async def check(g: Ground) -> Step:
    paths = [f"src/{number % 380:03d}/{number % 256:03d}/file.py" for number in range(500)]
    return g.ask("check_paths", "ada", paths=paths)


@case("leases", "list_waits", "all that wait for the same 64 resources")
async def list_waits(g: Ground) -> Step:
    await _contended(g)
    return g.ask("list_waits", limit=500)


@work("leases", "the end of leases", "100,000 leases lapse at once")
async def lapse(g: Ground) -> Step:
    held = {name: lease for name, lease in g.state.leases.leases.items() if lease.holder.startswith("holder")}

    async def pass_by() -> None:
        await g.let_pass(86_390)
        await g.until(lambda: all(lease.warned for lease in held.values()))
        await g.let_pass(200)
        await g.until(lambda: not held.keys() & g.state.leases.leases.keys())

    return pass_by
