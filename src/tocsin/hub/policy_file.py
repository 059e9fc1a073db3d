"""Adoption of a project's policy file at the start of a hub.

`tocsin.yaml` is the source of the policy. When it differs from what was last adopted from it, it is adopted, as an
event. A policy that was adopted through the API stays in force until the file changes again.
"""

import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.core.commands import SYSTEM, Adopted, AdoptPolicy
from tocsin.core.errors import Problem, error_for
from tocsin.core.policy import Policy, document_of
from tocsin.journal.checksums import verified
from tocsin.journal.table_definitions import POLICIES
from tocsin.journal.tables import Tables
from tocsin.policies import POLICY_FILE, differences

if TYPE_CHECKING:
    from tocsin.hub.service import Hub

__all__ = ["AdoptedPolicy", "adopt_policy_file", "adopted_policies"]

_log = logging.getLogger("tocsin.hub")
#: Policies that are looked through for the last one that came from the file.
_LOOKED_THROUGH = 1000
_columns = POLICIES.values_of("version", "adopted_at", "adopted_by", "reason", "document")


class AdoptedPolicy(msgspec.Struct, frozen=True):
    """A policy that was adopted."""

    version: int
    #: Microseconds since the epoch.
    adopted_at: int
    by: str
    reason: str
    document: Any

    @property
    def is_from_file(self) -> bool:
        """Return whether it was the policy file of the project; the reason of such an adoption begins with its name."""
        return self.by == SYSTEM.agent or self.reason.startswith(POLICY_FILE)


def adopted_policies(tables: Tables, before: int, limit: int) -> list[AdoptedPolicy]:
    """Return adopted policies, the newest first; `before` is a version, or 0 for the newest."""
    rows = tables.rows(POLICIES, f"version < {before:d}" if before else "", "version DESC")
    return [
        AdoptedPolicy(version, at, by, reason, msgspec.json.decode(document))
        for version, at, by, reason, document in map(_columns, islice(verified(POLICIES, rows), limit))
    ]


async def adopt_policy_file(hub: "Hub", policy: Policy) -> int | None:
    """Adopt the policy of the file if it has changed since it was last adopted; return its version, or null."""
    found = await hub.reader.ask(lambda tables: adopted_policies(tables, 0, _LOOKED_THROUGH))
    wanted, in_force = document_of(policy), document_of(hub.host.exchange.state.policy)
    last = next((one for one in found if one.is_from_file), None)
    meanwhile = [one for one in found if last is None or one.version > last.version]
    named = ", ".join(f"version {one.version} by {one.by} ({one.reason or 'no reason'})" for one in reversed(meanwhile))
    changes = differences(in_force, wanted)
    if last is not None and not differences(last.document, wanted):
        if changes:
            _log.info("the policy in force is not that of %s: %s; see tocsin policy diff", POLICY_FILE, named)
        return None
    if not changes:
        return None
    reason = f"{POLICY_FILE} has changed" + (f"; it replaces {named}" if meanwhile else "")
    limit = policy.limits.text_max
    reply = await hub.host.submit(AdoptPolicy(wanted, reason[:limit]), SYSTEM)
    if isinstance(reply, Problem):
        raise error_for(reply)
    if not isinstance(reply, Adopted):
        raise TypeError(type(reply).__name__)
    lines = "; ".join(map(str, changes))
    _log.warning("%s, adopted as version %d: %s", reason, reply.version, lines, extra={"fields": {"changes": lines}})
    return reply.version
