"""One HTTP request of one operation: identity, limits, arguments, reply.

Fields of the request that the path names come from the path. The others come from the query string of a GET or DELETE,
and from the JSON body otherwise; an operation that sends a message has the envelope as its body and the other fields in
the query string.
"""

import logging
import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tocsin.core import commands as cmd
from tocsin.core.errors import TocsinError, refusal
from tocsin.core.protocol.parsing import check_nesting
from tocsin.gateways.identity import identify
from tocsin.gateways.json_answer import JsonAnswer
from tocsin.gateways.limits import BodyTimeout, read_body
from tocsin.gateways.problems import problem_response, unhandled
from tocsin.gateways.requests import HubRequest
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.operations import Call, perform
from tocsin.hub.service import Hub
from tocsin.wire.arguments import unknown_argument
from tocsin.wire.bounded import TooMany, read_items
from tocsin.wire.messages import SendMessages, SendReply
from tocsin.wire.operation import Operation

__all__ = ["PARTIAL_STATUSES", "OperationEndpoint", "decode_object"]

_log = logging.getLogger("tocsin.http")
_SIGNATURE = "tocsin-signature"
_RECEIPT = "tocsin-receipt"
_IN_QUERY = frozenset({"GET", "DELETE"})
#: Statuses of success besides 200: 202 for a request that waits, 207 where some recipients failed.
PARTIAL_STATUSES: dict[str, tuple[int, ...]] = {
    "acquire_lease": (202,),
    "send_message": (207,),
    "publish_topic": (207,),
}


class OperationEndpoint:
    """The HTTP endpoint of one operation."""

    def __init__(self, hub: Hub, operation: Operation) -> None:
        self._hub = hub
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._answered(HubRequest(scope, receive))
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response | JsonAnswer:
        """Return the answer to a request, and log it without tokens, query or body."""
        started = time.perf_counter()
        hub, operation = self._hub, self._operation
        grant: Grant | None = None
        response: Response | JsonAnswer
        try:
            grant = identify(hub, request)
            response = await self._answer(request, grant)
        except TocsinError as error:
            response = problem_response(error.problem)
        except BodyTimeout:
            response = unhandled(408, "the body did not arrive in time")
        except Exception:
            _log.exception("%s failed", operation.name)
            response = unhandled(500, "the hub failed to answer; its log has the reason")
        took_s = time.perf_counter() - started
        hub.metrics.requests.add(operation.name, str(response.status_code))
        hub.metrics.request_seconds.add(took_s, operation.name)
        if _log.isEnabledFor(logging.INFO):
            fields = {
                "operation": operation.name,
                "status": response.status_code,
                "agent": None if grant is None else grant.agent,
                "took_ms": round(took_s * 1000, 3),
            }
            _log.info("%s %s", request.method, operation.path, extra={"fields": fields})
        return response

    async def _answer(self, request: Request, grant: Grant) -> JsonAnswer:
        hub, operation, headers = self._hub, self._operation, request.headers
        caller = grant.caller
        call = Call(hub.project, caller, grant, trace=headers)
        call.check_access(operation)
        hub.must_be_open()
        with hub.request_limits.one_of(grant.agent):
            receipt = hub.project.piggyback.next_call(caller, ",".join(headers.getlist(_RECEIPT)))
            if receipt is not None and operation.method == "GET":
                await receipt  # the answer to a question includes it; a command shares its commit
            reply = await perform(call, operation, await self._read(call, request))
            if receipt is not None:
                await receipt
        return JsonAnswer(msgspec.json.encode(reply), _status(reply))

    async def _read(self, call: Call, request: Request) -> Any:
        operation, config = self._operation, self._hub.config
        path: dict[str, str] = request.path_params
        query = dict(request.query_params) if request.scope["query_string"] else {}
        limit = call.state.policy.limits.message_bytes_max
        if operation.method in _IN_QUERY:
            return call.read(operation, _joined(operation, path, query), strict=False)
        if operation.takes_envelope:
            raw = await read_body(request, limit, config)
            if not raw:
                raise refusal("E_PROTOCOL_002", "the body is empty: it must be an envelope", expected="an envelope")
            arguments = _joined(operation, path, query)
            return call.read(operation, arguments, raw, request.headers.get(_SIGNATURE), strict=False)
        if query:
            raise unknown_argument(f"the query of {operation.name}", next(iter(query)), [])
        if operation.request is SendMessages:
            raw = await read_body(request, config.batch_bytes_max, config)
            call.check_signature(raw, request.headers.get(_SIGNATURE))
            return _batch(raw, call.state.policy.limits.batch_max)
        raw = await read_body(request, limit, config)
        if operation.signed:
            call.check_signature(raw, request.headers.get(_SIGNATURE))
        return call.read(operation, _joined(operation, path, decode_object(raw)))


def _joined(operation: Operation, path: dict[str, str], others: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments; one that is in the path must not be given elsewhere."""
    for name in path:
        if name in others:
            raise refusal(
                "E_VALIDATION_004", f"{name} of {operation.name} is given in the path", field=f"$.{name}", found=name
            )
    return {**others, **path}


def _batch(raw: bytes, most: int) -> SendMessages:
    try:
        return SendMessages(read_items(raw, most))
    except TooMany:
        raise refusal("E_ADMISSION_008", f"at most {most} envelopes at a time", retryable=False) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise refusal("E_PROTOCOL_002", f"a batch is a JSON array of envelopes: {error}") from None


def decode_object(raw: bytes) -> dict[str, Any]:
    """Decode a JSON body that must be an object; no body is an empty object."""
    try:
        value = msgspec.json.decode(raw or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise refusal("E_PROTOCOL_002", f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        check_nesting(raw)
        raise refusal("E_VALIDATION_002", "the body must be a JSON object", field="$", expected="an object")
    return value


def _status(reply: Any) -> int:
    if isinstance(reply, cmd.LeaseRecord):
        return 200 if reply.state == "held" else 202
    if isinstance(reply, SendReply | cmd.Published) and reply.failed:
        return 207
    return 200
