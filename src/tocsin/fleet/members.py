"""The hubs that share the projects of a database, as one of them sees them, and the share of each.

This is a function of what was seen: it has no clock and no database. `tocsin.fleet.registry` brings the view,
`tests/fleet/test_simulation.py` runs this code in virtual time.
"""

from collections.abc import Iterable

import msgspec

from tocsin.fleet.placement import place

__all__ = ["Member", "Members"]

#: Placements that are remembered; callers may name projects that do not exist.
_PLACES_MAX = 65_536


class Member(msgspec.Struct, frozen=True):
    """One hub."""

    #: URL at which it is reached; also its name in the placement.
    address: str
    #: Machine and process.
    hub: str
    weight: float


class Members:
    """One hub's view of all hubs."""

    def __init__(self, own: str) -> None:
        """`own` is the address of this hub."""
        self.own = own
        self._weights: dict[str, float] = {}
        self._places: dict[str, str] = {}
        self._leaving = False

    @property
    def addresses(self) -> list[str]:
        """Return the addresses of the hubs that share the projects."""
        return sorted(self._weights)

    def see(self, members: Iterable[Member]) -> bool:
        """Take up a new view; tell whether the shares have changed."""
        weights = {member.address: member.weight for member in members}
        if self._leaving:
            weights.pop(self.own, None)
        if weights == self._weights:
            return False
        self._weights, self._places = weights, {}
        return True

    def leave(self) -> None:
        """Count this hub out from now on: its projects belong to the others."""
        self._leaving = True
        self._weights.pop(self.own, None)
        self._places = {}

    def place_of(self, project: str) -> str | None:
        """Return the address of the hub that should serve a project; null if there is none."""
        found = self._places.get(project)
        if found is None and self._weights:
            if len(self._places) >= _PLACES_MAX:
                self._places.clear()
            found = self._places[project] = place(project, self._weights)
        return found

    def is_own(self, project: str) -> bool:
        """Tell whether this hub should serve a project."""
        return self.place_of(project) == self.own

    def elsewhere(self, project: str) -> str | None:
        """Return the address of another hub that should serve a project; null if it is this one, or none."""
        found = self.place_of(project)
        return None if found == self.own else found
