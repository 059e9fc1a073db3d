"""The resources of all leases and lease requests, each once, with what they conflict with.

Theory of operation. What a plain pattern conflicts with is looked up in an index, each time. An open pattern is
compared with the others one by one, but only once: when either of the two comes into use. `met` keeps the outcome for
as long as both are in use. A search therefore costs what it finds, and a new pattern one comparison with each open one.

A pattern that is asked about before it comes into use, as every request asks before it is granted or queued, is kept
with the others for a while, so that it need not be compared again. A limited number of these is kept, of the open ones
only as many as one request may have by default, because every new pattern is compared with them too. They have no
claims, so they change no decision.
"""

from collections.abc import Callable, Iterable, Iterator

from tocsin.core.leases.glob_index import GlobIndex
from tocsin.core.leases.globs import Pattern, comparing, parse_pattern

__all__ = ["Key", "UsedPattern", "UsedPatterns"]

#: Id of a lease or of a request, and the number of the claim in it.
Key = tuple[str, int]

#: Plain patterns kept without a claim, and wildcards of the open ones.
_IDLE_MAX = (256, 16)


class UsedPattern:
    """One resource, and the claims that name it."""

    __slots__ = ("held", "met", "pattern", "queued")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        #: Claims of leases, and of queued requests.
        self.held: dict[Key, None] = {}
        self.queued: dict[Key, None] = {}
        #: Texts of the open patterns that it conflicts with; of an open pattern, of all that it conflicts with.
        self.met: dict[str, None] = {}

    @property
    def is_idle(self) -> bool:
        """Return whether no claim names it."""
        return not (self.held or self.queued)


class UsedPatterns:
    """The resources in use."""

    def __init__(self, comparing: Callable[[Pattern], Callable[[Pattern], bool]] = comparing) -> None:
        self._comparing = comparing
        self._known: dict[str, UsedPattern] = {}
        self._plain = GlobIndex()
        self._open: dict[str, None] = {}
        #: Patterns without a claim, oldest first: plain ones, and open ones with their wildcards.
        self._idle: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._idle_sums = [0, 0]

    def hold(self, resource: str, key: Key) -> None:
        """Add a claim of a lease."""
        self._claimed(resource).held[key] = None

    def queue(self, resource: str, key: Key) -> None:
        """Add a claim of a queued request."""
        self._claimed(resource).queued[key] = None

    def release(self, resource: str, key: Key) -> None:
        """Remove a claim of a lease."""
        used = self._known[resource]
        del used.held[key]
        self._retire(used)

    def unqueue(self, resource: str, key: Key) -> None:
        """Remove a claim of a queued request."""
        used = self._known[resource]
        del used.queued[key]
        self._retire(used)

    def conflicting(self, resource: str) -> list[UsedPattern]:
        """Return the patterns that have a matching name in common with a resource."""
        used = self._asked(resource)
        texts = [*used.met] if used.pattern.is_open else [*self._plain.conflicting(used.pattern), *used.met]
        return [self._known[text] for text in texts]

    def covering(self, path: Pattern) -> list[UsedPattern]:
        """Return the patterns that match an exact path; it is not kept."""
        texts = [*self._plain.conflicting(path)]
        meets = self._comparing(path)
        texts += [text for text in self._open if meets(self._known[text].pattern)]
        return [self._known[text] for text in texts]

    def held_as(self, resource: str) -> list[Key]:
        """Return the claims of leases with exactly this resource."""
        used = self._known.get(resource)
        return [] if used is None else [*used.held]

    def count_wildcards(self, resources: Iterable[str]) -> int:
        """Count the wildcards of the open patterns among some resources in use."""
        patterns = [self._known[resource].pattern for resource in resources]
        return sum([pattern.wildcards for pattern in patterns if pattern.is_open])

    def reach(self, pattern: Pattern) -> Iterator[str]:
        """Iterate over the plain patterns in use that an open one would be compared with."""
        known = self._known.get(pattern.text)
        if known is None or known.is_idle:
            for text in self._plain.conflicting(pattern):
                if not self._known[text].is_idle:
                    yield text

    def _asked(self, resource: str) -> UsedPattern:
        used = self._known.get(resource)
        if used is None:
            used = self._enter(parse_pattern(resource))
            self._retire(used)
        return used

    def _claimed(self, resource: str) -> UsedPattern:
        used = self._known.get(resource)
        if used is None:
            return self._enter(parse_pattern(resource))
        if used.is_idle:
            self._wake(resource, used.pattern.is_open)
        return used

    def _wake(self, text: str, is_open: bool) -> None:
        self._idle_sums[is_open] -= self._idle[is_open].pop(text)

    def _enter(self, pattern: Pattern) -> UsedPattern:
        """Add a pattern, and compare it with others: if it is open with all, otherwise with the open ones."""
        used = self._known[pattern.text] = UsedPattern(pattern)
        others = [*self._open]
        if pattern.is_open:
            others += [pattern.text, *self._plain.conflicting(pattern)]
            self._open[pattern.text] = None
        else:
            self._plain.add(pattern)
        meets = self._comparing(pattern)
        for text in others:
            other = self._known[text]
            # A comparison keeps what it knows of a name: here of the one that is compared often, not of each.
            found = self._comparing(other.pattern)(pattern) if pattern.is_open else meets(other.pattern)
            if found:
                used.met[text] = None
                other.met[pattern.text] = None
        return used

    def _retire(self, used: UsedPattern) -> None:
        """Keep a pattern that has no claim left as idle, and forget the oldest idle ones over the limit."""
        if not used.is_idle:
            return
        is_open = used.pattern.is_open
        idle = self._idle[is_open]
        weight = idle[used.pattern.text] = used.pattern.wildcards if is_open else 1
        self._idle_sums[is_open] += weight
        while len(idle) > 1 and self._idle_sums[is_open] > _IDLE_MAX[is_open]:
            oldest = next(iter(idle))
            self._wake(oldest, is_open)
            self._forget(self._known.pop(oldest))

    def _forget(self, used: UsedPattern) -> None:
        text = used.pattern.text
        if used.pattern.is_open:
            del self._open[text]
        else:
            self._plain.discard(used.pattern)
        for other in used.met:
            if other != text:
                del self._known[other].met[text]
