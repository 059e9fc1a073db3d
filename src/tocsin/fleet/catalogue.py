"""The catalogue of a hub's projects: their names, the project of each token, and when a closed project is due.

A hub has a home project, which its folder or its `--project` names, and any number of others. The home project is
always open, and its administrators administer all projects. A token belongs to one project; the catalogue finds it by
the token's id, so that a caller never has to name a project.
"""

import re
from typing import Protocol

import msgspec

from tocsin.core.errors import refusal

__all__ = ["Catalogue", "CatalogueEntry", "check_name"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_\-]{0,62}")


class CatalogueEntry(msgspec.Struct, frozen=True):
    """One project of a catalogue."""

    name: str
    #: When it was added, microseconds since the epoch, as all times here.
    created_at: int
    #: When it was archived; null if it is in use.
    archived_at: int | None = None
    #: When something falls due in it while it is closed; null if nothing does. 0 while it is open: after a crash it is
    #: opened to find out.
    due_at: int | None = None


class Catalogue(Protocol):
    """The projects of one hub, beside its home project. Several processes may use it at the same time."""

    def entries(self) -> list[CatalogueEntry]:
        """Return all projects, by name."""

    def find(self, name: str) -> CatalogueEntry | None:
        """Return a project; null if there is none of this name."""

    def project_of(self, token_id: str) -> str | None:
        """Return the project that a token belongs to; null if it is not known."""

    def add(self, name: str, now: int) -> CatalogueEntry:
        """Add a project; refuse a name that is taken."""

    def archive(self, name: str, now: int | None) -> CatalogueEntry:
        """Archive a project at a time, or with null take it into use again."""

    def remove(self, name: str) -> None:
        """Remove an archived project, with everything that it has stored."""

    def note_due(self, name: str, due_at: int | None) -> None:
        """Note when a closed project has to be opened; 0 means that it is open."""

    def note_tokens(self, name: str, token_ids: list[str]) -> None:
        """Note that tokens belong to a project; this is durable when it returns."""

    def changed(self) -> bool:
        """Tell whether another process may have changed something since the last call."""

    def close(self) -> None:
        """Close the catalogue."""


def check_name(name: str) -> str:
    """Return a name that a new project can have, or refuse it: it becomes a folder or a schema."""
    if not _NAME.fullmatch(name):
        raise refusal(
            "E_VALIDATION_004",
            f"{name[:64]!r} cannot be a project's name",
            field="$.project",
            found=name[:64],
            expected="1 to 63 lower-case letters, digits, dashes and underscores, beginning with a letter or digit",
        )
    return name
