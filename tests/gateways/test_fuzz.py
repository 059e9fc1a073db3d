"""Fuzzing of the HTTP gateway with valid and invalid requests generated from its OpenAPI document.

TOCSIN_SOAK=1 runs many more examples.
"""

import subprocess
import sys
from pathlib import Path

from tests.cli.processes import RunningHub
from tests.soak import SOAK, scaled

EXAMPLES, PATIENCE_S = scaled(5, 60), 1500 if SOAK else 300
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
    "negative_data_rejection",
    "unsupported_method",
)


def test_fuzzing_the_description_finds_nothing(tmp_path: Path) -> None:
    with RunningHub(tmp_path / "data", "--log-level", "error") as hub:
        token = (hub.data / "admin.token").read_text().strip()
        fuzz = [
            *(str(Path(sys.executable).with_name("st")), "run", f"{hub.url}/openapi.json"),
            *("--header", f"Authorization: Bearer {token}", "--checks", ",".join(CHECKS)),
            *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1"),
            *("--generation-database", "none", "--suppress-health-check", "all"),
            *("--exclude-path-regex", "rotate|revoke"),
        ]
        done = subprocess.run(fuzz, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE_S)  # noqa: S603
    assert done.returncode == 0, done.stdout[-6000:]
    assert hub.log.read_text() == ""
