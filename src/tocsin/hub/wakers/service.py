"""Wakers of a project: carries out the wakes that the exchange requests, and reports how each waker ended.

The exchange decides when an agent is woken and when a wake has failed; this module only starts and ends. A wake that
was under way when an earlier hub ended is taken over: its process is watched on if it still runs, and is reported as
lost otherwise.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import ClassVar

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, DeclareWakers, ReportWaker
from tocsin.core.errors import Problem, refusal
from tocsin.core.events import Event
from tocsin.hub.config import Waker, WakerConfig
from tocsin.hub.hosting.host import Host
from tocsin.hub.wakers.process import ProcessLimits, WakerProcess, read_note
from tocsin.hub.webhook_delivery import Address

__all__ = ["Wakers"]

_log = logging.getLogger(__name__)
#: Shortest accepted secret of a webhook, bytes.
_SECRET_MIN = 16
#: Time before a report that could not be stored is repeated, seconds.
_REPORT_AGAIN_S = 0.5
#: Endings of a wake after which its process is ended.
_ENDINGS = ("timeout", "retired")


class Wakers:
    """Starts and ends the wakers of one project."""

    #: Kinds of events to follow.
    kinds: ClassVar[frozenset[type]] = frozenset(
        {ev.AgentWakeRequested, ev.AgentWoken, ev.AgentWakeFailed, ev.WakerExited}
    )

    def __init__(self, host: Host, config: WakerConfig, data: Path, url: str) -> None:
        self._host, self._config, self._data, self._url = host, config, data, url
        self._folder = data / "wakes"
        self._limits = ProcessLimits(config.log_bytes_max, config.check_s, config.kill_after_s)
        self._loop = asyncio.get_running_loop()
        #: Latest process of each agent; an agent has one at a time.
        self._processes: dict[str, WakerProcess] = {}
        self._reports: set[asyncio.Task[None]] = set()
        self._closing = False
        self._addresses = {
            (where, name): _address(name, waker, data, config.webhook_timeout_s)
            for where, rows in (("agent", config.agents), ("role", config.roles))
            for name, waker in rows.items()
            if waker.webhook is not None
        }
        #: Called with the wake when its process or webhook is started.
        self.on_start: Callable[[str], None] | None = None

    async def start(self) -> None:
        """Declare the wakers to the exchange, and take over the wakes that are under way."""
        declared = DeclareWakers(tuple(self._config.agents), tuple(self._config.roles))
        reply = await self._host.submit(declared, SYSTEM)
        if isinstance(reply, Problem):
            _log.error("the wakers could not be declared: %s", reply.detail)
        for record in list(self._host.exchange.state.wakes.values()):
            if not record.wake or record.exited:
                continue
            note = read_note(self._folder / record.agent / f"{record.wake}.json")
            if note is not None:
                process = self._processes[record.agent] = self._process(record.agent, record.wake)
                process.adopt(note)
                if record.settled and record.outcome not in ("woken", "moot"):
                    process.end()
            else:
                self._report(record.agent, record.wake, "lost", None, "the hub was restarted")

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Start and end wakers as durable events say."""
        for event in events:
            if type(event) is ev.AgentWakeRequested:
                self._wake(event)
            elif type(event) is ev.AgentWoken:
                self._tell(event, WakerProcess.settle)
            elif type(event) is ev.AgentWakeFailed:
                self._tell(event, WakerProcess.settle if event.reason == "moot" else WakerProcess.end)
            elif type(event) is ev.WakerExited and event.outcome in _ENDINGS:
                self._tell(event, WakerProcess.end)

    def _tell(
        self, event: ev.AgentWoken | ev.AgentWakeFailed | ev.WakerExited, what: Callable[[WakerProcess], None]
    ) -> None:
        """Call a method of the process of a wake, if this hub has started or adopted it."""
        process = self._processes.get(event.agent)
        if process is not None and process.wake == event.wake:
            what(process)

    async def close(self) -> None:
        """Stop reporting; processes that run are left to the next hub."""
        self._closing = True
        for task in list(self._reports):
            task.cancel()
        await asyncio.gather(*self._reports, return_exceptions=True)

    def _wake(self, event: ev.AgentWakeRequested) -> None:
        where, name, waker = self._waker_of(event.agent)
        if waker is None:
            self._report(event.agent, event.wake, "not_started", None, "server.yaml names no waker for this agent")
        elif waker.webhook is not None:
            self._post(event.agent, event.wake, self._addresses[where, name])
        else:
            self._start(event.agent, event.wake, waker)
        if self.on_start is not None:
            self.on_start(event.wake)

    def _waker_of(self, agent: str) -> tuple[str, str, Waker | None]:
        """Return the waker of an agent, and the setting that has it: by agent, or else by role."""
        known = self._host.exchange.state.agents.get(agent)
        if agent in self._config.agents or known is None:
            return "agent", agent, self._config.agents.get(agent)
        return "role", known.role, self._config.roles.get(known.role)

    def _start(self, agent: str, wake: str, waker: Waker) -> None:
        token = self._data / (waker.token_file or f"tokens/{agent}.token")
        if not token.is_file():
            detail = f"{token.name} does not exist: `tocsin agents add {agent} --save` makes it, or name a token_file"
            self._report(agent, wake, "not_started", None, detail)
            return
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
        environment |= {
            "TOCSIN_URL": self._url,
            "TOCSIN_TOKEN_FILE": str(token.resolve()),
            "TOCSIN_WAKE": wake,
            "TOCSIN_AGENT": agent,
        }
        directory = Path.cwd() if waker.directory is None else Path(waker.directory)
        before = self._processes.get(agent)
        process = self._processes[agent] = self._process(agent, wake)
        self._forget_logs(agent)
        process.start(list(waker.command), environment, directory, before)

    def _process(self, agent: str, wake: str) -> WakerProcess:
        def ended(wake: str, outcome: str, code: int | None, detail: str) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._report, agent, wake, outcome, code, detail)

        waker = self._waker_of(agent)[2]
        leaves_programs = waker is not None and waker.leaves_programs
        return WakerProcess(wake, self._folder / agent, self._limits, ended, leaves_programs=leaves_programs)

    def _forget_logs(self, agent: str) -> None:
        """Remove the oldest logs of an agent over the limit."""
        logs = sorted((self._folder / agent).glob("*.log"), key=lambda path: path.name)
        for path in logs[: max(0, len(logs) - self._config.logs_max + 1)]:
            path.unlink(missing_ok=True)

    def _post(self, agent: str, wake: str, address: Address) -> None:
        """Post a wake to a webhook, on a thread of its own."""
        body = msgspec.json.encode(
            {
                "project": self._host.project,
                "event": "AgentWakeRequested",
                "agent": agent,
                "wake": wake,
                "url": self._url,
            }
        )

        def post() -> None:
            failure = address.post("AgentWakeRequested", wake, body)
            outcome, code, detail = ("exited", 200, "") if failure is None else ("not_started", None, failure.detail)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._report, agent, wake, outcome, code, detail)

        Thread(target=post, name=f"waker {wake}", daemon=True).start()

    def _report(self, agent: str, wake: str, outcome: str, code: int | None, detail: str) -> None:
        if self._closing:
            return
        command = ReportWaker(agent, wake, outcome, code, detail)  # type: ignore[arg-type]
        task = self._loop.create_task(self._reported(command))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _reported(self, command: ReportWaker) -> None:
        """Report until it is durable."""
        while isinstance(reply := await self._host.submit(command, SYSTEM), Problem):
            _log.warning("the end of wake %s could not be stored: %s", command.wake, reply.detail)
            await asyncio.sleep(_REPORT_AGAIN_S)


def _address(name: str, waker: Waker, data: Path, timeout_s: float) -> Address:
    path = data / (waker.secret_file or "")
    secret = path.read_bytes().strip() if path.is_file() else b""
    if len(secret) < _SECRET_MIN:
        raise refusal(
            "E_POLICY_001",
            f"waker of {name}: secret_file must name a file with a secret of {_SECRET_MIN} bytes or more",
        )
    return Address(f"waker of {name}", waker.webhook or "", secret, timeout_s)
