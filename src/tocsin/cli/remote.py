"""Asking a hub over HTTP, with nothing but the standard library; and what a script can tell from the exit code."""

import http.client
import json
import os
from enum import IntEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

__all__ = ["DEFAULT_URL", "EXPLICIT", "Exit", "Refused", "Remote", "Unreachable", "agent_token", "token_from"]

#: Where a hub is, unless said otherwise.
DEFAULT_URL = "http://127.0.0.1:7077"
#: Headers of a call that is no receipt of what was handed out before: such a caller confirms by itself.
EXPLICIT = {"Tocsin-Receipts": "explicit"}
_TIMEOUT_S = 60.0


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
    #: No hub answers.
    UNREACHABLE = 7
    PORT_TAKEN = 8
    #: Another hub has the project open.
    PROJECT_OWNED = 9


class Unreachable(Exception):
    """No hub answers there."""


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
    return path.read_text(encoding="utf-8").strip() if path.exists() else None


def agent_token(data: Path, agent: str | None, file: Path | None = None) -> str | None:
    """Find the token of an agent: never the admin's, which no program should act with because it found nothing else."""
    if file is None and agent is None:
        if token := os.environ.get("TOCSIN_TOKEN"):
            return token
        named = os.environ.get("TOCSIN_TOKEN_FILE")
        file = Path(named) if named else None
    path = data / "tokens" / f"{agent}.token" if file is None and agent is not None else file
    return path.read_text(encoding="utf-8").strip() if path is not None and path.exists() else None


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
        self._parts = urlsplit(url)
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
        self, method: str, path: tuple[str, ...], body: Any, query: dict[str, Any], *, signed: bool = False
    ) -> Any:
        """Make one request, signed with the token where that is asked for; a refusal is raised."""
        https = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json"} | self._headers
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
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"no hub answers at {self.url}: {error}") from None
        finally:
            connection.close()
        text = response.headers.get_content_type() == "text/plain"
        answer = data.decode() if text else json.loads(data or b"{}")
        if response.status >= 400 and path != ("ready",):
            raise Refused(response.status, answer if isinstance(answer, dict) else {"detail": str(answer)})
        return answer


def _signature(token: str, content: bytes) -> str:
    from tocsin.hub.auth.signatures import sign  # loaded only by those who sign
    from tocsin.hub.auth.tokens import parse_token

    secret = parse_token(token)
    return "" if secret is None else sign(secret, content)
