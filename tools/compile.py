"""Build the compiled form of the package: the core and other hot modules compiled to C by mypyc.

The sources in `src` are not changed: the compiled form is a copy in `build/compiled`, used if it comes first in
PYTHONPATH, and rebuilt when a source has changed. It needs a C compiler and Python's headers; without them the package
works too, only slower.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
TARGET = ROOT / "build" / "compiled"
STAMP = ".made-of"

#: Modules of the core that stay interpreted: msgspec reads their annotations at run time, which mypyc does not keep.
#: Errors inherit from Python's own exceptions.
DECLARING = {
    *("__init__", "contracts", "documents", "envelope", "errors", "model", "payloads", "snapshot", "validation"),
}
#: Packages of the core that contain only declarations.
DECLARATIONS = {"commands", "events", "policy"}
CARRYING = [
    "tocsin/journal/changes.py",
    "tocsin/journal/projection.py",
    "tocsin/hub/hosting/committer.py",
    "tocsin/hub/hosting/host.py",
    "tocsin/hub/inprocess.py",
    "tocsin/hub/hosting/live_state.py",
    "tocsin/hub/hosting/outgoing.py",
    "tocsin/hub/hosting/projection_schedule.py",
    "tocsin/hub/hosting/tick_timer.py",
    "tocsin/client/calls.py",
    "tocsin/client/inbox.py",
    "tocsin/gateways/websocket/fair_queue.py",
    "tocsin/lab/replays/closed_loop.py",
]

#: Warning of mypyc about a generator that it evaluates completely at once.
_EAGER = "Treating generator comprehension as list"

_SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(
    name="tocsin-compiled",
    script_args=["--quiet", "build_ext", "--inplace"],
    ext_modules=mypycify(["--config-file=", *sys.argv[1:]], opt_level="2", group_name="tocsin"),
)
"""


def modules() -> list[str]:
    """Return the modules to compile, as paths in the package's folder."""
    core = SOURCE / "tocsin" / "core"
    found = [
        path
        for path in sorted(core.rglob("*.py"))
        if path.stem not in DECLARING and path.relative_to(core).parts[0] not in DECLARATIONS
    ]
    return [str(path.relative_to(SOURCE)) for path in found] + CARRYING


def fingerprint() -> str:
    """Return a fingerprint of the sources and of this interpreter."""
    digest = hashlib.sha256(sysconfig.get_config_var("EXT_SUFFIX").encode())
    for path in [Path(__file__), *sorted((SOURCE / "tocsin").rglob("*"))]:
        if path.is_file() and path.suffix not in {".pyc", ".so"}:
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def main() -> None:
    """Build the compiled form unless it is up to date."""
    parser = argparse.ArgumentParser(prog="make compiled", description=__doc__)
    parser.add_argument("--if-possible", action="store_true", help="without a compiler print a message and exit with 0")
    parser.add_argument("--verbose", action="store_true", help="show the output of the compilers")
    chosen = parser.parse_args()
    wanted = fingerprint()
    stamp = TARGET / STAMP
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return
    if shutil.which(os.environ.get("CC", "cc")) is None:
        shutil.rmtree(TARGET, ignore_errors=True)
        trouble = "there is no C compiler (cc): the package is used as it is"
        if chosen.if_possible:
            print(trouble, file=sys.stderr)
            return
        sys.exit(trouble)
    print("compiling with mypyc: this takes a minute or two …", file=sys.stderr)
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(SOURCE / "tocsin", TARGET / "tocsin", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _SETUP, *modules()],
        cwd=TARGET,
        stdout=None if chosen.verbose else subprocess.PIPE,
        stderr=None if chosen.verbose else subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit((done.stdout or "")[-4000:] + "\nthe compiled form could not be built")
    if eager := [line for line in (done.stdout or "").splitlines() if _EAGER in line]:
        sys.exit("\n".join(eager) + "\nuse a list or a loop: when compiled, these generators are evaluated completely")
    shutil.rmtree(TARGET / "build", ignore_errors=True)
    stamp.write_text(wanted, encoding="ascii")


if __name__ == "__main__":
    main()
