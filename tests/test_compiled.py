"""The modules of the compiled form, whose tests `make test-compiled` runs."""

import importlib.util
import re
from pathlib import Path

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


def test_no_compiled_coroutine_waits_while_it_handles_an_exception() -> None:
    """Suspended there, it would leave the exception behind for other coroutines."""
    tool = _tool()
    assert tool.unsafe_awaits(  # type: ignore[attr-defined]
        """
async def close(self):
    try:
        await self.run()
    except ValueError:
        await self.fail()
    finally:
        await self.end()
    async with timeout(1):
        pass
"""
    ) == [6, 8, 9]
    for module in tool.modules():  # type: ignore[attr-defined]
        assert not tool.unsafe_awaits((ROOT / "src" / module).read_text(encoding="utf-8")), module  # type: ignore[attr-defined]


def _decoded() -> set[str]:
    """Name the modules of the documents that a state is restored from."""
    from tocsin.core.documents import KINDS

    return {kind.row.__module__.replace(".", "/") + ".py" for kind in KINDS}
