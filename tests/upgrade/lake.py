"""The rows of a lake that versions have in common."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["rows_of_lake"]

_LIVES = """
SELECT project, message, message_id, sender, recipient, message_type, state, is_open FROM message_life ORDER BY ALL
"""
_KINDS = "SELECT kind, count(*) AS events FROM event GROUP BY ALL ORDER BY ALL"


def rows_of_lake(data: Path) -> dict[str, Any]:
    """Return every message and the number of events by kind, as `tocsin pipeline query` shows them."""
    return {"message_life": _query(data, _LIVES), "event": _query(data, _KINDS)}


def _query(data: Path, sql: str) -> Any:
    command = [
        sys.executable,
        "-m",
        "tocsin",
        "pipeline",
        "--data",
        str(data),
        "query",
        sql,
        "--limit",
        "100000",
        "--json",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
