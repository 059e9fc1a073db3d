"""Checks of envelope signatures against a token's grant."""

import hmac

from tocsin.core.errors import refusal
from tocsin.hub.auth.tokens import Grant
from tocsin.wire.signatures import signature_of

__all__ = ["check_signature"]


def check_signature(grant: Grant, body: bytes, signature: str | None, *, required: bool) -> None:
    """Refuse a wrong signature, and a missing one if it is required."""
    if signature is None:
        if required:
            raise refusal("E_AUTH_006", "this hub accepts signed messages only", expected="v1=<hex of HMAC-SHA256>")
        return
    expected = signature_of(grant.digest, body)
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        raise refusal("E_AUTH_006", "the signature does not match the body", expected="v1=<hex of HMAC-SHA256>")
