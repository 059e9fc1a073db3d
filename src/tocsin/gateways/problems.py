"""HTTP responses for refusals and for malformed requests."""

import msgspec
from starlette.responses import Response

from tocsin.core.errors import Entry, Problem
from tocsin.wire.problems import document_of

__all__ = ["HEAD_TIMEOUT", "HTTP_ENTRIES", "MEDIA_TYPE", "problem_response", "unhandled"]

MEDIA_TYPE = "application/problem+json"

#: Errors that only HTTP has, by status.
HTTP_ENTRIES = {
    404: Entry("E_HTTP_001", "no_such_operation", "No such operation", "Medium", True, "see /openapi.json", False, 404),
    405: Entry("E_HTTP_002", "method_not_allowed", "Method not allowed", "Medium", True, "see Allow", False, 405),
    408: Entry("E_HTTP_003", "body_timeout", "Body arrived too slowly", "Medium", True, "send faster", True, 408),
    500: Entry("E_HTTP_004", "internal_error", "A bug in the hub", "Critical", False, "report it", False, 500),
    400: Entry("E_HTTP_005", "malformed_request", "Not an HTTP request", "Medium", True, "fix the client", False, 400),
    431: Entry("E_HTTP_006", "head_too_large", "Headers too large", "Medium", True, "send fewer", False, 431),
    503: Entry("E_HTTP_007", "too_many_connections", "Too many connections", "High", True, "try later", True, 503),
    421: Entry("E_HTTP_009", "misdirected", "Wrong connection", "Medium", True, "connect anew", True, 421),
}
HEAD_TIMEOUT = Entry("E_HTTP_008", "head_timeout", "Head arrived too slowly", "Medium", True, "send faster", True, 408)


def problem_response(problem: Problem, entry: Entry | None = None, status: int | None = None) -> Response:
    """Return the HTTP response for a refusal."""
    document = document_of(problem, entry)
    if status is not None:
        document = msgspec.structs.replace(document, status=status)
    headers = {}
    if document.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tocsin"'
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(problem.retry_after_s)))
    return Response(msgspec.json.encode(document), document.status, headers, MEDIA_TYPE)


def unhandled(status: int, detail: str, retry_after_s: float | None = None) -> Response:
    """Return the response for an error that only HTTP has."""
    entry = HTTP_ENTRIES.get(status) or HTTP_ENTRIES[400 if status < 500 else 500]
    problem = Problem(entry.code, detail, retryable=entry.retryable, retry_after_s=retry_after_s)
    return problem_response(problem, entry, status)
