"""Build hook that writes the README and the addresses of a package's metadata.

A package index shows the README without the files that it links to. With the address of the repository in
`TOCSIN_REPOSITORY` (`make dist REPOSITORY=https://…`) relative links and pictures become absolute, at the tag of the
version, and the metadata names the project's addresses. Without it relative links become plain text, so that none is
dead.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["ReadmeHook", "addresses", "published_readme"]

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#|mailto:)(?P<target>[^)\s]+)\)")
#: Code blocks, which are left as they are.
_CODE = re.compile(r"(^```.*?^```\n|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def published_readme(text: str, repository: str, version: str) -> str:
    """Return a README whose links work outside the repository."""

    def absolute(link: re.Match[str]) -> str:
        if repository:
            view = "raw" if link["picture"] else "blob"
            return f"{link['picture']}[{link['text']}]({repository}/{view}/v{version}/{link['target']})"
        return "" if link["picture"] else link["text"]

    parts = _CODE.split(text)
    return "".join(part if number % 2 else _LINK.sub(absolute, part) for number, part in enumerate(parts))


def addresses(repository: str) -> dict[str, str]:
    """Return the addresses of the project, as the metadata names them."""
    if not repository:
        return {}
    return {
        "Homepage": repository,
        "Source": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class ReadmeHook(MetadataHookInterface):
    """The hook, as hatchling calls it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields that pyproject.toml declares as dynamic."""
        repository = os.environ.get("TOCSIN_REPOSITORY", "").rstrip("/")
        if repository and not repository.startswith("https://"):
            raise ValueError(f"TOCSIN_REPOSITORY is {repository}: expected an address that begins with https://")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        readme = published_readme(text, repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        metadata["urls"] = addresses(repository)
