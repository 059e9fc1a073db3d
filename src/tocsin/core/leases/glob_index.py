"""Index of resource patterns that finds those that conflict with a given one.

Theory of operation. Patterns are a trie of segments. A query walks it with a pattern of its own, keeping pairs of a
node and a position in the query; `**` on either side lets the other side take any number of steps. At a node an exact
segment is one look-up. Globs at a node are grouped by their literal prefix, so an exact segment looks up each of its
own prefixes and meets only globs that could match; those that begin with a wildcard are grouped by their literal
suffix. The exact names and the prefixes at a node are also kept sorted, so a glob with a literal prefix meets only
names that begin with it.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from tocsin.core.leases.globs import DEEP, Pattern, Segment, segments_meet

__all__ = ["GlobIndex", "Key"]

#: Owner of a pattern, and the pattern's number among the owner's.
Key = tuple[str, int]


class _Node:
    """Children and entries of one trie node."""

    __slots__ = ("deep", "entries", "exact", "globs", "names", "parent", "segment", "starts")

    def __init__(self, parent: "_Node | None", segment: Segment | None) -> None:
        self.parent = parent
        self.segment = segment
        #: Children by exact segment, and their names in sorted order.
        self.exact: dict[str, _Node] = {}
        self.names: list[str] = []
        #: Children by glob, grouped by literal prefix, or by literal suffix if the glob begins with a wildcard.
        self.globs: dict[tuple[str, bool], dict[str, _Node]] = {}
        self.starts: list[str] = []
        #: Child after `**`.
        self.deep: _Node | None = None
        #: Keys of the patterns that end here.
        self.entries: dict[Key, None] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.entries or self.exact or self.globs or self.deep)


def _bucket(segment: Segment) -> tuple[str, bool]:
    """Return the group of a glob: its literal prefix, or its suffix."""
    return (segment.prefix, True) if segment.prefix else (segment.suffix, False)


class GlobIndex:
    """Patterns with their keys."""

    def __init__(self) -> None:
        self._root = _Node(None, None)

    @property
    def is_empty(self) -> bool:
        """Return whether it is as new: it has no patterns, and nothing is left of those that it had."""
        root = self._root
        return root.is_empty and not (root.names or root.starts)

    def add(self, pattern: Pattern, key: Key) -> None:
        """Add a pattern for a key; adding the same pair again changes nothing."""
        node = self._root
        for segment in pattern.segments:
            node = self._child(node, segment) or self._grow(node, segment)
        node.entries[key] = None

    def discard(self, pattern: Pattern, key: Key) -> None:
        """Remove a pair, and the nodes that only it needed."""
        node: _Node | None = self._root
        for segment in pattern.segments:
            node = self._child(node, segment) if node is not None else None
        if node is None:
            return
        node.entries.pop(key, None)
        while node.is_empty and node.parent is not None and node.segment is not None:
            self._cut(node.parent, node.segment)
            node = node.parent

    @staticmethod
    def _child(node: _Node, segment: Segment) -> _Node | None:
        if segment.text == DEEP:
            return node.deep
        if not segment.is_glob:
            return node.exact.get(segment.text)
        bucket = node.globs.get(_bucket(segment))
        return None if bucket is None else bucket.get(segment.text)

    @staticmethod
    def _grow(node: _Node, segment: Segment) -> _Node:
        child = _Node(node, segment)
        if segment.text == DEEP:
            node.deep = child
        elif not segment.is_glob:
            node.exact[segment.text] = child
            insort(node.names, segment.text)
        else:
            bucket = _bucket(segment)
            if bucket not in node.globs:
                node.globs[bucket] = {}
                if bucket[1]:
                    insort(node.starts, bucket[0])
            node.globs[bucket][segment.text] = child
        return child

    @staticmethod
    def _cut(node: _Node, segment: Segment) -> None:
        if segment.text == DEEP:
            node.deep = None
        elif not segment.is_glob:
            del node.exact[segment.text]
            del node.names[bisect_left(node.names, segment.text)]
        else:
            bucket = _bucket(segment)
            del node.globs[bucket][segment.text]
            if not node.globs[bucket]:
                del node.globs[bucket]
                if bucket[1]:
                    del node.starts[bisect_left(node.starts, bucket[0])]

    def conflicting(self, pattern: Pattern) -> dict[Key, None]:
        """Return the keys of all patterns that have a matching name in common with this one."""
        segments = pattern.segments
        last = len(segments)
        found: dict[Key, None] = {}
        pending: list[tuple[_Node, int]] = [(self._root, 0)]
        seen: set[tuple[int, int]] = set()
        for node, place in pending:
            if (id(node), place) in seen:
                continue
            seen.add((id(node), place))
            if node.deep is not None:
                pending.append((node.deep, place))
            absorbs = node.segment is not None and node.segment.text == DEEP
            if place == last:
                found.update(node.entries)
                continue
            segment = segments[place]
            if absorbs:
                pending.append((node, place + 1))
            if segment.text == DEEP:
                pending.append((node, place + 1))
                pending.extend([(child, place) for child in node.exact.values()])
                for bucket in node.globs.values():
                    pending.extend([(child, place) for child in bucket.values()])
            elif not (node.exact or node.globs):
                continue
            elif segment.is_glob:
                pending.extend((child, place + 1) for child in _meeting_glob(node, segment))
            else:
                pending.extend((child, place + 1) for child in _meeting_name(node, segment))
        return found


def _meeting_name(node: _Node, segment: Segment) -> Iterator[_Node]:
    """Iterate over the children that an exact segment matches."""
    child = node.exact.get(segment.text)
    if child is not None:
        yield child
    if not node.globs:
        return
    text = segment.text
    keys = [(text[:end], True) for end in range(1, len(text) + 1)] if node.starts else []
    if len(node.globs) > len(node.starts):
        keys += [(text[start:], False) for start in range(len(text) + 1)]
    for key in keys:
        for glob in node.globs.get(key, {}).values():
            if glob.segment is not None and segments_meet(glob.segment, segment):
                yield glob


def _meeting_glob(node: _Node, segment: Segment) -> Iterator[_Node]:
    """Iterate over the children that have a name in common with a glob."""
    for name in _beginning_with(node.names, segment.prefix):
        child = node.exact[name]
        if child.segment is not None and segments_meet(segment, child.segment):
            yield child
    if not node.globs:
        return
    starts = {segment.prefix[:end] for end in range(1, len(segment.prefix))}
    keys = [(start, True) for start in {*starts, *_beginning_with(node.starts, segment.prefix)}]
    keys += [key for key in node.globs if not key[1]]
    for key in keys:
        for glob in node.globs.get(key, {}).values():
            if glob.segment is not None and segments_meet(segment, glob.segment):
                yield glob


def _beginning_with(ordered: list[str], prefix: str) -> Iterator[str]:
    for index in range(bisect_left(ordered, prefix), len(ordered)):
        if not ordered[index].startswith(prefix):
            return
        yield ordered[index]
