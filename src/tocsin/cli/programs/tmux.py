"""Types a text into a client that is idle in a pane of tmux, and submits it.

Theory of operation. A terminal program takes text and Enter that arrive together as one paste and submits nothing. So
the text is typed, then seen in the pane, and only then Enter follows. Nothing is typed unless the prompt is empty: the
draft of a person is never touched, and text that a person types meanwhile is never submitted. The prompt is where the
cursor is. What is left of the cursor in its row must be the prompt's sign alone; what is right of it may only be dim,
as a placeholder is. Afterwards everything between the sign and the cursor must be the text, but for spaces and frames,
because clients wrap it in their own ways. Enter is pressed again while exactly that is still to be seen.
"""

import re
import subprocess
import time
import unicodedata
from collections.abc import Callable

import msgspec

from tocsin.cli.remote import Exit

__all__ = ["PROMPT", "TEXT_MAX", "NotSubmitted", "Pacing", "Pane", "is_typeable", "submit"]

#: The row of an empty prompt up to the cursor: of Claude Code, Codex, and others with one of these signs.
PROMPT = r"[\s│┃|]*[\u276f\u203a>]\s?"
#: Longest text, characters: clients show a long paste as a placeholder, in which the text cannot be seen.
TEXT_MAX = 500
_LOOK_AGAIN_S = 0.1
#: Time for one answer of tmux, seconds.
_TMUX_S = 10.0
_SHELLS = frozenset({"bash", "csh", "dash", "fish", "ksh", "nu", "pwsh", "sh", "tcsh", "zsh"})
_FACTS = "#{pane_id}\t#{cursor_x}\t#{cursor_y}\t#{pane_in_mode}\t#{pane_dead}\t#{pane_current_command}"
#: Escape sequences in a captured row: changes of the style, or others, such as those of links.
_ESCAPE = re.compile(r"\x1b(?:\[([0-9;:]*)m|\[[0-9;:?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
#: Numbers that begin a colour in a style, and the numbers that follow, by the kind of colour.
_COLOURS, _OF_COLOUR = frozenset({"38", "48", "58"}), {"5": 2, "2": 4}
_FRAMES = frozenset(map(chr, range(0x2500, 0x25A0)))


class NotSubmitted(Exception):
    """The text was not submitted, with the exit code that says why."""

    def __init__(self, text: str, code: Exit) -> None:
        super().__init__(text)
        self.code = code


class Pacing(msgspec.Struct, frozen=True):
    """How long each step may take."""

    #: Time for the prompt to become empty, seconds.
    wait_s: float
    #: Pause between the text and Enter, seconds.
    pause_s: float
    #: Time for the text to be seen, and then to be submitted, seconds.
    submit_s: float
    #: Time after which Enter is pressed again, seconds.
    again_s: float


class _Screen(msgspec.Struct, frozen=True):
    """A pane at one moment."""

    column: int
    row: int
    is_in_mode: bool
    is_dead: bool
    command: str
    #: The characters of each row, each with whether it is dim.
    rows: list[list[tuple[str, bool]]]

    def cells(self, row: int) -> list[tuple[str, bool]]:
        """Return the characters of a row; rows at the end may be missing."""
        return self.rows[row] if row < len(self.rows) else []

    def up_to_cursor(self, row: int) -> str:
        """Return a row's text; of the cursor's row what is left of the cursor."""
        cells = self.cells(row)
        if row != self.row:
            return _text(cells)
        # tmux leaves out the spaces at the end of a row.
        left = _text(cells[: _index(cells, self.column)])
        return left + " " * (self.column - sum(map(_width, left)))


class Pane:
    """A pane of tmux."""

    def __init__(self, target: str) -> None:
        # tmux takes the beginning of a session's name for the name, unless an equals sign is put before it.
        self._target = target if re.search(r"[:.%@$=]", target) else f"={target}:"

    def look(self) -> _Screen:
        """Return what the pane shows."""
        facts_of, capture = ("display-message", "-p", "-t", self._target, _FACTS), ("capture-pane", "-p", "-e", "-t")
        told = _tmux(*facts_of, ";", *capture, self._target)
        head, _, rest = told.partition("\n")
        facts = head.split("\t")
        if len(facts) != len(_FACTS.split("\t")) or not facts[0]:
            raise NotSubmitted(f"there is no pane {self._target}", Exit.NOT_FOUND)
        self._target = facts[0]  # From here on it is this pane, whatever its name becomes.
        return _Screen(int(facts[1]), int(facts[2]), facts[3] != "0", facts[4] == "1", facts[5], _rows(rest))

    def type(self, text: str) -> None:
        """Type a text as it is."""
        # A semicolon at the end of an argument separates commands of tmux.
        literal = text[:-1] + r"\;" if text.endswith(";") else text
        _tmux("send-keys", "-t", self._target, "-l", "--", literal)

    def press_enter(self) -> None:
        """Press Enter."""
        _tmux("send-keys", "-t", self._target, "Enter")


def submit(pane: Pane, text: str, prompt: "re.Pattern[str]", pacing: Pacing) -> None:
    """Type a text into an empty prompt and submit it; raise if that cannot be done, or has not worked."""
    # What an earlier attempt has typed and not submitted is taken up.
    if not _wait(lambda: _is_idle(pane.look(), text, prompt), pacing.wait_s):
        raise NotSubmitted(_obstacle(pane.look(), prompt), Exit.TRY_LATER)
    if not _holds(pane.look(), text, prompt):
        pane.type(text)
    if not _wait(lambda: _holds(pane.look(), text, prompt), pacing.submit_s):
        raise NotSubmitted("the text was typed, but is not seen alone in the prompt: not submitted", Exit.FAILED)
    end = time.monotonic() + pacing.submit_s
    while time.monotonic() < end:
        time.sleep(pacing.pause_s)
        if not _holds(pane.look(), text, prompt):
            raise NotSubmitted("somebody has changed the text in the prompt: not submitted", Exit.FAILED)
        pane.press_enter()
        # A second look, because the first may have come while the client drew its screen.
        if _wait(lambda: not _holds(pane.look(), text, prompt), pacing.again_s):
            time.sleep(_LOOK_AGAIN_S)
            if not _holds(pane.look(), text, prompt):
                return
    raise NotSubmitted("the text is in the prompt, and Enter does not submit it", Exit.FAILED)


def is_typeable(text: str) -> bool:
    """Return whether a text is one line of characters that can be typed and recognised."""
    return text.isprintable() and 0 < len(text) <= TEXT_MAX and bool(_essence(text))


def _wait(what: Callable[[], bool], seconds: float) -> bool:
    """Wait until something holds; return whether it does."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True


def _is_idle(screen: _Screen, text: str, prompt: "re.Pattern[str]") -> bool:
    return not _wrong_program(screen) and (_is_empty(screen, prompt) or _holds(screen, text, prompt))


def _wrong_program(screen: _Screen) -> bool:
    return screen.is_dead or screen.is_in_mode or screen.command.lstrip("-") in _SHELLS


def _obstacle(screen: _Screen, prompt: "re.Pattern[str]") -> str:
    """Return why nothing can be typed."""
    if screen.is_dead:
        return "the program in the pane has ended"
    if screen.is_in_mode:
        return "somebody scrolls in the pane (tmux's copy mode)"
    if screen.command.lstrip("-") in _SHELLS:
        return f"no client runs in the pane: a shell ({screen.command}) is at its prompt"
    if _prompt_row(screen, prompt) is None:
        return "the cursor is at no prompt: the client shows a question, or its prompt looks different (--prompt)"
    return "a draft is in the prompt"


def _is_empty(screen: _Screen, prompt: "re.Pattern[str]") -> bool:
    if prompt.fullmatch(screen.up_to_cursor(screen.row)) is None:
        return False
    cells, below = screen.cells(screen.row), screen.cells(screen.row + 1)
    right = cells[_index(cells, screen.column) :]
    # The cursor itself is often drawn over the first character of a placeholder.
    if len(right) > 1 and right[1][1]:
        right = right[1:]
    # The second line of a draft whose first one is empty: indented, and directly below.
    has_more = _text(below).startswith("  ") and _shows_text(below)
    return not _shows_text(right) and not has_more


def _shows_text(cells: list[tuple[str, bool]]) -> bool:
    """Return whether cells have anything but dim text, spaces and frames."""
    return any(not is_dim and not character.isspace() and character not in _FRAMES for character, is_dim in cells)


def _prompt_row(screen: _Screen, prompt: "re.Pattern[str]") -> int | None:
    """Return the row in which the prompt of the cursor's text begins."""
    for row in range(screen.row, -1, -1):
        if prompt.match(screen.up_to_cursor(row)):
            return row
    return None


def _entered(screen: _Screen, prompt: "re.Pattern[str]") -> str:
    """Return the essence of what is between the prompt's sign and the cursor."""
    first = _prompt_row(screen, prompt)
    if first is None:
        return ""
    lines = [screen.up_to_cursor(row) for row in range(first, screen.row + 1)]
    return _essence(prompt.sub("", lines[0], count=1) + "".join(lines[1:]))


def _holds(screen: _Screen, text: str, prompt: "re.Pattern[str]") -> bool:
    return not screen.is_in_mode and _entered(screen, prompt) == _essence(text)


def _essence(text: str) -> str:
    """Return the letters and digits of a text: what wrapping and frames leave as it is."""
    return "".join(filter(str.isalnum, text))


def _tmux(*words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            ["tmux", *words],  # noqa: S607
            capture_output=True,
            timeout=_TMUX_S,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        raise NotSubmitted("tmux is not installed", Exit.NOT_FOUND) from None
    except subprocess.TimeoutExpired:
        raise NotSubmitted(f"tmux did not answer in {_TMUX_S:g} s", Exit.FAILED) from None
    if done.returncode:
        raise NotSubmitted(f"tmux: {done.stderr.strip() or 'it failed'}", Exit.NOT_FOUND)
    return done.stdout


def _rows(captured: str) -> list[list[tuple[str, bool]]]:
    """Return the characters of captured rows, each with whether it is dim; a style goes on in the next row."""
    rows, is_dim = [], False
    for line in captured.split("\n"):
        cells: list[tuple[str, bool]] = []
        at = 0
        for escape in _ESCAPE.finditer(line):
            cells += [(character, is_dim) for character in line[at : escape.start()]]
            at = escape.end()
            if escape[1] is not None:
                is_dim = _dim_after(escape[1], is_dim)
        cells += [(character, is_dim) for character in line[at:]]
        rows.append(cells)
    return rows


def _dim_after(style: str, is_dim: bool) -> bool:
    """Return whether text is dim after a change of the style."""
    numbers = style.split(";")
    at = 0
    while at < len(numbers):
        number = numbers[at]
        if number in _COLOURS and at + 1 < len(numbers):
            at += _OF_COLOUR.get(numbers[at + 1], 0)
        elif number == "2":
            is_dim = True
        elif number in ("", "0", "22"):
            is_dim = False
        at += 1
    return is_dim


def _text(cells: list[tuple[str, bool]]) -> str:
    return "".join(character for character, _ in cells)


def _index(cells: list[tuple[str, bool]], column: int) -> int:
    """Return the index of the character in a column: some take two columns, some none."""
    for index, (character, _) in enumerate(cells):
        width = _width(character)
        if column <= 0 and width:
            return index
        column -= width
    return len(cells)


def _width(character: str) -> int:
    """Return the columns that a character takes."""
    return 0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
