"""Tokens: `tcs_<id>_<secret>`, with an id for lookup and a secret that only the holder has.

The secret is 256 random bits, so a plain SHA-256 of it can neither be reversed nor guessed; only that hash is stored.
The id is not secret: it may appear in lists and logs.

Beside the hash there is a MAC over what the token grants. Its key is derived from the secret and cannot be computed
from the hash, so it is stored nowhere. The MAC is checked whenever the token is presented.
"""

import hashlib
import hmac
import re
import secrets

import msgspec

from tocsin.core.commands import Caller

__all__ = [
    "ROLES",
    "UNAUTHENTICATED",
    "Grant",
    "Issued",
    "Secret",
    "fresh_secret",
    "hash_of",
    "parse_token",
    "rights_mac",
    "with_mac",
]

ROLES = ("director", "primary", "clone", "human")
#: Roles whose tokens the holder of a token that is not an admin token may administer: those below its own.
_BELOW = {"human": ("director", "primary", "clone"), "director": ("primary", "clone")}
#: Token id in the grant of a caller that was accepted without a token.
UNAUTHENTICATED = "insecure"
_RIGHTS = b"tocsin token rights v1"
_PACK = msgspec.msgpack.Encoder().encode
_TOKEN = re.compile(r"tcs_([0-9a-f]{16})_([0-9A-Za-z_\-]{43})")


class Secret(msgspec.Struct, frozen=True):
    """A token as its holder presents it."""

    token_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Secret({self.token_id})"

    def spell(self) -> str:
        """Return the token as text; only its holder may see it."""
        return f"tcs_{self.token_id}_{self.secret}"


class Grant(msgspec.Struct, frozen=True):
    """One token as the hub stores it: its agent, permissions, lifetime and the hash of its secret."""

    token_id: str
    project: str
    agent: str
    #: `director`, `primary`, `clone` or `human`.
    role: str
    #: Whether it may issue, rotate and revoke the tokens of all others, admin tokens among them.
    admin: bool
    #: SHA-256 of the secret.
    digest: bytes
    #: Microseconds since the epoch, as all times here.
    created_at: int
    #: When it expires; null is never.
    expires_at: int | None = None
    #: When it was revoked; null if it was not.
    revoked_at: int | None = None
    #: Agent types that its holder may register as, the default first; null for any.
    types: tuple[str, ...] | None = None
    #: Id of the token whose holder has issued it; null for the operator, and in tokens of earlier versions.
    issued_by: str | None = None
    #: MAC over its rights; null in a token of an earlier version until it is presented.
    mac: bytes | None = None

    @property
    def caller(self) -> Caller:
        """Return its holder as the caller of commands."""
        return Caller(self.agent, self.role, self.types)

    @property
    def administers(self) -> tuple[str, ...]:
        """Return the roles whose tokens its holder may issue, rotate and revoke."""
        return ROLES if self.admin else _BELOW.get(self.role, ())

    @property
    def lifetime_us(self) -> int | None:
        """Return the time from its creation to its expiry; null if it does not expire."""
        return None if self.expires_at is None else self.expires_at - self.created_at

    def is_live(self, now: int) -> bool:
        """Tell whether it is valid at a time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Issued(msgspec.Struct, frozen=True):
    """A new token with its secret, which is not stored."""

    grant: Grant
    secret: Secret

    def __repr__(self) -> str:
        return f"Issued({self.grant.token_id})"


def fresh_secret() -> Secret:
    """Make a random token."""
    return Secret(secrets.token_hex(8), secrets.token_urlsafe(32))


def parse_token(text: str) -> Secret | None:
    """Split a token into id and secret; null if the text is not a token."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else Secret(match[1], match[2])


def hash_of(secret: str) -> bytes:
    """Return the hash of a secret, which is what is stored."""
    return hashlib.sha256(secret.encode()).digest()


def rights_mac(secret: str, grant: Grant) -> bytes:
    """Return the MAC over what a grant says about the holder of a secret."""
    key = hmac.digest(secret.encode(), _RIGHTS, hashlib.sha256)
    rights = (grant.token_id, grant.project, grant.agent, grant.role, grant.admin, grant.types)
    return hmac.digest(key, _PACK(rights), hashlib.sha256)


def with_mac(grant: Grant, secret: Secret) -> Grant:
    """Return a grant with the MAC over its rights."""
    return msgspec.structs.replace(grant, mac=rights_mac(secret.secret, grant))
