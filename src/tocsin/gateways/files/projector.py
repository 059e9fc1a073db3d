"""Projection of the journal to channel files: the events that become lines.

Theory of operation. A message to an agent that is not a file agent becomes a line when it is accepted: the file is a
record in the order of acceptance. A message to a file agent becomes a line when it is offered to the agent's session,
and again with each new offer: for such an agent the line *is* the delivery, and a message that was recalled or expired
before must never be in the file. The messages of a file agent are in its own file already; a message between two file
agents is written to the recipient in the bus's channel.

Events come from the host as they are committed. They wait in memory up to a limit. Above it they are dropped here and
read from the journal instead, as they are at the start. Only the receipts of file agents wait for the projector. A
write that fails is retried until it succeeds.
"""

import asyncio
import logging
import secrets
from collections import deque

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.messages.acceptance import message_of
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.protocol.negotiation import render
from tocsin.core.state import ProjectState
from tocsin.gateways.files.names import BUS, MESSAGES, directory_of
from tocsin.gateways.files.positions import PositionStore, Progress
from tocsin.gateways.files.writing import ChannelWriter, Line, numbered
from tocsin.hub.hosting.host import Host
from tocsin.hub.hosting.worker import Worker
from tocsin.journal.errors import JournalError
from tocsin.journal.log import events_of

__all__ = ["Projector", "progressed"]

_log = logging.getLogger("tocsin.files")
_PROGRESS = "written"
#: Memory that an event takes in addition to its content, bytes.
_OVERHEAD = 256
#: Groups of the journal that are read at a time when catching up.
_GROUPS = 64

Span = tuple[int, list[Event]]


class Projector:
    """Writes one project's channels."""

    def __init__(
        self, host: Host, writer: ChannelWriter, worker: Worker, positions: PositionStore, progress: Progress
    ) -> None:
        self._host = host
        self._writer = writer
        self._worker = worker
        self._positions = positions
        self._config = writer.config
        self._written = progress.written_seq
        self._waiting: deque[Span] = deque()
        self._waiting_events = self._waiting_bytes = 0
        self._behind = True
        self._next_seq = self._written + 1
        self._warned: dict[str, str] = {}
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        #: Id of the journal.
        self.journal_id = progress.journal_id
        #: Agent by session, for the sessions of file agents: messages offered to them are written.
        self.sessions: dict[str, str] = {}
        #: Messages that could not be written because their directory is unsafe, with the reason.
        self.unsound: dict[int, str] = {}

    @property
    def root(self) -> int:
        """Return the directory of all channels, open."""
        return self._writer.root

    @property
    def written_seq(self) -> int:
        """Return the sequence number of the last event in the channels."""
        return self._written

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Queue events that have just been committed."""
        self._waiting_events += len(events)
        self._waiting_bytes += sum(map(_weight, events))
        config = self._config
        full = self._waiting_events > config.backlog_events_max or self._waiting_bytes > config.backlog_bytes_max
        gap = first_seq > self._next_seq
        self._next_seq = max(self._next_seq, first_seq + len(events))
        if self._behind or full or gap:
            self._behind = True
            self._forget()
        else:
            self._waiting.append((first_seq, events))
        self._news.set()

    async def reached(self, seq: int) -> None:
        """Wait until the channels include a sequence number."""
        while self._written < seq:
            self._progress.clear()
            await self._progress.wait()

    async def settled(self) -> None:
        """Wait until the channels include the last commit."""
        await self.reached(self._host.journal.last_seq())

    async def run(self) -> None:
        """Follow the journal until cancelled."""
        while True:
            try:
                if await self._step():
                    continue
            except (OSError, JournalError) as error:
                _log.warning("the channels cannot be written and will be retried: %s", error)
                self._behind = True
                self._forget()
                await asyncio.sleep(self._config.retry_s)
                continue
            self._news.clear()
            if not self._behind and not self._waiting:
                await self._news.wait()

    async def write(self, lines: list[Line]) -> dict[str, str]:
        """Append lines that do not come from the journal."""
        return await self._worker.run(lambda: self._writer.append(lines))

    async def _step(self) -> bool:
        """Write the queued events, or a part of those in the journal; return whether there may be more."""
        if self._behind:
            spans = await self._worker.run(self._missing)
            if not spans:
                # Events committed since then arrive with the next commit, or are read in the next step.
                self._behind = self._host.journal.last_seq() > self._written
                self._next_seq = self._written + 1
                return self._behind
        else:
            spans = list(self._waiting)
            self._forget()
        if not spans:
            return False
        upto = max(self._written, spans[-1][0] + len(spans[-1][1]) - 1)
        lines, messages = self._lines_of(spans)
        unsound = await self._worker.run(lambda: self._store(lines, upto))
        for name, why in unsound.items():
            self._warn(name, why)
        for line in lines:
            if line.directory in unsound and line.seq in messages:
                self.unsound[messages[line.seq]] = unsound[line.directory]
        self._written = upto
        self._progress.set()
        return True

    def _store(self, lines: list[Line], upto: int) -> dict[str, str]:
        unsound = self._writer.append(lines)
        self._positions.save(_PROGRESS, Progress(upto, self.journal_id))
        return unsound

    def _missing(self) -> list[Span]:
        """Read the next groups from the journal."""
        journal = self._host.journal
        pruned = journal.pruned_seq()
        if self._written < pruned:
            if self._written:
                _log.error(
                    "events %d to %d have been pruned from the journal: no lines are written for them",
                    self._written + 1,
                    pruned,
                )
            self._written = pruned
        return [(group.first_seq, events_of(group)) for group in journal.read(self._written, _GROUPS)]

    def _warn(self, name: str, why: str) -> None:
        """Log an unsafe directory, once for each reason."""
        if self._warned.get(name) != why:
            if len(self._warned) >= self._config.tails_max:
                self._warned.clear()
            self._warned[name] = why
            _log.warning("channel %s is not written: %s", name, why)

    def _forget(self) -> None:
        self._waiting.clear()
        self._waiting_events = self._waiting_bytes = 0

    def _lines_of(self, spans: list[Span]) -> tuple[list[Line], dict[int, int]]:
        """Turn events into lines; also return the offered messages by the number of their line's event."""
        state = self._host.exchange.state
        lines: list[Line] = []
        messages: dict[int, int] = {}
        for first_seq, events in spans:
            content = (b"", b"")
            offers: list[tuple[int, ev.MessageOffered]] = []
            for seq, event in enumerate(events, first_seq):
                if seq <= self._written:
                    continue
                if type(event) is ev.BroadcastAccepted:
                    content = (event.payload, event.metadata)
                elif type(event) is ev.MessageAccepted:
                    lines += self._recorded(seq, event, content, state)
                elif type(event) is ev.MessageOffered and event.session in self.sessions:
                    offers.append((seq, event))
            for seq, event in _in_order(offers):
                message = state.messages.get(event.message)
                if message is not None and _stands(message, event):
                    messages[seq] = message.seq
                    lines.append(self._delivered(seq, message, state))
        return lines, messages

    def _recorded(
        self, seq: int, event: ev.MessageAccepted, content: tuple[bytes, bytes], state: ProjectState
    ) -> list[Line]:
        agents = self._config.agents
        if event.sender in agents or event.recipient in agents:
            return []
        payload, metadata = content if event.broadcast else (event.payload, event.metadata)
        carried = (payload, numbered(metadata, self.journal_id, seq))
        data = render(message_of(seq, event, event.sender, event.recipient, carried), state)
        return [Line(directory_of(event.sender, event.recipient), MESSAGES, data, seq)]

    def _delivered(self, seq: int, message: Message, state: ProjectState) -> Line:
        sender = BUS if message.sender in self._config.agents else message.sender
        numbered_message = message.copy()
        numbered_message.metadata = numbered(message.metadata, self.journal_id, seq)
        return Line(directory_of(sender, message.recipient), MESSAGES, render(numbered_message, state), seq)


def progressed(host: Host, positions: PositionStore) -> Progress:
    """Return the position of the channels; start again for a journal that ends before it, which is another one."""
    noted = positions.load(_PROGRESS, Progress)
    if not noted.journal_id or noted.written_seq > host.journal.last_seq():
        noted = Progress(0, secrets.token_hex(4))
        positions.save(_PROGRESS, noted)
    return noted


def _weight(event: Event) -> int:
    """Return the memory that an event takes, bytes."""
    if type(event) is ev.MessageAccepted or type(event) is ev.BroadcastAccepted:
        return _OVERHEAD + len(event.payload) + len(event.metadata)
    return _OVERHEAD


def _in_order(offers: list[tuple[int, ev.MessageOffered]]) -> list[tuple[int, ev.MessageOffered]]:
    """Return the offers of one commit in the order in which their messages were accepted.

    A drain offers the most urgent messages first; a channel is in order of acceptance (APM §6.4). The numbers of the
    offers are assigned again in that order, so that they grow along the file, and always in the same way.
    """
    ordered = sorted((event for _, event in offers), key=lambda event: (event.message, event.offer))
    return list(zip((seq for seq, _ in offers), ordered, strict=True))


def _stands(message: Message, offer: ev.MessageOffered) -> bool:
    """Tell whether an offer is still valid: neither withdrawn nor repeated."""
    if message.offers != offer.offer or not message.payload:
        return False
    return message.state not in (State.QUEUED, State.EXPIRED, State.RECALLED, State.DEAD)
