"""Fuzzing of the HTTP gateway with valid and invalid requests generated from its OpenAPI document.

`make test` draws the operations that it tries; `make soak` tries all of them with many more examples.
"""

import random
import subprocess
import sys
from pathlib import Path

import httpx2

from tests.cli.processes import RunningHub
from tests.soak import SOAK, scaled

EXAMPLES, PATIENCE_S = scaled(5, 60), 1500 if SOAK else 300
#: How many operations are tried.
OPERATIONS = scaled(5, 1000)
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
        described = httpx2.get(f"{hub.url}/openapi.json", headers={"Authorization": f"Bearer {token}"})
        paths = described.json()["paths"].values()
        operations = sorted(operation["operationId"] for path in paths for operation in path.values())
        seed = random.SystemRandom().randrange(2**31)
        drawn = random.Random(seed).sample(operations, min(OPERATIONS, len(operations)))
        print(f"seed {seed} draws {len(drawn)} of {len(operations)} operations")  # noqa: T201
        fuzz = [
            *(str(Path(sys.executable).with_name("st")), "run", f"{hub.url}/openapi.json"),
            *("--header", f"Authorization: Bearer {token}", "--checks", ",".join(CHECKS)),
            *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1"),
            *("--generation-database", "none", "--suppress-health-check", "all"),
            *("--exclude-path-regex", "rotate|revoke"),
            *(word for name in drawn for word in ("--include-operation-id", name)),
        ]
        done = subprocess.run(fuzz, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE_S)  # noqa: S603
    assert done.returncode == 0, done.stdout[-6000:]
    assert hub.log.read_text() == ""
