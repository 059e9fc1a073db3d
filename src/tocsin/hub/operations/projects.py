"""Handlers of the operations on the projects of a hub."""

import msgspec

from tocsin.core.errors import refusal
from tocsin.core.protocol.timestamps import as_datetime_or_none
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.records import by_priority
from tocsin.hub.projects import KnownProject, ProjectAdministration
from tocsin.wire import projects as wire
from tocsin.wire.operation import NamedPage, NamedPageRequest

__all__ = ["HANDLERS"]


def _administration(call: Call) -> ProjectAdministration:
    found = call.hub.projects
    if found is None:
        raise refusal(
            "E_STATE_004",
            "only the home project administers projects",
            expected="an admin token of the hub's home project",
        )
    return found


def _record(call: Call, known: KnownProject) -> wire.ProjectRecord:
    return wire.ProjectRecord(
        project=known.name,
        state=known.state,
        home=known.name == call.project.host.project,
        created_at=as_datetime_or_none(known.created_at or None),
        archived_at=as_datetime_or_none(known.archived_at),
        due_at=as_datetime_or_none(known.due_at),
    )


async def list_projects(call: Call, request: NamedPageRequest) -> NamedPage[wire.ProjectRecord]:
    """List the projects by name."""
    limit = min(request.limit, call.project.page_max)
    found = [one for one in await _administration(call).known() if one.name > request.after]
    page = [_record(call, one) for one in found[:limit]]
    return NamedPage(page, page[-1].project if len(found) > limit else None)


async def list_open_projects(call: Call, request: NamedPageRequest) -> wire.OpenProjectPage:
    """List the open projects by name."""
    limit = min(request.limit, call.project.page_max)
    administration = _administration(call)
    figures, silent = await call.hub.answer_cache.ask(
        "open projects", call.hub.config.dashboard.shared_s, lambda: administration.figures(call.hub)
    )
    found = [one for one in figures if one.project > request.after]
    page = [
        wire.OpenProjectRecord(**(msgspec.structs.asdict(one) | {"waiting": by_priority(one.waiting)}))
        for one in found[:limit]
    ]
    return wire.OpenProjectPage(page, silent, page[-1].project if len(found) > limit else None)


async def add_project(call: Call, request: wire.AddProject) -> wire.ProjectAdded:
    """Add a project."""
    added = await _administration(call).add(request.project)
    return wire.ProjectAdded(_record(call, added.project), added.token)


async def archive_project(call: Call, request: wire.NamedProject) -> wire.ProjectRecord:
    """Archive a project."""
    return _record(call, await _administration(call).archive(request.project))


async def restore_project(call: Call, request: wire.NamedProject) -> wire.ProjectRecord:
    """Take an archived project into use again."""
    return _record(call, await _administration(call).restore(request.project))


async def remove_project(call: Call, request: wire.NamedProject) -> wire.RemovedProject:
    """Remove an archived project."""
    await _administration(call).remove(request.project)
    return wire.RemovedProject(request.project)


HANDLERS: dict[str, Handler] = {
    "list_projects": list_projects,
    "list_open_projects": list_open_projects,
    "add_project": add_project,
    "archive_project": archive_project,
    "restore_project": restore_project,
    "remove_project": remove_project,
}
