"""Cases of the gateways, of other projects, of the archive, and of opening and copying a project."""

import asyncio
import http.client
import json
from pathlib import Path

import msgspec
import websockets.sync.client

from bench.limits.cases import Step, case, ground, work
from bench.limits.ground import Ground
from tocsin import zstd
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller
from tocsin.extract import FOLDER, INDEX, Column, Index, Part, Reach, Table
from tocsin.hub.service import Hub
from tocsin.policies import default_policy

_PROJECTS = 1000
_ROWS = 490_000
_PENDING = 100_000
_FRAME = 4_194_000


@ground("hub")
async def fill(g: Ground) -> None:
    """Add projects, tables of the archive and reports."""
    for name in ("ada", "bob"):
        await g.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller(name, "primary"))
    await asyncio.to_thread(_write_archive, g)
    projects = g.hub.projects
    if projects is None:
        raise RuntimeError("the hub serves no other projects")
    for number in range(g.some(_PROJECTS, 2)):
        await asyncio.to_thread(g.ask("add_project", "admin", project=f"project-{number:05d}"))
    await g.do(g.send("bob") for _ in range(g.some(_PENDING)))


def _write_archive(g: Ground) -> None:
    folder = g.hub.data / "warehouse" / FOLDER
    folder.mkdir(parents=True)
    columns = [Column(name, kind, "") for name, kind in (("date", "date"), ("message_type", "string"), ("n", "bigint"))]
    rows = g.some(_ROWS)
    lines = b"".join(msgspec.json.encode(["2026-03-02", "CUSTOM_WORK", number]) + b"\n" for number in range(rows))
    (folder / "part.zst").write_bytes(zstd.compress(lines))
    project = g.hub.host.project
    tables = {"traffic": Table("Traffic.", columns, [Part(project, "2026-03-02", "part.zst", rows, rows)])}
    index = Index(version=1, written_at=1, tables=tables, reach={project: Reach(1, 1, 0)}, advice={project: []})
    (folder / INDEX).write_bytes(msgspec.json.encode(index))
    reports = g.hub.data / "reports"
    reports.mkdir()
    for number in range(200):
        (reports / f"{number:03d}.html").write_text("report")
        (reports / f"{number:03d}.json").write_text(json.dumps({"title": "t" * 300}))


@case("hub", "list_projects", "1,000 projects")
async def list_projects(g: Ground) -> Step:
    return g.ask("list_projects", "admin", limit=500)


@case("hub", "list_open_projects", "1,000 projects, as many open as may be")
async def list_open_projects(g: Ground) -> Step:
    return g.ask("list_open_projects", "admin", limit=500)


@case("hub", "add_project", "1,000 projects: it is opened while another is served")
async def add_project(g: Ground) -> Step:
    return g.ask("add_project", "admin", project=f"more-{next(g.numbers)}")


@case("hub", "read_table", "490,000 rows, the last page")
async def read_table(g: Ground) -> Step:
    return g.ask("read_table", table="traffic", after=g.some(_ROWS) - 600, limit=500, figure="n")


@case("hub", "get_archive", "490,000 rows")
async def get_archive(g: Ground) -> Step:
    return g.ask("get_archive")


@case("hub", "list_reports", "200 reports")
async def list_reports(g: Ground) -> Step:
    return g.ask("list_reports", limit=500)


@case("hub", "check_policy", "a policy of 1 MiB: 20,000 types")
async def check_policy(g: Ground) -> Step:
    types = {f"CUSTOM_{number:05d}": {"priority": "Info", "ttl_s": 60} for number in range(20_000)}
    return g.request("POST", "/v1/policy/check", msgspec.json.encode({"policy": {"contracts": types}}), "ada", 499)


@case("hub", "check_policy: unknown", "a policy of 1 MiB: 30,000 sections that do not exist")
async def check_wrong_policy(g: Ground) -> Step:
    wrong = {f"sectionofthepolicy_{number:05d}": {"n": 1} for number in range(30_000)}
    return g.request("POST", "/v1/policy/check", msgspec.json.encode({"policy": wrong}), "ada", 499)


@case("hub", "list_policies", "policies of many types")
async def list_policies(g: Ground) -> Step:
    if "policies" not in g.kept:
        g.kept["policies"] = True
        for number in range(60):
            types = {f"CUSTOM_{each:04d}": {"ttl_s": 60 + number} for each in range(100)}
            await asyncio.to_thread(g.ask("adopt_policy", policy={"contracts": types}, scope="whole"))
        await asyncio.to_thread(g.ask("adopt_policy", policy={}, scope="whole"))
    return g.ask("list_policies", limit=500)


@work("hub", "the arguments", "a name of 1 MiB that no operation has")
async def long_name(g: Ground) -> Step:
    return g.request("POST", "/v1/leases/release", b'{"' + b"resourcez" * 116_000 + b'":1}', "ada", 499)


@work("hub", "the wrong arguments", "1 MiB of lists where names belong")
async def wrong_values(g: Ground) -> Step:
    return g.request("POST", "/v1/leases/release", b'{"resources":[' + b"[]," * 340_000 + b"[]]}", "ada", 499)


@work("hub", "the late wrong argument", "350,000 good names, the last is a number")
async def last_wrong(g: Ground) -> Step:
    return g.request("POST", "/v1/leases/release", b'{"resources":[' + b'"",' * 340_000 + b"1]}", "ada", 499)


@work("hub", "the nesting", "a body of 500,000 brackets")
async def nesting(g: Ground) -> Step:
    return g.request("POST", "/v1/leases/release", b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}", "ada", 499)


@work("hub", "the wide nesting", "1 MiB of lists of 100 levels")
async def wide_nesting(g: Ground) -> Step:
    each = b"[" * 100 + b"]" * 100
    return g.request("POST", "/v1/leases/release", b'{"a":[' + b",".join([each] * 5_100) + b"]}", "ada", 499)


@work("hub", "the query", "the largest head: 32 KiB of arguments")
async def query(g: Ground) -> Step:
    return g.request("GET", "/v1/agents?" + "&".join(f"a{number}=1" for number in range(3_000)), most=499)


@work("hub", "the largest body", "8 MiB of an unknown kind")
async def large_body(g: Ground) -> Step:
    return g.request("POST", "/v1/messages/batch", b'{"a":"' + b"x" * 8_380_000 + b'"}', most=499)


@work("hub", "MCP", "2 MiB of arguments of a tool")
async def mcp(g: Ground) -> Step:
    arguments = {"to": "bob", "type": "CUSTOM_WORK", "payload": {"n": [[1, 2, 3]] * 120_000}}
    return _mcp(g, "send_message", arguments)


@work("hub", "MCP's wrong arguments", "1.4 MiB of values that do not fit")
async def mcp_wrong(g: Ground) -> Step:
    return _mcp(g, "send_message", {"to": [[]] * 350_000, "type": 1})


def _mcp(g: Ground, tool: str, arguments: object) -> Step:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "Authorization": f"Bearer {g.tokens['ada']}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    text = json.dumps(body).encode()

    def call() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", g.port, timeout=600)
        connection.request("POST", "/mcp", text, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status >= 500:
            raise RuntimeError(f"MCP: {answer.status}")

    return call


def _socket(g: Ground, frame: bytes, answers: int) -> Step:
    """Return a call that sends one frame and reads until that many items came, or the hub closed."""

    def call() -> None:
        with websockets.sync.client.connect(
            f"ws://127.0.0.1:{g.port}/v1/socket",
            subprotocols=[websockets.Subprotocol("tocsin.v1")],
            additional_headers={"Authorization": f"Bearer {g.tokens['ada']}"},
            max_size=None,
            compression=None,
        ) as link:
            link.send('[{"op":"hello","id":0}]')
            link.recv()
            link.send(frame.decode("latin-1"))
            got = 0
            try:
                while got < answers:
                    got += len(json.loads(link.recv(20)))
            except (websockets.ConnectionClosed, TimeoutError):
                pass

    return call


@work("hub", "a frame of sends", "256 small messages in one frame")
async def frame_of_sends(g: Ground) -> Step:
    sends = [
        b'{"op":"send_message","id":%d,"envelope":%s}' % (number, g.envelope("bob", "ada", priority="Info"))
        for number in range(1, 257)
    ]
    return _socket(g, b"[" + b",".join(sends) + b"]", 256)


@work("hub", "a large frame of sends", "4 MiB: 256 messages of 16 kB")
async def large_frame(g: Ground) -> Step:
    sends = [
        b'{"op":"send_message","id":%d,"envelope":%s}'
        % (number, g.envelope("bob", "ada", priority="Info", payload={"text": "x" * 15_900}))
        for number in range(1, 257)
    ]
    return _socket(g, b"[" + b",".join(sends) + b"]", 256)


@work("hub", "a frame of calls", "256 lists of 500 rows in one frame")
async def frame_of_calls(g: Ground) -> Step:
    calls = [
        b'{"op":"call","id":%d,"operation":"list_agents","arguments":{"limit":500}}' % number
        for number in range(1, 257)
    ]
    return _socket(g, b"[" + b",".join(calls) + b"]", 256)


@work("hub", "a frame of numbers", "4 MiB of numbers instead of operations")
async def frame_of_numbers(g: Ground) -> Step:
    return _socket(g, b"[" + b"0," * (_FRAME // 2 - 2) + b"0]", 1)


@work("hub", "a frame of brackets", "4 MiB of brackets")
async def frame_of_brackets(g: Ground) -> Step:
    return _socket(g, b"[" * (_FRAME // 2) + b"]" * (_FRAME // 2), 1)


@work("hub", "a frame with a large call", "4 MiB of arguments of one call")
async def frame_of_arguments(g: Ground) -> Step:
    words = b"[]," * (_FRAME // 3 - 100) + b"[]"
    call = b'[{"op":"call","id":1,"operation":"release_resources","arguments":{"resources":[' + words + b"]}}]"
    return _socket(g, call, 1)


@work("hub", "a frame with an unknown field", "a name of 4 MiB")
async def frame_of_name(g: Ground) -> Step:
    return _socket(g, b'[{"op":"ping","id":1,"' + b"windo" * (_FRAME // 5 - 100) + b'":1}]', 1)


@work("hub", "the reconnection", "200 sockets open and say hello at once")
async def reconnect(g: Ground) -> Step:
    calls = [_socket(g, b'[{"op":"ping","id":1}]', 1) for _ in range(30)]

    async def all_at_once() -> None:
        await asyncio.gather(*(asyncio.to_thread(call) for call in calls))

    return all_at_once


@work("hub", "the export", "a project of 100,000 messages is copied while it is served")
async def export(g: Ground) -> Step:
    return g.request("GET", f"/v1/projects/{g.hub.host.project}/export", agent="admin")


@work("hub", "the opening", "a project of 100,000 messages is opened and recovered while another is served")
async def opening(g: Ground) -> Step:
    folder = Path(g.hub.data) / "elsewhere"
    if not folder.exists():
        hub = await Hub.open(folder, default_policy(), g.hub.config, project="elsewhere")
        other = Ground(hub, 0, {}, g.size)
        await other.one(cmd.RegisterAgent("Manager", ("1.1.0",)))
        await other.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller("bob", "primary"))
        await other.do(other.send("bob") for _ in range(g.some(_PENDING)))
        await hub.close()

    async def open_it() -> None:
        g.kept["opened"] = await Hub.open(folder, default_policy(), g.hub.config, project="elsewhere")
        await g.kept.pop("opened").close()

    return open_it
