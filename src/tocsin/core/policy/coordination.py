"""How agents hold things and wait for each other."""

from tocsin.core.policy.base import Concern, Count

__all__ = ["Inheritance"]


class Inheritance(Concern, frozen=True):
    """What rises with an agent that others wait for."""

    #: Messages that are raised at a time, of those that it has sent, and of the answers that wait for it.
    messages_max: Count
