"""Address and token of the hub, from arguments, the environment or a file."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from tocsin.client.config import ClientConfig
from tocsin.client.connection.transport import Bus, Transport
from tocsin.core.errors import TocsinError, refusal
from tocsin.wire.signatures import Signer

__all__ = ["signer_of", "token_from", "transport_to"]

_ROLE = "primary"


def token_from(token: str | None) -> str | None:
    """Return the given token, or else `TOCSIN_TOKEN`, or else the content of the file `TOCSIN_TOKEN_FILE`."""
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
    """Return a signer that uses the token."""
    return Signer(token_from(token) or "")


def transport_to(
    target: "str | Bus | None",
    token: str | None,
    agent: str | None,
    role: str | None,
    config: ClientConfig,
    signer: Signer | None = None,
) -> Transport:
    """Return the transport to a hub or a bus; `signer` is renewed when the token in its file is replaced."""
    if target is None or isinstance(target, str):
        from tocsin.client.connection.websocket import WebSocketTransport  # its library is optional

        url = target or os.environ.get("TOCSIN_URL") or config.url
        known = token_from(token) if agent is None or token is not None else None
        from_file = known is not None and token is None and "TOCSIN_TOKEN" not in os.environ
        reread = _rereading(known, signer) if known is not None and from_file else None
        return WebSocketTransport(url, config, token=known, agent=agent, role=role, reread=reread)
    if agent is None:
        raise refusal("E_AUTH_001", "an embedded bus has no tokens: name the agent", expected='agent="…"')
    return target.transport(agent, role or _ROLE)


def _rereading(token: str, signer: Signer | None) -> Callable[[], str]:
    """Return a function that reads the token file again, and falls back to the last token it contained."""
    latest = token

    def reread() -> str:
        nonlocal latest
        with contextlib.suppress(TocsinError):
            found = token_from(None)
            if found and found != latest:
                if signer is not None:
                    signer.renew(found)
                latest = found
        return latest

    return reread
