import ast
import sys
from pathlib import Path

import tocsin.frames

PACKAGE = Path(tocsin.frames.__file__).parent


def imported(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_the_frame_bus_stands_on_its_own() -> None:
    allowed = sys.stdlib_module_names | {"msgspec"}
    for module in PACKAGE.glob("*.py"):
        strangers = {
            name
            for name in imported(module)
            if not name.startswith("tocsin.frames") and name.partition(".")[0] not in allowed
        }
        assert not strangers, module.name
