"""Leases that are held by this client: acquired, renewed while they are held, and released.

Theory of operation. Every request has an id chosen by the client, so that a repeated request changes nothing. The bus
reports the end of a wait with a message (`LEASE_GRANTED`, `LEASE_REFUSED`), and the loss of a lease with another
(`LEASE_LOST`). Messages about leases of this client are handled here and not handed out by the inbox. An agent at work
is not pushed messages that do not interrupt it, so a waiting request is also polled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.errors import NoAnswer, error_of
from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.message import Message
from tocsin.client.operation_caller import OperationCaller
from tocsin.core.commands import SYSTEM, LeaseRecord, Released
from tocsin.core.errors import LeaseConflict, Problem, TocsinError
from tocsin.core.protocol.priority import PRIORITY_NAMES, Priority

__all__ = ["Acquiring", "Lease", "Leases"]

_log = logging.getLogger("tocsin.client")
_RECORD = msgspec.json.Decoder(LeaseRecord)
_RELEASED = msgspec.json.Decoder(Released)
_GRANTED, _REFUSED, _LOST, _EXPIRING = "LEASE_GRANTED", "LEASE_REFUSED", "LEASE_LOST", "LEASE_EXPIRING"
_NOTICES = (_GRANTED, _REFUSED, _LOST, _EXPIRING)
#: Renewals within the duration of a lease.
_RENEWALS = 3


class Leases:
    """Leases of one agent that this client holds or waits for."""

    def __init__(
        self, caller: OperationCaller, inbox: Inbox, config: ClientConfig, fresh_id: Callable[[str], str]
    ) -> None:
        self.caller = caller
        self._inbox = inbox
        self._config = config
        self._fresh_id = fresh_id
        self._open: dict[str, Lease] = {}
        #: Ended leases whose notices may still arrive.
        self._past: dict[str, None] = {}

    def acquire(
        self,
        exclusive: tuple[str, ...],
        shared: tuple[str, ...],
        ttl_s: float | None,
        priority: str | Priority | None,
        wait_s: float | None,
    ) -> "Acquiring":
        """Return a request that is made when it is awaited or entered."""
        ttl_s = self._config.lease_ttl_s if ttl_s is None else ttl_s
        name = PRIORITY_NAMES[priority] if isinstance(priority, Priority) else priority
        wanted = {"exclusive": exclusive, "shared": shared, "ttl_s": ttl_s, "wait_s": wait_s, "priority": name}
        return Acquiring(lambda: self._acquire(wanted, ttl_s))

    def takes(self, message: Message) -> bool:
        """Handle a notice about a lease of this client; tell whether the message was one."""
        if message.sender != SYSTEM.agent or message.type not in _NOTICES:
            return False
        payload = message.payload
        name = payload.get("lease")
        lease = self._open.get(name) if isinstance(name, str) else None
        if lease is None:
            return name in self._past
        if message.type == _GRANTED:
            lease._granted()
        elif message.type == _REFUSED:
            detail = str(payload.get("note") or payload.get("reason"))
            lease._end(error_of(Problem(payload.get("errorCode", "E_LEASE_002"), f"{lease.wanted}: {detail}")))
        elif message.type == _LOST:
            detail = f"{lease.wanted} was taken away: {payload.get('note') or payload.get('reason')}"
            lease._end(error_of(Problem("E_LEASE_003", detail, facts={"reason": payload.get("reason")})))
        return True

    def close(self) -> None:
        """Stop renewing: the agent closes, and its leases lapse."""
        for lease in list(self._open.values()):
            self.forget(lease)

    def forget(self, lease: "Lease") -> None:
        """Record that a lease has ended."""
        lease._stop()
        if self._open.pop(lease.lease, None) is not None:
            self._past[lease.lease] = None
            while len(self._past) > self._config.remembered_max:
                del self._past[next(iter(self._past))]

    async def _acquire(self, wanted: dict[str, Any], ttl_s: float) -> "Lease":
        lease = Lease(self, self._fresh_id("lse"), wanted["exclusive"], wanted["shared"], ttl_s)
        self._open[lease.lease] = lease
        try:
            record = await self.caller.call("acquire_lease", wanted | {"lease": lease.lease}, _RECORD)
            if record.state != "held":
                await self._wait(lease)
        except BaseException as error:
            self.forget(lease)
            if not isinstance(error, LeaseConflict):
                self._leave(lease)
            raise
        lease._hold()
        return lease

    async def _wait(self, lease: "Lease") -> None:
        """Wait until the request is granted or refused."""
        self._inbox.await_response()
        try:
            while not await self._is_granted(lease):
                pass
        finally:
            self._inbox.response_came()

    async def _is_granted(self, lease: "Lease") -> bool:
        """Wait for a notice, and poll after a while; a refusal is raised."""
        done, _ = await asyncio.wait({lease._outcome}, timeout=self._config.lease_look_s)
        if done:
            lease._outcome.result()
            return True
        try:
            record = await self.caller.call("get_lease", {"lease": lease.lease}, _RECORD)
        except NoAnswer:
            return False
        except LeaseConflict:
            if lease._outcome.done():
                return False  # the notice arrived meanwhile, and has the reason
            raise error_of(
                Problem("E_LEASE_002", f"{lease.wanted}: the request stopped waiting without getting the lease")
            ) from None
        return record.state == "held"

    def _leave(self, lease: "Lease") -> None:
        """Cancel a request without waiting for the answer; if the hub cannot be reached, the request times out."""
        try:
            released = self.caller.submit("release_lease", {"lease": lease.lease}, _RELEASED)
        except TocsinError:
            return
        released.add_done_callback(lambda future: future.cancelled() or future.exception())


class Lease:
    """A lease that is renewed until it is released or lost."""

    def __init__(
        self, leases: Leases, lease: str, exclusive: tuple[str, ...], shared: tuple[str, ...], ttl_s: float
    ) -> None:
        self._leases = leases
        #: Its id.
        self.lease: str = lease
        #: Resources that it holds exclusively.
        self.exclusive: tuple[str, ...] = exclusive
        #: Resources that it holds together with others.
        self.shared: tuple[str, ...] = shared
        #: Its duration, seconds; it is renewed before that.
        self.ttl_s: float = ttl_s
        self._outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._error: TocsinError | None = None
        self._renewer: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Lease {self.lease} of {self.wanted}>"

    @property
    def wanted(self) -> str:
        """Return the names of its resources, for error messages."""
        return ", ".join((*self.exclusive, *self.shared))

    @property
    def is_held(self) -> bool:
        """Tell whether it is held, as far as this client has been notified."""
        return self._renewer is not None and not self._over.is_set()

    def must_hold(self) -> None:
        """Raise `LeaseLost` if it was lost; call it before an action that cannot be undone."""
        if self._error is not None:
            raise self._error

    async def lost(self) -> None:
        """Wait until it is lost or released."""
        await self._over.wait()

    async def renew(self, ttl_s: float | None = None) -> LeaseRecord:
        """Extend it now, and use a new duration from now on if one is given."""
        record = await self._leases.caller.call("renew_lease", {"lease": self.lease, "ttl_s": ttl_s}, _RECORD)
        self.ttl_s = ttl_s or self.ttl_s
        return record

    async def release(self) -> Released:
        """Release it; raise the refusal if it was lost meanwhile."""
        self._leases.forget(self)
        return await self._leases.caller.call("release_lease", {"lease": self.lease}, _RELEASED)

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

    def _granted(self) -> None:
        """Record that it was granted."""
        if not self._outcome.done():
            self._outcome.set_result(None)

    def _end(self, error: TocsinError) -> None:
        """Record that it was refused or lost."""
        if not self._outcome.done():
            self._outcome.set_exception(error)
            self._outcome.exception()  # marks it as retrieved
        self._error = error
        self._leases.forget(self)

    def _hold(self) -> None:
        """Start renewing it."""
        if self._error is None:
            self._renewer = asyncio.get_running_loop().create_task(self._keep(), name=f"tocsin {self.lease}")

    def _stop(self) -> None:
        """Stop renewing it."""
        self._over.set()
        if self._renewer is not None and self._renewer is not asyncio.current_task():
            self._renewer.cancel()

    async def _keep(self) -> None:
        while True:
            every_s = self.ttl_s / _RENEWALS
            await asyncio.sleep(every_s)
            try:
                arguments = {"lease": self.lease, "ttl_s": self.ttl_s}
                await self._leases.caller.call("renew_lease", arguments, _RECORD, timeout_s=every_s)
            except NoAnswer:
                continue
            except LeaseConflict as error:
                lapsed = msgspec.structs.replace(error.problem, code="E_LEASE_003")
                self._end(error_of(lapsed))
                return
            except TocsinError as error:
                _log.warning("%s could not be renewed: %s", self, error)
                if not error.retryable:
                    self._end(error)
                    return


class Acquiring:
    """A lease to acquire: use it with `async with`, or `await` it and release the lease later."""

    def __init__(self, ask: "Callable[[], Awaitable[Lease]]") -> None:
        self._ask = ask
        self._lease: Lease | None = None

    def __await__(self) -> Generator[None, None, Lease]:
        return self._ask().__await__()

    async def __aenter__(self) -> Lease:
        self._lease = await self
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, trace)
