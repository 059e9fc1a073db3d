"""Known defects, and what a client itself cannot do: each marks cases that fail because of it.

Whoever mends a defect removes it here. Only a failed assertion counts: a case in which the harness itself fails is an
error.
"""

import pytest

__all__ = [
    "CLAUDE_SUB_FOLDER",
    "GEMINI_RUNS_NO_HOOKS",
    "GEMINI_SUB_FOLDER",
    "OPENCODE_CANCELS",
    "needs",
]


def needs(holds: object, what: str) -> None:
    """Raise an error that is not a known defect, if what a case rests on does not hold."""
    if not holds:
        raise RuntimeError(f"the case shows nothing: {what}")


def _defect(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


def _limit(reason: str) -> pytest.MarkDecorator:
    return _defect(f"the client itself: {reason}")


GEMINI_RUNS_NO_HOOKS = _limit("Gemini CLI runs git without hooks (`core.hooksPath` is empty), so the guard never runs")
GEMINI_SUB_FOLDER = _limit("Gemini CLI reads a project's settings only in the folder in which it starts")
CLAUDE_SUB_FOLDER = _limit("Claude Code reads `.claude/settings.json` only in the folder in which it starts")
OPENCODE_CANCELS = _defect(
    "opencode cancels each call after its answer; Tocsin takes the answer for unseen, and repeats its messages"
)
