"""HTTP server that plays the model of coding agents by a script, and records what it was shown.

One server plays the models of all agents of a case: the API key names the agent, because each client is given a key of
its own. Each agent has a script: its steps are taken one by one by requests of its main conversation. Requests of
sub-agents have a script of their own. A request without tools is a small errand of the client, as a title for the
conversation is: it is answered with a few words and takes no step. A script that has ended says `Done.`

A step whose tool the client has not listed yet waits (`script.answer_of`); if it is a function, that is called again.
"""

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.clients.model.apis import APIS, Api
from tests.clients.model.record import Request
from tests.clients.model.script import Call, Say, Step, answer_of
from tests.patience import PATIENCE_S

__all__ = ["Model"]

#: Answers that wait, of all agents; with more of them the tools will not come, and all scripts end.
_EARLY_MAX = 40
_ASIDE = Say('{"title": "A short title"}')
_ENDED = Say("Done.")


class Model:
    """The models of all agents of a case."""

    def __init__(self, listening: socket.socket) -> None:
        self.url = "http://{}:{}".format(*listening.getsockname())
        #: All requests in the order in which they came.
        self.shown: list[Request] = []
        #: Other requests: method and path.
        self.others: list[str] = []
        #: How often a model had to wait, because a tool of Tocsin was not listed yet.
        self.early = 0
        self._scripts: dict[tuple[str, str], deque[Step]] = {}
        self._changed = threading.Condition()
        self._server = _Server(listening, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Model":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def script(self, who: str, *steps: Step, purpose: str = "main") -> None:
        """Give the model of an agent the steps that come after those that it has."""
        with self._changed:
            self._scripts.setdefault((who, purpose), deque()).extend(steps)

    def of(self, who: str, purpose: str = "main") -> list[Request]:
        """Return what an agent's model was shown; not what those of its sub-agents were."""
        with self._changed:
            return [request for request in self.shown if (request.who, request.purpose) == (who, purpose)]

    def text(self, who: str, purpose: str = "main") -> str:
        """Return all that an agent's model was shown, as one text."""
        return "\n".join(request.text for request in self.of(who, purpose))

    def wait(self, what: Callable[["Model"], Any], patience_s: float = PATIENCE_S) -> Any:
        """Wait until a function of the record returns something true, and return that."""
        end = time.monotonic() + patience_s
        while True:
            if found := what(self):
                return found
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"not within {patience_s} s; shown: {self.summary()}")
            with self._changed:
                self._changed.wait(min(left, 0.2))

    def comes(self, what: Callable[["Model"], Any], within_s: float) -> bool:
        """Tell whether a function of the record returns something true within a time."""
        try:
            self.wait(what, within_s)
        except TimeoutError:
            return False
        return True

    def summary(self) -> str:
        """Return one line for each request."""
        lines = [
            f"{request.who} {request.purpose} {request.api}: {' | '.join(p.text[-300:] for p in request.news)}"
            for request in self.shown
        ]
        return "\n".join(["", *lines])

    def answer(self, request: Request) -> Say | list[Call]:
        """Record a request, and return what the model says."""
        step = self._take(request)
        answer = answer_of(step, request)
        if answer.early:
            with self._changed:
                self._scripts[request.who, request.purpose].appendleft(step)
                self.early += 1
                if self.early > _EARLY_MAX:
                    self._scripts.clear()
        return answer.said

    def _take(self, request: Request) -> Step:
        with self._changed:
            self.shown.append(request)
            self._changed.notify_all()
            if request.purpose == "aside":
                return _ASIDE
            steps = self._scripts.get((request.who, request.purpose))
            return steps.popleft() if steps else _ENDED

    def note(self, line: str) -> None:
        """Record a request that asks for no answer of a model."""
        with self._changed:
            self.others.append(line)


#: Headers that a client sends with the requests of its sub-agents alone: Claude Code, Codex, opencode.
_SUB_HEADERS = ("x-claude-code-agent-id", "x-openai-subagent", "x-parent-session-id")
#: Codex asks for the title of a conversation with a tool, and with this in a header.
_TITLE = '"thread_source":"thread_title"'
#: The tool with which a sub-agent of Gemini CLI ends; its requests have no header of their own.
_SUB_TOOL = "complete_task"


def _purpose_of(headers: Mapping[str, str], tools: Mapping[str, str]) -> str:
    """Tell the requests of the main conversation from those of sub-agents and from small errands."""
    if _SUB_TOOL in tools or any(name in headers for name in _SUB_HEADERS):
        return "sub"
    return "aside" if not tools or _TITLE in headers.get("x-codex-turn-metadata", "") else "main"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket, model: Model) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_address = listening.getsockname()
        self.model = model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave out connections that a client has closed; a killed client does so."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Write no log."""

    def do_HEAD(self) -> None:
        self._note()

    def do_GET(self) -> None:
        self._note()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        api = next((api for api in APIS if api.takes(path)), None)
        if api is None:
            self._note()
            return
        body = json.loads(raw)
        request = self._request(api, body)
        answer = self.server.model.answer(request)
        name = str(body.get("model") or path.rpartition("/")[2].partition(":")[0])
        if api.streams(path, body):
            self._stream(api.events(answer, name))
        else:
            self._answer(api.whole(answer, name))

    def _request(self, api: Api, body: dict[str, Any]) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        read = api.read(body)
        purpose = _purpose_of(headers, read.tools)
        who = self._key(headers)
        return Request(
            who, api.name, purpose, read.system, tuple(read.parts), read.tools, headers, body, time.monotonic()
        )

    def _key(self, headers: dict[str, str]) -> str:
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        query = parse_qs(urlsplit(self.path).query).get("key", [""])[0]
        return headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer or query

    def _stream(self, events: Iterable[tuple[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
            self.wfile.flush()

    def _answer(self, document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _note(self) -> None:
        path = urlsplit(self.path).path
        self.server.model.note(f"{self.command} {path}")
        if path.endswith(":countTokens"):
            self._answer({"totalTokens": 7})
        elif path.endswith("/count_tokens"):
            self._answer({"input_tokens": 7})
        elif path.endswith("/models"):
            self._answer({"object": "list", "data": [], "models": []})
        else:
            self._answer({})
