"""A program that takes prompts in a terminal as coding agents do: Enter in one burst with text is part of a paste.

Arguments: the folder for what happens, and flags. `submitted` gets one line for each prompt. While a file `jammed` is
there, Enter does nothing but make the file `ignored`. The flags: `wraps` breaks lines by itself and indents them,
`meddles` adds a letter to what is pasted, `asks` shows a question and no prompt.
"""

import json
import os
import sys
import termios
import time
import tty
from pathlib import Path

#: Enter sooner than this after text belongs to a paste, seconds.
_BURST_S = 0.1
_SIGN = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} "
_WIDTH = 38


def _draw(text: str, at: int, flags: list[str]) -> None:
    if "asks" in flags:
        sys.stdout.write(f"\x1b[2J\x1b[HMay I?\r\n{_SIGN}1. Yes\r\n  2. No\x1b[1;1H")
    elif not text:
        sys.stdout.write(f"\x1b[2J\x1b[H{_SIGN}\x1b[7mA\x1b[0;2msk anything\x1b[0m\x1b[1;3H")
    else:
        lines = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)] if "wraps" in flags else [text]
        sys.stdout.write("\x1b[2J\x1b[H" + _SIGN + "\r\n  ".join(line.replace("\n", "\r\n  ") for line in lines))
        if not at:
            sys.stdout.write("\x1b[1;3H")
    sys.stdout.flush()


def main() -> None:
    folder, flags = Path(sys.argv[1]), sys.argv[2:]
    before = termios.tcgetattr(0)
    tty.setraw(0)
    text, at, typed_at = "", 0, 0.0
    _draw(text, at, flags)
    try:
        while keys := os.read(0, 4096).decode():
            for key in keys:
                if key == "\x04":
                    return
                if key == "\r" and time.monotonic() - typed_at > _BURST_S:
                    if (folder / "jammed").exists():
                        (folder / "ignored").touch()
                    elif text:
                        with (folder / "submitted").open("a") as file:
                            file.write(json.dumps(text) + "\n")
                        text = ""
                elif key == "\x01":  # Ctrl-A
                    at = 0
                elif key == "\x15":  # Ctrl-U
                    text = ""
                else:
                    text += "\n" if key == "\r" else key
                    at, typed_at = len(text), time.monotonic()
            if "meddles" in flags and len(keys) > 1:
                text += "x"
            _draw(text, at, flags)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    main()
