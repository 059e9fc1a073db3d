"""What agents coordinate by is kept, changed and removed with the rest, and can be asked for in SQL."""

import msgspec
import pytest

from tests.ids import SeededIds
from tests.workload import DIRECTOR, START
from tocsin.core.commands import (
    SYSTEM,
    AcquireLease,
    AdoptPolicy,
    Caller,
    Command,
    RegisterAgent,
    ReleaseLease,
    RenewLease,
)
from tocsin.core.events import Event
from tocsin.core.policy import document_of
from tocsin.core.snapshot import take
from tocsin.journal.base import Journal
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.columns import Column, Kind, Table
from tocsin.journal.log import EventLog
from tocsin.journal.projection import batch_of
from tocsin.journal.recovery import reopen
from tocsin.journal.table_definitions import DOCUMENTS
from tocsin.policies import default_policy

ADA, BOB = Caller("ada", "primary"), Caller("bob", "primary")
HELD = Table(
    "leases",
    "lease",
    (
        Column("resource", Kind.TEXT),
        Column("holder", Kind.TEXT),
        Column("mode", Kind.TEXT),
        Column("expires_at", Kind.TIME),
    ),
)
ASKED = Table(
    "lease_requests",
    "lease",
    (Column("resource", Kind.TEXT), Column("agent", Kind.TEXT), Column("wait_until", Kind.TIME)),
)


class Office:
    """An exchange whose events go to a journal, and whose tables follow when asked."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.tables = journal.tables()
        self.exchange = ObservedExchange(SeededIds(1))
        self.log = EventLog(journal)
        self.do(AdoptPolicy(document_of(default_policy()), "start"), SYSTEM)
        for caller in (DIRECTOR, ADA, BOB):
            self.do(RegisterAgent("AdHoc", ("1.1.0",)), caller)

    def do(self, command: Command, caller: Caller) -> list[Event]:
        events = self.exchange.handle(command, caller, START).events
        self.log.append(events)
        return events

    def project(self) -> None:
        self.tables.write(batch_of(self.exchange.capture()))

    def kinds(self) -> list[tuple[str, str]]:
        return sorted((kind, id_) for kind, id_, *_ in self.tables.rows(DOCUMENTS))


@pytest.fixture
def office(journal: Journal) -> Office:
    return Office(journal)


def test_a_lease_its_line_and_what_is_lent_are_rows_and_go_again(office: Office) -> None:
    office.do(AcquireLease(("src/**",), ("db",), 100, lease="first"), ADA)
    office.do(AcquireLease(("src/a",), wait_s=50, priority="Blocking", lease="second"), BOB)
    office.project()
    assert office.kinds() == [("inheritance", "ada"), ("lease", "first"), ("lease_request", "second")]
    assert sorted(office.tables.rows(HELD)) == [
        ("db", "ada", "shared", START + 100_000_000),
        ("src/**", "ada", "exclusive", START + 100_000_000),
    ]
    assert list(office.tables.rows(ASKED)) == [("src/a", "bob", START + 50_000_000)]
    office.do(RenewLease("first", 200), ADA)
    office.project()
    assert {row[3] for row in office.tables.rows(HELD)} == {START + 200_000_000}
    office.do(ReleaseLease("first"), ADA)
    office.project()
    assert office.kinds() == [("lease", "second")]
    office.do(ReleaseLease("second"), BOB)
    office.project()
    assert office.kinds() == []
    office.tables.close()


def test_a_reopened_project_has_its_leases_and_lines(office: Office) -> None:
    office.do(AcquireLease(("x",), lease="first"), ADA)
    office.do(AcquireLease(("x",), priority="Critical", lease="second"), BOB)
    office.project()
    office.do(AcquireLease(("y",), lease="third"), BOB)
    again = reopen(office.journal, office.tables, SeededIds(2))
    assert msgspec.msgpack.encode(take(again.state)) == msgspec.msgpack.encode(take(office.exchange.state))
    events = again.handle(ReleaseLease("first"), ADA, START).events
    assert [type(event).__name__ for event in events][:3] == ["LeaseReleased", "PriorityRestored", "LeaseGranted"]
    office.tables.close()
