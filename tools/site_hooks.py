"""Hooks of the documentation site: its navigation, and files outside docs/ that pages link to.

The navigation is made from the links of docs/index.md, in their order; a page that is in no index fails the strict
build. Files of packaging/ are copied into the site, and so is the changelog.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["navigation", "on_config", "on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parent.parent
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+\.md)\)")
_CHANGELOG = "changelog.md"
#: Pages of a folder that have their own index, which is the first page of their section.
_INDEXES = {"promises/README.md", "decisions/README.md"}
_MERMAID = re.compile(r"^```mermaid$", re.MULTILINE)
_PACKAGING = re.compile(r"\]\(\.\./((?:\.\./)*)packaging/")


def navigation(docs: Path) -> list[Any]:
    """Return the navigation: sections of the index, with the pages that they link to."""
    seen: set[str] = set()
    _, *parts = _HEADING.split((docs / "index.md").read_text(encoding="utf-8"))
    found: list[Any] = [{"Home": "index.md"}]
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        pages = [page for match in _LINK.findall(text) for page in _entries(docs, match[0], match[1], seen)]
        found.append({title: pages})
    return [*found, {"Changes": _CHANGELOG}]


def _entries(docs: Path, title: str, path: str, seen: set[str]) -> list[dict[str, Any]]:
    """Return the entry of a link, and of what its own index links to."""
    if path in seen:
        return []
    seen.add(path)
    title = " ".join(title.split())
    title = title[0].upper() + title[1:]
    if path not in _INDEXES:
        return [{title: path}]
    folder = path.rpartition("/")[0]
    inner = _LINK.findall((docs / path).read_text(encoding="utf-8"))
    pages = [(name, f"{folder}/{target}") for name, target in inner if "/" not in target]
    below = [entry for name, target in pages for entry in _entries(docs, name, target, seen)]
    return [{title: [path, *below]}]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    config.nav = navigation(Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the changelog and the files of packaging/."""
    files.append(File.generated(config, _CHANGELOG, abs_src_path=str(ROOT / "CHANGELOG.md")))
    for path in sorted((ROOT / "packaging").rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".py", ".pyc"):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the copied files; show diagrams as text, because their renderer would be loaded from elsewhere."""
    if page.file.src_uri == _CHANGELOG:
        markdown = markdown.replace("](docs/", "](")
    markdown = _PACKAGING.sub("](\\1packaging/", markdown)
    return _MERMAID.sub("```text", markdown)
