"""Where the hub is and who one is there: from the call, the environment, or a file."""

import os
from pathlib import Path

from tocsin.client.config import ClientConfig
from tocsin.client.envelopes import Signer
from tocsin.client.transport import Bus, Transport
from tocsin.core.errors import refusal

__all__ = ["signer_of", "token_from", "transport_to"]

_ROLE = "primary"


def token_from(token: str | None) -> str | None:
    """Return the token: the one given, or that of the environment, or the one in the file that it names."""
    if token is not None:
        return token
    if "TOCSIN_TOKEN" in os.environ:
        return os.environ["TOCSIN_TOKEN"]
    file = os.environ.get("TOCSIN_TOKEN_FILE")
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise refusal("E_AUTH_001", f"TOCSIN_TOKEN_FILE cannot be read: {error.strerror}") from None


def signer_of(token: str | None) -> Signer:
    """Return what signs with the token."""
    return Signer(token_from(token) or "")


def transport_to(
    target: "str | Bus | None", token: str | None, agent: str | None, role: str | None, config: ClientConfig
) -> Transport:
    """Return the way to a hub or a bus."""
    if target is None or isinstance(target, str):
        from tocsin.client.websocket import WebSocketTransport  # its library is optional

        url = target or os.environ.get("TOCSIN_URL") or config.url
        known = token_from(token) if agent is None or token is not None else None
        return WebSocketTransport(url, config, token=known, agent=agent, role=role)
    if agent is None:
        raise refusal("E_AUTH_001", "an embedded bus has no tokens: say who you are", expected='agent="…"')
    return target.transport(agent, role or _ROLE)
