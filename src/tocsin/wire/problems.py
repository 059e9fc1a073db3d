"""Problem documents (RFC 9457): refusals as HTTP and the socket return them."""

from typing import Any

import msgspec

from tocsin.core.errors import CATALOGUE, Entry, Problem

__all__ = ["HTTP_ENTRIES", "ProblemDocument", "document_of"]

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


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refusal with its code, the offending field, what was expected and when to retry."""

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
    """Return the document of a problem."""
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
