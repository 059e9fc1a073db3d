"""Identity of a program that runs as an agent: where its token comes from, and the agent of a working tree.

`tocsin hooks install` writes the name of a working tree's agent into a file of that tree, so that the entries of coding
agents name nobody: they may be shared, and be read from another working tree (Codex reads the hooks of the main
checkout). A token in the environment of a process is more specific than the tree that it runs in, and takes precedence.

A cloned repository may bring such a file with it. Therefore the data directory of an agent has a list of the working
trees that were installed for it, and the file of any other tree is refused.

Only the standard library is imported, because `tocsin hooks check` runs after every tool call.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

from tocsin.cli.remote import Unusable, no_token, secret_in

__all__ = [
    "AGENT_FILE",
    "HERE",
    "Identity",
    "TreeAgent",
    "agent_of_tree",
    "identify",
    "named_in",
    "repository_of",
    "start_folder",
    "tree_root",
    "trees_of",
]

#: Default directory of a project.
HERE = Path(".tocsin")
#: File of a working tree that names its agent.
AGENT_FILE = HERE / "agent.json"
#: Variables of a process that have its token, or the name of a file with it.
_VARIABLES = ("TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE")


class TreeAgent(NamedTuple):
    """The agent of a working tree."""

    file: Path
    agent: str
    #: Directory with its token.
    data: Path

    @property
    def trees(self) -> Path:
        """Return the file with the list of the working trees that were installed for the agent."""
        return self.data / "hooks" / self.agent / "trees"


class Identity(NamedTuple):
    """The agent that a program runs as, and where its token is."""

    #: Name of the agent; null if only the token tells.
    agent: str | None
    #: Where the identity comes from, in words.
    source: str
    #: The project's directory.
    data: Path
    #: The token itself, or else the file that has it; both are null without an identity.
    secret: str | None = None
    file: Path | None = None
    #: Agent that the command line or the working tree names, if it is another one.
    instead_of: str | None = None

    @property
    def is_known(self) -> bool:
        """Return whether there is an agent or a token."""
        return self.secret is not None or self.file is not None

    def token(self) -> str | None:
        """Return the token as it is now; null if its file does not exist."""
        if self.secret is not None:
            return self.secret
        return None if self.file is None else secret_in(self.file)

    def missing(self) -> str:
        """Say which file is missing, and how it is made; empty if none is."""
        if self.file is None or self.file.exists():
            return ""
        if self.agent is not None and self.file == _saved(self.data, self.agent):
            return f"{no_token(self.data.resolve(), self.agent)} ({self.source} names {self.agent})"
        return f"there is no token: {self.file} ({self.source}) does not exist"

    def key(self) -> str:
        """Return the name of the agent, or the id of the token of an unknown one."""
        if self.agent is not None:
            return self.agent
        parts = (self.token() or "").split("_")
        return parts[1] if len(parts) > 1 else ""


def identify(
    data: Path, agent: str | None, token_file: Path | None = None, *, tree: bool = True, folder: Path | None = None
) -> Identity:
    """Return the identity of a program: a token that it was given, the agent of `--as`, or that of the working tree.

    The working tree is that of a folder, by default the one in which the coding agent was started. Two tokens that
    differ are refused.
    """
    here = None
    try:
        here = agent_of_tree(folder or start_folder()) if tree else None
    except Unusable:
        if agent is None and token_file is None and not any(map(os.environ.get, _VARIABLES)):
            raise
    if here is not None and agent is None and data == HERE:
        data = here.data
    named = agent or (None if here is None else here.agent)
    given = _given(data, token_file)
    different = list({one.token(): one for one in given if one.token() is not None}.values())
    if len(different) > 1:
        raise Unusable(f"{' and '.join(map(_who, different))}: choose one of them")
    if given:
        return given[0]._replace(instead_of=named if given[0].agent not in (None, named) else None)
    if agent is not None:
        return Identity(agent, "--as", data, file=_saved(data, agent))
    if here is not None and here.data == data:
        return Identity(here.agent, str(here.file), data, file=_saved(data, here.agent))
    return Identity(None, "", data)


def start_folder() -> Path:
    """Return the folder in which the coding agent was started; a hook of Claude Code may run in another one."""
    return Path(os.environ.get("CLAUDE_PROJECT_DIR") or Path.cwd())


def agent_of_tree(folder: Path) -> TreeAgent | None:
    """Return the agent of the working tree that a folder is in; the search ends at the root of the tree."""
    for place in (folder, *folder.parents):
        found = named_in(place / AGENT_FILE)
        if found is not None:
            _check_that_it_was_installed(found, place)
            return found
        if (place / ".git").exists():
            break
    return None


def named_in(file: Path) -> TreeAgent | None:
    """Return the agent that the file of a working tree names, whoever wrote it; null if there is no such file."""
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        return TreeAgent(file, str(written["agent"]), Path(written["data"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise Unusable(f"{file} does not name an agent: {error}") from None


def trees_of(agent: TreeAgent) -> list[str]:
    """Return the working trees that were installed for an agent."""
    try:
        trees = json.loads(agent.trees.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    return [tree for tree in trees if isinstance(tree, str)] if isinstance(trees, list) else []


def _check_that_it_was_installed(found: TreeAgent, tree: Path) -> None:
    """Refuse the agent of a tree that its data directory does not list, or whose token is elsewhere.

    A repository could bring a data directory with a list of its own, in which the token is a link to that of another.
    """
    if str(tree.resolve()) not in trees_of(found):
        raise Unusable(
            f"{found.file} is not used, because `tocsin hooks install` did not write it for this folder: name the"
            " agent with `tocsin --data DIRECTORY --as NAME hooks install claude` (or codex, or git) there"
        )
    if _saved(found.data, found.agent).resolve().parent != found.data.resolve() / "tokens":
        raise Unusable(
            f"{found.file} is not used, because the token that it names is a link that leads out of {found.data}: name"
            " the token with TOCSIN_TOKEN_FILE"
        )


def tree_root(folder: Path) -> Path:
    """Return the root of the git working tree that a folder is in; the folder itself outside of git."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


def repository_of(root: Path) -> Path | None:
    """Return the directory of the git repository that a linked worktree belongs to; null for any other folder."""
    try:
        pointed = (root / ".git").read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        common = root / pointed / (root / pointed / "commondir").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return common.resolve()


def _saved(data: Path, agent: str) -> Path:
    return data / "tokens" / f"{agent}.token"


def _given(data: Path, token_file: Path | None) -> list[Identity]:
    """Return the tokens that this process was given."""
    given = [] if token_file is None else [_of_file(token_file, "--token-file", data)]
    if secret := os.environ.get("TOCSIN_TOKEN"):
        given.append(Identity(_owner(data, secret), "TOCSIN_TOKEN", data, secret=secret))
    if named := os.environ.get("TOCSIN_TOKEN_FILE"):
        given.append(_of_file(Path(named), "TOCSIN_TOKEN_FILE", data))
    return given


def _of_file(file: Path, source: str, data: Path) -> Identity:
    secret = secret_in(file)
    owner = None if secret is None else _owner(data, secret)
    owner = owner or (file.stem if file.parent.name == "tokens" else None)
    return Identity(owner, source, data, file=file)


def _owner(data: Path, secret: str) -> str | None:
    """Return the agent whose saved token this is."""
    for path in sorted((data / "tokens").glob("*.token")):
        try:
            if path.read_text(encoding="utf-8").strip() == secret:
                return path.stem
        except (OSError, ValueError):
            continue
    return None


def _who(identity: Identity) -> str:
    return f"{identity.source} is a token of {identity.key()}"
