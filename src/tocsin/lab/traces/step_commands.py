"""Commands of recorded steps, as the exchange takes them."""

from typing import Any, Final

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.commands import Command
from tocsin.lab.traces.recorded_envelope import RecordedEnvelope

__all__ = ["command_of"]

_COMMANDS: Final[dict[str, Any]] = {
    name: kind
    for name, kind in vars(cmd).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and hasattr(kind, "__struct_fields__")
}
_SEND: Final = cmd.Send
_CONFIRM: Final = cmd.Confirm
_ACKNOWLEDGE: Final = cmd.Acknowledge
_HEARTBEAT: Final = cmd.Heartbeat


def command_of(ask: str, args: tuple[Any, ...], envelope: RecordedEnvelope | None, body: dict[str, Any]) -> Command:
    """Return the command of a step from the fields of the step."""
    if args:
        # The frequent ones first, without a look into the table.
        if ask == "Confirm":
            return _CONFIRM(args)
        if ask == "Acknowledge":
            return _ACKNOWLEDGE(*args)
        if ask == "Heartbeat":
            return _HEARTBEAT(args[0])
        frequent: Command = _COMMANDS[ask](*args)
        return frequent
    if envelope is not None:
        if ask == "Send" and not body:
            return _SEND(envelope)
        other: Command = _COMMANDS[ask](envelope=envelope, **body)
        return other
    command: Command = msgspec.convert(body, _COMMANDS[ask], builtin_types=(bytes,))
    return command
