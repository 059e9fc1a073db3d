"""The error catalogue, and the exceptions that carry its entries.

The tree splits first by what the caller can do next:

    TocsinError
    ├── RequestError             change the request; an identical one fails again
    │   ├── ValidationFailed     E_VALIDATION_*  invalid envelope or payload
    │   ├── ProtocolViolation    E_PROTOCOL_*    version, JSON, correlation
    │   ├── RoutingFailed        E_ROUTING_*     unknown or unsuitable recipient
    │   ├── NotPermitted         E_AUTH_*        identity or role does not allow it
    │   ├── StateConflict        E_STATE_*       the object is gone, or in the wrong state
    │   ├── LeaseConflict        E_LEASE_*       a resource is not held, or not free
    │   ├── PolicyRefused        E_POLICY_*      invalid policy document
    │   ├── LabRefused           E_LAB_*         the history does not support the experiment
    │   └── TaskFailed           E_TASK_*        sent between agents; the bus only carries it
    └── TryLater                 the identical request may succeed later
        ├── AdmissionRefused     E_ADMISSION_*   rate, quota, depth, presence
        └── HubUnavailable       E_HUB_*         commit failed, store unreachable, not the owner, shutting down

    InvariantViolation           a bug in Tocsin; never a caller's fault

Each code is one row of `CATALOGUE`; gateways and clients map a `Problem` by its code alone. The `retryable` flag of a
row is the default for its code; the flag of a `Problem` is the one for that refusal.
"""

from typing import Any, Literal

import msgspec

__all__ = [
    "CATALOGUE",
    "AdmissionRefused",
    "Entry",
    "HubUnavailable",
    "InvariantViolation",
    "LabRefused",
    "LeaseConflict",
    "NotPermitted",
    "PolicyRefused",
    "Problem",
    "ProtocolViolation",
    "RequestError",
    "RoutingFailed",
    "StateConflict",
    "TaskFailed",
    "TocsinError",
    "TryLater",
    "ValidationFailed",
    "error_for",
    "refusal",
]

Severity = Literal["Low", "Medium", "High", "Critical"]


class Entry(msgspec.Struct, frozen=True):
    """One row of the error catalogue."""

    #: Stable machine-readable code.
    code: str
    #: Stable snake-case name, the `error_code` of a problem document.
    name: str
    #: Short description of the error.
    title: str
    severity: Severity
    #: Whether the caller can do something about it.
    recoverable: bool
    #: What the caller can do about it.
    remedy: str
    #: Whether the identical request may succeed later.
    retryable: bool
    #: HTTP status of the problem document.
    status: int


def _rows(*rows: tuple[str, str, str, Severity, bool, str, bool, int]) -> dict[str, Entry]:
    return {row[0]: Entry(*row) for row in rows}


# fmt: off
CATALOGUE: dict[str, Entry] = _rows(
    ("E_VALIDATION_001", "missing_field", "Missing required field", "Medium", True, "add field", False, 422),
    ("E_VALIDATION_002", "invalid_type", "Invalid field type", "Medium", True, "fix type", False, 422),
    ("E_VALIDATION_003", "invalid_enum", "Invalid enum value", "Medium", True, "use valid value", False, 422),
    ("E_VALIDATION_004", "schema_failed", "Schema validation failed", "Medium", True, "fix schema", False, 422),
    ("E_VALIDATION_005", "too_large", "Message size exceeded limit (1MB)", "High", False, "reduce size", False, 413),

    ("E_ROUTING_001", "unknown_recipient", "Agent not found", "Medium", False, "check agent ID", False, 404),
    ("E_ROUTING_002", "invalid_receiver", "Invalid receiver specification", "Medium", True, "fix receiver", False, 422),
    ("E_ROUTING_003", "channel_unavailable", "Channel unavailable", "High", True, "retry", True, 503),
    ("E_ROUTING_004", "broadcast_failed", "Broadcast failed (partial)", "Medium", True, "retry failed", True, 207),

    ("E_PROTOCOL_001", "bad_version", "Unsupported protocol version", "High", False, "upgrade agent", False, 400),
    ("E_PROTOCOL_002", "malformed_json", "Malformed JSON", "Critical", False, "fix sender", False, 400),
    ("E_PROTOCOL_003", "invalid_correlation", "Invalid correlation ID", "Medium", True, "use valid ID", False, 422),
    ("E_PROTOCOL_004", "message_timeout", "Message timeout", "Medium", True, "retry", True, 504),

    ("E_TASK_001", "task_not_found", "Task not found", "Medium", False, "check task ID", False, 404),
    ("E_TASK_002", "task_assigned", "Task already assigned", "Low", False, "ignore", False, 409),
    ("E_TASK_003", "task_failed", "Task execution failed", "High", True, "retry/debug", True, 500),
    ("E_TASK_004", "task_dependency", "Task dependency missing", "High", True, "wait/resolve", True, 424),

    ("E_ADMISSION_001", "rate_limited", "Token bucket empty", "Medium", True, "wait, or lower the priority", True, 429),
    ("E_ADMISSION_002", "critical_quota", "Critical quota used up", "Medium", True, "wait, lower priority", True, 429),
    ("E_ADMISSION_003", "blocking_quota", "Blocking quota used up", "Medium", True, "wait, lower priority", True, 429),
    ("E_ADMISSION_004", "unauthorized_priority", "Priority not permitted", "High", True, "lower priority", False, 403),
    ("E_ADMISSION_005", "mailbox_full", "Mailbox of the recipient is full", "High", True, "wait", True, 429),
    ("E_ADMISSION_006", "recipient_not_available", "Recipient unavailable", "Medium", True, "wait or async", True, 409),
    ("E_ADMISSION_007", "message_id_reused", "messageId already used", "High", True, "use a new ID", False, 409),
    ("E_ADMISSION_008", "limit_reached", "Project limit reached", "High", True, "free something", True, 429),

    ("E_AUTH_001", "unauthenticated", "No valid credentials", "High", True, "present a token", False, 401),
    ("E_AUTH_002", "sender_mismatch", "Sender is not the caller", "High", True, "send as yourself", False, 403),
    ("E_AUTH_003", "not_permitted", "Not permitted for this role", "High", False, "ask a director", False, 403),
    ("E_AUTH_004", "token_expired", "Token expired", "Medium", True, "rotate the token", False, 401),
    ("E_AUTH_005", "token_revoked", "Token revoked", "High", False, "ask for a new token", False, 401),
    ("E_AUTH_006", "bad_signature", "Signature missing or wrong", "High", True, "sign the envelope", False, 401),
    ("E_AUTH_007", "not_registered", "Caller is not registered", "Medium", True, "register", False, 403),
    ("E_AUTH_008", "token_damaged", "The stored token is damaged", "High", False, "ask for a new token", False, 401),

    ("E_LEASE_001", "lease_not_held", "Lease not held", "Medium", True, "acquire it first", False, 409),
    ("E_LEASE_002", "lease_conflict", "Resource is held by another", "Medium", True, "wait in the queue", True, 409),
    ("E_LEASE_003", "lease_lapsed", "Lease has lapsed", "Medium", True, "acquire it again", False, 409),
    ("E_LEASE_004", "deadlock_broken", "Wait ended to break a deadlock", "High", True, "release, retry", True, 409),
    ("E_LEASE_005", "invalid_resource", "Invalid resource name", "Medium", True, "fix the name", False, 422),

    ("E_STATE_001", "message_not_found", "Message not found", "Medium", False, "check the message ID", False, 404),
    ("E_STATE_002", "wrong_state", "Not possible in this state", "Low", False, "check its history", False, 409),
    ("E_STATE_003", "session_not_found", "Session not found", "Medium", True, "open a session", False, 404),
    ("E_STATE_004", "not_in_history", "Not in the history", "Low", True, "use an existing name", False, 404),
    ("E_STATE_005", "project_not_found", "Project not found", "Medium", False, "check its name", False, 404),
    ("E_STATE_006", "project_archived", "The project is archived", "Low", True, "take it into use", False, 409),
    ("E_STATE_007", "project_exists", "The project exists", "Low", True, "choose another name", False, 409),

    ("E_POLICY_001", "invalid_policy", "Policy is not valid", "High", True, "fix the policy", False, 422),
    ("E_POLICY_002", "no_policy", "No policy adopted yet", "High", True, "adopt a policy first", False, 409),

    ("E_HUB_001", "commit_failed", "Commit failed; nothing was stored", "Critical", True, "retry", True, 503),
    ("E_HUB_002", "not_the_owner", "This hub does not own the project", "High", True, "ask the owner", True, 503),
    ("E_HUB_003", "shutting_down", "The hub is shutting down", "Medium", True, "reconnect", True, 503),
    ("E_HUB_004", "hub_unreachable", "The hub cannot be reached", "High", True, "start it, or reconnect", True, 503),
    ("E_HUB_005", "no_answer", "No answer in time", "High", True, "retry with the same ID", True, 504),
    ("E_HUB_006", "history_unavailable", "History cannot be read now", "Medium", True, "run the pipeline", True, 503),
    ("E_HUB_007", "store_unavailable", "The store cannot be reached now", "High", True, "retry", True, 503),

    ("E_LAB_001", "unfaithful_model", "The replay differs from history", "High", True, "read the report", False, 409),
    ("E_LAB_002", "nothing_to_replay", "No history to replay", "Medium", True, "name another source", False, 404),
    ("E_LAB_003", "invalid_experiment", "The experiment is not valid", "Medium", True, "change it", False, 422),
)
# fmt: on


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One refusal: the error, the field, the found and expected values, and the time to retry after."""

    #: Code of its row in the catalogue.
    code: str
    #: This case, in one sentence.
    detail: str
    #: Path of the offending field, such as `$.payload.taskId`.
    field: str | None = None
    #: Value found there.
    found: str | None = None
    #: Value that would be accepted.
    expected: str | None = None
    #: Whether the identical request may succeed later.
    retryable: bool = False
    #: Seconds after which to retry, where known.
    retry_after_s: float | None = None
    #: Further facts, such as `recipient_state`.
    facts: dict[str, Any] = {}
    #: Stable snake-case name of the code, such as `unknown_recipient`; filled in from the catalogue.
    error_code: str = ""

    def __post_init__(self) -> None:
        """Fill in the name of the code."""
        if not self.error_code and self.code in CATALOGUE:
            msgspec.structs.force_setattr(self, "error_code", CATALOGUE[self.code].name)

    @property
    def entry(self) -> Entry:
        """Return the catalogue row of its code."""
        return CATALOGUE[self.code]


class TocsinError(Exception):
    """Base class of every refusal; carries a `Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem

    @property
    def code(self) -> str:
        """Return the catalogue code."""
        return self.problem.code

    @property
    def retryable(self) -> bool:
        """Return whether the identical request may succeed later."""
        return self.problem.retryable

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return self.problem.entry.status


class RequestError(TocsinError):
    """The request must be changed before it can succeed."""


class ValidationFailed(RequestError):
    """The envelope or payload is invalid."""


class ProtocolViolation(RequestError):
    """The version, JSON or correlation breaks the protocol."""


class RoutingFailed(RequestError):
    """The receiver does not exist or cannot take this message."""


class NotPermitted(RequestError):
    """The caller's identity or role does not allow the request."""


class StateConflict(RequestError):
    """The object does not exist any more, or its state does not allow the request."""


class LeaseConflict(RequestError):
    """A resource is not held by the caller, or is held by another agent."""


class PolicyRefused(RequestError):
    """The policy document is invalid."""


class LabRefused(RequestError):
    """The history does not support the experiment, or there is none."""


class TaskFailed(RequestError):
    """A task error sent from one agent to another."""


class TryLater(TocsinError):
    """The identical request may succeed later."""


class AdmissionRefused(TryLater):
    """A rate, quota, depth or presence limit refuses the request for now."""


class HubUnavailable(TryLater):
    """The hub cannot serve the request now."""


class InvariantViolation(RuntimeError):
    """The state contradicts an invariant: a bug in Tocsin."""


_CLASSES: dict[str, type[TocsinError]] = {
    "VALIDATION": ValidationFailed,
    "PROTOCOL": ProtocolViolation,
    "ROUTING": RoutingFailed,
    "AUTH": NotPermitted,
    "STATE": StateConflict,
    "LEASE": LeaseConflict,
    "POLICY": PolicyRefused,
    "LAB": LabRefused,
    "TASK": TaskFailed,
    "ADMISSION": AdmissionRefused,
    "HUB": HubUnavailable,
}


def error_for(problem: Problem) -> TocsinError:
    """Return the exception for a problem, of the class that its code belongs to."""
    return _CLASSES[problem.code.split("_")[1]](problem)


def refusal(
    code: str,
    detail: str,
    *,
    field: str | None = None,
    found: str | None = None,
    expected: str | None = None,
    retry_after_s: float | None = None,
    retryable: bool | None = None,
    **facts: Any,
) -> TocsinError:
    """Return the exception for one refusal; `retryable` defaults to the catalogue's value."""
    if retryable is None:
        retryable = CATALOGUE[code].retryable
    return error_for(Problem(code, detail, field, found, expected, retryable, retry_after_s, facts))
