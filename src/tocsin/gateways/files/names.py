"""Which directory a channel has: `{sender}_to_{receiver}`, so that no two channels share one.

An agent's name may hold `_to_` itself. Where a reader would then split the directory's name in the wrong place, the
sender's underscores are written as `%`, which no name can hold. A file agent may not have such a name: the directories
that it makes by hand must be its own beyond doubt.
"""

from tocsin.core.commands import SYSTEM

__all__ = ["BUS", "MESSAGES", "RECEIPTS", "directory_of", "is_plain", "parties_of"]

#: The bus itself, as a sender and as a receiver.
BUS = SYSTEM.agent
#: What is said in a channel.
MESSAGES = "messages.ndjson"
#: What became of each line that a file agent wrote.
RECEIPTS = "receipts.ndjson"

_BETWEEN = "_to_"


def directory_of(sender: str, receiver: str) -> str:
    """Name the directory of a channel."""
    return f"{sender if is_plain(sender) else sender.replace('_', '%')}{_BETWEEN}{receiver}"


def is_plain(sender: str) -> bool:
    """Tell whether the first `_to_` in the names of a sender's directories ends its own name."""
    return f"{sender}{_BETWEEN}".index(_BETWEEN) == len(sender)


def parties_of(directory: str) -> tuple[str, str] | None:
    """Return the sender, if it has a plain name, and the receiver of a directory."""
    sender, between, receiver = directory.partition(_BETWEEN)
    return (sender, receiver) if between and sender and receiver else None
