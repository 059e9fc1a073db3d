"""TTLs that expire what would have been read, and TTLs that never bite."""

import math
from collections.abc import Iterator

from tocsin.core.policy import Policy
from tocsin.pipeline.advice.base import Advice, Evidence, Thresholds, patch, seconds
from tocsin.pipeline.advice.figures import Figures, Row
from tocsin.pipeline.gold.histogram import BOUNDS_US

__all__ = ["ttl_never_bites", "ttl_too_short"]


def ttl_too_short(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Lengthen a TTL that ran out shortly before the recipients came."""
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
                f"{row['expired']} of {row['messages']} {kind} expired unread, and for {in_time} of {came['expired']} "
                f"the recipient came within one more TTL. Give them {ttl_s:g} s instead of "
                f"{seconds(row['ttl_us']):g} s."
            ),
            evidence=(
                Evidence("ttl_use", f"expired where message_type = {kind}", row["expired"], row["messages"]),
                Evidence("late_pickup", f"p95_us where message_type = {kind}", came["p95_us"], came["samples"]),
            ),
            patch=patch(contracts={kind: {"ttl_s": ttl_s}}),
        )


def ttl_never_bites(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Shorten a TTL that is far beyond any wait, so that what is stale is not acted on when somebody is away."""
    for row in _at_default(figures, policy):
        calm = not row["expired"] and not row["stale"] and not row["waiting"] and row["samples"] >= by.messages_min
        if not calm:
            continue
        ttl_s = max(by.ttl_floor_s, _whole_minutes(seconds(row["max_us"]) * by.ttl_unused_factor))
        if ttl_s * 2 > seconds(row["ttl_us"]):
            continue
        kind = row["message_type"]
        yield Advice(
            rule="ttl_never_bites",
            subject=kind,
            text=(
                f"None of {row['messages']} {kind} expired; the longest wait was {seconds(row['max_us']):g} s of a TTL "
                f"of {seconds(row['ttl_us']):g} s. {ttl_s:g} s would let stale ones end."
            ),
            evidence=(
                Evidence("ttl_use", f"max_us where message_type = {kind}", row["max_us"], row["samples"]),
                Evidence("ttl_use", f"expired where message_type = {kind}", 0, row["messages"]),
            ),
            patch=patch(contracts={kind: {"ttl_s": ttl_s}}),
        )


def _at_default(figures: Figures, policy: Policy) -> Iterator[Row]:
    """Yield the rows whose TTL is the contract's: only those follow a change of it."""
    for row in figures.ttls:
        contract = policy.contract_of(row["message_type"])
        if contract is not None and row["ttl_us"] == round(contract.ttl_s * 1_000_000):
            yield row


def _within(histogram: list[int], limit_us: int) -> int:
    """Count what is surely at most `limit_us`: whole buckets."""
    return sum(count for count, bound in zip(histogram, BOUNDS_US, strict=False) if bound <= limit_us)


def _whole_minutes(length_s: float) -> float:
    return float(max(1, math.ceil(length_s / 60)) * 60)
