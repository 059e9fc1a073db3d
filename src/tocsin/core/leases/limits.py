"""Limits of lease requests: of their resources, and of what an agent and a project hold and wait for.

Exact names and other plain patterns are found by an index and limited in number and length only. An open pattern is
compared with others one by one, so it has limits of its own: how complex it is, how many there are, and with how much
one may have to be compared. The time to compare one grows with its wildcards, so those are what is counted. The limits
bound the time of a decision whatever the patterns are. All are checked when a request is decided, never when its events
are applied, so a history under other limits stays valid.
"""

from collections.abc import Iterable

from tocsin.core.commands import AcquireLease
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.leases.book import LeaseBook, claims_of
from tocsin.core.leases.globs import Pattern, Segment, parse_pattern
from tocsin.core.leases.model import Claim, LeaseRequest
from tocsin.core.policy import Policy
from tocsin.core.policy.waiting import Leases
from tocsin.core.state import Agent

__all__ = ["check_reach", "check_room", "checked_claims", "checked_resource", "size_of"]

#: Characters that a shorter segment counts for where the characters of several resources are limited.
_LEAST = 16


def size_of(resource: str) -> int:
    """Return the characters of a resource, each segment with at least `_LEAST`."""
    return sum([max(len(name), _LEAST) for name in resource.split("/")])


def checked_claims(decision: Decision, command: AcquireLease) -> tuple[Claim, ...]:
    """Return the claims of a request; refuse one that is invalid, or too much for one lease."""
    limits = decision.policy.leases
    names = (*command.exclusive, *command.shared)
    if not names:
        raise refusal(
            "E_LEASE_005",
            "no resource is named: name at least one",
            field="$.exclusive",
            expected="at least one resource",
        )
    if len(names) > limits.resources_max:
        detail = f"{len(names)} resources are too many for one lease: at most {limits.resources_max}"
        raise refusal("E_ADMISSION_008", detail, found=str(len(names)), retryable=False)
    count = 0
    for name in names:
        pattern = checked_resource(name, decision.policy)
        count += pattern.wildcards if pattern.is_open else 0
        if names.count(name) > 1:
            raise refusal("E_LEASE_005", f"{name[:120]!r} is named twice", found=name[:120])
    if count > limits.wildcards_per_lease_max:
        detail = f"open patterns of {count} wildcards are too many for one lease: at most "
        detail += f"{limits.wildcards_per_lease_max} together"
        raise refusal("E_ADMISSION_008", detail, found=str(count), retryable=False)
    size = sum(map(size_of, names))
    if size > limits.characters_max:
        detail = f"resources of {size} characters are too long for one lease: at most {limits.characters_max} together"
        raise refusal("E_ADMISSION_008", detail, found=str(size), retryable=False)
    return claims_of(command.exclusive, command.shared)


def checked_resource(name: str, policy: Policy) -> Pattern:
    """Parse a resource; refuse one that is too long or too complex, or invalid."""
    limits = policy.leases
    if len(name) > limits.resource_length_max:
        detail = f"a resource of {len(name)} characters is too long: at most {limits.resource_length_max}"
        raise refusal("E_LEASE_005", detail, found=name[:120])
    pattern = parse_pattern(name)
    if pattern.depth > limits.segments_max:
        raise refusal("E_LEASE_005", f"{name[:120]!r} has more than {limits.segments_max} segments", found=name[:120])
    longest = max(map(len, name.split("/")))
    if longest > limits.segment_length_max:
        detail = f"{name[:120]!r} has a segment of {longest} characters: at most {limits.segment_length_max}"
        raise refusal("E_LEASE_005", detail, found=name[:120])
    if pattern.is_open:
        _check_complexity(pattern, limits)
    return pattern


def _check_complexity(pattern: Pattern, limits: Leases) -> None:
    """Refuse an open pattern that would be slow to compare with others."""
    shown = pattern.text[:120]
    if pattern.wildcards > limits.wildcards_max:
        detail = f"{shown!r} has {pattern.wildcards} wildcards: at most {limits.wildcards_max}"
        raise refusal("E_LEASE_005", f"{detail}, each character and range of a class counted", found=shown)
    between = sum([part.is_glob for run in pattern.form.middle or () for part in run if isinstance(part, Segment)])
    if between > limits.globs_between_max:
        detail = (
            f"{shown!r} has {between} segments with a wildcard between two `**`: at most {limits.globs_between_max}"
        )
        raise refusal("E_LEASE_005", detail, found=shown)
    length = len("/".join(pattern.text.split("/")[len(pattern.folder) :]))
    if length > limits.open_length_max:
        detail = f"{shown!r} has {length} characters from its first segment with a wildcard"
        raise refusal("E_LEASE_005", f"{detail}: at most {limits.open_length_max}", found=shown)


def check_room(decision: Decision, me: Agent, request: LeaseRequest) -> None:
    """Refuse a request over a limit of its agent or of the project."""
    book, limits = decision.state.leases, decision.policy.leases
    if len(book.by_agent.get(me.agent, ())) >= limits.per_agent_max:
        raise refusal(
            "E_ADMISSION_008", f"{me.agent} has reached its limit of {limits.per_agent_max} leases and requests"
        )
    if len(book.leases) + len(book.queue) >= limits.leases_max:
        raise refusal(
            "E_ADMISSION_008", f"the project has reached its limit of {limits.leases_max} leases and requests"
        )
    wanted = [pattern for claim in request.claims if (pattern := parse_pattern(claim.resource)).is_open]
    if not wanted:
        return
    count = sum([pattern.wildcards for pattern in wanted])
    if book.wildcards_by_agent.get(me.agent, 0) + count > limits.wildcards_per_agent_max:
        detail = f"{me.agent} has reached its limit of {limits.wildcards_per_agent_max} wildcards in open patterns"
        raise refusal("E_ADMISSION_008", detail)
    if book.wildcards + count > limits.wildcards_in_all_max:
        detail = f"the project has reached its limit of {limits.wildcards_in_all_max} wildcards in open patterns"
        raise refusal("E_ADMISSION_008", detail)
    check_reach(book, wanted, limits)


def check_reach(book: LeaseBook, patterns: Iterable[Pattern], limits: Leases) -> None:
    """Refuse open patterns that would have to be compared with too many resources in use."""
    left = limits.reach_max
    for pattern in patterns:
        for text in book.patterns.reach(pattern) if pattern.is_open else ():
            left -= size_of(text) * pattern.wildcards
            if left < 0:
                detail = f"{pattern.text[:120]!r} would have to be compared with too many resources in use"
                raise refusal("E_ADMISSION_008", f"{detail}: begin it with a folder", found=pattern.text[:120])
