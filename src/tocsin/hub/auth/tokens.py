"""What a token is: `tcs_<id>_<secret>`, an id to find it by and a secret that only its holder has.

The secret is 256 random bits, so a plain SHA-256 of it can neither be reversed nor guessed; that hash is all that is
stored. The id is no secret: it may appear in lists and logs.
"""

import hashlib
import re
import secrets

import msgspec

__all__ = ["Grant", "Issued", "Secret", "fresh_secret", "hash_of", "parse_token"]

_TOKEN = re.compile(r"tcs_([0-9a-f]{16})_([0-9A-Za-z_\-]{43})")


class Secret(msgspec.Struct, frozen=True):
    """A token as its holder presents it."""

    token_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Secret({self.token_id})"

    def spell(self) -> str:
        """Return the token; it goes to its holder and nowhere else."""
        return f"tcs_{self.token_id}_{self.secret}"


class Grant(msgspec.Struct, frozen=True):
    """One token as the hub knows it: whose it is, what it allows, how long, and the hash of its secret."""

    token_id: str
    project: str
    agent: str
    #: `director`, `primary`, `clone` or `human`.
    role: str
    #: Whether it may issue, rotate and revoke the tokens of others.
    admin: bool
    #: SHA-256 of the secret.
    digest: bytes
    #: Microseconds since the epoch, as all times here.
    created_at: int
    #: When it ends by itself; null is never.
    expires_at: int | None = None
    #: When it was taken away; null where it was not.
    revoked_at: int | None = None

    @property
    def lifetime_us(self) -> int | None:
        """Return how long it lasts from its making to its end; none where it has no end."""
        return None if self.expires_at is None else self.expires_at - self.created_at

    def is_live(self, now: int) -> bool:
        """Tell whether it is good at a time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Issued(msgspec.Struct, frozen=True):
    """A new token, the one time that its secret is known."""

    grant: Grant
    secret: Secret

    def __repr__(self) -> str:
        return f"Issued({self.grant.token_id})"


def fresh_secret() -> Secret:
    """Make a token that nobody can guess."""
    return Secret(secrets.token_hex(8), secrets.token_urlsafe(32))


def parse_token(text: str) -> Secret | None:
    """Take a token apart; nothing where it is none."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else Secret(match[1], match[2])


def hash_of(secret: str) -> bytes:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode()).digest()
