"""The registry of cases: what brings an operation, or another work of the hub, to its limits."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bench.limits.ground import Call, Ground
from tocsin.wire.table import OPERATIONS

__all__ = ["CASES", "CONSTANT", "GROUNDS", "Case", "Prepare", "Step", "case", "gaps", "ground", "work"]

#: What is measured: a call that is made in a thread, or work of the hub itself.
Step = Call | Callable[[], Awaitable[object]]
#: Brings a ground to the worst state for one case, and returns what is measured.
Prepare = Callable[[Ground], Awaitable[Step]]


class Case(NamedTuple):
    """One case on one ground."""

    name: str
    ground: str
    #: The operation of the table that it is about; empty for other work of the hub.
    operation: str
    #: What is at its limit.
    about: str
    prepare: Prepare


#: Cases by name.
CASES: dict[str, Case] = {}
#: What fills each ground once, before its cases.
GROUNDS: dict[str, Callable[[Ground], Awaitable[None]]] = {}
#: Operations whose work does not grow with anything that callers choose or fill, and why.
CONSTANT: dict[str, str] = {
    "get_me": "describes one agent and one token",
    "get_attention": "describes one agent's work",
    "get_lease": "describes one lease of at most `leases.resources_max` resources",
    "get_policy": "returns one document; its size is that of `adopt_policy`",
    "resume_work": "returns what `put_aside` has stored",
    "list_alerts": "one row for each metric of the policy",
    "extend_request": "changes one deadline",
    "get_advice": "reads `index.json` in a thread, as `get_archive` does",
    "archive_project": "closes one project, whose writing is on its own threads",
    "restore_project": "changes one row of the catalogue",
    "remove_project": "removes one folder in a thread",
}


def case(where: str, name: str, about: str) -> Callable[[Prepare], Prepare]:
    """Register a case of an operation; a second one of the same operation has more words after a colon."""
    return _registered(Case(name, where, name.partition(":")[0], about, _unprepared))


def work(where: str, name: str, about: str) -> Callable[[Prepare], Prepare]:
    """Register a case of other work of the hub."""
    return _registered(Case(name, where, "", about, _unprepared))


async def _unprepared(g: Ground) -> Step:
    raise NotImplementedError


def _registered(one: Case) -> Callable[[Prepare], Prepare]:
    if one.name in CASES:
        raise ValueError(f"two cases are called {one.name}")

    def register(prepare: Prepare) -> Prepare:
        CASES[one.name] = one._replace(prepare=prepare)
        return prepare

    return register


def ground(name: str) -> Callable[[Callable[[Ground], Awaitable[None]]], Callable[[Ground], Awaitable[None]]]:
    """Register what fills a ground."""

    def registered(fill: Callable[[Ground], Awaitable[None]]) -> Callable[[Ground], Awaitable[None]]:
        GROUNDS[name] = fill
        return fill

    return registered


def gaps() -> list[str]:
    """List the operations of the table without a case, and cases of operations that do not exist."""
    covered = {one.operation for one in CASES.values() if one.operation}
    missing = [f"{name} has no case" for name in OPERATIONS if name not in covered and name not in CONSTANT]
    unknown = [f"{name} is not an operation" for name in sorted(covered | CONSTANT.keys()) if name not in OPERATIONS]
    both = [f"{name} has a case and is said to be constant" for name in sorted(covered & CONSTANT.keys())]
    return missing + unknown + both
