"""Where the hub is and who one is there: from the call, the environment, or a file."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from tocsin.client.config import ClientConfig
from tocsin.client.envelopes import Signer
from tocsin.client.transport import Bus, Transport
from tocsin.core.errors import TocsinError, refusal

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
    target: "str | Bus | None",
    token: str | None,
    agent: str | None,
    role: str | None,
    config: ClientConfig,
    signer: Signer | None = None,
) -> Transport:
    """Return the way to a hub or a bus; `signer` goes along with a token that is replaced in its file."""
    if target is None or isinstance(target, str):
        from tocsin.client.websocket import WebSocketTransport  # its library is optional

        url = target or os.environ.get("TOCSIN_URL") or config.url
        known = token_from(token) if agent is None or token is not None else None
        from_file = known is not None and token is None and "TOCSIN_TOKEN" not in os.environ
        reread = _rereading(known, signer) if known is not None and from_file else None
        return WebSocketTransport(url, config, token=known, agent=agent, role=role, reread=reread)
    if agent is None:
        raise refusal("E_AUTH_001", "an embedded bus has no tokens: say who you are", expected='agent="…"')
    return target.transport(agent, role or _ROLE)


def _rereading(token: str, signer: Signer | None) -> Callable[[], str]:
    """Return what reads a token's file again; while that is being written, the last token that was in it counts."""
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
