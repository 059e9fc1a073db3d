"""Browser sessions: cookies that the dashboard accepts in place of a token.

A session is made at sign-in and ends by sign-out, by age, or when its token ends. Its cookie names the token by id and
carries a MAC whose key is derived from the hash of the token's secret, as the key of signatures is. So nothing is
stored, a session survives a restart and a failover of the hub, and ends together with its token. A sign-out is
remembered by the processes of this hub until the session would have expired.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from secrets import token_hex

import msgspec

from tocsin.core.errors import refusal
from tocsin.core.policy import microseconds
from tocsin.hub.auth.authority import Authority
from tocsin.hub.auth.tokens import Grant

__all__ = ["BrowserSession", "BrowserSessions", "SignOuts"]

_PURPOSE = b"tocsin browser session v1"
_COOKIE = re.compile(r"v1\.([0-9a-f]{16})\.([0-9]{1,16})\.([0-9a-f]{32})\.([0-9a-f]{64})")
_NOBODY = bytes(32)


class BrowserSession(msgspec.Struct, frozen=True):
    """A browser session whose cookie has been checked."""

    grant: Grant
    #: When it expires, microseconds since the epoch.
    expires_at: int
    #: Distinguishes the sessions of one token.
    nonce: str


class SignOuts:
    """Sessions that were signed out, remembered until they would have expired; the projects of a process share them."""

    def __init__(self, most: int) -> None:
        self._most = most
        #: Expiry of each session, by nonce, oldest first.
        self._until: dict[str, int] = {}
        #: Called with the nonce and expiry of a session that is signed out here.
        self.announce: Callable[[str, int], None] = lambda nonce, until: None

    def __contains__(self, nonce: str) -> bool:
        return nonce in self._until

    def add(self, nonce: str, until: int, now: int) -> None:
        """Remember a sign-out; above the limit the oldest is dropped."""
        for past in [one for one, end in self._until.items() if end <= now]:
            del self._until[past]
        while len(self._until) >= self._most:
            del self._until[next(iter(self._until))]
        self._until[nonce] = until


class BrowserSessions:
    """Makes and checks the browser sessions of one project."""

    def __init__(
        self, authority: Authority, clock: Callable[[], int], *, lifetime_s: float, sign_outs_max: int
    ) -> None:
        self._authority = authority
        self._clock = clock
        self._lifetime_us = microseconds(lifetime_s)
        #: Sessions that were signed out.
        self.sign_outs = SignOuts(sign_outs_max)

    def issue(self, grant: Grant) -> tuple[str, BrowserSession]:
        """Make a session for the holder of a token, and its cookie; it ends no later than the token."""
        expires_at = self._clock() + self._lifetime_us
        if grant.expires_at is not None:
            expires_at = min(expires_at, grant.expires_at)
        browser_session = BrowserSession(grant, expires_at, token_hex(16))
        body = f"v1.{grant.token_id}.{expires_at}.{browser_session.nonce}"
        return f"{body}.{_mac(grant.digest, body)}", browser_session

    def check(self, text: str) -> BrowserSession:
        """Return the session of a cookie, or refuse the cookie."""
        found = _COOKIE.fullmatch(text)
        grant = None if found is None else self._authority.find(found[1])
        digest = _NOBODY if grant is None else grant.digest
        body, _, mac = text.rpartition(".")
        fits = hmac.compare_digest(_mac(digest, body).encode(), mac.encode())
        if found is None or grant is None or not fits:
            raise refusal("E_AUTH_001", "this sign-in is not valid here: sign in again")
        browser_session = BrowserSession(grant, int(found[2]), found[3])
        self.check_again(browser_session)
        return browser_session

    def check_again(self, browser_session: BrowserSession) -> None:
        """Refuse a session that has ended since it was last checked."""
        self._authority.check(browser_session.grant)
        if browser_session.expires_at <= self._clock():
            raise refusal("E_AUTH_004", "the browser session has expired: sign in again")
        if browser_session.nonce in self.sign_outs:
            raise refusal("E_AUTH_001", "you have signed out: sign in again")

    def end(self, browser_session: BrowserSession) -> None:
        """End a session."""
        self.sign_outs.add(browser_session.nonce, browser_session.expires_at, self._clock())
        self.sign_outs.announce(browser_session.nonce, browser_session.expires_at)


def _mac(digest: bytes, body: str) -> str:
    key = hmac.digest(digest, _PURPOSE, hashlib.sha256)
    return hmac.digest(key, body.encode(), hashlib.sha256).hex()
