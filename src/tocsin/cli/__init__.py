"""The command line. It starts hubs, and calls them over HTTP; its commands are made from the table of operations."""

import sys
from collections.abc import Sequence

from tocsin import __version__

__all__ = ["is_check", "main"]

#: Extras of packages that are not part of the hub's.
_EXTRAS = {
    "duckdb": "pipeline",
    "deltalake": "pipeline",
    "mcp": "mcp",
    "picows": "client",
    "psycopg": "postgres",
    "pyarrow": "pipeline",
    "pyspark": "pipeline",
}


def is_check(arguments: Sequence[str]) -> bool:
    """Return whether a command line runs `hooks check`, regardless of the options before it."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("--"):
        at += 1 if "=" in arguments[at] else 2
    return tuple(arguments[at : at + 2]) == ("hooks", "check") and "--help" not in arguments


def main() -> None:
    """Run the command line; Ctrl-C ends it with a line, also while it is imported."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def _run() -> None:
    """Run the command line, or print which extra it needs."""
    if is_check(sys.argv[1:]):
        from tocsin.cli.hooks.check import main as check

        sys.exit(check(sys.argv[1:]))
    try:
        from tocsin.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"tocsin {__version__}\n")
            return
        sys.exit(f"the command line needs {error.name}: pip install 'tocsin[cli]', or 'tocsin[server]' for a hub too")
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        package = error.name.partition(".")[0]
        sys.exit(f"this command needs {package}: pip install 'tocsin[{_EXTRAS.get(package, 'server')}]'")
