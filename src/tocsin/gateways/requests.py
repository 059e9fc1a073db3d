"""A request whose headers are looked up in a dictionary.

Starlette searches the list of headers for each name, and a call asks for about a dozen names, most of which are absent.
"""

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

__all__ = ["HubRequest"]


class _IndexedHeaders(Headers):
    """Headers by name; of a repeated header the first counts, as in `Headers`."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(raw=scope["headers"])
        self._first: dict[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])
        }

    def get(self, key: str, default: Any = None) -> Any:
        return self._first.get(key.lower(), default)

    def getlist(self, key: str) -> list[str]:
        return super().getlist(key) if key.lower() in self._first else []

    def __getitem__(self, key: str) -> str:
        return self._first[key.lower()]

    def __contains__(self, key: Any) -> bool:
        return key.lower() in self._first


class HubRequest(Request):
    """A request to the hub."""

    @property
    def headers(self) -> Headers:
        """Return the headers."""
        if not hasattr(self, "_headers"):
            self._headers = _IndexedHeaders(self.scope)
        return self._headers
