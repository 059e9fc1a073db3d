"""Advice on recipients: ACK timeouts that cause needless retries, and decay that is too fast or oscillates."""

import math
from collections.abc import Iterator

from tocsin.core.policy import Policy
from tocsin.core.protocol.contracts import AckRule
from tocsin.pipeline.advice.base import Advice, Evidence, Goal, Thresholds, patch, seconds
from tocsin.pipeline.advice.figures import Figures

__all__ = ["ack_timeout_short", "decay_swings", "decay_too_fast"]


def ack_timeout_short(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Double an ACK timeout if ACKs come until it passes and most retried messages are acknowledged in the end.

    The latencies say nothing about later ACKs, because the timeout cuts them off: how long they take is not known, and
    the lab tries whether twice the time is enough.
    """
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
        timeout_s = contract.timeout_s * 2
        yield Advice(
            rule="ack_timeout_short",
            subject=kind,
            text=(
                f"{row['requeued']} of {row['messages']} {kind} messages were retried and only {row['dead']} became "
                f"dead letters, so most were acknowledged in the end. ACKs come until the timeout of "
                f"{contract.timeout_s:g} s passes; later ones are not seen. Set it to {timeout_s:g} s."
            ),
            evidence=(
                Evidence("retry", f"requeued where message_type = {kind}", row["requeued"], row["messages"]),
                Evidence("processing_latency", f"p95_us where message_type = {kind}", latency["p95_us"],
                         latency["samples"]),
            ),
            patch=patch(contracts={kind: {"timeout_s": timeout_s}}),
            goal=Goal("retries", message_type=kind),
        )  # fmt: skip


def decay_too_fast(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Lower the maximum decay rate if messages went stale although recipients were fast."""
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
            f"{stale} of {decaying} decaying messages went stale, although recipients took {seconds(average_us):g} s "
            f"on average, less than the {manager.latency_high_s:g} s that count as slow. The decay rate went up to "
            f"{rates['highest']:g}. Limit it to {rate_max:g} instead of {manager.rate_max:g}."
        ),
        evidence=(
            Evidence("processing_latency", "stale", stale, decaying),
            Evidence("decay_rate", "highest new_rate", rates["highest"], rates["changes"]),
        ),
        patch=patch(queue_manager={"rate_max": rate_max}),
        goal=Goal("stale"),
    )


def decay_swings(figures: Figures, policy: Policy, by: Thresholds) -> Iterator[Advice]:
    """Lengthen the time between changes of the decay rate if they reverse each other."""
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
            f"reversed the previous one. Allow a change every {cooldown_s:g} s instead of every "
            f"{policy.queue_manager.cooldown_s:g} s."
        ),
        evidence=(
            Evidence("decay_rate", "changes that reverse the previous one", rates["reversals"], rates["changes"]),
            Evidence("decay_rate", "changes per hour", per_h, rates["changes"]),
        ),
        patch=patch(queue_manager={"cooldown_s": cooldown_s}),
        goal=Goal("rate_changes"),
    )
