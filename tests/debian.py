"""Programs of Debian's packages that tests run, installed if they are not there and this process may install them."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["need"]

_TIMEOUT_S = 280


def need(program: str, package: str) -> None:
    """Make sure that a program is on the path; raise an error that says what to install if that cannot be done."""
    if shutil.which(program) is not None:
        return
    with (Path(tempfile.gettempdir()) / f"tocsin-debian-{os.geteuid()}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if shutil.which(program) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for words in (["update"], ["install", "--yes", "--no-install-recommends", package]):
                command = ["apt-get", *words]
                subprocess.run(command, env=quiet, capture_output=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603
    if shutil.which(program) is None:
        raise RuntimeError(f"the tests need {program}, which is not on the path: apt-get install {package}")
