"""The agent of a working tree: the file that names it, and the list of its data directory that has the tree.

Both are Tocsin's own files. A program uses the file only if the list has the tree (`tocsin.cli.identity`).
"""

import json
from pathlib import Path

from tocsin.cli.hooks.files import Change, text_of
from tocsin.cli.identity import AGENT_FILE, TreeAgent, named_in, trees_of
from tocsin.cli.remote import Unusable

__all__ = ["agent_changes"]

#: Working trees in the list of an agent; the oldest is left out.
_TREES_MAX = 1_000


def agent_changes(root: Path, agent: TreeAgent | None) -> list[Change]:
    """Return the changes that make an agent that of a working tree, or without one, that leave the tree to nobody."""
    file, tree = root / AGENT_FILE, str(root.resolve())
    try:
        before = named_in(file)
    except Unusable:
        before = None
    changes = []
    if before is not None and tree in trees_of(before) and (agent is None or agent.trees != before.trees):
        changes.append(_listed(before, tree, there=False))
    if agent is not None:
        changes.append(_listed(agent, tree, there=True))
    named = None if agent is None else {"agent": agent.agent, "data": str(agent.data)}
    changes.append(Change(file, text_of(file), None if named is None else _json(named), is_own=True))
    return [change for change in changes if change.before is not None or change.is_one]


def _listed(agent: TreeAgent, tree: str, *, there: bool) -> Change:
    """Return the change of the list of an agent's working trees."""
    trees = trees_of(agent)
    if (tree in trees) != there:
        trees = [*trees, tree][-_TREES_MAX:] if there else [one for one in trees if one != tree]
    before = text_of(agent.trees)
    return Change(agent.trees, before, _json(trees) if trees else None, 0o600, is_own=True)


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"
