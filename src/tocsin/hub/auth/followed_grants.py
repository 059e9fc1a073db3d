"""Grants of a project that another hub owns, kept up to date on a thread.

No caller waits for the database. The owner answers a change of tokens when this process has read it, or when the lease
of this process has ended; from then on, and until the database answers again, this process does not use the grants.
"""

import logging
import threading
from secrets import token_hex

from tocsin.hub.auth.postgres_grants import PostgresGrants
from tocsin.hub.auth.tokens import Grant
from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.journal.postgres import ownership

__all__ = ["FollowedGrants"]

_log = logging.getLogger("tocsin.auth")
#: Time between two interruptions of a thread that is to end, seconds.
_INTERRUPT_S = 0.1


class FollowedGrants:
    """Grants of another store, as they were last read."""

    def __init__(self, store: PostgresGrants, name: str, *, beat_s: float, lease_s: float) -> None:
        """Read the grants, and follow them; `name` tells the operator which process this is."""
        self._store = store
        self._reader = f"{name} {token_hex(4)}"
        self._beat_s = beat_s
        self._lease_s = lease_s
        self._grants: list[Grant] = []
        self._version = -1
        self._is_new = False
        #: When the lease of this process ends, by `ownership.clock`.
        self._fresh_until = 0.0
        self._closing = threading.Event()
        # Registered before the first reading, so that no change is missed between the two.
        self._store.show_read(self._reader, self._version, self._lease_s)
        self._read()
        self._thread = threading.Thread(target=self._follow, name="tokens", daemon=True)
        self._thread.start()

    @property
    def damaged(self) -> frozenset[str]:
        """Return the ids of the tokens whose row is damaged."""
        return self._store.damaged

    def load(self) -> list[Grant]:
        """Return the grants as they were last read, oldest first."""
        self._is_new = False
        return self._grants

    def changed(self) -> bool:
        """Tell whether grants have been read since they were last returned; raise once the lease has ended."""
        if ownership.clock() >= self._fresh_until:
            detail = f"the tokens could not be read for {self._lease_s:g} s"
            raise JournalUnavailable("timeout", detail)
        return self._is_new

    def now(self) -> int:
        """Return the time of the database server."""
        return self._store.now()

    def close(self) -> None:
        """Stop reading, and close the store."""
        self._closing.set()
        while self._thread.is_alive():  # An interruption may come just before the thread waits.
            self._store.interrupt()
            self._thread.join(_INTERRUPT_S)
        try:
            if ownership.clock() < self._fresh_until:
                self._store.leave(self._reader)
        except JournalError as error:
            _log.warning("changes of tokens wait for this process until its lease ends: %s", error)
        self._store.close()

    def _follow(self) -> None:
        while not self._closing.is_set():
            try:
                self._store.wait(self._beat_s)
                if not self._closing.is_set():
                    self._read()
            except JournalError as error:
                if self._closing.is_set():
                    return
                _log.warning("the tokens cannot be read, those known are used until the lease ends: %s", error)
                self._closing.wait(self._beat_s)

    def _read(self) -> None:
        """Read the grants if they have changed, and show that they were read."""
        asked_at = ownership.clock()
        version = self._store.version()
        if version != self._version:
            self._grants, self._version = self._store.load(), version
            self._is_new = True
        self._store.show_read(self._reader, version, self._lease_s)
        self._fresh_until = asked_at + self._lease_s
