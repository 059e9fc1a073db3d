"""The session of one file agent: its lines become commands, and messages for it become lines.

The agent is present as long as it has a safe directory (`{agent}_to_…`): a piggyback session is then open and kept
fresh. Its lines are read in batches. The next batch is read when every line of the last one has its answer and both are
durable, so that an agent is read no faster than the exchange decides. A line that the hub cannot decide at present is
not answered but read again later.

Messages for the agent are drained as they arrive. Writing the lines confirms the delivery: once they are on disk in the
agent's channel they are as safe as the agent's own files, and the agent has no other way to confirm. An ACK, if the
contract requires one, is a line that the agent writes.
"""

import asyncio
import logging
import os
import time
from asyncio import Future
from collections.abc import Callable
from functools import partial

from tocsin.core import commands as cmd
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.messages.message import signal_id
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.gateways.files.answers import Addressee, LineRef, answers_to, report
from tocsin.gateways.files.names import parties_of
from tocsin.gateways.files.parsing import Channel, ParsedLine, parse_line
from tocsin.gateways.files.positions import FileAgentState, Position, PositionStore
from tocsin.gateways.files.projector import Projector
from tocsin.gateways.files.reading import Batch, Item, Outbox
from tocsin.gateways.files.safe_open import UnsafePath, directory
from tocsin.gateways.files.writing import Line
from tocsin.hub.hosting.worker import Worker
from tocsin.hub.service import Hub

__all__ = ["FileAgentSession"]

_log = logging.getLogger("tocsin.files")
#: Heartbeats within the time after which a session would be stale.
_BEATS = 3


class FileAgentSession:
    """Serves one file agent."""

    def __init__(
        self,
        hub: Hub,
        name: str,
        projector: Projector,
        reader: Worker,
        positions: PositionStore,
        directories_changed: Callable[[], None],
    ) -> None:
        self._hub = hub
        self._host = hub.host
        self._config = hub.config.channels
        self._declared = declared = self._config.agents[name]
        self._directories_changed = directories_changed
        self._owner = os.geteuid() if declared.uid is None else declared.uid
        self._projector = projector
        self._reader = reader
        self._positions = positions
        self._noted = positions.load(f"agent-{name}", FileAgentState)
        self._outboxes: dict[str, Outbox] = {}
        self._faults: dict[str, str] = {}
        self._beat_at = 0.0
        self._look = asyncio.Event()
        self._mail = asyncio.Event()
        #: Held from an offer to its receipt, so that the session does not end in between.
        self._handing_out = asyncio.Lock()
        #: Its name.
        self.agent = name
        self._caller = Caller(name, declared.role, (declared.type,))
        self._session = self._noted.session
        if self._session:
            projector.sessions[self._session] = name

    @property
    def directories(self) -> list[str]:
        """Return the names of its safe directories."""
        return sorted(self._outboxes)

    def look(self) -> None:
        """Check its files soon: something has changed there."""
        self._look.set()

    def mail(self) -> None:
        """Drain its mailbox soon, if there is anything in it."""
        agent = self._host.exchange.state.agents.get(self.agent)
        if agent is not None and agent.mailbox.depth:
            self._mail.set()

    async def register(self) -> None:
        """Register the agent, unless it is registered in the same role."""
        known = self._host.exchange.state.agents.get(self.agent)
        if known is None or known.role != self._declared.role:
            versions = tuple(self._declared.versions) or VERSIONS
            reply = await self._submit(cmd.RegisterAgent(self._declared.type, versions))
            if isinstance(reply, Problem):
                raise error_for(reply)

    async def read(self) -> None:
        """Read and submit its lines until cancelled."""
        more, pause_s = False, 0.0
        while True:
            if not more:
                self._look.clear()
            try:
                if not more:
                    before = self.directories
                    await self._report_faults(await self._reader.run(self._find))
                    if before != self.directories:
                        self._directories_changed()
                await self._attach()
                self.mail()  # followers are not called for a commit whose result was lost
                more, pause_s = await self._take_some()
            except OSError as error:
                _log.warning("the files of %s cannot be read and will be retried: %s", self.agent, error)
                more, pause_s = False, self._config.retry_s
            if pause_s:
                await asyncio.sleep(pause_s)
            elif not more:
                await _either(self._look, min(self._config.poll_interval_s, self._beat_interval_s))

    async def deliver(self) -> None:
        """Write messages for it until cancelled; first confirm those that were written before a restart."""
        async with self._handing_out:
            await self._settle()
        self.mail()
        while True:
            await self._mail.wait()
            self._mail.clear()
            async with self._handing_out:
                while self._session and self._depth():
                    if not await self._drain():
                        break

    async def leave(self) -> None:
        """Close its session."""
        async with self._handing_out:
            if self._session in self._host.exchange.state.sessions:
                await self._settle()
                await self._submit(cmd.CloseSession(self._session))
            await self._use_session("")

    async def _settle(self) -> None:
        """Confirm the messages that were offered to it, once they are written to its channels."""
        state = self._host.exchange.state
        session = state.sessions.get(self._session)
        offered = [] if session is None else [state.messages[seq] for seq in session.in_flight]
        if not offered or isinstance(await self._host.durable(), Problem):
            return
        await self._projector.settled()
        written = [signal_id(message) for message in offered if message.seq not in self._projector.unsound]
        batch = state.policy.limits.batch_max
        for start in range(0, len(written), batch):
            await self._submit(cmd.Confirm(tuple(written[start : start + batch])))
        for message in offered:
            why = self._projector.unsound.pop(message.seq, None)
            if why is not None:
                detail = f"its channel is unavailable: {why}"
                await self._submit(cmd.Reject(signal_id(message), detail, "E_ROUTING_003", can_retry=True))

    @property
    def _beat_interval_s(self) -> float:
        return self._host.exchange.state.policy.sessions.stale_after_s / _BEATS

    def _submit(self, command: Command) -> "Future[Reply]":
        return self._host.submit(command, self._caller)

    def _depth(self) -> int:
        agent = self._host.exchange.state.agents.get(self.agent)
        return 0 if agent is None else agent.mailbox.depth

    async def _drain(self) -> bool:
        """Drain its mailbox once; return whether there may be more."""
        limit = self._host.exchange.state.policy.limits.drain_max
        reply = await self._submit(cmd.Drain(self._session, limit))
        if isinstance(reply, Problem):
            if reply.retryable:
                await asyncio.sleep(self._config.retry_s)
                self._mail.set()
            return False
        await self._settle()
        return isinstance(reply, cmd.Drained) and bool(reply.deliveries)

    async def _attach(self) -> None:
        """Keep a session open and fresh while it has a directory; close it when it has none."""
        state = self._host.exchange.state
        session = self._session
        if not self._outboxes:
            if session:
                await self.leave()
            return
        if session not in state.sessions:
            opened = await self._submit(cmd.OpenSession("piggyback"))
            if isinstance(opened, cmd.SessionReady):
                await self._use_session(opened.session)
                self.mail()
            return
        if time.monotonic() - self._beat_at >= self._beat_interval_s:
            self._beat_at = time.monotonic()
            await self._submit(cmd.Heartbeat(session))

    async def _use_session(self, session: str) -> None:
        """Use a session: it is stored, and its offers are written, before anything may be offered to it."""
        self._projector.sessions.pop(self._session, None)
        self._session = ""
        self._noted.session = session
        await self._reader.run(self._save)
        if session:
            self._projector.sessions[session] = self.agent
            self._session = session

    def _save(self) -> None:
        self._positions.save(f"agent-{self.agent}", self._noted)

    def _find(self) -> dict[str, Problem]:
        """Find its directories; return the problems of those that are not read."""
        root, found = self._projector.root, []
        with os.scandir(root) as entries:
            for entry in entries:
                parties = parties_of(entry.name)
                if parties is not None and parties[0] == self.agent:
                    found.append(entry.name)
        sound: dict[str, Outbox] = {}
        faults: dict[str, Problem] = {}
        for name in sorted(found):
            if len(sound) >= self._config.files_per_agent_max:
                faults[name] = _too_many(self._config.files_per_agent_max)
                break
            try:
                with directory(root, name, self._owner):
                    sound[name] = self._outboxes.get(name) or Outbox(
                        root, name, self._owner, partial_line_timeout_s=self._config.partial_line_timeout_s
                    )
            except FileNotFoundError:
                continue
            except UnsafePath as error:
                faults[name] = _not_yours(error)
        self._outboxes = sound
        if len(self._noted.files) > 2 * self._config.files_per_agent_max:
            self._noted.files = {name: kept for name, kept in self._noted.files.items() if name in sound}
        return faults

    async def _report_faults(self, faults: dict[str, Problem]) -> None:
        self._faults = {
            name: detail for name, detail in self._faults.items() if name in self._outboxes or name in faults
        }
        for name, problem in faults.items():
            await self._report_fault(name, problem)

    async def _report_fault(self, name: str, problem: Problem) -> None:
        """Report to the agent that one of its directories is not read, once for each reason."""
        if self._faults.get(name) == problem.detail:
            return
        _log.warning("%s of file agent %s is not read: %s", name, self.agent, problem.detail)
        position = self._noted.files.get(name, Position())
        line_ref = LineRef(f"{name}: {problem.detail}", position.generation, position.offset)
        await self._projector.write([report(line_ref, problem, self._addressee(), self._hub.now())])
        self._faults[name] = problem.detail

    async def _take_some(self) -> tuple[bool, float]:
        """Read and submit a batch from each directory; return whether there is more, and the pause before it."""
        any_more, pause_s = False, 0.0
        for name in self.directories:
            try:
                batch = await self._reader.run(partial(self._read_one, name))
            except UnsafePath as error:
                await self._report_fault(name, _not_yours(error))
                continue
            except FileNotFoundError:
                continue
            self._faults.pop(name, None)
            any_more = any_more or batch.more
            if batch.items:
                whole, refused = await self._take(name, batch)
                if not whole:
                    return True, self._config.retry_s
                if refused:
                    pause_s = self._config.refusal_pause_s
        return any_more, pause_s

    def _read_one(self, name: str) -> Batch:
        position = self._noted.files.get(name, Position())
        limit = self._host.exchange.state.policy.limits.message_bytes_max
        return self._outboxes[name].read(position, self._config.lines_max, limit)

    async def _take(self, name: str, batch: Batch) -> tuple[bool, bool]:
        """Submit a batch; return whether all of it was decided, and whether a line was refused."""
        parties = parties_of(name)
        receiver = "" if parties is None else parties[1]
        policy = self._host.exchange.state.policy
        channel = Channel(self.agent, receiver, policy.security.require_signatures)
        bytes_max = policy.limits.message_bytes_max
        asked: list[tuple[Item, ParsedLine, Future[Reply] | None]] = []
        for item in batch.items:
            parsed = parse_line(item, LineRef(name, item.generation, item.offset), channel, bytes_max)
            future = None if parsed.command is None else self._submit(parsed.command)
            asked.append((item, parsed, future))
            if future is not None and future.done() and _is_for_later(future.result()):
                break
        answers: list[Line] = []
        position: Position | None = None
        refused = whole = False
        for item, parsed, future in asked:
            reply = parsed.problem if future is None else await future
            if reply is not None:
                if _is_for_later(reply):
                    break
                refused = refused or isinstance(reply, Problem)
                line_ref = LineRef(name, item.generation, item.offset)
                ids = (parsed.message_id, parsed.correlation_id)
                answers += answers_to(line_ref, reply, self._addressee(), self._hub.now(), *ids)
            position = item.after
        else:
            whole = True
        unsound = await self._projector.write(answers)
        for directory_name, why in unsound.items():
            _log.warning("%s cannot be answered in %s: %s", self.agent, directory_name, why)
        if position is not None:
            self._noted.files[name] = position
            await self._reader.run(self._save)
        return whole, refused

    def _addressee(self) -> Addressee:
        known = self._host.exchange.state.agents.get(self.agent)
        if known is None:
            return Addressee(self.agent, self._declared.type, VERSIONS[-1], self._projector.journal_id)
        return Addressee(known.agent, known.agent_type, known.version, self._projector.journal_id)


def _not_yours(error: UnsafePath) -> Problem:
    return refusal(
        "E_AUTH_001", f"the directory is not read: {error}", expected="a directory and a regular file that you own"
    ).problem


def _too_many(limit: int) -> Problem:
    return refusal(
        "E_ADMISSION_008", f"at most {limit} directories of one agent are read, and this one is above the limit"
    ).problem


def _is_for_later(reply: Reply) -> bool:
    """Tell whether the hub could not decide: the line is then read again instead of answered."""
    return isinstance(reply, Problem) and reply.code.startswith("E_HUB_")


async def _either(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
