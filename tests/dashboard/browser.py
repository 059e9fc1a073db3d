"""Search for the browser that the dashboard's tests use; it is installed if there is none.

In this order: the path in `TOCSIN_CHROMIUM`; a Chromium or Chrome on the path; Debian's package, if this process may
install it; Playwright's download. A lock makes sure that only one worker installs it. The headless shell is preferred:
it is Chromium without windows, and tests take a third less of the processor with it.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["FLAGS", "NoBrowser", "find_browser"]

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Without the sandbox, which does not work for root, a process for a GPU, and background network traffic.
FLAGS = (
    "--no-sandbox",
    "--in-process-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
)
#: Packages of Debian and its relatives; not all of them have the first.
_PACKAGES = ("chromium-headless-shell", "chromium")
_PLAYWRIGHT = (
    "from playwright.sync_api import sync_playwright as start\n"
    "with start() as playwright: print(playwright.chromium.executable_path)"
)
_TIMEOUT_S = 600


class NoBrowser(Exception):
    """There is no browser, and none could be installed."""


def find_browser(
    environment: Mapping[str, str] = os.environ, *, root: bool | None = None, python: str = sys.executable
) -> Path:
    """Return the path of a Chromium; install one if there is none."""
    named = environment.get("TOCSIN_CHROMIUM")
    if named:
        if not os.access(named, os.X_OK):
            raise NoBrowser(f"TOCSIN_CHROMIUM is {named}, which cannot be run")
        return Path(named)
    found = _on_the_path(environment)
    if found is not None:
        return found
    with _one_at_a_time():
        found = _on_the_path(environment)
        tried: list[str] = []
        if found is None:
            found = _from_debian(environment, os.geteuid() == 0 if root is None else root, tried)
        if found is None:
            found = _from_playwright(environment, python, tried)
    if found is None:
        attempts = "".join(f"\n  - {line}" for line in tried)
        raise NoBrowser(
            "the dashboard's tests need Chromium, and there is none on the path. Tried:"
            f"{attempts}\nInstall it (apt-get install chromium), or set its path: TOCSIN_CHROMIUM=/path/to/chromium"
        )
    return found


def _on_the_path(environment: Mapping[str, str]) -> Path | None:
    paths = (shutil.which(name, path=environment.get("PATH", "")) for name in NAMES)
    return next((Path(path) for path in paths if path is not None), None)


def _from_debian(environment: Mapping[str, str], root: bool, tried: list[str]) -> Path | None:
    apt = shutil.which("apt-get", path=environment.get("PATH", ""))
    if apt is None or not root:
        tried.append("Debian's package: " + ("there is no apt-get" if apt is None else "only root may install it"))
        return None
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    _run([apt, "update"], quiet)  # the package lists may be usable although they cannot be updated
    for package in _PACKAGES:
        trouble = _run([apt, "install", "--yes", "--no-install-recommends", package], quiet)[1]
        found = _on_the_path(environment)
        if found is not None:
            return found
        tried.append(f"Debian's package {package}: {trouble or 'it installed no browser'}")
    return None


def _from_playwright(environment: Mapping[str, str], python: str, tried: list[str]) -> Path | None:
    _, trouble = _run([python, "-m", "playwright", "install", "chromium"], environment)
    if not trouble:
        output, trouble = _run([python, "-c", _PLAYWRIGHT], environment)
        if not trouble and os.access(output, os.X_OK):
            return Path(output)
    tried.append(f"Playwright's download: {trouble or 'it installed no chromium'}")
    return None


def _run(command: list[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Run a command; return its output, and the last line of its output if it failed."""
    try:
        done = subprocess.run(  # noqa: S603
            command, env=dict(environment), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode == 0:
        return done.stdout.strip(), ""
    words = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return "", words[-1] if words else f"exit code {done.returncode}"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / f"tocsin-browser-{os.geteuid()}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
