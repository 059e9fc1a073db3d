"""The wait-for graph: every kind of wait between agents, and the search for deadlocks.

Theory of operation. An agent has any number of waits and moves on when *all* of them have ended. A wait is for agents.
Usually it needs all of them (a lease held by several sharers); an `any_of` wait needs one (an approval that any
director can give), and is stuck only when all of them are.

An agent that does not wait will move on by itself. An agent that waits will move on if each of its waits can end: a
wait for all when everyone in it moves on, a wait for any when someone does. An agent that is never reached by this rule
is stuck: in a deadlock, or waiting for one. A deadlock is a cycle of waits for all; if waits for any take part, it is
the set of stuck agents that wait for each other and for nobody else. The search reports nothing that time could still
resolve, and no agent that merely waits for those in a deadlock.

A lease queue adds places: a queued request also waits for those before it (`behind`), which hold nothing yet. Such a
place can close a cycle, but it lends no priority: a request further ahead has at least as much.

This module has the data and the search; `tocsin.core.waiting.waits` begins and ends waits.
"""

from collections.abc import Iterable

import msgspec

__all__ = ["Wait", "WaitGraph", "wait_key"]


def wait_key(kind: str, ref: str, waiter: str) -> str:
    """Return the key of a wait."""
    return f"{kind}:{ref}:{waiter}"


class Wait(msgspec.Struct):
    """One agent's wait for one thing."""

    waiter: str
    #: `lease`, `request`, `discussion` or `approval`.
    kind: str
    #: Id of the lease, request, discussion or approval.
    ref: str
    since: int
    #: Priority that it waits at, and lends.
    level: int
    #: Sequence number of the event that began it: its age.
    seq: int
    #: Whether any one of `on` can end it.
    any_of: bool
    #: Agents that it waits for, each with the number of resources it blocks.
    on: dict[str, int]
    #: Agents with a request before it in the lease queue.
    behind: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Return its key in the graph."""
        return wait_key(self.kind, self.ref, self.waiter)

    @property
    def cause(self) -> str:
        """Return the cause under which it is escalated."""
        return f"dependency_blocked {self.seq}"

    @property
    def label(self) -> str:
        """Return the thing that it waits for, in the form used in events."""
        return f"{self.kind}:{self.ref}"


class WaitGraph:
    """All waits of a project, indexed by waiter and by the agent waited for."""

    def __init__(self) -> None:
        self.waits: dict[str, Wait] = {}
        #: Waits of each waiter.
        self.by_waiter: dict[str, dict[str, Wait]] = {}
        #: Waits for each agent, places in a queue aside: those that lend priority to it.
        self.upon: dict[str, dict[str, Wait]] = {}
        #: Agents that wait for someone new: a cycle may have closed through them.
        self.suspects: dict[str, None] = {}
        #: The same, for cycles that include a place in a lease queue.
        self.queue_suspects: dict[str, None] = {}
        #: Number of waits with someone ahead in a lease queue.
        self.places = 0
        #: Number of agents with more than one wait.
        self.several = 0
        #: Number of agents that wait and are waited for: every cycle has some.
        self.linked = 0
        #: Agents that someone began or ceased to wait for.
        self.lent: dict[str, None] = {}
        #: Number of `any_of` waits.
        self.alternatives = 0

    def add(self, wait: Wait) -> None:
        """Add a wait."""
        self.waits[wait.key] = wait
        mine = self.by_waiter.get(wait.waiter)
        if mine is None:
            mine = self.by_waiter[wait.waiter] = {}
            self.linked += wait.waiter in self.upon
        mine[wait.key] = wait
        self.several += len(mine) == 2
        self.alternatives += wait.any_of
        for agent in wait.on:
            self._enter(wait, agent)

    def drop(self, wait: Wait) -> None:
        """Remove a wait."""
        del self.waits[wait.key]
        mine = self.by_waiter[wait.waiter]
        del mine[wait.key]
        self.several -= len(mine) == 1
        if not mine:
            del self.by_waiter[wait.waiter]
            self.linked -= wait.waiter in self.upon
        self.alternatives -= wait.any_of
        self.places -= bool(wait.behind)
        for agent in wait.on:
            self._leave(wait, agent)

    def shift(self, wait: Wait, on: Iterable[str]) -> None:
        """Replace the agents that a wait is for."""
        wanted = dict.fromkeys(on, 1)
        for agent in [agent for agent in wait.on if agent not in wanted]:
            self._leave(wait, agent)
        for agent in wanted:
            if agent not in wait.on:
                self._enter(wait, agent)
        wait.on = wanted
        if wait.any_of:
            self.suspects[wait.waiter] = None

    def block(self, wait: Wait, agent: str, count: int) -> None:
        """Add to the number of resources through which an agent blocks a wait."""
        if agent in wait.on:
            wait.on[agent] += count
        else:
            wait.on[agent] = count
            self._enter(wait, agent)

    def unblock(self, wait: Wait, agent: str, count: int) -> None:
        """Subtract from the number of resources through which an agent blocks a wait."""
        wait.on[agent] -= count
        if not wait.on[agent]:
            del wait.on[agent]
            self._leave(wait, agent)

    def raise_to(self, wait: Wait, level: int) -> None:
        """Change the priority that a wait has and lends."""
        wait.level = level
        self.lent.update(dict.fromkeys(wait.on))

    def set_behind(self, wait: Wait, agents: frozenset[str]) -> None:
        """Set the agents that are ahead of a wait in its lease queue."""
        if agents - wait.behind:
            self.queue_suspects[wait.waiter] = None
        self.places += bool(agents) - bool(wait.behind)
        wait.behind = agents

    def _enter(self, wait: Wait, agent: str) -> None:
        waits = self.upon.get(agent)
        if waits is None:
            waits = self.upon[agent] = {}
            self.linked += agent in self.by_waiter
        waits[wait.key] = wait
        self.lent[agent] = None
        # Waiting for an agent that does not wait closes no cycle; if that agent begins to wait later, it is a suspect
        # then.
        if agent in self.by_waiter:
            self.suspects[wait.waiter] = None

    def _leave(self, wait: Wait, agent: str) -> None:
        waits = self.upon[agent]
        del waits[wait.key]
        if not waits:
            del self.upon[agent]
            self.linked -= agent in self.by_waiter
        self.lent[agent] = None

    def find_deadlock(self) -> list[Wait]:
        """Return a deadlock that a new wait has closed, queue places aside: one wait of each agent in it, or [].

        There was none before, so a new one includes an agent that waits for someone new. Agents that are found to be in
        none are no longer suspects, except through a place in a queue.
        """
        found = self._search(list(self.suspects), places=False)
        if not found:
            if self.places:
                self.queue_suspects.update(self.suspects)
            self.suspects.clear()
        return found

    def find_queue_deadlock(self) -> list[Wait]:
        """Return a deadlock that includes a place in a lease queue; the places must be up to date."""
        found = self._search(list(self.queue_suspects), places=True) if self.places else []
        if not found:
            self.queue_suspects.clear()
        return found

    def _search(self, suspects: list[str], *, places: bool) -> list[Wait]:
        # A cycle needs an agent that waits and is waited for. Places alone are ordered, so they close no cycle as long
        # as nobody has several of them.
        if not suspects or not (self.linked or (places and self.several)):
            return []
        if not places:
            suspects = [agent for agent in suspects if agent in self.upon]
            if not suspects or (len(suspects) == 1 and not self._leads_back(suspects[0])):
                return []
        if len(suspects) == 1:
            if path := self._way_back(suspects[0], places=places):
                return path
            if not self.alternatives or not self._way_back(suspects[0], places=places, any_of=True):
                return []
        stuck = self._stuck(suspects, places=places)
        for agent in suspects:
            if agent in stuck and (path := self._way_back(agent, places=places)):
                return path
        return self._knot(suspects, stuck, places=places) if self.alternatives else []

    def _knot(self, suspects: list[str], stuck: dict[str, list[Wait]], *, places: bool) -> list[Wait]:
        """Return the stuck agents around a suspect that can each be reached from each other."""
        ways = {name: _others(waits, places) & stuck.keys() for name, waits in stuck.items()}
        for agent in suspects:
            ahead = _reach(agent, ways) if agent in stuck else {}
            if agent in ahead and len(back := _reach(agent, _reversed(ahead, ways))) == len(ahead):
                return [next(wait for wait in stuck[name] if _others([wait], places) & back.keys()) for name in ahead]
        return []

    def _leads_back(self, start: str) -> bool:
        """Return whether waits lead from an agent back to itself, places aside.

        Both whom it waits for and who waits for it are followed, whichever took fewer steps so far, until one of them
        ends or they meet. So an agent behind which nobody waits costs little, however many waits are ahead of it.
        """
        seen = ({start}, {start})
        pending = ([start], [start])
        steps = [0, 0]
        while pending[0] and pending[1]:
            way = 0 if steps[0] <= steps[1] else 1
            agent = pending[way].pop()
            if way == 0:
                found = [other for wait in self.by_waiter.get(agent, {}).values() for other in wait.on]
            else:
                found = [wait.waiter for wait in self.upon.get(agent, {}).values()]
            steps[way] += len(found) + 1
            for other in found:
                if other in seen[1 - way]:
                    return True
                if other not in seen[way]:
                    seen[way].add(other)
                    pending[way].append(other)
        return False

    def _way_back(self, start: str, *, places: bool, any_of: bool = False) -> list[Wait]:
        """Return a path of waits from an agent back to itself, with `any_of` waits only if asked for."""
        by_waiter = self.by_waiter
        came: dict[str, Wait] = {}
        stack = [start]
        while stack:
            waits = by_waiter.get(stack.pop())
            if waits is None:
                continue
            for wait in _oldest_first(waits):
                if wait.any_of and not any_of:
                    continue
                for other in _agents_of(wait, places=places):
                    if other not in came:
                        came[other] = wait
                        stack.append(other)
            if start in came:
                return self._path(start, came)
        return []

    @staticmethod
    def _path(start: str, came: dict[str, Wait]) -> list[Wait]:
        path = [came[start]]
        while path[-1].waiter != start:
            path.append(came[path[-1].waiter])
        path.reverse()
        return path

    def _stuck(self, starts: list[str], *, places: bool) -> dict[str, list[Wait]]:
        """Return the agents reachable from some agents that will never move on, with the waits that cannot end."""
        reached = dict.fromkeys(starts)
        pending = list(reached)
        dependents: dict[str, list[Wait]] = {agent: [] for agent in pending}
        #: Number of agents that each waiter, and each `any_of` wait, still needs.
        missing: dict[str, int] = {}
        for agent in pending:
            count = 0
            for wait in _oldest_first(self.by_waiter.get(agent, {})):
                others = _agents_of(wait, places=places)
                count += min(1, len(others)) if wait.any_of else len(others)
                for other in others:
                    if other not in dependents:
                        dependents[other] = []
                        pending.append(other)
                    dependents[other].append(wait)
            missing[agent] = count
        moving = [agent for agent in pending if not missing[agent]]
        ended: set[str] = set()
        for agent in moving:
            for wait in dependents[agent]:
                if wait.any_of:
                    if wait.key in ended:
                        continue
                    ended.add(wait.key)
                missing[wait.waiter] -= 1
                if not missing[wait.waiter]:
                    moving.append(wait.waiter)
        moved = set(moving)
        return {
            agent: [wait for wait in _oldest_first(self.by_waiter[agent]) if not _can_end(wait, moved, places=places)]
            for agent in pending
            if agent not in moved
        }


def _oldest_first(waits: dict[str, Wait]) -> list[Wait]:
    """Return waits by age: their order in the state is another one in a rebuilt state."""
    found = list(waits.values())
    if len(found) > 1:
        found.sort(key=_age)
    return found


def _age(wait: Wait) -> int:
    return wait.seq


def _agents_of(wait: Wait, *, places: bool) -> list[str]:
    """Return the agents that a wait is for, with those before it in a queue if asked for, by name."""
    if places and wait.behind:
        return sorted({*wait.on, *wait.behind})
    return sorted(wait.on) if len(wait.on) > 1 else list(wait.on)


def _can_end(wait: Wait, moving: set[str], *, places: bool) -> bool:
    if wait.any_of:
        return not wait.on or any(agent in moving for agent in wait.on)
    ahead = wait.behind if places else ()
    return all(agent in moving for agent in wait.on) and all(agent in moving for agent in ahead)


def _others(waits: list[Wait], places: bool) -> set[str]:
    """Return the agents that some waits are for."""
    return {other for wait in waits for other in (*wait.on, *(wait.behind if places else ()))}


def _reach(start: str, ways: dict[str, set[str]]) -> dict[str, None]:
    """Return the agents that an agent reaches in one step or more."""
    found = dict.fromkeys(sorted(ways[start]))
    pending = list(found)
    for agent in pending:
        for other in sorted(ways[agent]):
            if other not in found:
                found[other] = None
                pending.append(other)
    return found


def _reversed(agents: dict[str, None], ways: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the edges between some agents in the opposite direction."""
    turned: dict[str, set[str]] = {agent: set() for agent in agents}
    for agent in agents:
        for other in ways[agent]:
            turned[other].add(agent)
    return turned
