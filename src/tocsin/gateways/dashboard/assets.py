"""The page's files, read once at the start and named by what is in them.

Every file is served under a path with the hash of them all, so that a browser may keep it for good, and a new version
is another path. A hub whose page is incomplete says what to run.
"""

import gzip
import hashlib
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec
from starlette.responses import Response

__all__ = ["PREFIX", "Asset", "Assets"]

#: Where the files are; the hash follows.
PREFIX = "/ui"
_KEPT_FOR_GOOD = "public, max-age=31536000, immutable"
_MEDIA = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
#: Its presence says that the libraries are there, see `tools/vendor_dashboard.py`.
_VENDORED = "vendor/vendor.json"
_MISSING = (
    "The dashboard's libraries are not here, so there is no page to show.\n\n"
    "In a clone of the repository:  make dashboard   (needs npm), then start the hub again.\n"
    "Otherwise install a released package, which has them: pip install 'tocsin[server]'.\n\n"
    "Everything else of this hub works: see /openapi.json.\n"
)


class Asset(msgspec.Struct, frozen=True):
    """One file."""

    media: str
    content: bytes
    packed: bytes


class Assets:
    """Everything that the page is made of."""

    def __init__(self, folder: Traversable | None = None) -> None:
        folder = resources.files("tocsin.gateways.dashboard").joinpath("page") if folder is None else folder
        found = dict(_files(folder, ""))
        digest = hashlib.sha256()
        for name in sorted(found):
            digest.update(name.encode() + b"\0" + hashlib.sha256(found[name]).digest())
        #: Names this very version of the page.
        self.version = digest.hexdigest()[:16]
        self.complete = _VENDORED in found
        self._assets = {name: _asset(name, content, self._base) for name, content in found.items()}

    @property
    def _base(self) -> str:
        return f"{PREFIX}/{self.version}"

    def page(self, name: str, headers: dict[str, str]) -> Response:
        """Answer with a page itself; it names the version of its files, so nobody may keep it."""
        if not self.complete:
            return Response(_MISSING, 503, headers, "text/plain; charset=utf-8")
        return Response(self._assets[name].content, 200, headers | {"Cache-Control": "no-store"}, _MEDIA["html"])

    def file(self, version: str, name: str, accepted: str, headers: dict[str, str]) -> Response | None:
        """Answer with a file of this version of the page; nothing where it has none of that name."""
        asset = self._assets.get(name) if version == self.version else None
        if asset is None or name.endswith(".html"):
            return None
        headers = headers | {"Cache-Control": _KEPT_FOR_GOOD, "ETag": f'"{self.version}"', "Vary": "Accept-Encoding"}
        if "gzip" in accepted:
            return Response(asset.packed, 200, headers | {"Content-Encoding": "gzip"}, asset.media)
        return Response(asset.content, 200, headers, asset.media)


def _files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in _MEDIA:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


def _asset(name: str, content: bytes, base: str) -> Asset:
    if name.endswith(".html"):
        content = content.replace(b"{base}", base.encode())
    return Asset(_MEDIA[name.rpartition(".")[2]], content, gzip.compress(content, 6, mtime=0))
