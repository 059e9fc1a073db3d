"""One operation of the gateway, and the way of every request through it: who, how much, what, then the answer."""

import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.errors import Problem, TocsinError, error_for, refusal
from tocsin.core.protocol.envelope import check_nesting
from tocsin.core.protocol.validation import explain
from tocsin.gateways.http.identity import identify
from tocsin.gateways.http.limits import BodyTimeout, RequestsUnderWay, read_body
from tocsin.gateways.http.problems import problem_response, unhandled
from tocsin.hub.piggyback import Piggyback
from tocsin.hub.auth.signatures import check_signature
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.service import Hub

__all__ = ["Access", "Call", "Gateway", "Operation"]

_log = logging.getLogger("tocsin.http")
_SIGNATURE = "tocsin-signature"
_PARAMETER = re.compile(r"\{(\w+)\}")
_RECEIPTS = "tocsin-receipts"


class Access(StrEnum):
    """Who may call an operation."""

    OPEN = "open"
    AGENT = "agent"
    ADMIN = "admin"


class Gateway:
    """What the requests of one hub share."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.piggyback = Piggyback(hub.host)
        config = hub.config
        self.under_way = RequestsUnderWay(config.requests_max, config.requests_per_agent_max)
        #: Method and path of what other gateways serve beside the operations.
        self.beside: frozenset[tuple[str, str]] = frozenset()


class Call:
    """One request, understood."""

    def __init__(
        self, gateway: Gateway, path: dict[str, str], grant: Grant | None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.gateway = gateway
        self.hub = gateway.hub
        self.path = path
        #: The headers of the request, where it came with any.
        self.headers: Mapping[str, str] = headers or {}
        #: Whether the call is a receipt of what was handed out before; a caller that confirms by itself says so.
        self.confirms = self.headers.get(_RECEIPTS) != "explicit"
        self._grant = grant
        #: The body as it came, and as the operation wants it.
        self.raw = b""
        self.body: Any = None
        self.query: Any = None
        #: HTTP status of the answer.
        self.status = 200
        #: What to do once the answer has left; told whether anybody took it.
        self.afterwards: Callable[[bool], None] | None = None

    @property
    def grant(self) -> Grant:
        """Return what the caller's token grants."""
        if self._grant is None:
            raise refusal("E_AUTH_001", "this needs a token")
        return self._grant

    @property
    def caller(self) -> Caller:
        """Return who asks."""
        return Caller(self.grant.agent, self.grant.role)

    @property
    def directs(self) -> bool:
        """Tell whether the caller may see what is not its own."""
        role = self.hub.host.exchange.state.policy.roles.get(self.grant.role)
        return role is not None and role.directs

    async def submit(self, command: Command) -> Reply:
        """Let the exchange decide; a refusal is raised."""
        reply = await self.hub.host.submit(command, self.caller)
        if isinstance(reply, Problem):
            raise error_for(reply)
        return reply

    async def durable(self) -> None:
        """Wait until all that the live state knows now is durable; refuse where it will never be."""
        reply = await self.hub.host.durable()
        if isinstance(reply, Problem):
            raise error_for(reply)


Handler = Callable[[Call], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True):
    """A row of the table that routes, checks and documents."""

    method: str
    path: str
    handler: Handler
    #: What it answers with; `bytes` is text of the given media type.
    reply: Any
    #: What its body must be; nothing where it takes none.
    body: Any = None
    #: What its query may be.
    query: Any = None
    access: Access = Access.AGENT
    #: Whether its body is an envelope, or several: it may be signed, and is parsed by the handler.
    envelope: bool = False
    #: Whether what it sends carries the trace of its request.
    traced: bool = False
    media: str = "application/json"
    tag: str = ""
    #: Further statuses that it answers with.
    also: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return its name."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """Return what it does, in a sentence."""
        return (self.handler.__doc__ or "").strip().splitlines()[0]

    async def serve(self, gateway: Gateway, request: Request) -> Response:
        """Answer one request, and leave a line in the log: never a token, a query or a body."""
        started = time.perf_counter()
        grant: Grant | None = None
        try:
            if self.access is not Access.OPEN:
                grant = identify(gateway.hub, request)
            response = await self._answer(gateway, request, grant)
        except TocsinError as error:
            response = problem_response(error.problem)
        except BodyTimeout:
            response = unhandled(408, "the body did not come in time")
        except Exception:
            _log.exception("%s failed", self.name)
            response = unhandled(500, "the hub failed to answer; its log says why")
        took_s = time.perf_counter() - started
        metrics = gateway.hub.metrics
        metrics.requests.add(self.name, str(response.status_code))
        metrics.request_seconds.add(took_s, self.name)
        fields = {
            "operation": self.name,
            "status": response.status_code,
            "agent": None if grant is None else grant.agent,
            "took_ms": round(took_s * 1000, 3),
        }
        level = logging.DEBUG if self.access is Access.OPEN else logging.INFO
        _log.log(level, "%s %s", request.method, self.path, extra={"fields": fields})
        return response

    async def _answer(self, gateway: Gateway, request: Request, grant: Grant | None) -> Response:
        if grant is None:
            return await self._run(Call(gateway, request.path_params, None), request)
        self._check_access(gateway, grant)
        with gateway.under_way.one_of(grant.agent):
            call = Call(gateway, request.path_params, grant, request.headers)
            receipt = gateway.piggyback.next_call(call.caller, confirms=call.confirms)
            if receipt is not None and self.method == "GET":
                await receipt  # the answer to a question knows of it; a command shares its commit
            response = await self._run(call, request)
            if receipt is not None:
                await receipt
            return response

    async def call(
        self,
        gateway: Gateway,
        grant: Grant,
        path: dict[str, str],
        query: Any,
        body: Any,
        envelope: bytes = b"",
        signature: str | None = None,
    ) -> Any:
        """Do the same for a caller that did not come by HTTP; refusals are raised."""
        self._check_access(gateway, grant)
        with gateway.under_way.one_of(grant.agent):
            call = Call(gateway, path, grant)
            missing = [name for name in _PARAMETER.findall(self.path) if not path.get(name)]
            if missing:
                raise refusal("E_VALIDATION_001", f"path.{missing[0]} is missing", field=f"$.path.{missing[0]}")
            if self.query is not None:
                call.query = _converted(self.query, query, strict=False)
            if self.envelope:
                call.raw = _enveloped(envelope)
                required = call.hub.host.exchange.state.policy.security.require_signatures
                check_signature(grant, call.raw, signature, required=required)
            elif self.body is not None:
                call.body = _converted(self.body, body, strict=True)
            return await self.handler(call)

    def _check_access(self, gateway: Gateway, grant: Grant) -> None:
        if self.access is Access.ADMIN and not grant.admin:
            raise refusal("E_AUTH_003", f"{grant.agent} may not administer tokens: an admin token may")
        if gateway.hub.closing.is_set():
            raise refusal("E_HUB_003", "the hub is shutting down")

    async def _run(self, call: Call, request: Request) -> Response:
        if self.query is not None:
            call.query = _converted(self.query, dict(request.query_params), strict=False)
        if self.body is not None:
            await self._take_body(call, request)
        answer = await self.handler(call)
        content = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        if call.afterwards is None:
            return Response(content, call.status, media_type=self.media)
        return HandedOver(content, call.status, self.media, call.afterwards)

    async def _take_body(self, call: Call, request: Request) -> None:
        config, policy = call.hub.config, call.hub.host.exchange.state.policy
        batch = self.envelope and self.name == "send_batch"
        bytes_max = config.batch_bytes_max if batch else policy.limits.message_bytes_max
        call.raw = await read_body(request, bytes_max, config.body_timeout_s)
        if self.envelope:
            signature = request.headers.get(_SIGNATURE)
            check_signature(call.grant, call.raw, signature, required=policy.security.require_signatures)
        else:
            call.body = decoded(self.body, call.raw)


class HandedOver(Response):
    """An answer of which somebody wants to know whether it was taken."""

    def __init__(self, content: bytes, status: int, media: str, afterwards: Callable[[bool], None]) -> None:
        super().__init__(content, status, media_type=media)
        self._afterwards = afterwards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and tell."""
        taken = False
        try:
            there = not await Request(scope, receive).is_disconnected()
            await super().__call__(scope, receive, send)
            taken = there
        finally:
            self._afterwards(taken)


def _enveloped(envelope: bytes) -> bytes:
    if not envelope:
        raise refusal("E_VALIDATION_001", "$.envelope is missing", field="$.envelope", expected="an envelope")
    return envelope


def decoded(shape: Any, raw: bytes) -> Any:
    """Decode a body, or say what is wrong with it; no body is an empty object."""
    try:
        value = msgspec.json.decode(raw or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise refusal("E_PROTOCOL_002", f"the body is not JSON: {error}") from None
    return _converted(shape, value, strict=True)


def _converted(shape: Any, value: Any, *, strict: bool) -> Any:
    check_nesting(value)
    try:
        return msgspec.convert(value, shape, strict=strict)
    except msgspec.ValidationError as error:
        if strict:
            raise error_for(explain(shape, value)) from None
        raise refusal("E_VALIDATION_004", f"the query is not possible: {error}") from None
