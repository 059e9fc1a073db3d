"""The path of an escalation: one table of steps; every change of place is in it.

The table has all arrows of the requirements (LIMINAL, "Escalation Paths State Machine"). Arrows that Tocsin adds have
`required=False`: the condition ends by itself, a rule notifies the directors without raising anything first, a director
acts late or never. The diagram in `docs/concepts/escalation.md` is generated from this table.
"""

from enum import StrEnum

import msgspec

from tocsin.core.errors import InvariantViolation

__all__ = ["CLOSED", "PATHS", "ROUTES", "Place", "Route", "place_after"]


class Place(StrEnum):
    """Place of an escalation on its path."""

    NORMAL = "normal"
    TIME_BASED = "time_based_escalation"
    DEPENDENCY = "dependency_escalation"
    HEALTH = "health_escalation"
    BOOSTED = "priority_boosted"
    STILL_WAITING = "still_waiting"
    INHERITANCE = "inheritance_applied"
    DEADLOCK = "deadlock_detected"
    VICTIM = "victim_selected"
    FORCED = "forced_release"
    ALERT = "critical_alert"
    DIRECTOR = "director_notified"
    DIRECTOR_ACTS = "director_intervention"
    HUMAN = "human_escalation"
    HUMAN_ACTS = "human_intervention"
    RESOLVED = "resolved"


class Route(msgspec.Struct, frozen=True):
    """One arrow of the diagram."""

    before: Place
    step: str
    after: Place
    #: Condition for the step.
    when: str
    #: Whether the arrow is in the requirements.
    required: bool = True


PATHS: tuple[Route, ...] = (
    Route(Place.NORMAL, "age_over", Place.TIME_BASED, "Message age > threshold"),
    Route(Place.NORMAL, "blocked", Place.DEPENDENCY, "Blocked on lower priority"),
    Route(Place.NORMAL, "degraded", Place.HEALTH, "System degraded"),
    Route(Place.TIME_BASED, "boosted", Place.BOOSTED, "Boost by 1 level"),
    Route(Place.TIME_BASED, "notified", Place.DIRECTOR, "the rule notifies at once", required=False),
    Route(Place.BOOSTED, "not_resolved", Place.STILL_WAITING, "Not resolved"),
    Route(Place.BOOSTED, "over", Place.RESOLVED, "the message left the queue", required=False),
    Route(Place.STILL_WAITING, "notified", Place.DIRECTOR, "Age > 2x threshold"),
    Route(Place.DEPENDENCY, "inherited", Place.INHERITANCE, "Boost holder"),
    Route(Place.INHERITANCE, "over", Place.RESOLVED, "Resource released"),
    Route(Place.INHERITANCE, "circular_wait", Place.DEADLOCK, "Circular wait"),
    Route(Place.INHERITANCE, "notified", Place.DIRECTOR, "still blocked, or the rule notifies at once", required=False),
    Route(Place.DEADLOCK, "victim_chosen", Place.VICTIM, "Choose lowest priority"),
    Route(Place.VICTIM, "released", Place.FORCED, "Release resources"),
    Route(Place.FORCED, "notified", Place.DIRECTOR, "Escalate"),
    Route(Place.HEALTH, "alerted", Place.ALERT, "Send to Director"),
    Route(Place.ALERT, "director_acts", Place.DIRECTOR_ACTS, "Director acts"),
    Route(Place.ALERT, "over", Place.RESOLVED, "the condition ended", required=False),
    Route(Place.ALERT, "escalated", Place.HUMAN, "the director escalates, or does not act in time", required=False),
    Route(Place.DIRECTOR, "director_acts", Place.DIRECTOR_ACTS, "a director resolves it", required=False),
    Route(Place.DIRECTOR, "escalated", Place.HUMAN, "Director escalates"),
    Route(Place.DIRECTOR, "over", Place.RESOLVED, "Auto-resolved"),
    Route(Place.DIRECTOR_ACTS, "resolved", Place.RESOLVED, "Director resolves"),
    Route(Place.HUMAN, "human_acts", Place.HUMAN_ACTS, "Human acts"),
    Route(Place.HUMAN, "director_acts", Place.DIRECTOR_ACTS, "a director resolves it late", required=False),
    Route(Place.HUMAN, "over", Place.RESOLVED, "the condition ended", required=False),
    Route(Place.HUMAN_ACTS, "returned", Place.NORMAL, "Human resolves"),
    Route(Place.RESOLVED, "returned", Place.NORMAL, "Return to normal"),
)

#: First step of each trigger.
ROUTES: dict[str, str] = {
    "time_in_queue": "age_over",
    "request_timeout": "age_over",
    "approval_timeout": "age_over",
    "consensus_timeout": "age_over",
    "dependency_blocked": "blocked",
    "resource_contended": "blocked",
    "deadlock": "blocked",
    "health_degraded": "degraded",
    "priority_inflation": "degraded",
    "critical_error": "degraded",
    "wake_failed": "age_over",
}
#: Place of a closed escalation.
CLOSED = Place.NORMAL

_NEXT = {(route.before, route.step): route.after for route in PATHS}


def place_after(place: str, step: str) -> Place:
    """Return the place that a step leads to."""
    after = _NEXT.get((Place(place), step))
    if after is None:
        raise InvariantViolation(f"an escalation at {place} has no step {step}")
    return after
