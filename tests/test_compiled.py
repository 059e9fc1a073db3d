"""The compiled form: what it is made of; and, at full length, that it decides as the pure one does."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _tool() -> object:
    spec = importlib.util.spec_from_file_location("compile_tool", ROOT / "tools" / "compile.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_whatever_is_compiled_declares_nothing_that_is_read_from_json() -> None:
    """Annotations of compiled structs are lost, so whatever msgspec decodes has to stay as it is."""
    compiled: list[str] = _tool().modules()  # type: ignore[attr-defined]
    assert "tocsin/core/exchange.py" in compiled
    for module in compiled:
        text = (ROOT / "src" / module).read_text(encoding="utf-8")
        assert not re.search(r"Annotated\[", text), module
        assert "forbid_unknown_fields" not in text, module
    for name in _decoded():
        assert name not in compiled, f"{name} declares what is decoded"


def _decoded() -> set[str]:
    """Name the modules of the documents that a state is restored from."""
    from tocsin.core.documents import KINDS

    return {kind.row.__module__.replace(".", "/") + ".py" for kind in KINDS}


@pytest.mark.skipif(not os.environ.get("TOCSIN_SOAK"), reason="compiling takes minutes: make soak")
def test_the_compiled_form_passes_the_tests_of_the_core() -> None:
    subprocess.run([sys.executable, "tools/compile.py"], cwd=ROOT, check=True)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'build' / 'compiled'}:{ROOT}"}
    environment.pop("TOCSIN_SOAK")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "tests/core", "tests/stores", "tests/hub"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout[-4000:]
