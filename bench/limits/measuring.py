"""Measurement of the cases of one ground, in a process of its own."""

import asyncio
import gc
import statistics
import sys
from inspect import iscoroutinefunction
from pathlib import Path

from bench.limits import on_agents, on_hub, on_leases, on_messages, on_teamwork
from bench.limits.cases import CASES, GROUNDS, Case, Step
from bench.limits.ground import Ground, ground_at, metered
from bench.limits.meter import Hold, MeteredLoop

__all__ = ["MODULES", "Measured", "held_ms", "measure"]

#: The modules whose cases are registered by their import.
MODULES = (on_agents, on_messages, on_leases, on_teamwork, on_hub)
#: Agents with a token, by ground.
_NAMES = {
    "agents": ("primus",),
    "messages": ("ada", "large"),
    "leases": ("ada",),
    "teamwork": ("ada", "voter-000000"),
    "hub": ("ada",),
}
_TOKENS = {"agents": 99_000}
#: What a case is measured as: the hold of its step, and that of the control.
Measured = tuple[Hold, Hold]


async def _held(g: Ground, step: Step) -> Hold:
    """Return how long a step, and what follows from it, holds the loop."""
    await g.rest()
    gc.collect()
    await asyncio.sleep(0.01)  # The iteration that has collected garbage is over.
    metered().longest()
    if iscoroutinefunction(step):
        await step()
    else:
        await asyncio.to_thread(step)
    await g.rest()
    return metered().longest()


async def _measure(g: Ground, case: Case) -> Measured:
    step = await case.prepare(g)
    control = await _held(g, g.request("GET", "/health"))
    return await _held(g, step), control


async def _on(ground: str, names: list[str], size: float, folder: Path, rounds: int) -> dict[str, list[Measured]]:
    """Measure the cases of one ground."""
    found: dict[str, list[Measured]] = {name: [] for name in names}
    tokens = int(_TOKENS.get(ground, 0) * size)
    async with ground_at(folder, size, tokens=tokens, names=_NAMES[ground]) as g:
        await _register(g, ground)
        await GROUNDS[ground](g)
        await g.rest()
        gc.collect()
        gc.freeze()
        for name in names:
            for _ in range(rounds):
                found[name].append(await _measure(g, CASES[name]))
            step, control = found[name][-1]
            said = f"{held_ms(found[name]):.1f} ms (last: {step.cpu_s * 1e3:.1f} less {control.cpu_s * 1e3:.1f})"
            print(f"{ground}: {name}: {said}", file=sys.stderr, flush=True)
    return found


async def _register(g: Ground, ground: str) -> None:
    for name in _NAMES[ground]:
        if name not in g.state.agents:
            await asyncio.to_thread(g.ask("register_agent", name, type="Implementation"))


def held_ms(rounds: list[Measured]) -> float:
    """Return the median of the processor time that a step took more than the control, milliseconds."""
    return statistics.median(max(0.0, step.cpu_s - control.cpu_s) for step, control in rounds) * 1e3


def measure(task: tuple[str, list[str], float, str, int]) -> dict[str, list[Measured]]:
    """Measure the cases of one ground in this process."""
    ground, names, size, folder, rounds = task
    with asyncio.Runner(loop_factory=MeteredLoop) as runner:
        return runner.run(_on(ground, names, size, Path(folder), rounds))
