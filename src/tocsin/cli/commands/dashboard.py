"""`tocsin dashboard`: a one-time link that signs in to the dashboard."""

import webbrowser
from typing import Annotated
from urllib.parse import urlencode

import typer

from tocsin.cli.context import Json, project_data, remote_of
from tocsin.cli.output import refusals_told, say, show_json
from tocsin.cli.remote import NoHub, Remote, token_from

__all__ = ["dashboard"]


def dashboard(
    context: typer.Context,
    opens: Annotated[bool, typer.Option("--open", help="Open it in the browser of this machine.")] = False,
    as_json: Json = False,
) -> None:
    """Print a link that signs in to the dashboard, once, as the calling director, human or administrator."""
    given = context.find_root().params
    project: str | None = given["project"]
    with refusals_told(as_json):
        remote = remote_of(context)
        # Without a token of the project it is the administrator of the home project who visits it.
        visited = project is not None and token_from(project_data(context), given["agent"]) is None
        if visited:
            remote = Remote(given["url"], token_from(given["data"], None))
        made = remote.post("sign-in", "links")
        if not isinstance(made, dict) or not isinstance(made.get("path"), str):
            raise NoHub(f"the server at {remote.url} is not a hub, or a hub of another version")
    path = made["path"]
    if visited:
        path = path.replace("?link", f"?link&{urlencode({'project': project})}", 1)
    link = remote.url.rstrip("/") + path
    if as_json:
        show_json({"link": link, "expires_at": made["expires_at"]})
        return
    say(link)
    if opens:
        webbrowser.open(link)
