"""Files of the dashboard page, read once at the start and served under a path with their hash.

The path contains the hash of all files, so that a browser may cache them forever, and a new version has another path.
If libraries of the page are missing, the answer explains how to install them.
"""

import gzip
import hashlib
import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec
from starlette.responses import Response

__all__ = ["PREFIX", "Asset", "Assets", "packaged_assets"]

#: Path of the files; the hash follows.
PREFIX = "/ui"
#: Files that a page names.
_OWN_FILE = re.compile(r'(?:src|href)="(/ui/[^"]+)"')
_KEPT_FOR_GOOD = "public, max-age=31536000, immutable"
_MEDIA = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
#: Present if the libraries are installed, see `tools/vendor_dashboard.py`.
_VENDORED = "vendor/vendor.json"
_MISSING = (
    "The dashboard's libraries are not installed, so the page cannot be shown.\n\n"
    "In a clone of the repository:  make dashboard   (needs npm), then start the hub again.\n"
    "Otherwise install a released package, which contains them: pip install 'tocsin[server]'.\n\n"
    "The rest of the hub works without them: see /openapi.json.\n"
)


class Asset(msgspec.Struct, frozen=True):
    """One file."""

    media: str
    content: bytes


class Assets:
    """All files of the page."""

    def __init__(self, folder: Traversable | None = None) -> None:
        folder = resources.files("tocsin.gateways.dashboard").joinpath("page") if folder is None else folder
        found = dict(_files(folder, ""))
        digest = hashlib.sha256()
        for name in sorted(found):
            digest.update(name.encode() + b"\0" + hashlib.sha256(found[name]).digest())
        #: Hash of this version of the page.
        self.version = digest.hexdigest()[:16]
        self.complete = _VENDORED in found
        self._assets = {name: _asset(name, content, self._base) for name, content in found.items()}
        #: Compressed files by name, made when they are first asked for.
        self._packed: dict[str, bytes] = {}

    @property
    def _base(self) -> str:
        return f"{PREFIX}/{self.version}"

    def page(self, name: str, headers: dict[str, str]) -> Response:
        """Return a page; it names the version of its files, so it must not be cached."""
        if not self.complete or not self._has_libraries(name):
            return Response(_MISSING, 503, headers, "text/plain; charset=utf-8")
        return Response(self._assets[name].content, 200, headers | {"Cache-Control": "no-store"}, _MEDIA["html"])

    def _has_libraries(self, name: str) -> bool:
        """Tell whether the libraries that a page names are there; a clone may have those of an earlier version."""
        prefix = f"{self._base}/"
        named = _OWN_FILE.findall(self._assets[name].content.decode())
        return all(path.removeprefix(prefix) in self._assets for path in named)

    def file(self, version: str, name: str, accepted: str, headers: dict[str, str]) -> Response | None:
        """Return a file of this version of the page; null if there is none of that name."""
        asset = self._assets.get(name) if version == self.version else None
        if asset is None or name.endswith(".html"):
            return None
        headers = headers | {"Cache-Control": _KEPT_FOR_GOOD, "ETag": f'"{self.version}"', "Vary": "Accept-Encoding"}
        if "gzip" in accepted:
            if name not in self._packed:
                self._packed[name] = gzip.compress(asset.content, 6, mtime=0)
            return Response(self._packed[name], 200, headers | {"Content-Encoding": "gzip"}, asset.media)
        return Response(asset.content, 200, headers, asset.media)


@cache
def packaged_assets() -> Assets:
    """Return the files of the package, read once: all projects of a process share them."""
    return Assets()


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
    return Asset(_MEDIA[name.rpartition(".")[2]], content)
