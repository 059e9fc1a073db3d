"""A request whose headers are looked up in a dictionary.

Starlette searches the list of headers for each name, and a call asks for about a dozen names, most of which are absent.
"""

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request, empty_receive, empty_send
from starlette.types import Receive, Scope, Send

__all__ = ["HubRequest"]


class _IndexedHeaders(Headers):
    """Headers by name; of a repeated header the first counts, as in `Headers`."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(raw=scope["headers"])
        # Bytes, because only a few of the values are asked for.
        self._first: dict[bytes, bytes] = dict(reversed(scope["headers"]))

    def get(self, key: str, default: Any = None) -> Any:
        value = self._first.get(key.lower().encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def getlist(self, key: str) -> list[str]:
        return super().getlist(key) if key in self else []

    def __getitem__(self, key: str) -> str:
        return self._first[key.lower().encode("latin-1")].decode("latin-1")

    def __contains__(self, key: Any) -> bool:
        return key.lower().encode("latin-1") in self._first


class HubRequest(Request):
    """A request to the hub."""

    def __init__(self, scope: Scope, receive: Receive = empty_receive, send: Send = empty_send) -> None:
        super().__init__(scope, receive, send)
        self._indexed = _IndexedHeaders(scope)

    @property
    def headers(self) -> Headers:
        """Return the headers."""
        return self._indexed
