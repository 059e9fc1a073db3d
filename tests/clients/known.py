"""Known defects: each marks cases that fail because of it. Whoever mends it removes it here.

Only a failed assertion counts as the defect: a case in which the harness itself fails is an error.
"""

import pytest

__all__ = [
    "AGENT_OF_A_FOLDER",
    "CLAUDE_SUB_FOLDER",
    "CODEX_WORKTREE",
    "FIRST_REQUEST",
    "GEMINI_RUNS_NO_HOOKS",
    "GEMINI_SUB_FOLDER",
    "RELATIVE_DATA",
    "needs",
]


def needs(holds: object, what: str) -> None:
    """Raise an error that is not a known defect, if what a case rests on does not hold."""
    if not holds:
        raise RuntimeError(f"the case shows nothing: {what}")


def _defect(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


FIRST_REQUEST = _defect("Codex asks its model before Tocsin's server has started: it is not `required`")

RELATIVE_DATA = _defect("the entries name a data directory that is relative to the folder in which a client starts")
GEMINI_RUNS_NO_HOOKS = _defect("Gemini CLI runs git without hooks (`core.hooksPath` is empty), so the guard never runs")
GEMINI_SUB_FOLDER = _defect("Gemini CLI reads a project's settings only in the folder in which it starts")
CLAUDE_SUB_FOLDER = _defect("Claude Code reads `.claude/settings.json` only in the folder in which it starts")
CODEX_WORKTREE = _defect("Codex reads hooks from the main checkout and not from the worktree")
AGENT_OF_A_FOLDER = _defect("the agent that a folder names wins over the token of a process")
