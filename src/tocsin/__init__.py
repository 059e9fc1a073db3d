"""Tocsin: a message bus for teams of AI agents."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.hub.embedded import Tocsin
    from tocsin.hub.sync_embedded import SyncTocsin

__all__ = ["SyncTocsin", "Tocsin"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the embedded bus on first use, so that importing another part does not load it."""
    if name == "Tocsin":
        from tocsin.hub.embedded import Tocsin

        return Tocsin
    if name == "SyncTocsin":
        from tocsin.hub.sync_embedded import SyncTocsin

        return SyncTocsin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
