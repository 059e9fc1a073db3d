"""Refusals as RFC 9457 problem documents: mechanically, from the catalogue's row and what is known of the case."""

from typing import Any

import msgspec
from starlette.responses import Response

from tocsin.core.errors import CATALOGUE, Entry, Problem

__all__ = ["HEAD_TIMEOUT", "HTTP_ENTRIES", "ProblemDocument", "document_of", "problem_response", "unhandled"]

MEDIA_TYPE = "application/problem+json"

#: What only HTTP can get wrong.
HTTP_ENTRIES = {
    404: Entry("E_HTTP_001", "no_such_operation", "No such operation", "Medium", True, "see /openapi.json", False, 404),
    405: Entry("E_HTTP_002", "method_not_allowed", "Method not allowed", "Medium", True, "see Allow", False, 405),
    408: Entry("E_HTTP_003", "body_timeout", "Body came too slowly", "Medium", True, "send faster", True, 408),
    500: Entry("E_HTTP_004", "internal_error", "A bug in the hub", "Critical", False, "report it", False, 500),
    400: Entry("E_HTTP_005", "malformed_request", "Not an HTTP request", "Medium", True, "fix the client", False, 400),
    431: Entry("E_HTTP_006", "head_too_large", "Headers too large", "Medium", True, "send fewer", False, 431),
    503: Entry("E_HTTP_007", "too_many_connections", "Too many connections", "High", True, "try later", True, 503),
}
HEAD_TIMEOUT = Entry("E_HTTP_008", "head_timeout", "Head came too slowly", "Medium", True, "send faster", True, 408)


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong, where, what was found, what would be right, and when to try again (RFC 9457)."""

    #: Names the kind of problem.
    type: str
    #: What the kind means.
    title: str
    #: The HTTP status.
    status: int
    #: This case in a sentence.
    detail: str
    #: Stable name of the kind, such as `unknown_recipient`.
    error_code: str
    #: Stable code of the kind, such as `E_ROUTING_001`.
    code: str
    #: Whether the very same request may succeed later.
    retryable: bool
    #: After how many seconds, where that is known.
    retry_after_s: float | None = None
    #: Path of the offending field.
    field: str | None = None
    #: What was found there.
    found: str | None = None
    #: What would be right.
    expected: str | None = None
    #: Further facts, such as `recipient_state`.
    facts: dict[str, Any] = {}


def document_of(problem: Problem, entry: Entry | None = None) -> ProblemDocument:
    """Write a refusal down."""
    entry = entry or CATALOGUE[problem.code]
    return ProblemDocument(
        type=f"urn:tocsin:error:{entry.name}",
        title=entry.title,
        status=entry.status,
        detail=problem.detail,
        error_code=entry.name,
        code=entry.code,
        retryable=problem.retryable,
        retry_after_s=problem.retry_after_s,
        field=problem.field,
        found=problem.found,
        expected=problem.expected,
        facts=problem.facts,
    )


def problem_response(problem: Problem, entry: Entry | None = None, status: int | None = None) -> Response:
    """Answer with a refusal."""
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
    """Answer what only HTTP can get wrong."""
    entry = HTTP_ENTRIES.get(status) or HTTP_ENTRIES[400 if status < 500 else 500]
    problem = Problem(entry.code, detail, retryable=entry.retryable, retry_after_s=retry_after_s)
    return problem_response(problem, entry, status)
