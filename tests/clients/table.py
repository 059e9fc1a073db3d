"""The table of clients, versions and capabilities, written by the run of the cases.

A cell is what the last run saw: `yes` if the case passed, `no` with the known defect if it failed as expected, `fails`
if it failed unexpectedly. A case that was not run with a version is `not seen`.
"""

from pathlib import Path

from tests.clients.cache import Installed, clients

__all__ = ["Table"]

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "coding-agents.md"
_BEGIN, _END = "<!-- written by make clients: do not edit -->", "<!-- end -->"
_NAMES = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI", "opencode": "opencode"}


class Table:
    """What was seen in one run."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, Installed], str] = {}
        #: Known defects, in the order of their numbers.
        self._reasons: list[str] = []

    def note(self, capability: str, installed: Installed, outcome: str, reason: str = "") -> None:
        """Keep the outcome of a case; of several cases of one capability, a worse one stays."""
        if reason and reason not in self._reasons:
            self._reasons.append(reason)
        cell = f"{outcome} ({self._reasons.index(reason) + 1})" if reason else outcome
        if self._cells.get((capability, installed), "yes") == "yes":
            self._cells[capability, installed] = cell

    def text(self) -> str:
        """Return the table in Markdown, with the known defects below it."""
        columns = clients()
        head = ["", *(f"{_NAMES[one.client]} {one.version}" for one in columns)]
        rows = [
            [capability, *(self._cells.get((capability, one), "not seen") for one in columns)]
            for capability in dict.fromkeys(capability for capability, _ in self._cells)
        ]
        lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
        defects = [f"{number}. {reason}" for number, reason in enumerate(self._reasons, 1)]
        return "\n".join([*lines, "", *defects]).rstrip()

    def write(self, page: Path = _PAGE) -> None:
        """Put the table into the page, between its marks."""
        before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
        _, _, after = rest.partition(_END)
        page.write_text(f"{before}{_BEGIN}\n\n{self.text()}\n\n{_END}{after}", encoding="utf-8")
