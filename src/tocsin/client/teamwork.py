"""Verbs of an agent that go on over time or build a message: leases, work and publications.

The operations that are one call each are in `tocsin.client.operations`.
"""

# `type` is the name of a message's type on every interface.
# ruff: noqa: A002

from collections.abc import Callable, Sequence
from typing import Literal, Unpack

import msgspec

from tocsin.client.leases import Acquiring, Leases
from tocsin.client.messages.message import Message
from tocsin.client.messages.work import Interruption, Resuming, Worker, Working
from tocsin.client.operations import Operations
from tocsin.core.commands import Published
from tocsin.core.protocol.envelope import ANYONE
from tocsin.core.protocol.priority import Priority
from tocsin.wire.drafts import Draft, Options, Payload
from tocsin.wire.envelope_writer import EnvelopeWriter

__all__ = ["Teamwork"]

_PUBLISHED = msgspec.json.Decoder(Published)


class Teamwork(Operations):
    """Leases, work and publications of one agent."""

    _writer: EnvelopeWriter
    _leases: Leases
    _worker: Worker

    def acquire(
        self,
        resources: str | Sequence[str] = (),
        *,
        shared: str | Sequence[str] = (),
        ttl_s: float | None = None,
        priority: str | Priority | None = None,
        wait_s: float | None = None,
    ) -> Acquiring:
        """Acquire resources, all or none, and renew the lease while it is held; use `async with` or `await`.

        `resources` are held exclusively, `shared` ones together with other agents that share them. It waits in the
        queue up to `wait_s` (0 fails at once; by default the policy's limit). If the lease is not granted it raises
        `LeaseConflict`, or `Deadlock` if the wait was ended to break a deadlock.
        """
        return self._leases.acquire(_names(resources), _names(shared), ttl_s, priority, wait_s)

    def working_on(self, message: Message, *, interruptible: bool = True) -> Working:
        """Work on a message, as `async with`; only messages that may interrupt it are delivered until it ends.

        If the work was put aside, such as by a crash, it is resumed, and `Working.saved` has the notes saved then.
        """
        return self._worker.working_on(message, interruptible=interruptible)

    def resuming(self, message_id: str | None = None) -> Resuming:
        """Resume work that was put aside, as `async with`, such as after a crash, when its message is confirmed.

        By default it is the work that was put aside last; `get_attention` lists all.
        """
        return Resuming(self._worker, message_id)

    async def pause_point(self, save: Callable[[], str] | None = None) -> Interruption | None:
        """Allow an interruption of the current work here; see `Working.pause_point`."""
        return await self._worker.pause_point(save)

    async def publish_topic(
        self,
        topic: str,
        type: str,
        payload: Payload | None = None,
        *,
        guarantee: Literal["each", "all"] = "each",
        **options: Unpack[Options],
    ) -> Published:
        """Publish a message to all other subscribers of a topic; `all` delivers to all of them or to none."""
        draft = Draft(to=ANYONE, type=type, payload={} if payload is None else payload, **options)
        arguments = {"topic": topic, "guarantee": guarantee}
        return await self._caller.call("publish_topic", arguments, _PUBLISHED, written=self._writer.write(draft))


def _names(resources: str | Sequence[str]) -> tuple[str, ...]:
    return (resources,) if isinstance(resources, str) else tuple(resources)
