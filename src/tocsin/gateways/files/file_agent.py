"""One file agent being attended: its lines become commands, its messages become lines.

It is there as long as it has a sound directory of its own (`{agent}_to_…`): a piggyback session is open then and kept
fresh. Its lines are taken batch by batch: the next is read when every line of the last has its answer and both are
durable, so that an agent is read no faster than the exchange decides. What the hub cannot decide now is not answered
but read again later.

What waits for it is drained as it comes. The lines are its receipt: once they are on disk in its channel they are as
safe as the agent's own files, and it has no other way to say so. An ACK, where the contract asks for one, is a line of
its own.
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
from tocsin.core.messages.model import signal_id
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.gateways.files.answers import Addressee, Spot, answers_to, report
from tocsin.gateways.files.names import parties_of
from tocsin.gateways.files.parsing import Channel, Understood, understand
from tocsin.gateways.files.positions import Attended, Notebook, Position
from tocsin.gateways.files.projector import Projector
from tocsin.gateways.files.reading import Batch, Item, Outbox
from tocsin.gateways.files.safe_open import Unsound, directory
from tocsin.gateways.files.writing import Line
from tocsin.hub.service import Hub
from tocsin.hub.worker import Worker

__all__ = ["FileAgentSession"]

_log = logging.getLogger("tocsin.files")
#: Heartbeats in the time after which a session would be stale.
_BEATS = 3


class FileAgentSession:
    """Serves one file agent."""

    def __init__(
        self,
        hub: Hub,
        name: str,
        projector: Projector,
        reader: Worker,
        notebook: Notebook,
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
        self._notebook = notebook
        self._noted = notebook.load(f"agent-{name}", Attended)
        self._outboxes: dict[str, Outbox] = {}
        self._faults: dict[str, str] = {}
        self._beat_at = 0.0
        self._look = asyncio.Event()
        self._mail = asyncio.Event()
        #: Held from an offer to its receipt, so that a session never ends in between.
        self._handing_out = asyncio.Lock()
        #: Its name.
        self.agent = name
        self._caller = Caller(name, declared.role)
        self._session = self._noted.session
        if self._session:
            projector.sessions[self._session] = name

    @property
    def directories(self) -> list[str]:
        """Return the names of its sound directories."""
        return sorted(self._outboxes)

    def look(self) -> None:
        """Look at its files soon: something has changed there."""
        self._look.set()

    def mail(self) -> None:
        """Look at its mailbox soon, if there is anything in it."""
        agent = self._host.exchange.state.agents.get(self.agent)
        if agent is not None and agent.mailbox.depth:
            self._mail.set()

    async def register(self) -> None:
        """Make it known to the project, unless it is, in the same role."""
        known = self._host.exchange.state.agents.get(self.agent)
        if known is None or known.role != self._declared.role:
            versions = tuple(self._declared.versions) or VERSIONS
            reply = await self._submit(cmd.RegisterAgent(self._declared.type, versions))
            if isinstance(reply, Problem):
                raise error_for(reply)

    async def read(self) -> None:
        """Take its lines until cancelled."""
        more, pause_s = False, 0.0
        while True:
            if not more:
                self._look.clear()
            try:
                if not more:
                    before = self.directories
                    await self._tell_faults(await self._reader.run(self._find))
                    if before != self.directories:
                        self._directories_changed()
                await self._attach()
                self.mail()  # a commit whose answer was lost is told to no follower
                more, pause_s = await self._take_some()
            except OSError as error:
                _log.warning("the files of %s cannot be read, and will be tried again: %s", self.agent, error)
                more, pause_s = False, self._config.retry_s
            if pause_s:
                await asyncio.sleep(pause_s)
            elif not more:
                await _either(self._look, min(self._config.poll_interval_s, self._beat_interval_s))

    async def deliver(self) -> None:
        """Write what waits for it until cancelled; first take receipt of what was written before a restart."""
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
        """Close its session: it is not attended any more."""
        async with self._handing_out:
            if self._session in self._host.exchange.state.sessions:
                await self._settle()
                await self._submit(cmd.CloseSession(self._session))
            await self._use_session("")

    async def _settle(self) -> None:
        """Take receipt of what has been offered to it, once it is in its channels."""
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
        """Hand out once; say whether there may be more."""
        limit = self._host.exchange.state.policy.limits.drain_max
        reply = await self._submit(cmd.Drain(self._session, limit, confirms=False))
        if isinstance(reply, Problem):
            if reply.retryable:
                await asyncio.sleep(self._config.retry_s)
                self._mail.set()
            return False
        await self._settle()
        return isinstance(reply, cmd.Drained) and bool(reply.deliveries)

    async def _attach(self) -> None:
        """Be there as long as there is a directory, and show it."""
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
        """Take a session in use: nothing may be offered to it before it is noted and what is offered gets written."""
        self._projector.sessions.pop(self._session, None)
        self._session = ""
        self._noted.session = session
        await self._reader.run(self._save)
        if session:
            self._projector.sessions[session] = self.agent
            self._session = session

    def _save(self) -> None:
        self._notebook.save(f"agent-{self.agent}", self._noted)

    def _find(self) -> dict[str, Problem]:
        """Find its directories; return what is wrong with those that are not read."""
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
            except Unsound as error:
                faults[name] = _not_yours(error)
        self._outboxes = sound
        if len(self._noted.files) > 2 * self._config.files_per_agent_max:
            self._noted.files = {name: kept for name, kept in self._noted.files.items() if name in sound}
        return faults

    async def _tell_faults(self, faults: dict[str, Problem]) -> None:
        self._faults = {name: told for name, told in self._faults.items() if name in self._outboxes or name in faults}
        for name, problem in faults.items():
            await self._tell_fault(name, problem)

    async def _tell_fault(self, name: str, problem: Problem) -> None:
        """Tell the agent that something of its own is not read, once for each reason."""
        if self._faults.get(name) == problem.detail:
            return
        _log.warning("%s of file agent %s is not read: %s", name, self.agent, problem.detail)
        position = self._noted.files.get(name, Position())
        spot = Spot(f"{name}: {problem.detail}", position.generation, position.offset)
        await self._projector.write([report(spot, problem, self._addressee(), self._hub.now())])
        self._faults[name] = problem.detail

    async def _take_some(self) -> tuple[bool, float]:
        """Take a batch out of each directory; say whether there is more, and how long to rest, if at all."""
        any_more, pause_s = False, 0.0
        for name in self.directories:
            try:
                batch = await self._reader.run(partial(self._read_one, name))
            except Unsound as error:
                await self._tell_fault(name, _not_yours(error))
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
        """Take a batch; say whether all of it was taken, and whether some of it was refused."""
        parties = parties_of(name)
        receiver = "" if parties is None else parties[1]
        policy = self._host.exchange.state.policy
        channel = Channel(self.agent, receiver, policy.security.require_signatures)
        bytes_max = policy.limits.message_bytes_max
        asked: list[tuple[Item, Understood, Future[Reply] | None]] = []
        for item in batch.items:
            understood = understand(item, Spot(name, item.generation, item.offset), channel, bytes_max)
            future = None if understood.command is None else self._submit(understood.command)
            asked.append((item, understood, future))
            if future is not None and future.done() and _is_for_later(future.result()):
                break
        answers: list[Line] = []
        position: Position | None = None
        refused = whole = False
        for item, understood, future in asked:
            reply = understood.problem if future is None else await future
            if reply is not None:
                if _is_for_later(reply):
                    break
                refused = refused or isinstance(reply, Problem)
                spot = Spot(name, item.generation, item.offset)
                ids = (understood.message_id, understood.correlation_id)
                answers += answers_to(spot, reply, self._addressee(), self._hub.now(), *ids)
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


def _not_yours(error: Unsound) -> Problem:
    return refusal(
        "E_AUTH_001", f"it is not read: {error}", expected="a directory and a plain file of your own"
    ).problem


def _too_many(limit: int) -> Problem:
    return refusal("E_ADMISSION_008", f"only {limit} directories of one agent are read, and this is one more").problem


def _is_for_later(reply: Reply) -> bool:
    """Tell whether the hub could not decide: the line is not answered, but read again."""
    return isinstance(reply, Problem) and reply.code.startswith("E_HUB_")


async def _either(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
