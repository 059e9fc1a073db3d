"""What recipients meet: ACK timeouts that make needless retries, and decay that is too fast or swings."""

import math
from collections.abc import Iterator

from tocsin.core.policy import Policy
from tocsin.core.protocol.contracts import AckRule
from tocsin.pipeline.advice.base import Advice, Evidence, Thresholds, patch, seconds
from tocsin.pipeline.advice.figures import Figures

__all__ = ["ack_timeout_short", "decay_swings", "decay_too_fast"]


def ack_timeout_short(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Wait longer for ACKs that come, only late."""
    latencies = {row["message_type"]: row for row in figures.processing}
    for row in figures.retries:
        kind = row["message_type"]
        contract, latency = policy.contract_of(kind), latencies.get(kind)
        if contract is None or contract.ack is not AckRule.REQUIRED or contract.timeout_s is None or latency is None:
            continue
        often = row["messages"] >= by.messages_min and row["requeued"] >= by.retried_share * row["messages"]
        needless = often and row["dead"] <= by.retried_dead_share * row["requeued"]
        if not needless or latency["samples"] < by.messages_min:
            continue
        if seconds(latency["p95_us"]) < contract.timeout_s / 2:
            continue
        timeout_s = float(math.ceil(max(contract.timeout_s, seconds(latency["p99_us"])) * 1.5))
        yield Advice(
            rule="ack_timeout_short",
            subject=kind,
            text=(
                f"{row['requeued']} of {row['messages']} {kind} were sent again and only {row['dead']} died: the "
                f"ACKs come, 95 % within {seconds(latency['p95_us']):g} s, the timeout is {contract.timeout_s:g} s. "
                f"Wait {timeout_s:g} s."
            ),
            evidence=(
                Evidence("retry", f"requeued where message_type = {kind}", row["requeued"], row["messages"]),
                Evidence("processing_latency", f"p95_us where message_type = {kind}", latency["p95_us"],
                         latency["samples"]),
            ),
            patch=patch(contracts={kind: {"timeout_s": timeout_s}}),
        )  # fmt: skip


def decay_too_fast(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Lower the highest decay rate where messages went stale though recipients were quick."""
    manager = policy.queue_manager
    decaying = sum(row["decaying"] for row in figures.processing)
    stale = sum(row["stale"] for row in figures.processing)
    rates = figures.rates[0] if figures.rates else None
    if not manager.enabled or rates is None or decaying < by.messages_min or stale < by.stale_share * decaying:
        return
    samples = sum(row["samples"] for row in figures.processing)
    average_us = sum(row["sum_us"] or 0 for row in figures.processing) / samples if samples else 0.0
    if seconds(average_us) >= manager.latency_high_s:
        return
    rate_max = max(manager.rate_min, math.floor(rates["highest"] / 2 / policy.decay.rate_step) * policy.decay.rate_step)
    rate_max = round(rate_max, 6)
    if rate_max >= manager.rate_max:
        return
    yield Advice(
        rule="decay_too_fast",
        subject="queue_manager",
        text=(
            f"{stale} of {decaying} decaying messages went stale, while recipients took {seconds(average_us):g} s on "
            f"average, under the {manager.latency_high_s:g} s that count as slow. Let the rate rise to {rate_max:g} at "
            f"most instead of {manager.rate_max:g}; it went up to {rates['highest']:g}."
        ),
        evidence=(
            Evidence("processing_latency", "stale", stale, decaying),
            Evidence("decay_rate", "highest new_rate", rates["highest"], rates["changes"]),
        ),
        patch=patch(queue_manager={"rate_max": rate_max}),
    )


def decay_swings(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Let the queue manager wait longer between changes that undo each other."""
    rates = figures.rates[0] if figures.rates else None
    if rates is None or rates["changes"] < 2 or not rates["span_us"]:
        return
    per_h = rates["changes"] / (seconds(rates["span_us"]) / 3600)
    if per_h < by.rate_changes_per_h or rates["reversals"] < by.rate_reversals_share * (rates["changes"] - 1):
        return
    cooldown_s = policy.queue_manager.cooldown_s * 2
    yield Advice(
        rule="decay_swings",
        subject="queue_manager",
        text=(
            f"The decay rate changed {per_h:.0f} times an hour, and {rates['reversals']} of {rates['changes']} changes "
            f"undid the one before. Leave {cooldown_s:g} s between changes instead of "
            f"{policy.queue_manager.cooldown_s:g} s."
        ),
        evidence=(
            Evidence("decay_rate", "changes that undo the one before", rates["reversals"], rates["changes"]),
            Evidence("decay_rate", "changes per hour", per_h, rates["changes"]),
        ),
        patch=patch(queue_manager={"cooldown_s": cooldown_s}),
    )
