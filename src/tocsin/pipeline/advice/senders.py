"""Advice on senders: quotas that are too tight, gaming detection that is too strict, wrong default priorities."""

import math
from collections.abc import Iterator
from statistics import median

from tocsin.core.policy import Policy
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.pipeline.advice.base import Advice, Evidence, Goal, Thresholds, patch, seconds
from tocsin.pipeline.advice.figures import Figures, Row

__all__ = ["gaming_rule", "level_not_urgent", "level_of_type", "quota_too_tight"]


def quota_too_tight(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Raise the refill rate of a token bucket or quota that refuses messages of several senders."""
    quotas = {
        "E_ADMISSION_001": ("bucket", sum(figures.accepted.values()), policy.bucket.refill_per_s),
        "E_ADMISSION_002": ("critical", figures.accepted.get("critical", 0), policy.quotas.critical.refill_per_s),
        "E_ADMISSION_003": ("blocking", figures.accepted.get("blocking", 0), policy.quotas.blocking.refill_per_s),
    }
    for row in figures.refusals:
        if row["code"] not in quotas:
            continue
        name, accepted, refill_per_s = quotas[row["code"]]
        asked = accepted + row["refusals"]
        several = row["senders"] >= by.refused_senders_min and asked >= by.messages_min and accepted
        if not several or row["refusals"] < by.refused_share * asked:
            continue
        faster = _two_digits(refill_per_s * asked / accepted)
        change = {"refill_per_s": faster}
        yield Advice(
            rule="quota_too_tight",
            subject=name,
            text=(
                f"{row['refusals']} of {asked} messages of {row['senders']} senders were refused by the {name} quota. "
                f"To accept them all it needs {faster:g} tokens per second instead of {refill_per_s:g}."
            ),
            evidence=(
                Evidence("refusal", f"refusals where code = {row['code']}", row["refusals"], row["senders"]),
                Evidence("traffic", "messages" if name == "bucket" else name, accepted, accepted),
            ),
            patch=patch(bucket=change) if name == "bucket" else patch(quotas={name: change}),
            goal=Goal("rate_limited"),
        )


def _two_digits(value: float) -> float:
    """Round up to two significant digits."""
    step: float = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / step - 1e-9) * step, 9)


def gaming_rule(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Allow a larger share of high priorities if most agents exceed the limit."""
    found = [row for row in figures.mixes if row["over"]]
    agents = len(figures.mixes)
    if agents < by.gaming_agents_min or len(found) < by.gaming_agents_share * agents:
        return
    usual = median(row["high"] / row["messages"] for row in figures.mixes)
    ratio = min(0.95, math.ceil(usual * 20 + 1e-9) / 20)
    if ratio <= policy.gaming.high_priority_ratio:
        return
    windows = sum(row["windows"] for row in figures.mixes)
    yield Advice(
        rule="gaming_rule",
        subject="gaming",
        text=(
            f"{len(found)} of {agents} agents were over the share of high priorities that counts as gaming, so it does "
            f"not single out anyone. Half of them have a share of {usual:.0%} or more: allow {ratio:g} instead of "
            f"{policy.gaming.high_priority_ratio:g}."
        ),
        evidence=(
            Evidence("priority_mix", "agents with a window over the threshold", len(found), agents),
            Evidence("priority_mix", "median of high over messages per agent", usual, windows),
        ),
        patch=patch(gaming={"high_priority_ratio": ratio}),
        goal=Goal("lowered"),
    )


def level_of_type(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Set the default priority of a type to the one that most of its messages are sent at."""
    for kind, rows in _by_type(figures).items():
        contract = policy.contract_of(kind)
        total = sum(row["messages"] for row in rows)
        if contract is None or total < by.messages_min:
            continue
        usual = max(rows, key=lambda row: int(row["messages"]))
        level = usual["requested"]
        if level in (contract.default_priority, Priority.DIRECTOR_OVERRIDE):
            continue
        if usual["messages"] < by.level_agreement * total:
            continue
        yield Advice(
            rule="level_of_type",
            subject=kind,
            text=(
                f"{usual['messages']} of {total} {kind} messages were sent as {priority_name(level)}; the default is "
                f"{priority_name(contract.default_priority)}. Make {priority_name(level)} the default."
            ),
            evidence=(
                Evidence("level_use", f"messages where message_type = {kind} and requested = {level}",
                         usual["messages"], total),
            ),
            patch=patch(contracts={kind: {"priority": priority_name(level)}}),
            goal=_goal(kind, contract.default_priority, level),
        )  # fmt: skip


def level_not_urgent(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Lower the default priority of a type of Blocking or above that recipients react to slowly."""
    for kind, rows in _by_type(figures).items():
        contract = policy.contract_of(kind)
        if contract is None or contract.default_priority < Priority.BLOCKING:
            continue
        level = contract.default_priority
        row = next((row for row in rows if row["requested"] == level), None)
        if row is None or row["samples"] < by.messages_min or seconds(row["p50_us"]) < by.reaction_slow_s:
            continue
        lower = priority_name(level - 1)
        yield Advice(
            rule="level_not_urgent",
            subject=kind,
            text=(
                f"Half of {row['samples']} {kind} messages were acknowledged or answered {seconds(row['p50_us']):g} s "
                f"or more after delivery: recipients do not treat them as {priority_name(level)}. Make {lower} the "
                f"default."
            ),
            evidence=(
                Evidence("level_use", f"p50_us where message_type = {kind} and requested = {int(level)}",
                         row["p50_us"], row["samples"]),
            ),
            patch=patch(contracts={kind: {"priority": lower}}),
            goal=_goal(kind, level, level - 1),
        )  # fmt: skip


def _goal(kind: str, before: int, after: int) -> Goal:
    """Return the goal of another priority: its own messages wait less, or those that they were among."""
    return Goal("p95_s", message_type=kind) if after > before else Goal("p95_s", priority=before, other_than=kind)


def _by_type(figures: Figures) -> dict[str, list[Row]]:
    types: dict[str, list[Row]] = {}
    for row in figures.levels:
        types.setdefault(row["message_type"], []).append(row)
    return types
