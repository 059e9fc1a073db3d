"""HTTP responses for refusals and for malformed requests."""

import msgspec
from starlette.responses import Response

from tocsin.core.errors import Entry, Problem
from tocsin.wire.problems import HTTP_ENTRIES, document_of

__all__ = ["HEAD_TIMEOUT", "MEDIA_TYPE", "problem_response", "unhandled"]

MEDIA_TYPE = "application/problem+json"

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
