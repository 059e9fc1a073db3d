"""Advice on waiting: aging that is too early or too late, and recipients that are bottlenecks."""

import math
from collections.abc import Iterator

from tocsin.core.policy import Policy
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.pipeline.advice.base import Advice, Evidence, Goal, Thresholds, patch, seconds
from tocsin.pipeline.advice.figures import Figures

__all__ = ["aging_threshold", "bottleneck"]


def aging_threshold(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Lengthen an aging threshold that boosts too many messages, or shorten one that leaves too many over the bound."""
    aging = policy.aging
    rows = [row for row in figures.waits if row["priority"] < Priority.CRITICAL and row["messages"] >= by.messages_min]
    if not aging.enabled or not rows:
        return
    raised = max(rows, key=lambda row: float(row["boosted"] / row["messages"]))
    late = max(rows, key=lambda row: float(row["over_bound_available"] / row["messages"]))
    if raised["boosted"] >= by.aging_boosted_share * raised["messages"] and raised["p95_us"] is not None:
        threshold_s = float(math.ceil(seconds(raised["p95_us"])))
        if threshold_s > aging.threshold_s:
            name = priority_name(raised["priority"])
            yield Advice(
                rule="aging_threshold",
                subject=name,
                text=(
                    f"Aging boosted {raised['boosted']} of {raised['messages']} {name} messages, so priorities mean "
                    f"little. 95 % are offered within {threshold_s:g} s: boost after that instead of after "
                    f"{aging.threshold_s:g} s."
                ),
                evidence=(
                    Evidence("aging_wait", f"boosted where priority = {raised['priority']}", raised["boosted"],
                             raised["messages"]),
                    Evidence("aging_wait", f"p95_us where priority = {raised['priority']}", raised["p95_us"],
                             raised["samples"]),
                ),
                patch=patch(aging={"threshold_s": threshold_s}),
                goal=Goal("p95_s", above=raised["priority"]),
            )  # fmt: skip
            return
    if late["over_bound_available"] >= max(1.0, by.aging_over_bound_share * late["messages"]):
        name, threshold_s = priority_name(late["priority"]), aging.threshold_s / 2
        yield Advice(
            rule="aging_threshold",
            subject=name,
            text=(
                f"{late['over_bound_available']} of {late['messages']} {name} messages to available recipients waited "
                f"longer than the bound of {seconds(late['bound_us']):g} s. Half the aging threshold halves the bound: "
                f"set it to {threshold_s:g} s instead of {aging.threshold_s:g} s."
            ),
            evidence=(
                Evidence("aging_wait", f"over_bound_available where priority = {late['priority']}",
                         late["over_bound_available"], late["messages"]),
                Evidence("aging_wait", f"max_us where priority = {late['priority']}", late["max_us"], late["samples"]),
            ),
            patch=patch(aging={"threshold_s": threshold_s}),
            goal=Goal("p99_s", priority=late["priority"]),
        )  # fmt: skip


def bottleneck(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Widen the delivery window if most of the waiting is for one connected recipient."""
    total_us = sum(row["sum_us"] or 0 for row in figures.loads)
    if len(figures.loads) < 2 or not total_us:
        return
    worst = max(figures.loads, key=lambda row: int(row["sum_us"] or 0))
    held_back = worst["held_back"] >= by.bottleneck_held_back_share * worst["messages"]
    long = worst["samples"] >= by.messages_min and worst["p95_us"] >= by.bottleneck_wait_s * 1_000_000
    if not held_back or not long or worst["sum_us"] < by.bottleneck_share * total_us:
        return
    window = min(policy.limits.window_max, policy.delivery.window_default * 2)
    if window <= policy.delivery.window_default:
        return
    name, share = worst["recipient"], worst["sum_us"] / total_us
    yield Advice(
        rule="bottleneck",
        subject=name,
        text=(
            f"{share:.0%} of all waiting time for connected agents is for {name}: {worst['held_back']} of "
            f"{worst['messages']} messages found its window full. Set the window to {window} offers instead of "
            f"{policy.delivery.window_default}, or give {name} less work."
        ),
        evidence=(
            Evidence("recipient_load", f"sum_us where recipient = {name}", worst["sum_us"], worst["samples"]),
            Evidence("recipient_load", f"held_back where recipient = {name}", worst["held_back"], worst["messages"]),
        ),
        patch=patch(delivery={"window_default": window}),
        goal=Goal("p95_s"),
    )
