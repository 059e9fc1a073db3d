"""Program that stands for a forked process (`tests/forks.py`), where a library starts it and gives it its files.

It needs nothing but Python's core, so that it starts with little.
"""

import json
import os
import socket
import sys

__all__ = ["request"]


def request(path: str, words: list[str], folder: str, environment: dict[str, str], files: list[int]) -> socket.socket:
    """Ask a template for a process; return the connection with its number and then its exit code."""
    caller = socket.socket(socket.AF_UNIX)
    caller.connect(path)
    asked = {"words": words, "folder": folder, "environment": environment}
    text = json.dumps(asked).encode() + b"\n"
    sent = socket.send_fds(caller, [text], files)
    caller.sendall(text[sent:])
    return caller


def _main(path: str, *words: str) -> int:
    folder = os.getcwd()  # noqa: PTH109
    with request(path, list(words), folder, dict(os.environ), [0, 1, 2]) as caller:
        for number in (0, 1, 2):
            os.close(number)
        with caller.makefile() as answer:
            answer.readline()
            return int(answer.readline())


if __name__ == "__main__":
    os._exit(_main(*sys.argv[1:]))
