"""`tocsin serve` as a process: starting, being in the way of another, and stopping in order."""

import contextlib
import errno
import http.client
import json
import logging
import re
import resource
import shutil
import socket
import stat
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from tests.cli.processes import RunningHub, run
from tests.envelopes import envelope
from tests.patience import PATIENCE_S
from tests.postgres import Server
from tocsin.cli.commands import app
from tocsin.cli.remote import Remote
from tocsin.gateways.http.server import CannotListen, listen
from tocsin.hub.service import UnknownStore, check_store


def test_the_first_start_leaves_an_admin_token_that_only_its_owner_reads(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with RunningHub(data) as hub:
        assert hub.json("doctor")[2]["good"]
    file = data / "admin.token"
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert f"admin token: {file}" in hub.said
    assert re.fullmatch(r"tcs_[0-9a-f]{16}_\S{43}", token)
    secret = token.split("_", 2)[2]
    assert secret not in "".join(hub.said) + hub.log.read_text()
    with RunningHub(data) as again:
        assert again.json("doctor")[2]["good"]
    assert not any("admin token" in line for line in again.said)


def test_told_to_stop_it_answers_what_is_under_way_and_keeps_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with RunningHub(data) as hub:
        for agent in ("ada", "bob"):
            hub.json("agents", "add", agent, "--save")
        codes: list[int] = []
        sent: list[str] = []

        def keep_sending() -> None:
            while not codes:
                done = hub.run("send", "bob", "hello", "--json", agent="ada")
                if done.returncode:
                    codes.append(done.returncode)
                else:
                    sent.append(json.loads(done.stdout)["receipt"]["signal_id"])
                    first.set()

        first = threading.Event()
        sender = threading.Thread(target=keep_sending)
        sender.start()
        first.wait(30)
        assert hub.stop() == 0
        sender.join(30)
        assert codes[0] in (6, 7)
    log = [json.loads(line) for line in hub.log.read_text().splitlines()]
    assert log[-1]["message"] == "stopped"
    with RunningHub(data) as again:
        waiting = {item["signal_id"] for item in again.json("inbox", agent="bob")["items"]}
    assert waiting == set(sent)


def test_a_taken_port_is_said_so(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run("serve", "--data", str(tmp_path / "data"), "--port", str(port), cwd=tmp_path)
    assert done.returncode == 8
    assert f"port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_this_machine_does_not_have_is_no_taken_port(tmp_path: Path) -> None:
    # Of TEST-NET-1, which nobody has.
    done = run("serve", "--data", str(tmp_path / "data"), "--address", "192.0.2.1", "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "192.0.2.1 port 0: this machine has no such address" in done.stderr
    assert "Another hub" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_one_may_not_have_is_no_taken_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    class Forbidden(socket.socket):
        bind = forbidden

    monkeypatch.setattr("socket.socket", Forbidden)
    with pytest.raises(CannotListen, match=r"127\.0\.0\.1 port 80: not permitted .*--port"):
        listen("127.0.0.1", 80)


def test_a_store_of_no_known_kind_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for command in (("init",), ("serve", "--port", "0")):
        done = run(*command, "--data", str(data), "--store", "postgress://ada:swordfish@one/team", cwd=tmp_path)
        assert (done.returncode, data.exists()) == (2, False)
        assert "--store: the store is postgress://…" in done.stderr
        assert "postgresql://" in done.stderr
        assert "swordfish" not in done.stderr


@pytest.mark.parametrize("store", ["host=one password=swordfish", "team.db", "sqlite://team", " postgres://one/team"])
def test_nothing_but_an_address_of_postgresql_is_a_store(store: str) -> None:
    with pytest.raises(UnknownStore) as refused:
        check_store(store)
    assert "swordfish" not in str(refused.value)
    for known in ("", "postgresql://one/team", "postgres://one/team"):
        check_store(known)


def test_an_owned_project_is_said_so(tmp_path: Path) -> None:
    with RunningHub(tmp_path / "data") as hub:
        done = run("serve", "--data", str(hub.data), "--port", "0", cwd=tmp_path)
    assert done.returncode == 9
    assert "open in another hub" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_tokens_it_serves_loopback_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = run("serve", "--data", str(data), "--address", "0.0.0.0", "--insecure-loopback", cwd=tmp_path)  # noqa: S104
    assert (done.returncode, data.exists()) == (2, False)
    with RunningHub(data, "--insecure-loopback") as hub:
        (data / "admin.token").unlink()
        assert hub.json("doctor")[2]["good"]
        assert hub.ask("send", "eve", "to myself", agent="eve")["receipt"]["recipient"] == "eve"
    assert any("INSECURE" in line for line in hub.said)


def test_init_makes_what_serve_needs(tmp_path: Path) -> None:
    done = run("init", "--data", "here", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"data": "here", "admin_token_file": "here/admin.token"}
    assert {"tocsin.yaml", "server.yaml", "admin.token"} <= {file.name for file in (tmp_path / "here").iterdir()}
    (tmp_path / "here" / "server.yaml").write_text("prot: 1")
    wrong = run("serve", "--data", "here", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "port" in wrong.stderr


def test_the_directory_is_named_before_the_command_or_after_it(tmp_path: Path) -> None:
    there, here, elsewhere = (str(tmp_path / name) for name in ("there", "here", "elsewhere"))

    def data_of(*arguments: str) -> str:
        told = CliRunner().invoke(app, [*arguments, "--json"], env={"TOCSIN_DATA": elsewhere})
        return str(json.loads(told.stdout)["data"])

    assert data_of("--data", there, "init") == there
    assert data_of("--data", there, "init", "--data", here) == here
    assert data_of("init") == elsewhere
    (tmp_path / "there" / "server.yaml").write_text("prot: 1")
    wrong = run("--data", there, "serve", cwd=tmp_path)
    assert (wrong.returncode, "prot" in wrong.stderr) == (1, True)


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    data = tmp_path / "[bold] [red]"
    told = CliRunner().invoke(app, ["init", "--data", str(data), "--project", "[/x]"])
    assert told.stdout == f"project [/x] in {data}\nadmin token: {data / 'admin.token'}\n"


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("serve --log-level nonsense", 2, "'debug', 'info', 'warning', 'error'"),
        ("serve --store mysql://there", 2, "expected postgresql://"),
        ("serve --port 99999", 2, "65535"),
        ("--data file init", 1, "the project cannot be created: "),
        ("--data file/below init", 1, "the project cannot be created: "),
        ("--data file serve --port 0", 1, "the hub cannot start: "),
        ("--data strange serve --port 0", 1, "the hub cannot start: "),
        ("mcp --log-level nonsense", 2, "'debug', 'info', 'warning', 'error'"),
        ("mcp --token-file .", 2, "the token in . cannot be read"),
        ("--url localhost:7077 inbox", 2, "use http://host:port"),
        ("--url http://localhost:port doctor", 2, "http://localhost:port is not the URL of a hub"),
        ("--as strange inbox", 2, "strange.token cannot be read"),
        ("--as broken inbox", 2, "characters that cannot be sent"),
        ("policy check strange/server.yaml", 3, "codec"),
    ],
)
def test_what_is_in_the_way_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("handlers", []), ("level", logging.getLogger().level)):
        monkeypatch.setattr(logging.getLogger(), name, value)
    (tmp_path / "file").touch()
    for folder, name in (("strange", "server.yaml"), (".tocsin/tokens", "strange.token")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_bytes(b"\xff\xfe")
    (tmp_path / ".tocsin" / "tokens" / "broken.token").write_text("one secret\ntwo")
    told = CliRunner().invoke(app, line.split())
    assert isinstance(told.exception, SystemExit), told.exception
    assert (told.exit_code, said in " ".join(told.stderr.split())) == (code, True), told.stderr
    assert "secret" not in told.output


def test_a_project_in_postgresql_outlives_its_hub(tmp_path: Path, postgres: Server) -> None:
    postgres.database("served")
    store = f"postgresql://tocsin@/served?host={postgres.folder}"
    with RunningHub(tmp_path / "one", "--store", store) as hub:
        hub.json("agents", "add", "ada", "--save")
        signal = hub.json("send", "ada", "to myself", agent="ada")["receipt"]["signal_id"]
    with RunningHub(tmp_path / "one", "--store", store) as again:
        assert [item["signal_id"] for item in again.json("inbox", agent="ada")["items"]] == [signal]


def answer(url: str) -> tuple[int, Any]:
    """Ask without a token."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:  # noqa: S310
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_readers_that_read_nothing_do_not_keep_a_hub_from_stopping(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "server.yaml").write_text("shutdown_timeout_s: 1\n")
    (data / "tocsin.yaml").write_text("bucket: {capacity: 1000000}\n")
    with RunningHub(data) as hub, contextlib.ExitStack() as stalled:
        admin = Remote(hub.url, (data / "admin.token").read_text().strip())
        tokens = [admin.post("v1", "admin", "tokens", body={"agent": name})["token"] for name in ("ada", "bob")]
        for number in range(40):
            Remote(hub.url, tokens[0]).post("v1", "messages", body=envelope(number, payload={"text": "x" * 500_000}))
        head = f"Host: hub\r\nAuthorization: Bearer {tokens[1]}\r\n"
        for _ in range(2):
            line = stalled.enter_context(unread(hub.url))
            line.sendall(f"GET /v1/inbox?limit=100 HTTP/1.1\r\n{head}\r\n".encode())
            assert line.recv(12) == b"HTTP/1.1 200"
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        upgrade += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: tocsin.v1\r\n"
        line = stalled.enter_context(unread(hub.url))
        line.sendall(f"GET /v1/socket HTTP/1.1\r\n{head}{upgrade}\r\n".encode())
        assert line.recv(12) == b"HTTP/1.1 101"
        hello = b'[{"op":"hello","id":1,"window":40}]'
        line.sendall(bytes([0x81, 0x80 | len(hello), 0, 0, 0, 0]) + hello)
        received = b""
        while b"msg_" not in received:  # the pushes have begun
            received = received[-4:] + line.recv(4096)
        assert hub.stop() == 0
        log = hub.log.read_text()
        assert "connections dropped" in log
        assert "Traceback" not in log


def unread(url: str) -> socket.socket:
    """Connect to a hub, with little room for what is not read."""
    place = urlsplit(url)
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect((place.hostname, place.port))
    return line


def test_a_hub_whose_open_files_have_run_out_says_so_once_and_goes_on(tmp_path: Path) -> None:
    with RunningHub(tmp_path / "hub") as hub:
        admin = (hub.data / "admin.token").read_text().strip()
        acme = Remote(hub.url, admin).post("v1", "projects", body={"project": "acme"})["token"]
        place = urlsplit(hub.url)
        kept = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE_S)

        def status(token: str) -> Any:
            kept.request("GET", "/v1/status", headers={"Authorization": f"Bearer {token}"})
            return json.loads(kept.getresponse().read())

        assert status(admin)["project"] == "default"
        room = len(list(Path(f"/proc/{hub.process.pid}/fd").iterdir())) + 40  # More than another project needs.
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (room, room))
        waiting = [socket.create_connection((place.hostname, place.port)) for _ in range(60)]
        try:
            while "open files have run out" not in hub.log.read_text():
                """It has not accepted them yet."""
            assert status(admin)["project"] == "default"
            refused = status(acme)
            assert (refused["code"], refused["retryable"]) == ("E_HUB_007", True)
            assert "too_many_files" in refused["detail"]
        finally:
            for caller in waiting:
                caller.close()
        assert answer(f"{hub.url}/health")[0] == 200
        while status(acme).get("project") != "acme":
            """Not all of them are closed yet."""
        kept.close()
        (told,) = [json.loads(line) for line in hub.log.read_text().splitlines() if "open files have run out" in line]
        assert (told["level"], told["limit"], told["failures"]) == ("error", room, 1)
        assert "LimitNOFILE" in told["message"]


def test_a_standby_says_who_serves_and_takes_over_when_that_hub_dies(tmp_path: Path, postgres: Server) -> None:
    postgres.database("stood_by")
    store = f"postgresql://tocsin@/stood_by?host={postgres.folder}"
    with RunningHub(tmp_path / "one", "--store", store) as owner:
        owner.json("agents", "add", "ada", "--save")
        signal_id = owner.json("send", "ada", "to myself", agent="ada")["receipt"]["signal_id"]
        standby = RunningHub(tmp_path / "two", "--store", store, "--standby")
        assert standby.process.stdout is not None
        line = standby.process.stdout.readline()
        assert line.startswith("standing by"), line + standby.log.read_text()
        standby.url = line.split()[-1]
        assert answer(f"{standby.url}/health") == (200, {"condition": "standing_by", "reason": ""})
        while not (problem := answer(f"{standby.url}/ready")[1])["facts"]["address"]:
            """It has not looked yet."""
        status, problem = answer(f"{standby.url}/ready")
        assert (status, problem["code"], problem["facts"]["address"]) == (503, "E_HUB_002", owner.url)
        examined = standby.run("doctor", "--json")
        assert [check["good"] for check in json.loads(examined.stdout)] == [True, False, False, True], examined.stderr
        assert examined.returncode == 1
        assert f"serves the project at {owner.url}" in json.loads(examined.stdout)[1]["detail"]
        owner.process.kill()
        assert standby.process.stdout.readline().startswith("serving")
        assert answer(f"{standby.url}/ready")[0] == 200
        (tmp_path / "two" / "tokens").mkdir(exist_ok=True)
        shutil.copy(tmp_path / "one" / "tokens" / "ada.token", tmp_path / "two" / "tokens" / "ada.token")
        assert [item["signal_id"] for item in standby.json("inbox", agent="ada")["items"]] == [signal_id]
        assert standby.stop() == 0


def test_a_standby_can_be_told_to_stop(tmp_path: Path, postgres: Server) -> None:
    postgres.database("stood_by_in_vain")
    store = f"postgresql://tocsin@/stood_by_in_vain?host={postgres.folder}"
    with RunningHub(tmp_path / "one", "--store", store):
        standby = RunningHub(tmp_path / "two", "--store", store, "--standby")
        assert standby.process.stdout is not None
        assert standby.process.stdout.readline().startswith("standing by")
        assert standby.stop() == 0


def test_a_standby_needs_a_store_that_others_can_reach(tmp_path: Path) -> None:
    done = run("serve", "--data", "here", "--standby", cwd=tmp_path)
    assert (done.returncode, "--store postgresql" in done.stderr) == (2, True)
