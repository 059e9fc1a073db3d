"""Notices to channels: an agent that is connected only to be notified is told of each message that begins to wait.

A notice follows the commit of its message and is not a delivery: the message stays in the inbox until the agent fetches
it. A notice may be lost; whoever listens looks into the inbox again after a while.
"""

from typing import Protocol

from tocsin.core import events as ev
from tocsin.core.commands import Delivery
from tocsin.core.events import Event
from tocsin.core.messages.delivery import delivery_of
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.hub.hosting.host import Host

__all__ = ["ChannelNotices", "Listener"]


class Listener(Protocol):
    """The socket of a channel."""

    def notice(self, delivery: Delivery) -> None:
        """Tell it of a message that waits."""


class ChannelNotices:
    """The open channels of a project."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._listeners: dict[str, list[Listener]] = {}

    def add(self, agent: str, listener: Listener) -> None:
        """Tell a channel of an agent's messages from now on."""
        self._listeners.setdefault(agent, []).append(listener)

    def remove(self, agent: str, listener: Listener) -> None:
        """Forget a channel."""
        listeners = self._listeners.get(agent, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del self._listeners[agent]

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Tell the channels of messages that durable events have put into a queue."""
        if not self._listeners:
            return
        messages = self._host.exchange.state.messages
        for seq, event in enumerate(events, first_seq):
            kind = type(event)
            if kind is ev.MessageAccepted:
                if event.recipient in self._listeners:  # type: ignore[union-attr]
                    self._tell(messages.get(seq))
            elif kind is ev.MessageReleased or kind is ev.DeadLetterRedriven:
                self._tell(messages.get(event.message))  # type: ignore[union-attr]

    def _tell(self, message: Message | None) -> None:
        state = self._host.exchange.state
        if message is None or message.state is not State.QUEUED:
            return
        # A permission prompt waits for its decision, whatever the level.
        if message.priority < state.policy.wake.level_number and message.type != "ApprovalDecided":
            return
        for listener in self._listeners.get(message.recipient, ()):
            listener.notice(delivery_of(state, message))
