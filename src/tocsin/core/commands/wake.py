"""Commands of the hub about wakers; no agent may issue them."""

from typing import Literal

from tocsin.core.commands.base import CommandBase

__all__ = ["DeclareWakers", "ReportWaker", "WakerOutcome"]

#: End of a waker as the hub sees it.
WakerOutcome = Literal["exited", "not_started", "lost"]


class DeclareWakers(CommandBase, frozen=True):
    """Declare which agents the hub can wake."""

    #: Agents that have a waker.
    agents: tuple[str, ...] = ()
    #: Roles whose agents all have a waker.
    roles: tuple[str, ...] = ()


class ReportWaker(CommandBase, frozen=True):
    """Report that the waker of a wake is over."""

    agent: str
    wake: str
    outcome: WakerOutcome
    #: Exit code or HTTP status; 0 and 200 to 299 mean success.
    code: int | None = None
    detail: str = ""
