"""Asking a hub over HTTP, with nothing but the standard library; and what a script can tell from the exit code."""

import http.client
import json
import os
from enum import IntEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

__all__ = [
    "DEFAULT_URL",
    "EXPLICIT",
    "Exit",
    "NoHub",
    "Refused",
    "Remote",
    "Unreachable",
    "Unusable",
    "agent_token",
    "token_from",
]

#: Where a hub is, unless said otherwise.
DEFAULT_URL = "http://127.0.0.1:7077"
#: Headers of a call that is no receipt of what was handed out before: such a caller confirms by itself.
EXPLICIT = {"Tocsin-Receipts": "explicit"}
_TIMEOUT_S = 60.0
#: What an answer may be at most: more than a hub ever says at once.
_ANSWER_BYTES_MAX = 256 * 2**20
#: What a hub speaks.
_SPOKEN = frozenset({"application/json", "application/problem+json"})


class Exit(IntEnum):
    """What an exit code means."""

    DONE = 0
    #: Something that a check found, or that nobody foresaw.
    FAILED = 1
    #: The command line was wrong.
    USAGE = 2
    #: The hub refused; the same again fails the same.
    REFUSED = 3
    NOT_FOUND = 4
    #: No token, a bad one, or one that does not allow it.
    NOT_PERMITTED = 5
    #: The hub refused; the same may succeed later.
    TRY_LATER = 6
    #: No hub answers, or what answers is none.
    UNREACHABLE = 7
    PORT_TAKEN = 8
    #: Another hub has the project open.
    PROJECT_OWNED = 9


class Unreachable(Exception):
    """No hub answers there."""


class NoHub(Unreachable):
    """Something answers there, and it is no hub."""


class Unusable(ValueError):
    """The address, or the token, is none that one could ask with."""


class Refused(Exception):
    """The hub refused; carries its problem document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(str(problem.get("detail", status)))
        self.status = status
        self.problem = problem

    @property
    def exit(self) -> Exit:
        """Return the exit code of this refusal."""
        if self.status in (401, 403):
            return Exit.NOT_PERMITTED
        if self.status == 404:
            return Exit.NOT_FOUND
        return Exit.TRY_LATER if self.problem.get("retryable") else Exit.REFUSED


def token_from(data: Path, agent: str | None) -> str | None:
    """Find the token to use: of a named agent in the data directory, else the environment's, else the admin's."""
    if agent is not None:
        path = data / "tokens" / f"{agent}.token"
    elif "TOCSIN_TOKEN" in os.environ:
        return os.environ["TOCSIN_TOKEN"]
    else:
        path = Path(os.environ.get("TOCSIN_TOKEN_FILE", data / "admin.token"))
    return _secret(path)


def agent_token(data: Path, agent: str | None, file: Path | None = None) -> str | None:
    """Find the token of an agent: never the admin's, which no program should act with because it found nothing else."""
    if file is None and agent is None:
        if token := os.environ.get("TOCSIN_TOKEN"):
            return token
        named = os.environ.get("TOCSIN_TOKEN_FILE")
        file = Path(named) if named else None
    path = data / "tokens" / f"{agent}.token" if file is None and agent is not None else file
    return None if path is None else _secret(path)


def _secret(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unusable(f"the token in {path} cannot be read: {error}") from None


class Remote:
    """One hub, asked as one agent."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        agent: str = "admin",
        headers: dict[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self.url = url
        self._https, self._host, self._port = _place(url)
        self._token = token
        #: Who to say one is where there is no token, to a hub that believes it.
        self._agent = agent
        self._headers = headers or {}
        self._timeout_s = timeout_s

    def get(self, *path: str, **query: Any) -> Any:
        """Ask a question."""
        return self.call("GET", path, None, query)

    def post(self, *path: str, body: Any = None) -> Any:
        """Ask for something to be done."""
        return self.call("POST", path, {} if body is None else body, {})

    def call(
        self,
        method: str,
        path: tuple[str, ...],
        body: Any,
        query: dict[str, Any],
        *,
        signed: bool = False,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Make one request, signed with the token where that is asked for; a refusal is raised."""
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json"} | self._headers | (headers or {})
        content = None if body is None else json.dumps(body).encode()
        if signed and self._token is not None and content is not None:
            headers["Tocsin-Signature"] = _signature(self._token, content)
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        else:
            headers["Tocsin-Agent"] = self._agent
        target = "/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target += "?" + urlencode({name: value for name, value in query.items() if value is not None})
        try:
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            data = response.read(_ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"no hub answers at {self.url}: {error}") from None
        except ValueError:  # whose words would have the token in them
            raise Unusable("the token, or the agent's name, has characters that cannot be sent") from None
        finally:
            connection.close()
        answer = self._read(response, data)
        if response.status >= 400 and path != ("ready",):
            raise Refused(response.status, answer)
        return answer

    def _read(self, response: http.client.HTTPResponse, data: bytes) -> Any:
        """Return what a hub said, or find that it is none."""
        kind, status = response.headers.get_content_type(), response.status
        if kind not in _SPOKEN:
            raise NoHub(f"what answers at {self.url} is no hub: it said {status} {response.reason}, {kind}")
        if len(data) > _ANSWER_BYTES_MAX:
            raise NoHub(f"what answers at {self.url} is no hub: it does not stop talking")
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise NoHub(f"what answers at {self.url} is no hub: it said what is no JSON: {error}") from None
        if status >= 400 and not (isinstance(answer, dict) and {"code", "condition"} & answer.keys()):
            raise NoHub(f"what answers at {self.url} is no hub: it said {status} {response.reason}, and not why")
        return answer


def _place(url: str) -> tuple[bool, str, int | None]:
    """Take an address apart: whether it is TLS, the host, the port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Unusable(f"{url} is no address of a hub: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unusable(f"{url} is no address of a hub: say http://host:port or https://host:port")
    return parts.scheme == "https", parts.hostname, port


def _signature(token: str, content: bytes) -> str:
    from tocsin.hub.auth.signatures import sign  # loaded only by those who sign
    from tocsin.hub.auth.tokens import parse_token

    secret = parse_token(token)
    return "" if secret is None else sign(secret, content)
