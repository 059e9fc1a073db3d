"""Fixtures of the dashboard's tests: a real hub process with agents, and a real browser with a signed-in person."""

import itertools
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Page, Request, expect

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.loopback import NO_CERTIFICATES

ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts" / "dashboard"
#: Short intervals for everything that happens periodically.
POLICY = "storage: {projection_interval_s: 0.02}\n"
SERVER = "dashboard: {tick_s: 0.1, shared_s: 0, sample_s: 0.2}\n"
#: The size of a window, unless a visitor has another one.
_VIEWPORT = {"width": 1280, "height": 720}
#: What can be changed while a page is open.
_CHANGEABLE = {"color_scheme", "viewport"}


class Stage:
    """A hub with agents, and calls on their behalf."""

    def __init__(
        self, folder: Path, policy: str = POLICY, server: str = SERVER, *options: str, agents: bool = True
    ) -> None:
        self._agents = agents
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        (self.data / "tocsin.yaml").write_text(policy)
        (self.data / "server.yaml").write_text(server)
        self._options = options
        self._numbers = itertools.count(1)
        self.tokens: dict[str, str] = {}
        self._sessions: dict[str, tuple[str, str]] = {}
        self.hub = RunningHub(self.data, *options)
        self.client = httpx2.Client(timeout=30, verify=NO_CERTIFICATES)

    def __enter__(self) -> "Stage":
        self.hub.__enter__()
        self.tokens["admin"] = (self.data / "admin.token").read_text().strip()
        if self._agents:
            self.join("hanna", "human")
            self.join("boss", "director")
            self.join("ada", kind="Manager")
            self.join("bob", kind="Implementation")
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.hub.stop()

    @property
    def url(self) -> str:
        return self.hub.url

    def start_again(self) -> None:
        """Start another hub on the port of the one that was stopped."""
        port = self.url.rpartition(":")[2]
        self.hub = RunningHub(self.data, *self._options, "--port", port)
        self.hub.__enter__()

    def join(self, agent: str, role: str = "primary", *, kind: str = "AdHoc", admin: bool = False) -> str:
        """Issue a token to an agent and register the agent."""
        body = {"agent": agent, "role": role, "type": kind, "admin": admin}
        self.tokens[agent] = self.ok("POST", "admin", "/v1/admin/tokens", body)["token"]
        return self.tokens[agent]

    def call(self, method: str, agent: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.tokens[agent]}"}
        return self.client.request(method, self.url + path, json=body, headers=headers, **more)

    def ok(self, method: str, agent: str, path: str, body: Any = None, **more: Any) -> Any:
        """Make a call that must succeed; return its reply."""
        answer = self.call(method, agent, path, body, **more)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str, agent: str = "boss") -> Any:
        return self.ok("GET", agent, path)

    def send(self, sender: str = "ada", receiver: str = "bob", **changes: Any) -> str:
        """Send a message and return its ID; a refusal is ignored."""
        number = next(self._numbers)
        message_id = f"msg_{number}_{sender}"
        fields = {"payload": {"text": f"number {number}: {message_id}"}} | changes
        self.call("POST", sender, "/v1/messages", envelope(message_id, sender, receiver, **fields))
        return message_id

    def drain(self, agent: str) -> list[str]:
        """Fetch the messages of an agent and confirm their receipt."""
        drained = self.ok("POST", agent, "/v1/inbox/drain", {})
        if drained["cursor"]:
            self.ok("POST", agent, "/v1/inbox/receipts", {"receipt": drained["cursor"]})
        return [item["signal_id"] for item in drained["deliveries"]]

    def browser_session(self, agent: str) -> tuple[str, str]:
        """Sign an agent in, once, and return the session cookie."""
        if agent not in self._sessions:
            headers = {"Origin": self.url, "Tocsin-Dashboard": "1"}
            body = {"token": self.tokens[agent]}
            answer = httpx2.post(f"{self.url}/sign-in", json=body, headers=headers, verify=NO_CERTIFICATES)
            assert answer.is_success, answer.text
            ((name, value),) = answer.cookies.items()
            self._sessions[agent] = (name, value)
        return self._sessions[agent]

    def states(self, message_id: str) -> list[str]:
        """Return the states of a message's copies."""
        return [copy["state"] for copy in self.get(f"/v1/messages/{message_id}")]


class Visitor:
    """A person with a browser; errors and warnings of the page are collected."""

    def __init__(self, browser: Browser, stage: Stage, **options: Any) -> None:
        self.stage = stage
        self._options = options
        self.context, self.page = _take_page(browser, stage.url, options)
        self.complaints: list[str] = []
        self._listeners: dict[Any, Callable[[Any], None]] = {
            "console": self._console,
            "pageerror": lambda error: self.complaints.append(f"error: {error}"),
            "dialog": self._dialog,
            "request": self._request,
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        """Collect a dialog: only an injected script opens one."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not re.match(r"(http|ws)://127\.0\.0\.1:|data:|blob:", request.url):
            self.complaints.append(f"elsewhere: {request.url}")

    def sign_in(self, agent: str = "hanna") -> "Visitor":
        """Sign in with the form."""
        self.page.goto("/sign-in")
        self.page.get_by_label("Token").fill(self.stage.tokens[agent])
        self.page.get_by_role("button", name="Sign in").click()
        self.expect_live()
        return self

    def enter(self, agent: str = "hanna") -> "Visitor":
        """Be signed in already, by cookie."""
        name, value = self.stage.browser_session(agent)
        self.context.add_cookies([{"name": name, "value": value, "url": self.stage.url}])
        return self

    def open(self, address: str) -> "Visitor":
        """Go to a page by its address, such as `messages/msg_1?state=queued`."""
        self.page.goto(f"/#/{address}")
        self.expect_live()
        return self

    def expect_live(self) -> None:
        expect(self.page.locator(".connection")).to_have_attribute("data-status", "live")

    def points(self, number: int) -> None:
        """Wait until the page has received that many more updates."""
        self.page.evaluate(
            """(number) => new Promise((resolve) => import(`${document.documentElement.dataset.base}/lib/live.js`)
              .then(({ live }) => live.subscribe(() => --number <= 0 && resolve())))""",
            number,
        )

    def shot(self, name: str, *, full: bool = True) -> None:
        """Save a screenshot of the page."""
        path = ARTIFACTS / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path, full_page=full)

    def close(self, *, allow: Callable[[str], bool] = lambda complaint: False) -> None:
        """Close the browser; the page must not have logged anything but what is allowed."""
        with suppress(Error):
            self.page.evaluate("0")  # what it has logged until now has come before this is answered
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        _leave_page(self.context, self.page, self.stage.url, self._options)
        left = [complaint for complaint in self.complaints if not allow(complaint)]
        assert not left, left


#: The page that the last visitor has left, for the next one of the same hub: to start a renderer takes long.
_left: list[tuple[BrowserContext, Page, str]] = []


def _take_page(browser: Browser, url: str, options: dict[str, Any]) -> tuple[BrowserContext, Page]:
    """Return the page that was left, if it is one of this hub and the options can be changed; or a new one."""
    while _left and options.keys() <= _CHANGEABLE:
        context, page, where = _left.pop()
        if where == url and context.browser is browser:
            page.emulate_media(color_scheme=options.get("color_scheme", "light"))
            page.set_viewport_size(options.get("viewport", _VIEWPORT))
            return context, page
        context.close()
    context = browser.new_context(**{"base_url": url, "viewport": _VIEWPORT} | options)
    context.set_default_timeout(30_000)
    return context, context.new_page()


def _leave_page(context: BrowserContext, page: Page, url: str, options: dict[str, Any]) -> None:
    """Leave a page to the next visitor, without cookies and stored values; close it if that does not work."""
    if _left or context.pages != [page] or not options.keys() <= _CHANGEABLE:
        context.close()
        return
    try:
        page.goto(f"{url}/health")
        page.evaluate("localStorage.clear(), sessionStorage.clear()")
        context.clear_cookies()
        page.goto("about:blank")  # ends what the browser still loads, such as an icon that the hub does not have
    except Error:
        context.close()
    else:
        _left.append((context, page, url))
