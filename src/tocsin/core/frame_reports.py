"""Reports of shed frames from a frame bus, recorded as events; the exchange itself sheds nothing."""

from tocsin.core import events as ev
from tocsin.core.commands import Done, ReportShedding
from tocsin.core.decision import Decision
from tocsin.core.errors import TocsinError, refusal

__all__ = ["decide_shedding"]

_PRIORITIES = ("critical", "high", "normal", "best_effort")


def decide_shedding(decision: Decision, command: ReportShedding) -> Done:
    """Record a report, one event for each subscriber priority that frames were offered to."""
    decision.must_direct("report for a frame bus")
    unknown = [name for name in command.tallies if name not in _PRIORITIES]
    if unknown:
        raise _wrong("$.tallies", unknown[0][:64], "one of " + ", ".join(_PRIORITIES))
    if command.published < 0:
        raise _wrong("$.published", str(command.published), "0 or more")
    for name, tally in command.tallies.items():
        if not 0 <= tally.shed <= tally.dropped <= tally.offered:
            found = f"offered {tally.offered}, dropped {tally.dropped}, shed {tally.shed}"
            raise _wrong(f"$.tallies.{name}", found, "shed at most dropped, dropped at most offered")
    for name in _PRIORITIES:
        counted = command.tallies.get(name)
        if counted is not None and counted.offered:
            since = min(command.since, decision.now)
            decision.emit(
                ev.FramesShed(
                    decision.now, name, since, command.published, counted.offered, counted.dropped, counted.shed
                )
            )
    return Done()


def _wrong(field: str, found: str, expected: str) -> TocsinError:
    return refusal("E_VALIDATION_004", f"{field} is {found}: it must be {expected}", field=field, found=found)
