"""HTTP client of the command line, token files and exit codes.

Only the standard library is imported before the first operation: the check that coding agents run between two steps
must start quickly.
"""

import json
import os
from enum import IntEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tocsin.wire.drafts import Written
    from tocsin.wire.operation import Operation

__all__ = [
    "DEFAULT_URL",
    "HOPS_MAX",
    "NO_AGENT_TOKEN",
    "Exit",
    "HttpRequest",
    "NoHub",
    "NotConnected",
    "Refused",
    "Remote",
    "Unreachable",
    "Unusable",
    "no_token",
    "request_of",
    "secret_in",
    "token_from",
]

#: What `tocsin mcp` says without a token.
NO_AGENT_TOKEN = (
    "no token: `tocsin mcp` needs TOCSIN_TOKEN, TOCSIN_TOKEN_FILE, --token-file, --as or a folder with an agent"  # noqa: S105
)
#: Default URL of a hub.
DEFAULT_URL = "http://127.0.0.1:7077"
_TIMEOUT_S = 60.0
#: Items that a page is asked for; a hub may send fewer.
_PAGE_SIZE = 500
#: Maximum size of a reply; a hub never sends more.
_REPLY_BYTES_MAX = 256 * 2**20
#: Hubs that a request is sent on to; then the last answer counts.
HOPS_MAX = 4
#: Hubs that served a project last, by the URL and the token of a caller.
_OWNERS: "dict[tuple[str, str | None], str]" = {}
#: Content types of a hub's replies.
_CONTENT_TYPES = frozenset({"application/json", "application/problem+json"})


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    #: A check found a problem, or an unexpected error.
    FAILED = 1
    #: The command line was wrong.
    USAGE = 2
    #: The hub refused; repeating the same request fails again.
    REFUSED = 3
    NOT_FOUND = 4
    #: No token, an invalid one, or one without the required permission.
    NOT_PERMITTED = 5
    #: The hub refused; the same request may succeed later.
    TRY_LATER = 6
    #: No hub answers, or the server is not a hub.
    UNREACHABLE = 7
    PORT_TAKEN = 8
    #: Another hub has the project open.
    PROJECT_OWNED = 9


class Unreachable(Exception):
    """No hub answers at the URL."""


class NotConnected(Unreachable):
    """No connection was made, so the request was not sent."""


class NoHub(Unreachable):
    """The server at the URL is not a hub."""


class Unusable(ValueError):
    """The URL or the token is malformed."""


class Refused(Exception):
    """The hub refused a request; carries its problem document."""

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
    """Return the token of a named agent in the data directory, else the environment's, else the admin token."""
    if agent is not None:
        path = data / "tokens" / f"{agent}.token"
    elif secret := os.environ.get("TOCSIN_TOKEN"):
        return secret
    else:
        path = Path(os.environ.get("TOCSIN_TOKEN_FILE") or data / "admin.token")
    return secret_in(path)


def no_token(data: Path, agent: str | None) -> str:
    """Say which token is missing, and how to get one."""
    if agent is None:
        place = os.environ.get("TOCSIN_TOKEN_FILE") or str(data / "admin.token")
        return (
            f"there is no token in {place}: run this where the hub keeps its data, name its directory with --data, "
            "or set TOCSIN_TOKEN"
        )
    saved = sorted(path.stem for path in (data / "tokens").glob("*.token"))
    known = f"; saved are those of {', '.join(saved)}" if saved else ""
    return (
        f"no token is saved for {agent} in {data / 'tokens'}{known}. "
        f"`tocsin agents add {agent} --save` issues and saves one"
    )


def secret_in(path: Path) -> str | None:
    """Return the token in a file; null if there is no such file."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unusable(f"the token in {path} cannot be read: {error}") from None


class HttpRequest(NamedTuple):
    """The HTTP request of an operation."""

    method: str
    #: Path and query string.
    target: str
    body: bytes | None
    headers: dict[str, str]


def request_of(operation: "Operation", arguments: dict[str, Any], envelope: "Written | None" = None) -> HttpRequest:
    """Build the HTTP request of an operation: path, then query string or JSON body, from its row.

    The fields that the path does not have go to the query string if the body is an envelope or the method has no body.
    """
    left = dict(arguments)
    parts = [
        quote(str(left.pop(part[1:-1])), safe="") if part.startswith("{") else part
        for part in operation.path.split("/")
    ]
    target = "/".join(parts)
    if envelope is not None:
        body: bytes | None = bytes(envelope.envelope)
        headers = {} if envelope.signature is None else {"Tocsin-Signature": envelope.signature}
    else:
        body = None if operation.method in ("GET", "DELETE") else json.dumps(left).encode()
        headers = {}
    if left and (envelope is not None or body is None):
        target += "?" + urlencode({name: _query(value) for name, value in left.items() if value is not None})
    return HttpRequest(operation.method, target, body, headers)


def _query(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Remote:
    """One hub, called as one agent."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        agent: str = "admin",
        headers: dict[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
        no_token: str = "",
    ) -> None:
        self._own = [one.strip() for one in url.split(",") if one.strip()] or [url]
        for one in self._own:
            _place(one)
        self.token = token
        #: URL of the hub that answered last; of the first one before that.
        self.url = _OWNERS.get((url, token), self._own[0])
        self._key = (url, token)
        #: Name of the caller, sent instead of a token to a hub that does not authenticate.
        self._agent = agent
        self._headers = headers or {}
        self._timeout_s = timeout_s
        #: Why there is no token, for a hub that wants one.
        self._no_token = no_token

    def ask(self, name: str, arguments: dict[str, Any] | None = None, envelope: "Written | None" = None) -> Any:
        """Perform an operation and return its reply; a refusal is raised."""
        import msgspec

        from tocsin.wire.table import OPERATIONS, unknown_operation

        operation = OPERATIONS.get(name)
        if operation is None:
            raise unknown_operation(name)
        request = request_of(operation, arguments or {}, envelope)
        if operation.signed and self.token is not None:
            from tocsin.wire.signatures import Signer

            request.headers["Tocsin-Signature"] = Signer(self.token).sign(request.body or b"")
        data = self._exchange(*request)
        try:
            return msgspec.json.decode(data, type=operation.reply)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            detail = f"the server at {self.url} is not a hub, or a hub of another version: {error}"
            raise NoHub(detail) from None

    def pages(self, name: str, arguments: dict[str, Any] | None = None) -> "Iterator[Any]":
        """Perform an operation that returns a page, for one page after the other."""
        after: dict[str, Any] = {}
        while True:
            page = self.ask(name, {"limit": _PAGE_SIZE, **(arguments or {}), **after})
            yield page
            if page.next is None:
                return
            after = {"after": page.next}

    def list(self, name: str, arguments: dict[str, Any] | None = None) -> "list[Any]":
        """Return the items of all pages of an operation."""
        return [item for page in self.pages(name, arguments) for item in page.items]

    def feed(self) -> tuple[str, dict[str, str]]:
        """Return the URL of the live feed, and the headers that identify the caller."""
        scheme, _, place = self.url.rstrip("/").partition("://")
        return f"{'wss' if scheme == 'https' else 'ws'}://{place}/v1/feed", self._headers | self._identity()

    def get(self, *path: str, **query: Any) -> Any:
        """Send a GET request to a path."""
        return self.call("GET", path, None, query)

    def post(self, *path: str, body: Any = None) -> Any:
        """Send a POST request to a path."""
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
        """Send one request and return the decoded reply; a refusal is raised."""
        content = None if body is None else json.dumps(body).encode()
        headers = dict(headers or {})
        if signed and self.token is not None and content is not None:
            from tocsin.wire.signatures import Signer

            headers["Tocsin-Signature"] = Signer(self.token).sign(content)
        target = "/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target += "?" + urlencode({name: value for name, value in query.items() if value is not None})
        return self._decoded(self._exchange(method, target, content, headers))

    def download(self, *path: str, to: "IO[bytes]") -> None:
        """Send a GET request to a path, and write the file that is its reply; a refusal is raised."""
        import http.client
        import shutil

        self.ask("get_status")  # This finds the hub that serves the project.
        https, host, port = _place(self.url)
        opened = http.client.HTTPSConnection if https else http.client.HTTPConnection
        connection = opened(host, port, timeout=self._timeout_s)
        try:
            target = "/" + "/".join(quote(part, safe="") for part in path)
            connection.request("GET", target, None, self._headers | self._identity())
            response = connection.getresponse()
            if response.status == 200:
                shutil.copyfileobj(response, to)
                return
            data = response.read(_REPLY_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the reply of {self.url} is incomplete: {error}") from None
        finally:
            connection.close()
        problem = self._decoded(data)
        if not isinstance(problem, dict) or "code" not in problem:
            raise NoHub(f"the server at {self.url} is not a hub: it replied {response.status} {response.reason}")
        raise Refused(response.status, problem)

    def _exchange(self, method: str, target: str, content: bytes | None, headers: dict[str, str]) -> bytes:
        """Send a request to the hub that serves the project, which other hubs name."""
        others = [url for url in self._own if url != self.url]
        for _ in range(HOPS_MAX):
            try:
                return self._exchange_once(method, target, content, headers)
            except Refused as refused:
                owner = _owner_named(refused.problem)
                if owner is None or (_place(self.url)[0] and not _place(owner)[0]):
                    raise  # A token that was sent over TLS is not sent without it.
                self.url = _OWNERS[self._key] = owner
            except NotConnected:
                _OWNERS.pop(self._key, None)
                if not others:
                    raise
                self.url = others.pop(0)
        return self._exchange_once(method, target, content, headers)

    def _exchange_once(self, method: str, target: str, content: bytes | None, headers: dict[str, str]) -> bytes:
        import http.client  # Slow, and not needed for the help.

        https, host, port = _place(self.url)
        opened = http.client.HTTPSConnection if https else http.client.HTTPConnection
        connection = opened(host, port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json"} | self._headers | headers | self._identity()
        connecting = connection.connect

        def connect() -> None:
            try:
                connecting()
            except OSError as error:
                raise NotConnected(f"no hub answers at {self.url}: {_reason(error)}") from None

        connection.connect = connect  # type: ignore[method-assign]
        try:
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            data = response.read(_REPLY_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"no hub answers at {self.url}: {_reason(error)}") from None
        except ValueError:  # its text would contain the token
            raise Unusable("the token or the agent's name has characters that cannot be sent") from None
        finally:
            connection.close()
        kind, status = response.headers.get_content_type(), response.status
        if kind not in _CONTENT_TYPES:
            raise NoHub(f"the server at {self.url} is not a hub: it replied {status} {response.reason}, {kind}")
        if len(data) > _REPLY_BYTES_MAX:
            raise NoHub(f"the server at {self.url} is not a hub: its reply is too long")
        if status >= 300:
            problem = self._decoded(data)
            if not (isinstance(problem, dict) and {"code", "condition"} & problem.keys()):
                reply = f"{status} {response.reason}"
                raise NoHub(f"the server at {self.url} is not a hub: it replied {reply} without an error code")
            if target != "/ready":
                if status == 401 and self.token is None and self._no_token:
                    problem |= {"detail": self._no_token, "expected": None}
                raise Refused(status, problem)
        return data

    def _identity(self) -> dict[str, str]:
        """Return the header with the token, or with the name for a hub that does not authenticate."""
        return {"Tocsin-Agent": self._agent} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def _decoded(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise NoHub(f"the server at {self.url} is not a hub: its reply is not JSON: {error}") from None


def _reason(error: Exception) -> str:
    """Return the text of an error, without the number that the operating system gives it."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _owner_named(problem: dict[str, Any]) -> str | None:
    """Return the URL of the hub that serves the project, if a refusal names it."""
    facts = problem.get("facts")
    owner = facts.get("address") if problem.get("code") == "E_HUB_002" and isinstance(facts, dict) else None
    if not isinstance(owner, str):
        return None
    try:
        _place(owner)
    except Unusable:
        return None
    return owner


def _place(url: str) -> tuple[bool, str, int | None]:
    """Return whether a URL is HTTPS, its host and its port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Unusable(f"{url} is not the URL of a hub: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unusable(f"{url} is not the URL of a hub: use http://host:port or https://host:port")
    return parts.scheme == "https", parts.hostname, port
