"""Asking for leases, and what comes back."""

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["AcquireLease", "ForceRelease", "Held", "Queued", "ReleaseLease", "Released", "RenewLease"]


class AcquireLease(CommandBase, frozen=True):
    """Ask for resources, all or nothing; wait in line where they are not free."""

    #: Names and globs to have alone.
    exclusive: tuple[str, ...] = ()
    #: Names and globs to share with others who share them.
    shared: tuple[str, ...] = ()
    #: How long it is for, seconds; the policy's default where it is not said.
    ttl_s: float | None = None
    #: How long to wait, seconds; 0 fails at once; the policy's default where it is not said.
    wait_s: float | None = None
    #: The priority to wait at; the policy's default where it is not said.
    priority: int | None = None
    #: An id of the caller's own: the same one again returns what it led to.
    lease: str | None = None


class RenewLease(CommandBase, frozen=True):
    """Keep a lease for longer."""

    lease: str
    #: How long it is for from now on, seconds; as before where it is not said.
    ttl_s: float | None = None


class ReleaseLease(CommandBase, frozen=True):
    """Set free a lease, leave the line, or set free resources by the very names that they are held under."""

    lease: str | None = None
    resources: tuple[str, ...] = ()


class ForceRelease(CommandBase, frozen=True):
    """Take a lease away from whoever holds it, or a place from whoever waits; for directors and humans."""

    lease: str
    reason: str


class Held(msgspec.Struct, frozen=True):
    """The lease is held."""

    lease: str
    holder: str
    exclusive: tuple[str, ...]
    shared: tuple[str, ...]
    #: The priority that it was asked for at.
    priority: int
    expires_at: int
    #: Whether this lease had been granted before.
    duplicate: bool = False


class Queued(msgspec.Struct, frozen=True):
    """The request waits in line; a `LEASE_GRANTED` or `LEASE_REFUSED` message will tell."""

    lease: str
    agent: str
    exclusive: tuple[str, ...]
    shared: tuple[str, ...]
    #: The priority that it waits at, with what its agent has inherited.
    priority: int
    #: Its place in line, from 1.
    place: int
    wait_until: int
    #: Who holds what it wants.
    holders: tuple[str, ...]
    #: Whether this request had been made before.
    duplicate: bool = False


class Released(msgspec.Struct, frozen=True):
    """What is free now."""

    resources: tuple[str, ...]
    #: Requests that left the line.
    cancelled: tuple[str, ...] = ()
