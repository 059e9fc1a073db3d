"""Files of tokens, which only their owner can read."""

import os
from pathlib import Path

__all__ = ["ADMIN_TOKEN_FILE", "keep_secret"]

#: Name of the file of a project's admin token.
ADMIN_TOKEN_FILE = "admin.token"  # noqa: S105


def keep_secret(path: Path, text: str) -> Path:
    """Write a secret to a file that is created readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    return path
