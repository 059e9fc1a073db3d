"""The past, read from the tables: the conformance suite, part three."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.envelopes import parsed
from tests.ids import SeededIds
from tests.stores.conftest import STORES, new_store
from tests.stores.test_recovery import lived, project
from tests.workload import DIRECTOR, Workload
from tocsin.core.commands import SYSTEM, AdoptPolicy, RegisterAgent, Send
from tocsin.core.events import MessageAccepted
from tocsin.core.messages.model import State
from tocsin.core.policy import document_of
from tocsin.journal.base import Journal
from tocsin.journal.changes import LEVEL_EVENTS, ObservedExchange
from tocsin.journal.history import EXCERPT_CHARS, Page, Wanted
from tocsin.journal.log import EventLog, tail
from tocsin.journal.records import life_of
from tocsin.journal.table_definitions import MESSAGES, POLICIES
from tocsin.journal.tables import Tables

#: Place of the sequence number in a row.
SEQ = MESSAGES.names.index("seq")

OPEN = [State.QUEUED.value, State.OFFERED.value]


@pytest.fixture
def tables(journal: Journal) -> Iterator[Tables]:
    opened = journal.tables()
    yield opened
    opened.close()


def pages(ask: Callable[[int, int], Page[Any]], limit: int) -> list[Any]:
    """Read a listing page by page."""
    found: list[Any] = []
    cursor: int | None = 0
    while cursor is not None:
        page = ask(cursor, limit)
        assert len(page.items) <= limit
        assert page.items or page.next is None
        found += page.items
        cursor = page.next
    return found


def test_a_message_is_found_with_its_whole_life(journal: Journal, tables: Tables) -> None:
    exchange = lived(journal, tables, 11, 600, 0.5)
    project(exchange, tables)
    lives: dict[int, list[str]] = {}
    ids: dict[int, tuple[str, str]] = {}
    for seq, event in tail(journal, 0):
        if isinstance(event, MessageAccepted):
            ids[seq] = (event.message_id, event.recipient)
            lives[seq] = ["MessageAccepted"]
        elif (number := getattr(event, "message", None)) is not None:
            lives[number].append(type(event).__name__)
        elif type(event) in LEVEL_EVENTS:
            for number in LEVEL_EVENTS[type(event)](event):
                lives[number].append(type(event).__name__)
    assert len(lives) > 50
    for seq, (message_id, recipient) in ids.items():
        signals = {signal.seq: signal for signal in tables.signals(message_id)}
        signal = signals[seq]
        assert signal.recipient == recipient
        assert [entry["kind"] for entry in life_of(signal.life)] == lives[seq]
        assert isinstance(msgspec.json.decode(signal.payload), dict)
        assert isinstance(msgspec.json.decode(signal.metadata), dict)
        assert tables.signals(signal.signal_id)[0].signal_id == signal.signal_id
    assert tables.signals("msg_0_nothing") == []


def test_the_three_terminal_stamps_exclude_each_other(journal: Journal, tables: Tables) -> None:
    exchange = lived(journal, tables, 12, 1000, 0.3)
    project(exchange, tables)
    places = [MESSAGES.names.index(name) for name in ("delivered_at", "expired_at", "recalled_at")]
    stamped = [sum(row[place] is not None for place in places) for row in tables.rows(MESSAGES)]
    assert set(stamped) == {0, 1}


def test_a_thread_a_mailbox_and_the_dead_letters_are_listed_in_pages(journal: Journal, tables: Tables) -> None:
    exchange = lived(journal, tables, 13, 1200, 0.3)
    project(exchange, tables)
    accepted = [(seq, event) for seq, event in tail(journal, 0) if isinstance(event, MessageAccepted)]
    threads = Counter(event.correlation_id for _, event in accepted if event.correlation_id is not None)
    name = threads.most_common(1)[0][0]
    thread = [seq for seq, event in accepted if event.correlation_id == name]
    assert len(thread) > 2
    assert [signal.seq for signal in pages(lambda c, n: tables.thread(name, c, n), 2)] == thread
    messages = exchange.state.messages.values()
    mine = [message.seq for message in messages if message.recipient == "agent1" and message.state in OPEN]
    assert [signal.seq for signal in pages(lambda c, n: tables.mailbox("agent1", OPEN, c, n), 3)] == sorted(mine)
    letters = pages(tables.dead_letters, 3)
    assert len(letters) > 3
    assert [letter.signal.seq for letter in letters] == list(exchange.state.dead)
    for letter in letters:
        assert letter.signal.dead_at
        failure = exchange.state.failures[letter.signal.seq]
        assert (letter.failures, letter.first_failed_at, letter.last_failed_at, letter.reason, letter.code) == (
            failure.count,
            failure.first_at,
            failure.last_at,
            failure.reason,
            failure.code,
        )


def test_payloads_are_searched_by_their_words(journal: Journal, tables: Tables) -> None:
    exchange = lived(journal, tables, 14, 800, 0.2)
    project(exchange, tables)
    assert tables.search("word3", 0, 10).items == []
    while tables.index(7):
        pass
    accepted = [(seq, event) for seq, event in tail(journal, 0) if isinstance(event, MessageAccepted)]
    expected = [seq for seq, event in accepted if b'"word3 ' in event.payload]
    assert len(expected) > 3
    assert [signal.seq for signal in pages(lambda c, n: tables.search("word3", c, n), 2)] == expected[::-1]
    assert [s.seq for s in pages(lambda c, n: tables.search("KÖRPER word3", c, n), 5)] == expected[::-1]
    broadcasts = [seq for seq, event in accepted if event.broadcast is not None]
    assert [s.seq for s in pages(lambda c, n: tables.search("all", c, n), 5)] == broadcasts[::-1]
    for nothing in ("", "   ", "nosuchword", '"', "word3 nosuchword", "a:b* OR (", "\0"):
        assert tables.search(nothing, 0, 10).items == []


def test_a_payload_as_large_as_they_get_can_be_stored_and_searched(journal: Journal, tables: Tables) -> None:
    exchange = ObservedExchange(SeededIds(1))
    team = Workload(1)
    words = " ".join(f"w{number}" for number in range(120_000))
    events = exchange.handle(AdoptPolicy(document_of(team.policy), "a \0 reason"), SYSTEM, team.now).events
    events += exchange.handle(RegisterAgent("Manager", ("1.1.0",)), DIRECTOR, team.now).events
    sent = parsed("msg_1_large", "boss", "boss", payload={"text": words})
    events += exchange.handle(Send(sent), DIRECTOR, team.now).events
    EventLog(journal).append(events)
    project(exchange, tables)
    while tables.index(10):
        pass
    assert [signal.message_id for signal in tables.search("w77", 0, 10).items] == ["msg_1_large"]
    assert msgspec.json.decode(tables.signals("msg_1_large")[0].payload)["text"] == words
    (brief,) = (brief for brief in tables.find(Wanted(), 0, 10, 10**9).items if brief.message_id == "msg_1_large")
    assert len(brief.excerpt) == EXCERPT_CHARS
    assert len(list(tables.rows(POLICIES))) == 1


class Past(NamedTuple):
    """A project that has lived, for tests that only read it."""

    tables: Tables
    #: The rows of its messages, by sequence number.
    rows: dict[int, dict[str, Any]]
    #: The message type that is sent most.
    kind: str
    #: When the middle one of its messages was accepted.
    middle: int

    def found(self, wanted: Wanted, depth: int = 10**9) -> list[int]:
        return [brief.seq for brief in pages_of_some(lambda c, n: self.tables.find(wanted, c, n, depth), 3)]


@pytest.fixture(scope="module", params=STORES)
def past(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    with (
        closing(new_store(request, tmp_path_factory.mktemp("past")).open()) as journal,
        closing(journal.tables()) as tables,
    ):
        project(lived(journal, tables, 15, 1200, 0.3), tables)
        while tables.index(100):
            pass
        accepted = [(seq, event) for seq, event in tail(journal, 0) if isinstance(event, MessageAccepted)]
        kind = Counter(event.message_type for _, event in accepted).most_common(1)[0][0]
        rows = {row[SEQ]: dict(zip(MESSAGES.names, row, strict=True)) for row in tables.rows(MESSAGES)}
        yield Past(tables, rows, kind, rows[accepted[len(accepted) // 2][0]]["created_at"])


@pytest.mark.parametrize("depth", [10**9, 7])
def test_all_messages_are_found_the_newest_first(past: Past, depth: int) -> None:
    assert past.found(Wanted(), depth) == sorted(past.rows, reverse=True)


#: What is asked for, and which rows fit.
FILTERS: dict[str, tuple[Callable[[Past], Wanted], Callable[[Past, dict[str, Any]], bool]]] = {
    "sender and type": (
        lambda past: Wanted(sender="agent1", message_type=past.kind),
        lambda past, row: row["sender"] == "agent1" and row["message_type"] == past.kind,
    ),
    "recipient": (lambda _: Wanted(recipient="agent2"), lambda _, row: row["recipient"] == "agent2"),
    "states": (
        lambda _: Wanted(states=("delivered", "expired")),
        lambda _, row: row["state"] in ("delivered", "expired"),
    ),
    "level": (lambda _: Wanted(level=2), lambda _, row: row["level"] == 2),
    "since": (lambda past: Wanted(since_at=past.middle), lambda past, row: row["created_at"] >= past.middle),
    "until": (lambda past: Wanted(until_at=past.middle), lambda past, row: row["created_at"] < past.middle),
    "publish path": (
        lambda _: Wanted(publish_path="queued_offline"),
        lambda _, row: row["publish_path"] == "queued_offline",
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_messages_are_found_by_what_they_are(past: Past, name: str) -> None:
    wanted, fits = FILTERS[name]
    expected = sorted((seq for seq, row in past.rows.items() if fits(past, row)), reverse=True)
    assert 0 < len(expected) < len(past.rows), "a filter that takes all or nothing shows nothing"
    assert past.found(wanted(past)) == expected


def test_a_search_that_looks_at_few_messages_at_a_time_finds_all(past: Past) -> None:
    expected = sorted((seq for seq, row in past.rows.items() if row["recipient"] == "agent2"), reverse=True)
    assert past.found(Wanted(recipient="agent2"), depth=50) == expected


def test_messages_are_found_by_their_words_and_what_they_are(past: Past) -> None:
    worded = [signal.seq for signal in pages(lambda c, n: past.tables.search("word3", c, n), 50)]
    assert past.found(Wanted(words="word3")) == worded != []
    mine = [seq for seq in worded if past.rows[seq]["sender"] == "agent1"]
    assert past.found(Wanted(words="word3", sender="agent1")) == mine


@pytest.mark.parametrize(
    "wanted", [Wanted(publish_path="unknown"), *(Wanted(words=words) for words in ("  ", '"', "nosuchword", "\0"))]
)
def test_what_no_message_has_finds_nothing(past: Past, wanted: Wanted) -> None:
    assert past.found(wanted) == []


def test_a_brief_has_the_beginning_and_the_life_of_its_message(past: Past) -> None:
    for brief in past.tables.find(Wanted(), 0, 500, 10**9).items + past.tables.expiring(0, 500):
        (copy,) = [signal for signal in past.tables.signals(brief.message_id) if signal.seq == brief.seq]
        assert brief.excerpt == copy.payload.decode()[:EXCERPT_CHARS].encode()
        assert past.tables.lives([brief.seq]) == {brief.seq: copy.life}


def pages_of_some(ask: Callable[[int, int], Page[Any]], limit: int) -> list[Any]:
    """Read a listing whose pages may be empty though it goes on."""
    found: list[Any] = []
    cursor: int | None = 0
    while cursor is not None:
        page = ask(cursor, limit)
        assert page.next is None or cursor == 0 or page.next < cursor
        found += page.items
        cursor = page.next
    return found


def test_what_expires_next_comes_first(journal: Journal, tables: Tables) -> None:
    exchange = lived(journal, tables, 16, 1200, 0.3)
    project(exchange, tables)
    waiting = ("held", "queued", "offered")
    messages = [m for m in exchange.state.messages.values() if m.state in waiting and not m.delivered_at]
    after = sorted(message.expires_at for message in messages)[3]
    expected = sorted(message.expires_at for message in messages if message.expires_at > after)
    found = tables.expiring(after, 10**6)
    assert [brief.expires_at for brief in found] == expected != []
    assert {brief.state for brief in found} <= set(waiting)
    assert tables.expiring(after, 2) == found[:2]


def test_who_talks_to_whom_is_counted_among_the_latest(journal: Journal, tables: Tables) -> None:
    exchange = lived(journal, tables, 17, 800, 0.3)
    project(exchange, tables)
    accepted = [event for _, event in tail(journal, 0) if isinstance(event, MessageAccepted)]
    latest = Counter((event.sender, event.recipient) for event in accepted[-40:])
    found = tables.conversations(40, 1000)
    assert {(one.sender, one.recipient): one.messages for one in found} == latest
    assert [one.messages for one in found] == sorted(latest.values(), reverse=True)
    assert max(one.last_at for one in found) == accepted[-1].at
    assert len(tables.conversations(40, 2)) == 2


def test_a_viewer_finds_only_its_own_and_whole_pages_of_it(journal: Journal, tables: Tables) -> None:
    exchange = lived(journal, tables, 14, 800, 0.2)
    project(exchange, tables)
    while tables.index(1000):
        pass
    every = pages(lambda c, n: tables.search("word3", c, n), 50)
    assert len(every) > 3
    for viewer in {signal.sender for signal in every} | {"nobody"}:
        mine = [signal.seq for signal in every if viewer in (signal.sender, signal.recipient)]
        found = _full_pages(lambda c, n, viewer=viewer: tables.search("word3", c, n, viewer), 2)  # type: ignore[misc]
        assert [signal.seq for signal in found] == mine
        wanted = Wanted(words="word3", viewer=viewer)
        found = _full_pages(lambda c, n, wanted=wanted: tables.find(wanted, c, n, 10**6), 2)  # type: ignore[misc]
        assert [brief.seq for brief in found] == mine
        for signal in every[:5]:
            copies = [copy.seq for copy in tables.signals(signal.message_id, viewer)]
            assert copies == [c.seq for c in tables.signals(signal.message_id) if viewer in (c.sender, c.recipient)]
            assert tables.signals(signal.message_id, limit=1)[0].seq == tables.signals(signal.message_id)[0].seq
    threads = {signal.correlation_id for signal in every} - {None}
    for name in threads:
        for viewer in ("nobody", every[0].sender):
            mine = [s.seq for s in tables.thread(name, 0, 500).items if viewer in (s.sender, s.recipient)]
            found = _full_pages(lambda c, n, w=(name, viewer): tables.thread(w[0], c, n, w[1]), 1)  # type: ignore[misc]
            assert [signal.seq for signal in found] == mine
    dead = pages(lambda c, n: tables.dead_letters(c, n), 50)
    for viewer in {letter.signal.sender for letter in dead} | {"nobody"}:
        found = _full_pages(lambda c, n, viewer=viewer: tables.dead_letters(c, n, viewer), 1)  # type: ignore[misc]
        assert [letter.signal.seq for letter in found] == [
            letter.signal.seq for letter in dead if viewer in (letter.signal.sender, letter.signal.recipient)
        ]


def _full_pages(ask: Callable[[int, int], Page[Any]], limit: int) -> list[Any]:
    """Read a listing page by page; every page but the last must be full."""
    found: list[Any] = []
    cursor: int | None = 0
    while cursor is not None:
        page = ask(cursor, limit)
        assert page.next is None or len(page.items) == limit
        found += page.items
        cursor = page.next
    return found
