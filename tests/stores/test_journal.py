"""What every journal must do: the conformance suite, part one."""

from functools import cache

import pytest

from tests.ids import SeededIds
from tests.stores.stores import Store
from tests.workload import Workload
from tocsin.core.events import Event, encode_events
from tocsin.core.exchange import Exchange
from tocsin.journal.base import Group, Journal, group_of
from tocsin.journal.errors import CommitFailed, JournalDamaged, JournalUnsupported, OwnershipLost, ProjectBusy
from tocsin.journal.log import EventLog, events_of

LATER = 1 << 60


@cache
def history(steps: int = 60) -> list[list[Event]]:
    return list(Workload(1).play(Exchange(SeededIds(1)), steps))


def group(first_seq: int, count: int, epoch: int, body: bytes | None = None, at: int = 5) -> Group:
    event = history(0)[1][0]
    return group_of(first_seq, count, at, epoch, encode_events([event] * count) if body is None else body)


def ranges(journal: Journal, after_seq: int, limit: int = 0) -> list[tuple[int, int]]:
    return [(found.first_seq, found.last_seq) for found in journal.read(after_seq, limit)]


def filled(journal: Journal, groups: int = 100, size: int = 3) -> None:
    for number in range(groups):
        journal.append(group(1 + number * size, size, journal.epoch, at=number))


def test_an_empty_journal_has_nothing_to_read(journal: Journal) -> None:
    assert (journal.last_seq(), journal.last_at(), journal.pruned_seq()) == (0, 0, 0)
    assert ranges(journal, 0) == []


def test_what_is_appended_is_read_back_in_order(journal: Journal) -> None:
    appended = history()
    log = EventLog(journal)
    for events in appended:
        log.append(events)
    assert list(log.read()) == [event for events in appended for event in events]


def test_a_commit_says_what_it_is_worth(journal: Journal, store: Store) -> None:
    commit = EventLog(journal).append(history()[0])
    assert commit.copies >= 1
    assert commit.durability == ("buffered" if "normal" in store.name else "flushed")


def test_reading_starts_with_the_group_that_holds_the_next_event(journal: Journal) -> None:
    filled(journal)
    assert ranges(journal, 0)[0] == (1, 3)
    assert ranges(journal, 4, limit=2) == [(4, 6), (7, 9)]
    assert ranges(journal, 6, limit=1) == [(7, 9)]
    assert ranges(journal, 300) == []
    assert len(ranges(journal, 0)) == 100


def test_a_journal_survives_being_closed(store: Store) -> None:
    first = store.open()
    filled(first, 5)
    first.close()
    again = store.open()
    try:
        assert (again.last_seq(), again.last_at()) == (15, 4)
        again.append(group(16, 1, again.epoch))
        assert ranges(again, 12) == [(13, 15), (16, 16)]
    finally:
        again.close()


def test_a_group_must_follow_the_last_one(journal: Journal) -> None:
    filled(journal, 2)
    for first_seq in (6, 8):
        with pytest.raises(CommitFailed, match="does not follow"):
            journal.append(group(first_seq, 1, journal.epoch))
    journal.append(group(7, 1, journal.epoch))


def test_every_owner_gets_a_higher_epoch(store: Store) -> None:
    epochs = []
    for _ in range(3):
        journal = store.open()
        epochs.append(journal.epoch)
        journal.close()
    assert epochs == sorted(set(epochs))


def test_two_hubs_never_open_one_project(store: Store, journal: Journal) -> None:
    with pytest.raises(ProjectBusy):
        store.open()
    filled(journal, 1)


def test_a_replaced_owner_is_refused(store: Store, journal: Journal) -> None:
    filled(journal, 2)
    store.usurp()
    with pytest.raises(OwnershipLost):
        journal.append(group(7, 1, journal.epoch))
    with pytest.raises(OwnershipLost):
        journal.probe()
    with pytest.raises(OwnershipLost):
        journal.recover()
    assert ranges(journal, 0) == [(1, 3), (4, 6)]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE journal SET checksum = checksum + 1 WHERE first_seq = 4",
        "UPDATE journal SET at = at + 1 WHERE first_seq = 4",
        "UPDATE journal SET epoch = epoch + 1 WHERE first_seq = 4",
    ],
)
def test_a_changed_row_is_found_and_named(store: Store, journal: Journal, damage: str) -> None:
    filled(journal, 3)
    store.execute(damage)
    with pytest.raises(JournalDamaged, match="group 4 to 6: its checksum"):
        ranges(journal, 0)
    with pytest.raises(JournalDamaged, match="group 4 to 6"):
        ranges(journal, 3)
    assert ranges(journal, 6) == [(7, 9)]


def test_changed_events_are_found_and_named(store: Store, journal: Journal) -> None:
    body = encode_events(history(0)[1])
    journal.append(group(1, 1, journal.epoch, body))
    journal.append(group(2, 1, journal.epoch, body))
    flipped = (body[:-1] + bytes([body[-1] ^ 1])).hex()
    literal = f"x'{flipped}'" if "sqlite" in store.name else f"'\\x{flipped}'"
    store.execute(f"UPDATE journal SET events = {literal} WHERE first_seq = 2")  # noqa: S608
    with pytest.raises(JournalDamaged, match="group 2 to 2: its checksum"):
        ranges(journal, 0)


def test_a_missing_group_is_found_and_named(store: Store, journal: Journal) -> None:
    filled(journal, 3)
    store.execute("DELETE FROM journal WHERE first_seq = 4")
    with pytest.raises(JournalDamaged, match="group 7 to 9: it should begin with event 4"):
        ranges(journal, 0)
    with pytest.raises(JournalDamaged, match="events 4 to 6 before it are missing"):
        ranges(journal, 3)


def test_a_group_that_holds_another_number_of_events_is_named(journal: Journal) -> None:
    journal.append(group(1, 2, journal.epoch, encode_events(history(0)[1])))
    with pytest.raises(JournalDamaged, match="group 1 to 2: it holds 1 events"):
        events_of(next(journal.read(0)))


def test_a_group_that_is_no_batch_of_events_is_named(journal: Journal) -> None:
    journal.append(group(1, 2, journal.epoch, b"\xc1"))
    with pytest.raises(JournalDamaged, match="group 1 to 2: its events cannot be decoded"):
        events_of(next(journal.read(0)))


def test_pruning_takes_the_oldest_groups_only(journal: Journal) -> None:
    filled(journal, 10)
    assert journal.prune(upto_seq=8, before_at=LATER, limit=100) == 2
    assert journal.pruned_seq() == 6
    assert journal.prune(upto_seq=30, before_at=4, limit=100) == 2
    assert journal.prune(upto_seq=30, before_at=LATER, limit=1) == 1
    assert ranges(journal, 15, limit=1) == [(16, 18)]
    with pytest.raises(JournalDamaged, match="events 1 to 15 were requested but have been pruned"):
        ranges(journal, 0)


def test_a_journal_pruned_whole_goes_on_counting(store: Store) -> None:
    journal = store.open()
    filled(journal, 3)
    assert journal.prune(upto_seq=9, before_at=LATER, limit=100) == 3
    journal.close()
    again = store.open()
    try:
        assert again.last_seq() == 9
        again.append(group(10, 1, again.epoch))
        assert ranges(again, 9) == [(10, 10)]
    finally:
        again.close()


def test_a_recovered_journal_goes_on(journal: Journal) -> None:
    filled(journal, 2)
    journal.recover()
    assert journal.last_seq() == 6
    journal.append(group(7, 1, journal.epoch))
    journal.probe()
    journal.harden()
    assert ranges(journal, 6) == [(7, 7)]


def test_a_newer_schema_is_refused(store: Store, journal: Journal) -> None:
    journal.close()
    if "sqlite" in store.name:
        store.execute("PRAGMA user_version = 99")
    else:
        store.execute("INSERT INTO migrations VALUES (99, 'future', now())")
    with pytest.raises(JournalUnsupported, match="schema version 99"):
        store.open()
