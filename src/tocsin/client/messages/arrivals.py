"""Distribution of arriving messages: to the inbox, or to the request or lease that waits for one."""

import logging
from collections.abc import Callable

import msgspec

from tocsin.client.leases import Leases
from tocsin.client.messages.envelopes import EnvelopeReader
from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.message import LocalMessage, Message, Recipient
from tocsin.client.messages.requests import Requests
from tocsin.client.messages.work import Worker
from tocsin.core.commands import SYSTEM, Delivery
from tocsin.wire.socket import Deliver

__all__ = ["Arrivals"]

_log = logging.getLogger("tocsin.client")
_SYSTEM = SYSTEM.agent


class Arrivals:
    """Takes the messages of one agent."""

    def __init__(
        self,
        recipient: Recipient,
        confirm: Callable[[str], None],
        inbox: Inbox,
        requests: Requests,
        leases: Leases,
        worker: Worker,
    ) -> None:
        self._recipient = recipient
        self._confirm = confirm
        self._inbox = inbox
        self._requests = requests
        self._leases = leases
        self._worker = worker
        self._read = EnvelopeReader().read

    def take(self, delivery: Deliver) -> None:
        """Take a message from a hub."""
        try:
            received, attempt, ttl_s = self._read(delivery.envelope)
        except msgspec.DecodeError:
            # It stays unconfirmed, so another client gets it, or it becomes a dead letter, which can be inspected.
            _log.exception("%s cannot be read", delivery.signal_id)
            return
        if not self._inbox.is_news(delivery.signal_id, attempt):
            return
        interrupts = delivery.interrupts
        message = Message(self._recipient, delivery.signal_id, delivery.offer, received, attempt, ttl_s, interrupts)
        if interrupts is None and not self._requests.waiting and received.sender.agent_id != _SYSTEM:
            self._inbox.put(message)
        else:
            self._match(message)

    def take_local(self, delivery: Delivery) -> None:
        """Take a message from a project in this process."""
        if not self._inbox.is_news(delivery.signal_id, delivery.attempt):
            return
        message = LocalMessage(self._recipient, delivery)
        if delivery.interrupts is None and not self._requests.waiting and delivery.message.sender != _SYSTEM:
            self._inbox.put(message)
        else:
            self._match(message)

    def _match(self, message: Message) -> None:
        self._worker.arrived(message)
        awaited = self._requests.match(message)
        is_notice = awaited is None and message.sender == _SYSTEM
        if is_notice and (self._leases.takes(message) or self._requests.takes(message)):
            self._confirm(message.signal_id)
        elif awaited is None:
            self._inbox.put(message)
        else:
            self._inbox.hold(message)
            awaited.response.set_result(message)
