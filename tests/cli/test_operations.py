"""Commands made from the table of operations, without a hub."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from tests.cli.processes import COMMANDS, Told, asked
from tocsin.cli.operations.commands import ARGUMENTS, OPTIONS, PLACES, place_of
from tocsin.cli.operations.parameters import fields_of
from tocsin.cli.output.replies import COLUMNS, cell
from tocsin.cli.remote import Exit, request_of
from tocsin.wire.drafts import Written
from tocsin.wire.history import MessageFields
from tocsin.wire.table import OPERATIONS
from tocsin.wire.teamwork import ApprovalRecord


def command_at(place: str) -> Any:
    found: Any = COMMANDS
    for word in place.split():
        found = found.commands[word]
    return found


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_a_command(name: str) -> None:
    assert command_at(place_of(OPERATIONS[name])).callback is not None


def test_the_exceptions_are_operations_and_fields() -> None:
    assert PLACES.keys() <= OPERATIONS.keys()
    for name, field in (ARGUMENTS | OPTIONS).items():
        assert field in OPERATIONS[name].request.__struct_fields__


def test_columns_are_fields() -> None:
    for kind, columns in COLUMNS.items():
        for column in columns.split():
            if (kind, column) in {(MessageFields, "preview"), (ApprovalRecord, "question")}:
                continue  # Made of other fields.
            assert column.split(".")[0] in kind.__struct_fields__, (kind, column)  # type: ignore[attr-defined]


def test_every_field_is_explained() -> None:
    unexplained = [
        f"{operation.name}.{field.name}"
        for operation in OPERATIONS.values()
        for field in fields_of(operation)
        if field.about == f"The request's {field.name}."
    ]
    assert unexplained == []


def test_fields_go_to_the_path_the_query_or_the_body() -> None:
    history = request_of(OPERATIONS["trace_message"], {"message_id": "msg/1 ü", "fresh": False})
    assert history == ("GET", "/v1/messages/msg%2F1%20%C3%BC/history?fresh=false", None, {})
    renewed = request_of(OPERATIONS["renew_lease"], {"lease": "lse_1", "ttl_s": 5.0})
    assert renewed == ("POST", "/v1/leases/lse_1/renew", b'{"ttl_s": 5.0}', {})
    gone = request_of(OPERATIONS["retire_agent"], {"agent": "ada", "reason": "done & over"})
    assert gone == ("DELETE", "/v1/agents/ada?reason=done+%26+over", None, {})
    written = Written("msg_1", msgspec.Raw(b'{"a":1}'), "v1=ff")
    published = request_of(OPERATIONS["publish_topic"], {"topic": "news", "guarantee": "all"}, written)
    expected = ("POST", "/v1/topics/publish?topic=news&guarantee=all", b'{"a":1}', {"Tocsin-Signature": "v1=ff"})
    assert published == expected


class Recorder(BaseHTTPRequestHandler):
    """Records requests, and replies to all of them with the same."""

    def record(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, body))  # type: ignore[attr-defined]
        reply = json.dumps(self.server.reply).encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = do_PUT = do_DELETE = record  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Recording:
    """A server that records the requests of commands."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server

    def run(self, reply: Any, *words: str) -> tuple[Told, tuple[str, str, bytes]]:
        self._server.reply, self._server.seen = reply, []  # type: ignore[attr-defined]
        told = asked("--url", f"http://127.0.0.1:{self._server.server_port}", *words)
        (seen,) = self._server.seen  # type: ignore[attr-defined]
        return told, seen


@pytest.fixture(scope="module")
def recording() -> Iterator[Recording]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Recording(server)
        server.shutdown()
        thread.join()


PAGE: dict[str, Any] = {"items": [], "next": None}


@pytest.mark.parametrize(
    ("words", "reply", "target"),
    [
        ("search two words --no-fresh", PAGE, "/v1/search?fresh=false&q=two+words"),
        ("messages find --sender ada --limit 5", PAGE, "/v1/messages?limit=5&sender=ada"),
        ("escalations list --closed", {"items": []}, "/v1/escalations?closed=true"),
        ("escalations list", {"items": []}, "/v1/escalations"),
        ("messages thread t1 --after 7", PAGE, "/v1/threads/t1?after=7"),
    ],
)
def test_options_become_a_query(recording: Recording, words: str, reply: Any, target: str) -> None:
    given = words.replace("two words", "two_words").split()
    told, seen = recording.run(reply, *(word.replace("two_words", "two words") for word in given))
    assert (told.exit_code, told.stderr) == (0, "")
    assert seen == ("GET", target, b"")


DISCUSSED = {"discussion": "dsc_1", "state": "open", "votes": {"yes": 1, "no": 0}}


def test_options_become_a_body(recording: Recording) -> None:
    words = ("discussions", "open", "tabs?", "bob", "dora", "--option", "yes", "--option", "no", "--max-s", "9")
    told, (method, target, body) = recording.run(DISCUSSED, *words)
    assert (method, target) == ("POST", "/v1/discussions")
    question = {"question": "tabs?", "participants": ["bob", "dora"], "options": ["yes", "no"], "max_s": 9.0}
    assert json.loads(body) == question
    assert told.stdout.split() == ["discussion", "dsc_1", "state", "open", "votes", "yes:", "1"]
    told, (_, _, body) = recording.run({"confirmed": 2, "unknown": ["m3"]}, "messages", "confirm", "m1", "m3", "--json")
    assert (json.loads(body), json.loads(told.stdout)["unknown"]) == ({"message_ids": ["m1", "m3"]}, ["m3"])


def test_json_is_given_as_text_or_as_a_file(recording: Recording, tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    file.write_text('{"spawn_s": 1.5}')
    for given in ('{"spawn_s": 1.5}', f"@{file}"):
        _, (_, _, body) = recording.run({"alerts": []}, "health", "report", given)
        assert json.loads(body) == {"values": {"spawn_s": 1.5}}


def test_any_operation_is_called_by_its_name(recording: Recording) -> None:
    words = ("call", "fetch_inbox", "limit=3", "at_least=Blocking")
    _, seen = recording.run({"deliveries": [], "waiting": {}}, *words)
    assert seen == ("POST", "/v1/inbox/drain", b'{"limit": 3, "at_least": "Blocking"}')
    _, seen = recording.run({"receipt": None}, "call", "send_message", 'envelope={"messageId": "m"}')
    assert seen == ("POST", "/v1/messages", b'{"messageId":"m"}')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("call", "list_lease"), "'list_lease' is not an operation; did you mean 'list_leases'?"),
        (("call", "list_leases", "agnet=ada"), "list_leases has no argument 'agnet'; did you mean 'agent'?"),
        (("call", "list_leases", "ada"), "ada is not an argument: write ada=VALUE"),
        (("call", "renew_lease", "ttl_s=5"), "renew_lease needs lease=…"),
        (("call", "list_leases", "limit=many"), "limit must be a whole number, not many"),
        (("health", "report", "{"), "values is not JSON: "),
    ],
)
def test_wrong_arguments_are_refused_before_a_hub_is_called(words: tuple[str, ...], said: str) -> None:
    told = asked("--url", "http://127.0.0.1:1", *words)
    assert (told.exit_code, told.stderr[: len(said)], told.stderr.count("\n")) == (Exit.USAGE, said, 1)


def test_unknown_options_and_missing_arguments_are_usage_errors() -> None:
    for words in (("leases", "renew"), ("leases", "renew", "x", "--nonsense"), ("leases", "force-release", "x")):
        assert asked("--url", "http://127.0.0.1:1", *words).exit_code == Exit.USAGE


def test_values_are_texts_of_one_line() -> None:
    assert cell({"Info": 2, "Critical": 0}) == "Info: 2"
    assert cell(("a", "b")) == "a, b"
    assert cell({"deep": {"a": 1}}) == '{"deep": {"a": 1}}'
    assert (cell(None), cell(True), cell(0)) == ("", "yes", "0")
