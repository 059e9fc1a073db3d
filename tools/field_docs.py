"""Documentation of fields: the `#:` lines above them in the source."""

import ast
import inspect
from pathlib import Path

__all__ = ["field_docs"]


def field_docs(cls: type) -> dict[str, str]:
    """Return the documentation of a class's own fields, in order; empty for a field without any."""
    path = Path(inspect.getfile(cls))
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            return {
                item.target.id: _above(lines, item.lineno)
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            }
    raise LookupError(f"{cls.__name__} is not in {path.name}")


def _above(lines: list[str], line: int) -> str:
    words: list[str] = []
    index = line - 2
    while index >= 0 and lines[index].strip().startswith("#:"):
        words.insert(0, lines[index].strip()[2:].strip())
        index -= 1
    return " ".join(words)
