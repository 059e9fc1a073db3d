"""Operations on the projects of a hub."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.wire.operation import Access, NamedPage, NamedPageRequest, Operation, Request, Where

__all__ = [
    "OPERATIONS",
    "AddProject",
    "NamedProject",
    "OpenProjectPage",
    "OpenProjectRecord",
    "ProjectAdded",
    "ProjectRecord",
    "RemovedProject",
]

_TAG = "projects"


class ProjectRecord(msgspec.Struct, frozen=True):
    """One project of a hub."""

    project: str
    #: `open`, `closed` (its next call opens it) or `archived`.
    state: Literal["open", "closed", "archived"]
    #: Whether it is the home project, which is always open and whose administrators administer all projects.
    home: bool
    #: When it was added; null for the home project.
    created_at: datetime | None
    #: When it was archived; null if it is in use.
    archived_at: datetime | None
    #: When something falls due in it: a TTL, a lease, an escalation; null if nothing does.
    due_at: datetime | None


class OpenProjectRecord(msgspec.Struct, frozen=True):
    """Condition and counts of one open project."""

    project: str
    #: Number of the process that serves it, from 0.
    worker: int
    #: `serving`, `stalled`, `recovering` or `stopped`.
    condition: str
    #: Why it is not serving; empty if it is.
    reason: str
    #: Number of its last event.
    seq: int
    agents: int
    sessions: int
    #: Waiting messages by priority.
    waiting: dict[str, int]
    dead_letters: int


class OpenProjectPage(msgspec.Struct, frozen=True):
    """A page of the open projects of a hub."""

    items: list[OpenProjectRecord]
    #: Processes of the hub that do not answer, so that their projects are missing here.
    workers_silent: int
    #: Cursor of the next page; null on the last page.
    next: str | None = None


class ProjectAdded(msgspec.Struct, frozen=True):
    """A new project."""

    project: ProjectRecord
    #: Its admin token, which is shown only here.
    token: str


class NamedProject(Request, frozen=True):
    """A project."""

    project: Annotated[str, Meta(max_length=63, description="Name of the project.")]


class AddProject(Request, frozen=True):
    """A project to add."""

    project: Annotated[
        str,
        Meta(max_length=63, description="Name: lower-case letters, digits, dashes and underscores."),
    ]


class RemovedProject(msgspec.Struct, frozen=True):
    """A project that is gone."""

    project: str


OPERATIONS = (
    Operation(
        name="list_projects",
        summary="List the projects of the hub.",
        request=NamedPageRequest,
        reply=NamedPage[ProjectRecord],
        http="GET /v1/projects",
        tag=_TAG,
        access=Access.ADMIN,
        where=Where.HUB,
    ),
    Operation(
        name="list_open_projects",
        summary="List the open projects of all processes of the hub, with their condition and counts.",
        request=NamedPageRequest,
        reply=OpenProjectPage,
        http="GET /v1/projects/open",
        tag=_TAG,
        access=Access.ADMIN,
        where=Where.HUB,
    ),
    Operation(
        name="add_project",
        summary="Add a project to the hub, and issue its admin token.",
        request=AddProject,
        reply=ProjectAdded,
        http="POST /v1/projects",
        tag=_TAG,
        kind="command",
        access=Access.ADMIN,
        where=Where.HUB,
    ),
    Operation(
        name="archive_project",
        summary="Close a project and refuse its callers; what it has stored is kept.",
        request=NamedProject,
        reply=ProjectRecord,
        http="POST /v1/projects/{project}/archive",
        tag=_TAG,
        kind="command",
        access=Access.ADMIN,
        where=Where.HUB,
        idempotent=True,
    ),
    Operation(
        name="restore_project",
        summary="Take an archived project into use again.",
        request=NamedProject,
        reply=ProjectRecord,
        http="POST /v1/projects/{project}/restore",
        tag=_TAG,
        kind="command",
        access=Access.ADMIN,
        where=Where.HUB,
        idempotent=True,
    ),
    Operation(
        name="remove_project",
        summary="Remove an archived project with everything that it has stored.",
        request=NamedProject,
        reply=RemovedProject,
        http="DELETE /v1/projects/{project}",
        tag=_TAG,
        kind="command",
        access=Access.ADMIN,
        where=Where.HUB,
        destructive=True,
    ),
)
