"""Index of plain resource patterns that finds those that conflict with a given one.

Theory of operation. Patterns are a trie of their folders. A node has the exact names and the `**` that end there, and
the globs of its own segment below it: those with a single star. An exact name looks up its own prefixes among the
prefixes of the globs, then its suffixes among the suffixes of those; a glob walks over the names that begin as it does.
`**` takes all that is below its folder. So a search visits little more than what it finds.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from tocsin.core.leases.globs import Pattern, Segment, segments_meet

__all__ = ["GlobIndex"]


class _Node:
    """One folder or name: what ends here, and what is below."""

    __slots__ = ("deep", "exact", "globs", "name", "names", "nodes", "parent", "prefixes")

    def __init__(self, parent: "_Node | None", name: str) -> None:
        self.parent = parent
        self.name = name
        #: Texts of the exact patterns, and of those with `**`, that end here.
        self.exact: dict[str, None] = {}
        self.deep: dict[str, None] = {}
        #: Nodes below, and their names in sorted order.
        self.nodes: dict[str, _Node] = {}
        self.names: list[str] = []
        #: Globs of the segments below, with their texts: by prefix, then by suffix. The prefixes are also kept sorted.
        self.globs: dict[str, dict[str, dict[str, Segment]]] = {}
        self.prefixes: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not (self.exact or self.deep or self.nodes or self.globs)


class GlobIndex:
    """Plain patterns, by their text."""

    def __init__(self) -> None:
        self._root = _Node(None, "")

    @property
    def is_empty(self) -> bool:
        """Return whether it is as new: it has no patterns, and nothing is left of those that it had."""
        root = self._root
        return root.is_empty and not (root.names or root.prefixes)

    def add(self, pattern: Pattern) -> None:
        """Add a pattern."""
        node = self._root
        for name in pattern.folder:
            child = node.nodes.get(name)
            if child is None:
                child = node.nodes[name] = _Node(node, name)
                insort(node.names, name)
            node = child
        if pattern.last is not None:
            _add_glob(node, pattern.last, pattern.text)
        elif pattern.is_deep:
            node.deep[pattern.text] = None
        else:
            node.exact[pattern.text] = None

    def discard(self, pattern: Pattern) -> None:
        """Remove a pattern that it has, and the nodes that only this one needed."""
        node = self._root
        for name in pattern.folder:
            node = node.nodes[name]
        if pattern.last is not None:
            _discard_glob(node, pattern.last, pattern.text)
        elif pattern.is_deep:
            del node.deep[pattern.text]
        else:
            del node.exact[pattern.text]
        while node.is_empty and node.parent is not None:
            del node.parent.nodes[node.name]
            del node.parent.names[bisect_left(node.parent.names, node.name)]
            node = node.parent

    def conflicting(self, pattern: Pattern) -> Iterator[str]:
        """Iterate over the texts of the patterns with a name in common with a plain one.

        For an open pattern, these are the patterns that may have one: all that conflict with its folder and `**`.
        """
        node: _Node | None = self._root
        whole = pattern.is_deep or pattern.is_open
        left = len(pattern.folder)
        for name in pattern.folder:
            if node is None:
                return
            yield from node.deep
            left -= 1
            if not left and pattern.last is None:
                yield from _globs_of_name(node, name)
            node = node.nodes.get(name)
        if node is None:
            return
        if whole:
            yield from _below(node)
            return
        yield from node.deep
        if pattern.last is None:
            yield from node.exact
            return
        for name in _beginning_with(node.names, pattern.last.prefix):
            if name.endswith(pattern.last.suffix) and len(name) >= pattern.last.form.size:
                yield from node.nodes[name].exact
                yield from node.nodes[name].deep
        yield from _globs_of_glob(node, pattern.last)


def _add_glob(node: _Node, glob: Segment, text: str) -> None:
    suffixes = node.globs.get(glob.prefix)
    if suffixes is None:
        suffixes = node.globs[glob.prefix] = {}
        insort(node.prefixes, glob.prefix)
    suffixes.setdefault(glob.suffix, {})[text] = glob


def _discard_glob(node: _Node, glob: Segment, text: str) -> None:
    suffixes = node.globs[glob.prefix]
    del suffixes[glob.suffix][text]
    if not suffixes[glob.suffix]:
        del suffixes[glob.suffix]
    if not suffixes:
        del node.globs[glob.prefix]
        del node.prefixes[bisect_left(node.prefixes, glob.prefix)]


def _globs_of_name(node: _Node, name: str) -> Iterator[str]:
    """Iterate over the globs below a node that match a name."""
    few = len(node.prefixes) <= len(name)
    for prefix in node.prefixes if few else [name[:end] for end in range(len(name) + 1)]:
        if not name.startswith(prefix):
            continue
        suffixes = node.globs.get(prefix, {})
        longest = len(name) - len(prefix)
        few = len(suffixes) <= longest
        for suffix in suffixes if few else [name[len(name) - size :] for size in range(longest + 1)]:
            if len(suffix) <= longest and name.endswith(suffix):
                yield from suffixes.get(suffix, ())


def _globs_of_glob(node: _Node, glob: Segment) -> Iterator[str]:
    """Iterate over the globs below a node that have a name in common with a glob."""
    if not node.globs:
        return
    prefixes = [glob.prefix[:end] for end in range(len(glob.prefix))]
    for prefix in (*prefixes, *_beginning_with(node.prefixes, glob.prefix)):
        for texts in node.globs.get(prefix, {}).values():
            for text, other in texts.items():
                if segments_meet(glob, other):
                    yield text


def _below(node: _Node) -> Iterator[str]:
    """Iterate over all that ends at a node or below."""
    pending = [node]
    for node in pending:
        yield from node.exact
        yield from node.deep
        for suffixes in node.globs.values():
            for texts in suffixes.values():
                yield from texts
        pending.extend(node.nodes.values())


def _beginning_with(ordered: list[str], prefix: str) -> Iterator[str]:
    for index in range(bisect_left(ordered, prefix), len(ordered)):
        if not ordered[index].startswith(prefix):
            return
        yield ordered[index]
