"""Placement of projects on hubs or workers by weighted rendezvous hashing.

Every hub gives every project a score that depends on nothing but the two names and the hub's weight; the highest score
wins. So all hubs agree without talking to each other, a hub that joins takes its share from all others, and a hub that
leaves gives only its own projects away.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

__all__ = ["place", "ranked", "score"]

_LARGEST = float(2**64)


def score(project: str, hub: str, weight: float = 1.0) -> float:
    """Return the score that a hub gives a project; a hub of double weight wins twice as many projects."""
    digest = blake2b(project.encode(), key=_key(hub), digest_size=8).digest()
    drawn = (int.from_bytes(digest, "big") + 0.5) / _LARGEST
    return -weight / math.log(drawn)


@lru_cache(1024)
def _key(hub: str) -> bytes:
    return blake2b(hub.encode(), digest_size=32).digest()


def ranked(project: str, hubs: Mapping[str, float]) -> list[str]:
    """Return the hubs in the order in which they should own a project; `hubs` has their weights."""
    return sorted(hubs, key=lambda hub: (-score(project, hub, hubs[hub]), hub))


def place(project: str, hubs: Mapping[str, float] | Sequence[str]) -> str:
    """Return the hub that should own a project; there must be at least one."""
    weights = hubs if isinstance(hubs, Mapping) else dict.fromkeys(hubs, 1.0)
    return max(weights, key=lambda hub: (score(project, hub, weights[hub]), hub))
