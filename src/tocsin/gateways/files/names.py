"""Names of channel directories: `{sender}_to_{receiver}`, unique for every channel.

An agent's name may contain `_to_` itself. If a directory's name could then be split in the wrong place, the sender's
underscores are written as `%`, which no agent's name can contain. A file agent may not have such a name, because it
creates its directories itself and their owner must be unambiguous.
"""

from tocsin.core.commands import SYSTEM

__all__ = ["BUS", "MESSAGES", "RECEIPTS", "directory_of", "is_plain", "parties_of"]

#: The bus itself, as a sender and as a receiver.
BUS = SYSTEM.agent
#: File with the messages of a channel.
MESSAGES = "messages.ndjson"
#: File with the receipts of a file agent's lines.
RECEIPTS = "receipts.ndjson"

_BETWEEN = "_to_"


def directory_of(sender: str, receiver: str) -> str:
    """Return the name of a channel's directory."""
    return f"{sender if is_plain(sender) else sender.replace('_', '%')}{_BETWEEN}{receiver}"


def is_plain(sender: str) -> bool:
    """Tell whether the first `_to_` in the names of a sender's directories ends its own name."""
    return f"{sender}{_BETWEEN}".index(_BETWEEN) == len(sender)


def parties_of(directory: str) -> tuple[str, str] | None:
    """Return the sender, if it has a plain name, and the receiver of a directory."""
    sender, between, receiver = directory.partition(_BETWEEN)
    return (sender, receiver) if between and sender and receiver else None
