"""Names of anchors: what a step of a trace waits for in the closed loop."""

__all__ = ["offer_anchor", "wake_anchor"]


def wake_anchor(agent: str, number: int) -> str:
    """Return the anchor of steps that follow a wake of an agent, by its number in the window, from 1."""
    return f"w {number} {agent}"


def offer_anchor(offer: int, signal: str) -> str:
    """Return the anchor of the n-th offer of a message."""
    return f"o {offer} {signal}"
