"""Release a version: set it in pyproject.toml and the package, and date its part of the changelog."""

import re
import sys
from datetime import UTC, date, datetime
from pathlib import Path

__all__ = ["PLACES", "renumbered", "version_of", "with_release"]

ROOT = Path(__file__).resolve().parent.parent
_VERSION = re.compile(r"\d+\.\d+\.\d+")
#: The files that name the version, and how they do.
PLACES = {
    ROOT / "pyproject.toml": re.compile(r'^(version = ")([^"]+)(")$', re.MULTILINE),
    ROOT / "src" / "tocsin" / "__init__.py": re.compile(r'^(__version__ = ")([^"]+)(")$', re.MULTILINE),
}


def version_of(path: Path) -> str:
    """Return the version in one of the two files."""
    found = PLACES[path].search(path.read_text(encoding="utf-8"))
    if found is None:
        sys.exit(f"{path} has no version")
    return found[2]


def renumbered(path: Path, version: str) -> str:
    """Return the text of one of the two files with another version."""
    return PLACES[path].sub(rf"\g<1>{version}\g<3>", path.read_text(encoding="utf-8"))


def with_release(changelog: str, version: str, day: date) -> str:
    """Return the changelog with the unreleased changes moved to a version."""
    head, found, rest = changelog.partition("## Unreleased\n")
    changes = rest.split("\n## ", 1)[0].strip()
    if not found or not changes:
        sys.exit("the changelog has nothing under Unreleased: there is nothing to release")
    if f"\n## {version} " in changelog:
        sys.exit(f"the changelog already has {version}")
    return f"{head}## Unreleased\n\n## {version} ({day.isoformat()})\n{rest}"


def main() -> None:
    """Update all three files, or none."""
    version = sys.argv[1] if len(sys.argv) == 2 else ""
    if not _VERSION.fullmatch(version):
        sys.exit("usage: make release VERSION=1.2.3")
    old = version_of(ROOT / "pyproject.toml")
    if tuple(map(int, version.split("."))) <= tuple(map(int, old.split("."))):
        sys.exit(f"{version} is not newer than {old}")
    changelog = ROOT / "CHANGELOG.md"
    texts = {path: renumbered(path, version) for path in PLACES}
    texts[changelog] = with_release(changelog.read_text(encoding="utf-8"), version, datetime.now(UTC).date())
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    print(f"{old} -> {version}; packaging/RELEASING.md has the next steps")


if __name__ == "__main__":
    main()
