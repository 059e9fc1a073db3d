"""The real clients, from their npm packages: what is pinned, what is installed, and where.

`python -m tests.clients.cache` installs the pinned versions into a cache folder, and with `--newest` also the newest
ones that the registry has. No script of a package is run. The cache is `build/clients`, or the folder that
TOCSIN_CLIENTS names; each version has a folder of its own.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["CACHE", "Installed", "clients", "is_there"]

_ROOT = Path(__file__).resolve().parents[2]
_PINNED = json.loads(Path(__file__).with_name("versions.json").read_text(encoding="utf-8"))
CACHE = Path(os.environ.get("TOCSIN_CLIENTS") or _ROOT / "build" / "clients").absolute()
#: The newest versions that were found when clients were last installed with `--newest`, by client.
_NEWEST = CACHE / "newest.json"
_PLACE = {"platform": sys.platform, "cpu": {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "x64")}
_TIMEOUT_S = 600


class Installed(NamedTuple):
    """One version of a client."""

    client: str
    version: str

    @property
    def folder(self) -> Path:
        """Return the folder of its package."""
        return CACHE / self.client / self.version

    @property
    def program(self) -> Path:
        """Return the file that is started."""
        return self.folder / str(_PINNED[self.client]["program"]).format(**_PLACE)

    @property
    def words(self) -> list[str]:
        """Return the words that start it."""
        if not self.program.exists():
            raise FileNotFoundError(f"{self} is not in the cache {CACHE}: make clients-install")
        return ["node", str(self.program)] if self.program.suffix == ".js" else [str(self.program)]

    def __str__(self) -> str:
        return f"{self.client}-{self.version}"


def clients() -> list[Installed]:
    """Return the pinned versions and the newest ones that were asked for, older ones first."""
    newest = json.loads(_NEWEST.read_text(encoding="utf-8")) if _NEWEST.exists() else {}
    found = []
    for client, facts in _PINNED.items():
        versions = [*facts["versions"], *([newest[client]] if client in newest else [])]
        found += [Installed(client, version) for version in dict.fromkeys(versions)]
    return found


def is_there() -> bool:
    """Tell whether the cache has any client."""
    return any(one.program.exists() for one in clients())


def _npm(*words: str, folder: Path | None = None) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm was not found: install Node.js 20 or newer")
    done = subprocess.run([npm, *words], cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"npm {words[0]} {words[-1]}: {done.stderr.strip()}")
    return done.stdout.strip()


def _install(one: Installed) -> str:
    """Install one version, and return what was done; a folder is complete or not there."""
    if one.program.exists():
        return "is there"
    unfinished = one.folder.with_name(f"{one.version}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock")
    _npm("install", *options, f"{_PINNED[one.client]['package']}@{one.version}", folder=unfinished)
    shutil.rmtree(one.folder, ignore_errors=True)
    unfinished.rename(one.folder)
    if not one.program.exists():
        raise SystemExit(f"{one}: its packages do not have {one.program}; this platform is {_PLACE}")
    return "installed"


def _main() -> None:
    parser = argparse.ArgumentParser("python -m tests.clients.cache", description="Install the real clients.")
    parser.add_argument("--newest", action="store_true", help="also the newest versions of the registry")
    if parser.parse_args().newest:
        newest = {client: _npm("view", facts["package"], "version") for client, facts in _PINNED.items()}
        CACHE.mkdir(parents=True, exist_ok=True)
        _NEWEST.write_text(json.dumps(newest, indent=2) + "\n", encoding="utf-8")
    for one in clients():
        sys.stdout.write(f"{one}: {_install(one)}\n")
    missing = [program for program in ("tmux", "git") if shutil.which(program) is None]
    if missing:
        raise SystemExit(f"cases in a terminal need {' and '.join(missing)}: install them with the system's packages")


if __name__ == "__main__":
    _main()
