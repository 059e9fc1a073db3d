"""HMAC signatures of message bodies: proof that the token's holder wrote the bytes (APM §10.2).

The key is derived from the hash of the token's secret, so both sides have it and store nothing more. The signature
covers the bytes as they are transmitted, so no canonical form is needed.
"""

import hashlib
import hmac

from tocsin.core.errors import refusal
from tocsin.hub.auth.tokens import Grant, Secret, hash_of

__all__ = ["check_signature", "sign"]

_PURPOSE = b"tocsin signature v1"
_SCHEME = "v1="


def sign(secret: Secret, body: bytes) -> str:
    """Sign a body with a token."""
    return _signature(hash_of(secret.secret), body)


def check_signature(grant: Grant, body: bytes, signature: str | None, *, required: bool) -> None:
    """Refuse a wrong signature, and a missing one where it is required."""
    if signature is None:
        if required:
            raise refusal("E_AUTH_006", "this hub accepts signed messages only", expected="v1=<hex of HMAC-SHA256>")
        return
    expected = _signature(grant.digest, body)
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        raise refusal("E_AUTH_006", "the signature does not match the body", expected="v1=<hex of HMAC-SHA256>")


def _signature(digest: bytes, body: bytes) -> str:
    key = hmac.digest(digest, _PURPOSE, hashlib.sha256)
    return _SCHEME + hmac.digest(key, body, hashlib.sha256).hex()
