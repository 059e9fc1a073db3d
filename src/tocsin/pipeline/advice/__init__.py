"""Advice: recommended policy changes, each with its evidence and the exact change to `tocsin.yaml`.

Rules are plain functions of figures, the policy in force and thresholds. They read nothing else and change nothing.
What they find is tried by the lab on the same history (`tocsin.lab.trial`) before it is shown; a director decides
whether to adopt a change.
"""

import json
from collections.abc import Callable, Iterator
from datetime import date

import duckdb
import yaml

from tocsin.core.policy import Policy
from tocsin.pipeline.advice.base import Advice, Advised, Evidence, Goal, Thresholds
from tocsin.pipeline.advice.figures import Figures, gather
from tocsin.pipeline.advice.queues import aging_threshold, bottleneck
from tocsin.pipeline.advice.recipients import ack_timeout_short, decay_swings, decay_too_fast
from tocsin.pipeline.advice.senders import gaming_rule, level_not_urgent, level_of_type, quota_too_tight
from tocsin.pipeline.advice.ttl import ttl_too_short
from tocsin.policies import parse_policy

__all__ = [
    "ADVICE_VIEWS",
    "RULES",
    "Advice",
    "Advised",
    "Evidence",
    "Figures",
    "Goal",
    "Thresholds",
    "advise",
    "advise_on",
    "gather",
    "policy_in_force",
]

#: Views that advice reads.
ADVICE_VIEWS = (
    *("policy_span", "ttl_use", "late_pickup", "aging_wait", "refusal", "traffic", "priority_mix", "level_use"),
    *("recipient_load", "retry", "processing_latency", "decay_rate"),
)
#: All rules. If two give advice on the same setting, the first counts.
RULES: tuple[Callable[[Figures, Policy, Thresholds], Iterator[Advice]], ...] = (
    ttl_too_short,
    aging_threshold,
    bottleneck,
    quota_too_tight,
    gaming_rule,
    level_of_type,
    level_not_urgent,
    ack_timeout_short,
    decay_too_fast,
    decay_swings,
)


def policy_in_force(tables: duckdb.DuckDBPyConnection, project: str) -> Policy | None:
    """Return the policy that a project adopted last; None if it has none yet.

    A policy adopted by an older version is applied over the current defaults. If it cannot be read, the error is
    `E_POLICY_001`.
    """
    last = tables.execute(
        "SELECT policy FROM policy_span WHERE project = $project ORDER BY adopted_seq DESC LIMIT 1",
        {"project": project},
    ).fetchone()
    # Written as YAML first, because YAML reads JSON's 1e-06 as a string.
    return None if last is None else parse_policy(yaml.safe_dump(json.loads(last[0])))


def advise_on(
    tables: duckdb.DuckDBPyConnection,
    project: str,
    policy: Policy,
    since: date | None = None,
    until: date | None = None,
    thresholds: Thresholds | None = None,
) -> list[Advice]:
    """Return the advice on a policy that a project's figures give; the lab has not tried it yet."""
    return advise(gather(tables, project, since, until), policy, thresholds)


def advise(figures: Figures, policy: Policy, thresholds: Thresholds | None = None) -> list[Advice]:
    """Return the advice that figures give on a policy; at most one change per setting."""
    by = thresholds or Thresholds()
    found: dict[str, Advice] = {}
    for rule in RULES:
        for advice in rule(figures, policy, by):
            found.setdefault(_place(advice.patch), advice)
    return list(found.values())


def _place(patch: str) -> str:
    """Return the setting that a patch changes, without the value."""
    return patch.rsplit(":", 1)[0]
