"""The address to connect to next: one of those that the application gave, or the one that a hub named last.

Several hubs may share the projects of one database. A hub that does not serve a caller's project names the one that
does. That address is used until it fails; then the application's own addresses are tried in turn.
"""

from urllib.parse import urlsplit

from tocsin.core.errors import refusal

__all__ = ["Route"]

_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


class Route:
    """The way to the hub that serves a project."""

    def __init__(self, urls: str) -> None:
        """`urls` are addresses of hubs, separated by commas."""
        self._own = [url.strip() for url in urls.split(",") if url.strip()] or [urls]
        for url in self._own:
            if not _is_address(url):
                expected = "http://host:port, or https, ws, wss"
                detail = f"{url[:200]!r} is not the address of a hub"
                raise refusal("E_ROUTING_002", detail, found=url[:200], expected=expected)
        self._next = 0
        self._named: str | None = None

    @property
    def url(self) -> str:
        """Return the address to try."""
        return self._named or self._own[self._next]

    def follow(self, address: str) -> bool:
        """Go to the address that a hub has named; return whether it may be used.

        A token that was sent over TLS is not sent without it.
        """
        if not _is_address(address) or (_is_secure(self.url) and not _is_secure(address)):
            return False
        self._named = address
        return True

    def go_back(self) -> None:
        """Use the next one of the application's own addresses, because this one failed."""
        if self._named is None:
            self._next = (self._next + 1) % len(self._own)
        self._named = None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in _SECURE and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _is_secure(url: str) -> bool:
    return _SECURE[urlsplit(url).scheme]
