"""Servers of the compared systems: locating, starting and stopping them.

An installed server is used. Otherwise Debian's packages are unpacked into `build/peers` without installing them: no
service is set up, the system is not changed, root is not needed, and `make clean` removes them. Every server listens on
a free port on loopback and ends with the process that started it.
"""

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Missing", "Server", "free_port", "locate", "unpacked"]

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "build" / "peers"
START_MAX_S = 60.0
STOP_MAX_S = 30.0
_PLACES = ("/usr/sbin", "/usr/local/sbin")
_PDEATHSIG = 1


class Missing(Exception):
    """A server is not installed and cannot be downloaded."""


def locate(program: str, package: str) -> Path:
    """Return the path of a program: installed, or from a Debian package."""
    own = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *_PLACES]))
    if own is not None:
        return Path(own)
    root = unpacked(package)
    for folder in ("usr/bin", "usr/sbin"):
        if (root / folder / program).exists():
            return root / folder / program
    raise Missing(f"the package {package} has no {program}")


def unpacked(package: str) -> Path:
    """Unpack a Debian package with its missing dependencies; return the folder."""
    root = STORE / package
    if (root / ".complete").exists():
        return root
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Missing(f"{package} is not installed, and there is no apt-get to fetch it with")
    plan = _output("apt-get", "--simulate", "--no-install-recommends", "install", package)
    names = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    shutil.rmtree(root, ignore_errors=True)
    debs = root / "debs"
    debs.mkdir(parents=True)
    _output("apt-get", "--quiet", "download", *names, folder=debs)
    for deb in debs.glob("*.deb"):
        _output("dpkg-deb", "--extract", str(deb), str(root))
    shutil.rmtree(debs)
    (root / ".complete").touch()
    return root


def libraries(program: Path) -> dict[str, str]:
    """Return the environment variables with which an unpacked program finds its libraries."""
    if STORE not in program.parents:
        return {}
    root = STORE / program.relative_to(STORE).parts[0]
    found = {str(path.parent) for path in root.glob("**/*.so*") if "lib" in path.parts}
    return {"LD_LIBRARY_PATH": os.pathsep.join(sorted(found))}


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server process."""

    def __init__(self, command: list[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = folder / f"{Path(command[0]).name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [str(part) for part in command],
                cwd=folder,
                env={**os.environ, **libraries(Path(command[0])), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )

    async def listening(self, port: int) -> None:
        """Wait until it accepts connections."""
        for _ in range(int(START_MAX_S / 0.05)):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{self._log.stem} did not start: {self._log.read_text(errors='replace')[-2000:]}")

    async def close(self) -> None:
        """Stop it and wait until it has ended."""
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


def _end_with_parent() -> None:
    """Ask the kernel to end this process together with its parent, so that no server is left running."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM)


def _output(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Missing(f"{' '.join(command[:3])}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout
