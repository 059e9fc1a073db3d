"""HMAC signatures of envelopes, and of arguments that are words for other agents.

The key is derived from the hash of the token's secret, so that both sides have it and neither stores more. The
signature covers the bytes as they travel: an envelope, or the body of an HTTP request. Arguments of a call over a
socket are part of a frame; their signature covers them as JSON with sorted keys and without blanks.
"""

import hashlib
import hmac
from typing import Any

import msgspec

from tocsin.core.errors import refusal

__all__ = ["Signer", "arguments_body", "signature_of"]

_PURPOSE = b"tocsin signature v1"
_SCHEME = "v1="
_TOKEN_PARTS = 3


def signature_of(digest: bytes, body: bytes) -> str:
    """Return the signature of a body; `digest` is the SHA-256 hash of the token's secret."""
    return _signature(_key_of(digest), body)


def arguments_body(arguments: dict[str, Any]) -> bytes:
    """Return the bytes of a socket call's arguments that a signature covers."""
    return msgspec.json.encode(arguments, order="sorted")


def _key_of(digest: bytes) -> bytes:
    return hmac.digest(digest, _PURPOSE, hashlib.sha256)


def _signature(key: bytes, body: bytes) -> str:
    return _SCHEME + hmac.digest(key, body, hashlib.sha256).hex()


class Signer:
    """Signs envelopes with a token."""

    def __init__(self, token: str) -> None:
        self.renew(token)

    def renew(self, token: str) -> None:
        """Sign with another token from now on."""
        parts = token.split("_", _TOKEN_PARTS - 1)
        if len(parts) != _TOKEN_PARTS:
            raise refusal("E_AUTH_001", "signing needs a token", expected="tcs_<id>_<secret>")
        self._key = _key_of(hashlib.sha256(parts[-1].encode()).digest())

    def sign(self, body: bytes) -> str:
        """Return the signature of a body."""
        return _signature(self._key, body)
