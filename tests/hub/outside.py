"""Somebody outside, for webhooks: a real server on loopback that answers as told."""

import json
import queue
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_S
from tocsin.hub.webhooks import sign

SECRET = b"a secret of some length"


class Outside:
    """Answers as told, and keeps what came."""

    def __init__(self) -> None:
        self.came: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.statuses: list[int] = []
        #: What is answered to a body; nothing where it hangs instead.
        self.answer: Callable[[Any], int | None] = lambda body: self.statuses.pop(0) if self.statuses else 204
        #: Set to let go of those that hang.
        self.over = threading.Event()
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outside.came.put((dict(self.headers) | {"path": self.path}, body))
                status = outside.answer(json.loads(body))
                if status is None:
                    self.trickle()
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def trickle(self) -> None:
                """Never answer, but say something often enough that a socket's timeout does not end it."""
                try:
                    while not outside.over.wait(0.02):
                        self.wfile.write(b"H")
                except OSError:
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?team=a"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def take(self) -> tuple[dict[str, str], Any]:
        headers, body = self.came.get(timeout=PATIENCE_S)
        assert headers["Tocsin-Signature"] == sign(SECRET, headers["Tocsin-Timestamp"], body)
        return headers, json.loads(body)

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()
