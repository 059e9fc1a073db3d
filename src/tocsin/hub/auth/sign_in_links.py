"""One-time sign-in links: codes that open the dashboard in place of a token.

The holder of a token asks for a link and opens it in a browser. The code in it is valid once and for a short time, so a
link that stays in a terminal or a chat is worth nothing afterwards. Codes are kept in memory as hashes and end with the
hub.
"""

import hashlib
from collections.abc import Callable
from secrets import token_urlsafe

import msgspec

from tocsin.core.errors import refusal
from tocsin.core.policy import microseconds
from tocsin.hub.auth.authority import Authority
from tocsin.hub.auth.tokens import Grant

__all__ = ["SignInLink", "SignInLinks"]

_CODE_BYTES = 24


class SignInLink(msgspec.Struct, frozen=True):
    """A link that was made and has not been used."""

    #: The secret part of the link.
    code: str
    #: When it expires, microseconds since the epoch.
    expires_at: int


class SignInLinks:
    """Makes and redeems the sign-in links of one project."""

    def __init__(self, authority: Authority, clock: Callable[[], int], *, lifetime_s: float, links_max: int) -> None:
        self._authority = authority
        self._clock = clock
        self._lifetime_us = microseconds(lifetime_s)
        self._links_max = links_max
        #: Grant and expiry of each unused link, by the hash of its code, oldest first.
        self._unused: dict[bytes, tuple[Grant, int]] = {}

    def make(self, grant: Grant) -> SignInLink:
        """Make a link for the holder of a token; above the limit the oldest unused link ends."""
        self._authority.check(grant)
        now = self._clock()
        self._unused = {code: kept for code, kept in self._unused.items() if kept[1] > now}
        while len(self._unused) >= self._links_max:
            del self._unused[next(iter(self._unused))]
        link = SignInLink(token_urlsafe(_CODE_BYTES), now + self._lifetime_us)
        self._unused[_hash(link.code)] = (grant, link.expires_at)
        return link

    def redeem(self, code: str) -> Grant:
        """Return the grant of a link and end the link, or refuse the code."""
        grant, expires_at = self._unused.pop(_hash(code), (None, 0))
        if grant is None or expires_at <= self._clock():
            raise refusal(
                "E_AUTH_001", "this sign-in link was used before or has expired", expected="a new link, or a token"
            )
        self._authority.check(grant)
        return grant


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
