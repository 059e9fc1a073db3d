"""Holding a lease: asking, waiting in line, renewing while it is held, and giving it back.

Theory of operation. Every request bears an id of the client's own, so that a drop on the way changes nothing. The bus
tells how a wait ended in a message (`LEASE_GRANTED`, `LEASE_REFUSED`), and in another that a lease is lost
(`LEASE_LOST`); what such a message says of a lease of this client is taken here and not handed out by the inbox. An
agent that is at work is not pushed what does not interrupt it, so the one who waits also asks, now and then.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

import msgspec

from tocsin.client import operations as op
from tocsin.client.config import ClientConfig
from tocsin.client.connection import Connection
from tocsin.client.errors import NoAnswer, error_of
from tocsin.client.inbox import Inbox
from tocsin.client.message import Message
from tocsin.client.teamwork_replies import LeaseRecord, Released
from tocsin.core.commands import SYSTEM
from tocsin.core.errors import LeaseConflict, Problem, TocsinError
from tocsin.core.protocol.priority import Priority, liminal_name

__all__ = ["Acquiring", "Lease", "Leases"]

_log = logging.getLogger("tocsin.client")
_RECORD = msgspec.json.Decoder(LeaseRecord)
_RELEASED = msgspec.json.Decoder(Released)
_GRANTED, _REFUSED, _LOST, _EXPIRING = "LEASE_GRANTED", "LEASE_REFUSED", "LEASE_LOST", "LEASE_EXPIRING"
_NOTICES = (_GRANTED, _REFUSED, _LOST, _EXPIRING)
#: A lease is renewed this many times within its time.
_RENEWALS = 3


class Leases:
    """The leases of one agent that this client holds or waits for."""

    def __init__(
        self, connection: Connection, inbox: Inbox, config: ClientConfig, fresh_id: Callable[[str], str]
    ) -> None:
        self._connection = connection
        self._inbox = inbox
        self._config = config
        self._fresh_id = fresh_id
        self._open: dict[str, Lease] = {}
        #: Leases of the past whose notices may still come.
        self._past: dict[str, None] = {}

    def acquire(
        self,
        exclusive: tuple[str, ...],
        shared: tuple[str, ...],
        ttl_s: float | None,
        priority: str | Priority | None,
        wait_s: float | None,
    ) -> "Acquiring":
        """Prepare a request."""
        ttl_s = self._config.lease_ttl_s if ttl_s is None else ttl_s
        name = liminal_name(priority) if isinstance(priority, Priority) else priority
        body = {"exclusive": exclusive, "shared": shared, "ttl_s": ttl_s, "wait_s": wait_s, "priority": name}
        return Acquiring(lambda: self._acquire(body, ttl_s))

    def takes(self, message: Message) -> bool:
        """Take what the bus says of a lease of this client; tell whether it was that."""
        if message.sender != SYSTEM.agent or message.type not in _NOTICES:
            return False
        payload = message.payload
        name = payload.get("lease")
        lease = self._open.get(name) if isinstance(name, str) else None
        if lease is None:
            return name in self._past
        if message.type == _GRANTED:
            lease.granted()
        elif message.type == _REFUSED:
            detail = str(payload.get("note") or payload.get("reason"))
            lease.ended(error_of(Problem(payload.get("errorCode", "E_LEASE_002"), f"{lease.wanted}: {detail}")))
        elif message.type == _LOST:
            detail = f"{lease.wanted} was taken away: {payload.get('note') or payload.get('reason')}"
            lease.ended(error_of(Problem("E_LEASE_003", detail, facts={"reason": payload.get("reason")})))
        return True

    def close(self) -> None:
        """Renew no more: the agent leaves, and what it holds ends with its time."""
        for lease in list(self._open.values()):
            self.forget(lease)

    def forget(self, lease: "Lease") -> None:
        """Note that a lease is over."""
        lease.stop()
        if self._open.pop(lease.lease, None) is not None:
            self._past[lease.lease] = None
            while len(self._past) > self._config.remembered_max:
                del self._past[next(iter(self._past))]

    async def call(self, operation: str, decoder: Any, timeout_s: float | None = None, **parts: Any) -> Any:
        """Ask the hub."""
        call = op.Call(operation=operation, **parts)
        return await self._connection.submit(call, decoder, timeout_s or self._config.call_timeout_s)

    async def _acquire(self, body: dict[str, Any], ttl_s: float) -> "Lease":
        lease = Lease(self, self._fresh_id("lse"), body["exclusive"], body["shared"], ttl_s)
        self._open[lease.lease] = lease
        try:
            told: LeaseRecord = await self.call("acquire_lease", _RECORD, body=body | {"lease": lease.lease})
            if told.state != "held":
                await self._wait(lease)
        except BaseException as error:
            self.forget(lease)
            if not isinstance(error, LeaseConflict):
                self._leave(lease)
            raise
        lease.hold()
        return lease

    async def _wait(self, lease: "Lease") -> None:
        """Wait until the bus says how it ended, asking now and then in case it cannot."""
        self._inbox.await_response()
        try:
            while not await self._is_granted(lease):
                pass
        finally:
            self._inbox.response_came()

    async def _is_granted(self, lease: "Lease") -> bool:
        """Wait for a while, then ask; a refusal is raised."""
        done, _ = await asyncio.wait({lease.outcome}, timeout=self._config.lease_look_s)
        if done:
            lease.outcome.result()
            return True
        try:
            told: LeaseRecord = await self.call("lease", _RECORD, path={"lease": lease.lease})
        except NoAnswer:
            return False
        except LeaseConflict:
            if lease.outcome.done():
                return False  # the notice came meanwhile, and says why
            raise error_of(Problem("E_LEASE_002", f"{lease.wanted}: the wait is over, without the lease")) from None
        return told.state == "held"

    def _leave(self, lease: "Lease") -> None:
        """Give up a request that nobody awaits any more; where that cannot be said, its wait ends by itself."""
        call = op.Call(operation="release_lease", path={"lease": lease.lease})
        try:
            told = self._connection.submit(call, _RELEASED, self._config.call_timeout_s)
        except TocsinError:
            return
        told.add_done_callback(lambda future: future.cancelled() or future.exception())


class Lease:
    """Something held: renewed until it is released, or lost."""

    def __init__(
        self, leases: Leases, lease: str, exclusive: tuple[str, ...], shared: tuple[str, ...], ttl_s: float
    ) -> None:
        self._leases = leases
        #: Its id.
        self.lease = lease
        self.exclusive = exclusive
        self.shared = shared
        self.ttl_s = ttl_s
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._error: TocsinError | None = None
        self._renewer: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Lease {self.lease} of {self.wanted}>"

    @property
    def wanted(self) -> str:
        """Return what it is for, in words."""
        return ", ".join((*self.exclusive, *self.shared))

    @property
    def is_held(self) -> bool:
        """Tell whether it is held, as far as is known here."""
        return self._renewer is not None and not self._over.is_set()

    def must_hold(self) -> None:
        """Raise `LeaseLost` where it was lost: ask before what cannot be undone."""
        if self._error is not None:
            raise self._error

    async def lost(self) -> None:
        """Wait until it is over, lost or released."""
        await self._over.wait()

    async def renew(self, ttl_s: float | None = None) -> LeaseRecord:
        """Keep it for longer; it is renewed by itself, so that is for another time than before."""
        body = {} if ttl_s is None else {"ttl_s": ttl_s}
        told: LeaseRecord = await self._leases.call("renew_lease", _RECORD, path={"lease": self.lease}, body=body)
        self.ttl_s = ttl_s or self.ttl_s
        return told

    async def release(self) -> Released:
        """Set it free; one that was lost meanwhile is an error."""
        self._leases.forget(self)
        told: Released = await self._leases.call("release_lease", _RELEASED, path={"lease": self.lease})
        return told

    async def __aenter__(self) -> "Lease":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._error is not None:
            if error is None:
                raise self._error
            return
        try:
            await self.release()
        except TocsinError:
            if error is None:
                raise
            _log.exception("%s could not be released", self)

    def granted(self) -> None:
        """Note that it is granted."""
        if not self.outcome.done():
            self.outcome.set_result(None)

    def ended(self, error: TocsinError) -> None:
        """Note that there is no such lease, or none any more."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # whoever waits is told; nobody has to
        self._error = error
        self._leases.forget(self)

    def hold(self) -> None:
        """Begin to renew it."""
        if self._error is None:
            self._renewer = asyncio.get_running_loop().create_task(self._keep(), name=f"tocsin {self.lease}")

    def stop(self) -> None:
        """Renew it no more."""
        self._over.set()
        if self._renewer is not None and self._renewer is not asyncio.current_task():
            self._renewer.cancel()

    async def _keep(self) -> None:
        while True:
            every_s = self.ttl_s / _RENEWALS
            await asyncio.sleep(every_s)
            try:
                await self._leases.call(
                    "renew_lease", _RECORD, every_s, path={"lease": self.lease}, body={"ttl_s": self.ttl_s}
                )
            except NoAnswer:
                continue
            except LeaseConflict as error:
                lapsed = msgspec.structs.replace(error.problem, code="E_LEASE_003")
                self.ended(error_of(lapsed))
                return
            except TocsinError as error:
                _log.warning("%s could not be renewed: %s", self, error)
                if not error.retryable:
                    self.ended(error)
                    return


class Acquiring:
    """A lease about to be held: `async with` it, or `await` it and release it later."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._lease: Lease | None = None

    def __await__(self) -> Generator[None, None, Lease]:
        asking: Generator[None, None, Lease] = self._ask().__await__()
        return asking

    async def __aenter__(self) -> Lease:
        self._lease = await self
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, trace)
