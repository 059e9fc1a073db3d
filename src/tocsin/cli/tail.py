"""The latest events of a project in sentences, read from the live feed in a thread."""

import json
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

from tocsin.cli.remote import Remote
from tocsin.wire.explanations import Explainer

__all__ = ["Tail", "sentence"]

#: Events that change nothing that a person looks for.
_QUIET = frozenset(
    {"AgentCharged", "MessageReady", "MessagesForgotten", "NoticeFolded", "SessionHeartbeat", "SessionWindowChanged"}
    | {"WaitShifted", "WorkContinued", "EscalationsForgotten"}
)
#: Fields that say who and what an event is about, in the order of a sentence.
_TELLING = (
    *("agent", "sender", "holder", "waiter", "requester", "asker", "opener", "speaker", "voter", "subscriber"),
    *("session_kind", "recipient", "message_type", "exclusive", "shared", "resources", "resource", "topic"),
    *("subject", "question", "text", "option", "metric", "value", "new_state", "outcome", "by", "code", "reason"),
    "detail",
)
#: Messages whose sender and recipient are remembered.
_MESSAGES_MAX = 10_000
_NO_ACCESS = "events are shown to directors, humans and the admin token only"
_REFUSED = (401, 403)
_MICROSECONDS = 1_000_000


class Tail:
    """The latest events, each as a time and a sentence."""

    def __init__(self, remote: Remote, lines_max: int, retry_s: float) -> None:
        self._remote = remote
        self._retry_s = retry_s
        self._lines: deque[tuple[str, str]] = deque(maxlen=lines_max)
        self._routes: OrderedDict[int, str] = OrderedDict()
        self._over = threading.Event()
        #: Why no events are read now; empty if they are.
        self.problem = "connecting to the feed"
        threading.Thread(target=self._follow, name="tail", daemon=True).start()

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return the latest events, oldest first."""
        return list(self._lines)

    def close(self) -> None:
        """Stop reading."""
        self._over.set()

    def _follow(self) -> None:
        while not self._over.is_set():
            try:
                self._read()
            except InvalidStatus as error:
                status = error.response.status_code
                self.problem = _NO_ACCESS if status in _REFUSED else f"the feed answered with status {status}"
            except (OSError, WebSocketException, TimeoutError) as error:
                self.problem = f"no feed: {error}"
            self._over.wait(self._retry_s)

    def _read(self) -> None:
        url, headers = self._remote.feed()
        with connect(url, additional_headers=headers, max_size=None) as socket:
            self.problem = ""
            for frame in socket:
                for item in json.loads(frame):
                    self._take(item)
                if self._over.is_set():
                    return
        self.problem = "the hub closed the feed"

    def _take(self, item: dict[str, Any]) -> None:
        if (gap := item.get("gap")) is not None:
            self._lines.append(("", f"events {gap['first_seq']} to {gap['last_seq']} were too many to show"))
        if (event := item.get("event")) is None:
            return
        if event["kind"] == "MessageAccepted":
            self._routes[event["seq"]] = f"{event['sender']} → {event['recipient']}, {event['message_type']}: "
            while len(self._routes) > _MESSAGES_MAX:
                self._routes.popitem(last=False)
        if event["kind"] not in _QUIET:
            at = datetime.fromtimestamp(event["at"] / _MICROSECONDS, UTC).astimezone()
            self._lines.append((f"{at:%H:%M:%S}", sentence(event, self._routes)))


def sentence(event: Mapping[str, Any], routes: Mapping[int, str]) -> str:
    """Return an event in words; `routes` has the sender, recipient and type of messages by their first event."""
    kind = event["kind"]
    key = event["seq"] if kind == "MessageAccepted" else event.get("message")
    facts = {name: value for name, value in event.items() if name not in ("kind", "project", "seq", "at")}
    if key is not None and not kind.startswith("AgentW"):
        told = Explainer().explain(kind, event["at"], facts).text
        if not told.startswith(kind):
            return _printable(f"{routes.get(key, f'message {key}: ')}{told}")
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()
    values = [_written(facts[name]) for name in _TELLING if facts.get(name) not in (None, "", [], ())]
    return _printable(f"{words}: {', '.join(values)}" if values else words)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
