"""Build the compiled form of the package: the core and other hot modules compiled to C by mypyc.

The sources in `src` are not changed: the compiled form is a copy in `build/compiled`, used if it comes first in
PYTHONPATH, and rebuilt when a source has changed. It needs a C compiler and Python's headers; without them the package
works too, only slower. `--wheel` adds the compiled modules to a pure wheel and gives it this platform's name.

Every module becomes a C file of its own in one group: calls between them stay direct, and all processors compile.
"""

import argparse
import ast
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
TARGET = ROOT / "build" / "compiled"
#: Types that mypy found in libraries, kept for the next time.
CACHE = ROOT / "build" / "compiled-types"
STAMP = ".made-of"
#: Date of the files in a wheel, so that the same files give the same wheel.
_DATE = (2020, 2, 2, 0, 0, 0)

#: Modules of the core that stay interpreted: msgspec reads their annotations at run time, which mypyc does not keep.
#: Errors inherit from Python's own exceptions.
DECLARING = {
    *("__init__", "contracts", "documents", "envelope", "errors", "model", "payloads", "snapshot", "validation"),
}
#: Packages of the core that contain only declarations.
DECLARATIONS = {"commands", "events", "policy"}
#: Modules of the core that stay interpreted because an ordinary message does not reach them: every module takes time to
#: compile.
SELDOM = {
    *("agents/attention.py", "agents/attention_transitions.py", "agents/preemption.py"),
    *("escalation/decisions.py", "escalation/paths.py", "frame_reports.py", "policy_adoption.py"),
    *("messages/broadcast.py", "messages/endings/dead_letters.py", "messages/endings/recall.py"),
    *("teamwork/approvals.py", "teamwork/discussions.py", "teamwork/health.py", "teamwork/topics.py"),
    *("protocol/negotiation.py", "protocol/previews.py", "waiting/resolution.py"),
    *("wake/decisions.py", "wake/transitions.py"),
}
#: Modules outside of the core. Compiled coroutines are slower than interpreted ones, so most of the client is left out.
CARRYING = [
    "tocsin/ids.py",
    "tocsin/client/connection/calls.py",
    "tocsin/client/messages/inbox.py",
    "tocsin/gateways/websocket/connection.py",
    "tocsin/gateways/websocket/fair_queue.py",
    "tocsin/gateways/websocket/operations.py",
    "tocsin/gateways/websocket/outbox.py",
    "tocsin/gateways/websocket/priority_scan.py",
    "tocsin/gateways/websocket/pushes.py",
    "tocsin/hub/clock.py",
    "tocsin/hub/hosting/committer.py",
    "tocsin/hub/hosting/host.py",
    "tocsin/hub/hosting/live_state.py",
    "tocsin/hub/hosting/outgoing.py",
    "tocsin/hub/hosting/projection_schedule.py",
    "tocsin/hub/hosting/tick_timer.py",
    "tocsin/hub/inprocess.py",
    "tocsin/hub/observability/counters.py",
    "tocsin/hub/observability/durations.py",
    "tocsin/hub/observability/health.py",
    "tocsin/hub/observability/metrics.py",
    "tocsin/journal/changes.py",
    "tocsin/journal/projection.py",
    "tocsin/lab/figures/tallies.py",
    "tocsin/lab/replays/closed_loop.py",
    "tocsin/lab/replays/replay.py",
    "tocsin/lab/traces/anchors.py",
    "tocsin/lab/traces/message_history.py",
    "tocsin/lab/traces/message_tracker.py",
    "tocsin/lab/traces/step_commands.py",
]

#: Warning of mypyc about a generator that it evaluates completely at once.
_EAGER = "Treating generator comprehension as list"

_SETUP = """
import contextlib, io, os, sys
from concurrent.futures import ThreadPoolExecutor
from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

jobs, level, cache, eager, *paths = sys.argv[1:]

class Parallel(build_ext):
    def build_extensions(self):
        compile_some = self.compiler.compile
        def compile_apart(sources, **options):
            largest_first = sorted(sources, key=os.path.getsize, reverse=True)
            with ThreadPoolExecutor(int(jobs)) as pool:
                done = dict(zip(largest_first, pool.map(lambda one: compile_some([one], **options), largest_first)))
            return [made for source in sources for made in done[source]]
        self.compiler.compile = compile_apart
        super().build_extensions()

said = io.StringIO()
try:
    with contextlib.redirect_stdout(said):
        extensions = mypycify(
            ["--config-file=", f"--cache-dir={cache}", *paths],
            opt_level=level,
            debug_level="0",
            multi_file=True,
            group_name="tocsin",
        )
finally:  # mypyc exits when a module cannot be compiled.
    print(said.getvalue(), flush=True)
if eager in said.getvalue():  # Before the C compiler, which takes most of the time.
    sys.exit(1)
setup(
    name="tocsin-compiled",
    cmdclass={"build_ext": Parallel},
    script_args=["--quiet", "build_ext", "--inplace", f"--parallel={jobs}"],
    ext_modules=extensions,
)
"""


def modules() -> list[str]:
    """Return the modules to compile, as paths in the package's folder."""
    core = SOURCE / "tocsin" / "core"
    found = [
        path
        for path in sorted(core.rglob("*.py"))
        if path.stem not in DECLARING
        and path.relative_to(core).parts[0] not in DECLARATIONS
        and path.relative_to(core).as_posix() not in SELDOM
    ]
    return [str(path.relative_to(SOURCE)) for path in found] + CARRYING


def unsafe_awaits(source: str) -> list[int]:
    """Return the lines that await something while an exception may be handled: in `except`, `finally`, `async with`.

    A compiled coroutine that is suspended there leaves the exception behind for others, which may raise it again.
    """
    lines: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncWith):
            lines.append(node.lineno)
        elif isinstance(node, ast.Try):
            handled = [*node.finalbody, *(part for handler in node.handlers for part in handler.body)]
            found = [each for part in handled for each in ast.walk(part)]
            lines += [each.lineno for each in found if isinstance(each, ast.Await | ast.AsyncFor)]
    return sorted(lines)


def fingerprint(opt_level: str = "2") -> str:
    """Return a fingerprint of the sources, of this interpreter and of the optimization."""
    digest = hashlib.sha256(f"{sysconfig.get_config_var('EXT_SUFFIX')} {opt_level}".encode())
    for path in [Path(__file__), *sorted((SOURCE / "tocsin").rglob("*"))]:
        if path.is_file() and path.suffix not in {".pyc", ".so"}:
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def build(opt_level: str, *, verbose: bool) -> None:
    """Copy the package and compile its modules there."""
    unsafe = [f"{one}:{line}" for one in modules() for line in unsafe_awaits((SOURCE / one).read_text("utf-8"))]
    if unsafe:
        sys.exit("\n".join(unsafe) + "\nawait outside of except, finally and async with in modules that are compiled")
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(SOURCE / "tocsin", TARGET / "tocsin", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _SETUP, str(jobs), opt_level, str(CACHE), _EAGER, *modules()],
        cwd=TARGET,
        stdout=None if verbose else subprocess.PIPE,
        stderr=None if verbose else subprocess.STDOUT,
        text=True,
        check=False,
    )
    if eager := [line for line in (done.stdout or "").splitlines() if _EAGER in line]:
        sys.exit("\n".join(eager) + "\nuse a list or a loop: when compiled, these generators are evaluated completely")
    if done.returncode:
        sys.exit((done.stdout or "")[-4000:] + "\nthe compiled form could not be built")
    shutil.rmtree(TARGET / "build", ignore_errors=True)


def make_wheel(pure: Path) -> Path:
    """Write a wheel for this platform beside a pure one: the same files, and the compiled modules."""
    name, version, _, _, _ = pure.stem.split("-")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    made = pure.with_name(f"{name}-{version}-{tag}.whl")
    record = f"{name}-{version}.dist-info/RECORD"
    rows: list[str] = []
    with zipfile.ZipFile(pure) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:

        def add(path: str, data: bytes) -> None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            target.writestr(zipfile.ZipInfo(path, _DATE), data, zipfile.ZIP_DEFLATED)
            rows.append(f"{path},sha256={digest},{len(data)}")

        for path in source.namelist():
            data = source.read(path)
            if path.endswith(".dist-info/WHEEL"):
                text = data.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
                data = re.sub(r"^Tag: .*$", f"Tag: {tag}", text, flags=re.MULTILINE).encode()
            if path != record:
                add(path, data)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        for extension in sorted(TARGET.rglob(f"*{suffix}")):
            add(extension.relative_to(TARGET).as_posix(), extension.read_bytes())
        target.writestr(zipfile.ZipInfo(record, _DATE), "\n".join([*rows, f"{record},,"]) + "\n", zipfile.ZIP_DEFLATED)
    return made


def main() -> None:
    """Build the compiled form unless it is up to date."""
    parser = argparse.ArgumentParser(prog="make compiled", description=__doc__)
    parser.add_argument("--if-possible", action="store_true", help="without a compiler print a message and exit with 0")
    parser.add_argument("--verbose", action="store_true", help="show the output of the compilers")
    parser.add_argument("--opt-level", default="2", choices=["0", "1", "2", "3"], help="how much the C compiler does")
    parser.add_argument(
        "--wheel", type=Path, metavar="PURE", help="also write a wheel for this platform beside this one"
    )
    chosen = parser.parse_args()
    wanted = fingerprint(chosen.opt_level)
    stamp = TARGET / STAMP
    if not stamp.exists() or stamp.read_text(encoding="ascii") != wanted:
        if shutil.which(os.environ.get("CC", "cc")) is None:
            shutil.rmtree(TARGET, ignore_errors=True)
            trouble = "there is no C compiler (cc): the package is used as it is"
            if chosen.if_possible:
                print(trouble, file=sys.stderr)
                return
            sys.exit(trouble)
        begin = time.monotonic()
        print(f"compiling {len(modules())} modules with mypyc …", file=sys.stderr)
        build(chosen.opt_level, verbose=chosen.verbose)
        stamp.write_text(wanted, encoding="ascii")
        print(f"compiled in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    if chosen.wheel is not None:
        print(make_wheel(chosen.wheel))


if __name__ == "__main__":
    main()
