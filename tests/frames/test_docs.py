import re
from pathlib import Path

import pytest

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "frames.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", HOW_TO.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_run(example: str) -> None:
    exec(compile(example, HOW_TO.name, "exec"), {"__name__": "example"})  # noqa: S102


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6
