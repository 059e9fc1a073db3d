"""Rules of every HTTP operation: tokens, limits, problems, arguments, and a description that is true."""

import asyncio
import json
import logging
import re
from contextlib import AsyncExitStack
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import fields as fields_of
from starlette.routing import BaseRoute, Route, WebSocketRoute

from tests.envelopes import envelope
from tests.gateways.hubs import registered_team
from tocsin.fleet.assembly import neighbours
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.http.app import ENDPOINTS, build_app
from tocsin.hub.observability.logs import JsonFormatter
from tocsin.wire.messages import SendMessages
from tocsin.wire.operation import Access, Operation
from tocsin.wire.table import OPERATIONS

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def address(path: str) -> str:
    return re.sub(r"\{\w+\}", "x", path)


async def test_nothing_but_health_works_without_a_token(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        opened = set()
        rows: list[Operation | Endpoint] = [*OPERATIONS.values(), *ENDPOINTS]
        for row in rows:
            method, path = row.http.split(" ")
            answer = await team.call(method, None, address(path))
            if answer.status_code == 200:
                opened.add(path)
            else:
                assert (answer.status_code, answer.json()["code"]) == (401, "E_AUTH_001"), row.name
                assert answer.headers["www-authenticate"].startswith("Bearer")
        assert opened == {"/health", "/ready"}
        assert opened == {endpoint.http.split(" ")[1] for endpoint in ENDPOINTS if endpoint.public}


async def test_no_door_of_another_gateway_opens_without_a_token(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        async with AsyncExitStack() as gateways:
            beside = await neighbours(team.hub, gateways)
            app = build_app(team.hub, beside=beside.routes, described=beside.endpoints)
            transport = httpx2.ASGITransport(app=app)
            client = await gateways.enter_async_context(
                httpx2.AsyncClient(transport=transport, base_url="http://localhost")
            )
            opened = set()
            for endpoint in beside.endpoints:
                method, path = endpoint.http.split(" ")
                answer = await client.request(method, address(path))
                if answer.status_code == 401:
                    assert answer.json()["error_code"] == "unauthenticated"
                else:
                    opened.add((method, path, answer.status_code))
        page, file = ("GET", "/sign-in", 200), ("GET", "/ui/{version}/{name}", 404)
        ways = {("GET", "/", 303), ("GET", "/docs", 303)}
        assert opened == {page, file, *ways}, "a page to sign in with, its files, and the ways there"


async def test_administration_needs_an_admin_token(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for operation in OPERATIONS.values():
            if operation.access is Access.ADMIN:
                answer = await team.call(operation.method, "boss", address(operation.path), {})
                assert (answer.status_code, answer.json()["code"]) == (403, "E_AUTH_003"), operation.name


def served(routes: list[BaseRoute]) -> set[tuple[str, str]]:
    """Return method and path of every HTTP route, as OpenAPI writes them."""
    return {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in routes
        if isinstance(route, Route)
        for method in (route.methods or {"POST"}) - {"HEAD"}
    }


def described(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}


async def test_every_route_is_described_and_nothing_else(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        alone = (await team.get("ada", "/openapi.json")).json()
        assert described(alone) == served(build_app(team.hub).routes)
        headers = {"Authorization": f"Bearer {team.tokens['ada']}"}
        async with AsyncExitStack() as gateways:
            beside = await neighbours(team.hub, gateways)
            app = build_app(team.hub, beside=beside.routes, described=beside.endpoints)
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                whole = (await client.get("/openapi.json", headers=headers)).json()
        assert described(whole) == served(app.routes)
        assert len(described(whole)) == len(OPERATIONS) + len(ENDPOINTS) + len(beside.endpoints)
        names = {entry["operationId"] for methods in whole["paths"].values() for entry in methods.values()}
        assert len(names) == len(described(whole))
        assert names >= OPERATIONS.keys()
        for document in (alone, whole):
            for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(document)):
                assert name in document["components"]["schemas"]
        pages = "".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
        for route in app.routes:
            if isinstance(route, WebSocketRoute) and route.name != "no_such_socket":
                assert route.path in pages, "a socket is described in its page"


async def test_the_description_names_the_headers_that_count(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        document = (await team.get("ada", "/openapi.json")).json()
        known = document["components"]["parameters"]

        def headers(path: str, method: str) -> set[str]:
            parameters = document["paths"][path][method].get("parameters", [])
            return {known[one["$ref"].rsplit("/", 1)[1]]["name"] for one in parameters if "$ref" in one}

        sent = {"Tocsin-Signature", "traceparent", "tracestate"}
        assert headers("/v1/messages", "post") == headers("/v1/messages/batch", "post") == sent
        assert headers("/v1/me", "get") == set()
        assert headers("/health", "get") == set()
        assert document["security"] == [{"token": []}]
        team.hub.trusting = True
        document = (await team.get("ada", "/openapi.json")).json()
        assert document["security"] == [{"token": []}, {"name": []}]
        assert document["components"]["securitySchemes"]["name"]["name"] == "Tocsin-Agent"


async def test_what_http_gets_wrong_is_a_problem_too(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        nowhere = await team.get("ada", "/v1/nothing")
        assert (nowhere.status_code, nowhere.json()["error_code"]) == (404, "no_such_operation")
        wrong = await team.call("DELETE", "ada", "/v1/status")
        assert (wrong.status_code, wrong.json()["error_code"]) == (405, "method_not_allowed")
        assert (await team.get("ada", "/v1/search?limit=many")).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "body", "argument", "hint"),
    [
        ("POST", "/v1/inbox/drain", {"limt": 1}, "limt", "did you mean 'limit'?"),
        ("GET", "/v1/search?q=x&limt=1", None, "limt", "did you mean 'limit'?"),
        ("GET", "/v1/status?verbose=1", None, "verbose", "it takes no arguments"),
        ("POST", "/v1/inbox/drain?limit=1", None, "limit", "it takes no arguments"),
        ("PUT", "/v1/me", {"agent_type": "Manager"}, "agent_type", "it is called 'type'"),
        ("PUT", "/v1/me", {"type": "Manager", "supported": ["1.1.0"]}, "supported", "it is called 'versions'"),
        ("GET", "/v1/messages?message_type=StatusUpdate", None, "message_type", "it is called 'type'"),
        ("GET", "/v1/search?query=x", None, "query", "it is called 'q'"),
    ],
)
async def test_an_unknown_argument_is_refused_with_the_known_name(
    tmp_path: Path, method: str, path: str, body: Any, argument: str, hint: str
) -> None:
    async with registered_team(tmp_path) as team:
        answer = await team.call(method, "ada", path, body)
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["field"]) == (422, "E_VALIDATION_004", f"$.{argument}")
        assert problem["detail"].endswith(f"has no argument {argument!r}; {hint}")


async def test_an_argument_of_the_path_is_not_given_elsewhere(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        answer = await team.post("ada", "/v1/messages/msg_1_x/ack", {"message_id": "msg_2_x"})
        assert (answer.status_code, answer.json()["field"]) == (422, "$.message_id")
        assert (await team.get("ada", "/v1/agents/bob?agent=ada")).json()["field"] == "$.agent"


async def test_a_body_that_is_too_large_is_discarded_up_to_a_limit(tmp_path: Path) -> None:
    async with registered_team(tmp_path, discard_bytes_max=500_000) as team:
        large = await team.post("ada", "/v1/messages", b" " * (1 << 20) + b"x")
        assert (large.status_code, large.json()["error_code"]) == (413, "too_large")

        taken: list[int] = []

        async def chunks() -> Any:
            for _ in range(20):
                taken.append(1)
                yield b" " * 100_000

        headers = {"Authorization": f"Bearer {team.tokens['ada']}"}
        streamed = await team.client.post("/v1/messages", content=chunks(), headers=headers)
        assert (streamed.status_code, len(taken)) == (413, 16), "so much is discarded, and no more is read"


def nested(levels: int, *, inside: str | None = None) -> bytes:
    """Return JSON nested to a depth: arrays, or objects in a field of the body."""
    if inside is None:
        return b"[" * levels + b"]" * levels
    return f'{{"{inside}":{"{"}"a":'.encode() + b'{"a":' * (levels - 2) + b"1" + b"}" * levels


async def test_no_nesting_is_a_bug_of_the_hubs(tmp_path: Path) -> None:
    """Try every operation with a body, each of its fields, at every depth at which some decoder fails."""
    async with registered_team(tmp_path) as team:
        for operation in OPERATIONS.values():
            if operation.method not in ("POST", "PUT"):
                continue
            batch = operation.request is SendMessages
            fields = [field.encode_name for field in fields_of(operation.request)]
            if batch or operation.takes_envelope:
                fields = ["payload", "metadata"]
            fields = [field for field in fields if f"{{{field}}}" not in operation.path]
            for levels, field in product((128, 450, 5000, 100_000), (None, "unknown", *fields)):
                case = (operation.name, levels, field)
                body = nested(levels, inside=field)
                path = address(operation.path) + ("?topic=x" if operation.name == "publish_topic" else "")
                answer = await team.call(operation.method, "root", path, body)
                document = answer.json()
                assert answer.status_code < 500, case
                if batch and answer.status_code == 200:
                    (item,) = document
                    document = {"status": 400, **item["problem"]}
                if levels > 128:
                    assert (document["status"], document["error_code"]) == (400, "malformed_json"), case


async def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    async with registered_team(tmp_path, body_timeout_s=0.05) as team:

        async def slow() -> Any:
            yield b"{"
            await asyncio.Event().wait()

        headers = {"Authorization": f"Bearer {team.tokens['ada']}"}
        answer = await team.client.post("/v1/messages", content=slow(), headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (408, "body_timeout")


async def test_one_agent_has_a_number_of_requests_under_way(tmp_path: Path) -> None:
    async with registered_team(tmp_path, requests_per_agent_max=1) as team:
        begun, release = asyncio.Event(), asyncio.Event()

        async def held() -> Any:
            begun.set()
            await release.wait()
            yield json.dumps(envelope(1)).encode()

        headers = {"Authorization": f"Bearer {team.tokens['ada']}"}
        first = asyncio.ensure_future(team.client.post("/v1/messages", content=held(), headers=headers))
        await begun.wait()
        answer = await team.get("ada", "/v1/me")
        assert answer.status_code == 429
        assert answer.json()["error_code"] == "limit_reached"
        assert answer.headers["retry-after"] == "1"
        assert (await team.get("bob", "/v1/me")).status_code == 200
        release.set()
        assert (await first).status_code == 200


async def test_no_token_and_no_payload_is_ever_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1, payload={"text": "swordfish"}))
        await team.get("ada", "/v1/search?q=swordfish")
        await team.post("ada", "/v1/messages", b'{"swordfish": ')
        issued = await team.post("root", "/v1/admin/tokens", {"agent": "eve"})
        team.tokens["eve"] = issued.json()["token"]
        await team.get("eve", "/v1/me")
        logged = "\n".join(JsonFormatter().format(record) for record in caplog.records if "httpx" not in record.name)
        assert '"operation":"send_message"' in logged
        assert '"agent":"eve"' in logged
        assert "swordfish" not in logged
        assert not [token for token in team.tokens.values() if token.split("_", 2)[2] in logged]


async def test_a_bug_is_a_problem_and_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with registered_team(tmp_path) as team:

        def broken(state: object) -> bytes:
            raise RuntimeError("oh")

        team.hub.metrics.expose = broken  # type: ignore[method-assign]
        answer = await team.get("ada", "/metrics")
        assert (answer.status_code, answer.json()["error_code"]) == (500, "internal_error")
        assert "oh" not in answer.text
        assert "metrics failed" in caplog.text


async def test_a_hub_that_is_closing_says_so(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        team.hub.closing.set()
        answer = await team.get("ada", "/v1/me")
        assert (answer.status_code, answer.json()["error_code"]) == (503, "shutting_down")
        assert (await team.get(None, "/health")).status_code == 200
        assert (await team.get(None, "/ready")).status_code == 503


async def test_a_trusting_hub_takes_callers_at_their_word_but_not_browsers(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        team.hub.trusting = True
        me = (await team.get(None, "/v1/me", headers={"Tocsin-Agent": "eve"})).json()
        assert (me["agent"], me["role"], me["admin"]) == ("eve", "primary", False)
        assert (await team.get(None, "/v1/me", headers={"Tocsin-Agent": "admin"})).json()["admin"]
        assert (await team.get(None, "/v1/me")).status_code == 401
        rebound = await team.get(None, "/v1/me", headers={"Tocsin-Agent": "eve", "Host": "evil.example"})
        assert rebound.status_code == 401
        forged = await team.get(None, "/v1/me", headers={"Authorization": "Bearer no", "Tocsin-Agent": "eve"})
        assert forged.status_code == 401
