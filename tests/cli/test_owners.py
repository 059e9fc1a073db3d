"""The command line goes to the hub that serves a project, which other hubs name."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from tocsin.cli.remote import HOPS_MAX, NotConnected, Refused, Remote


class Answers:
    """The answers of a small server, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        self.owner: str | None = None

    def answer(self) -> tuple[int, dict[str, Any]]:
        """Return the status and body of the next answer."""
        if self.owner is None:
            return 200, {"from": self.url}
        return 307, {"code": "E_HUB_002", "detail": "elsewhere", "facts": {"address": self.owner}}


@contextmanager
def answering() -> Iterator[Answers]:
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answers.asked.append((self.path, self.headers["Authorization"]))
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body = answers.answer()
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    answers.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_call_goes_to_the_owner_and_the_next_one_goes_there_at_once() -> None:
    with answering() as one, answering() as two:
        one.owner = two.url
        for _ in range(2):
            assert Remote(one.url, "secret").post("v1", "things") == {"from": two.url}
        assert len(one.asked) == 1
        assert two.asked == [("/v1/things", "Bearer secret")] * 2


def test_an_owner_that_is_down_is_forgotten() -> None:
    with answering() as one:
        with answering() as two:
            one.owner = two.url
            remote = Remote(one.url, "secret")
            assert remote.post("v1", "things") == {"from": two.url}
        one.owner = None
        assert remote.post("v1", "things") == {"from": one.url}


def test_hubs_that_name_each_other_are_left_after_some_hops() -> None:
    with answering() as one, answering() as two:
        one.owner, two.owner = two.url, one.url
        with pytest.raises(Refused):
            Remote(one.url, "secret").post("v1", "things")
        assert len(one.asked) + len(two.asked) == HOPS_MAX + 1


def test_the_next_address_is_tried_while_one_is_down() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with answering() as one:
            assert Remote(f"{down}, {one.url}", None).post("v1", "things") == {"from": one.url}
        with pytest.raises(NotConnected):
            Remote(down, None).post("v1", "things")
