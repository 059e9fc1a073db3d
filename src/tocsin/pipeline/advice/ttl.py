"""Advice on TTLs that are too short."""

import math
from collections.abc import Iterator

from tocsin.core.policy import Policy
from tocsin.pipeline.advice.base import Advice, Evidence, Goal, Thresholds, patch, seconds
from tocsin.pipeline.advice.figures import Figures, Row
from tocsin.pipeline.facts.histogram import BOUNDS_US

__all__ = ["ttl_too_short"]


def ttl_too_short(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Lengthen a TTL if messages expired shortly before their recipients took messages."""
    late = {(row["message_type"], row["ttl_us"]): row for row in figures.late}
    for row in _at_default(figures, policy):
        came = late.get((row["message_type"], row["ttl_us"]))
        enough = row["messages"] >= by.messages_min and row["expired"] >= by.ttl_expired_share * row["messages"]
        if not enough or not row["expired"] or came is None or not came["samples"]:
            continue
        in_time = _within(came["histogram"], row["ttl_us"])
        if in_time < by.ttl_late_share * came["expired"]:
            continue
        later_us = min(came["p95_us"], row["ttl_us"])
        ttl_s = min(policy.limits.ttl_max_s, _whole_minutes(seconds(row["ttl_us"] + later_us)))
        kind = row["message_type"]
        yield Advice(
            rule="ttl_too_short",
            subject=kind,
            text=(
                f"{row['expired']} of {row['messages']} {kind} messages expired. {came['expired']} were never offered, "
                f"and for {in_time} of these the recipient took messages within one more TTL. Set the TTL to "
                f"{ttl_s:g} s instead of {seconds(row['ttl_us']):g} s."
            ),
            evidence=(
                Evidence("ttl_use", f"expired where message_type = {kind}", row["expired"], row["messages"]),
                Evidence("late_pickup", f"p95_us where message_type = {kind}", came["p95_us"], came["samples"]),
            ),
            patch=patch(contracts={kind: {"ttl_s": ttl_s}}),
            goal=Goal("expired", message_type=kind),
        )


def _at_default(figures: Figures, policy: Policy) -> Iterator[Row]:
    """Yield the rows whose TTL is the contract's; a change of the contract affects only those."""
    for row in figures.ttls:
        contract = policy.contract_of(row["message_type"])
        if contract is not None and row["ttl_us"] == round(contract.ttl_s * 1_000_000):
            yield row


def _within(histogram: list[int], limit_us: int) -> int:
    """Count the values in whole buckets up to `limit_us`."""
    return sum(count for count, bound in zip(histogram, BOUNDS_US, strict=False) if bound <= limit_us)


def _whole_minutes(length_s: float) -> float:
    return float(max(1, math.ceil(length_s / 60)) * 60)
