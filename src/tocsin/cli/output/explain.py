"""The history of a message as lines: what it says, then each event's time after the first, and its sentence."""

from tocsin.cli.output import say
from tocsin.cli.output.replies import preview_of
from tocsin.wire.history import MessageHistory

__all__ = ["say_history"]


def say_history(copy: MessageHistory) -> None:
    """Print the history of one copy of a message, a line for each event."""
    message = copy.message
    say(f"{message.signal_id}", "bold", end="")
    say(
        f": {message.type} from {message.sender} to {message.recipient}, {message.priority}, now {message.state}",
    )
    if text := preview_of(message.payload):
        say(f"  {'text':>12}  {text}")
    start = copy.history[0].at if copy.history else None
    for entry in copy.history:
        after = "" if start is None or entry.at is None else f"+{(entry.at - start).total_seconds():.3f} s"
        say(f"  {after:>12}", "dim", end="  ")
        say(entry.text or entry.kind)
