"""The command line. It starts hubs, and calls them over HTTP; its commands are made from the table of operations."""

import sys

from tocsin import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command line, or print which extra it needs."""
    from tocsin.cli.hook_check import is_check

    if is_check(sys.argv[1:]):
        from tocsin.cli.hook_check import main as check

        sys.exit(check(sys.argv[1:]))
    try:
        from tocsin.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"tocsin {__version__}\n")
            return
        sys.exit(f"the command line needs {error.name}: pip install 'tocsin[server]'")
    app()
