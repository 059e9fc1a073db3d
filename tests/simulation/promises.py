"""What a broken promise raises."""

__all__ = ["Violation", "must"]


class Violation(AssertionError):
    """A promise was broken."""


def must(condition: bool, promise: str) -> None:
    """Insist."""
    if not condition:
        raise Violation(promise)
