"""The catalogue of APM §9, row by row, and the exceptions that carry it."""

import pytest

from tocsin.core import errors
from tocsin.core.errors import CATALOGUE, Problem, TocsinError, error_for, refusal

#: Code, description, severity, recoverable, what to do: as the document writes them.
DOCUMENTED = [
    ("E_VALIDATION_001", "Missing required field", "Medium", True, "add field"),
    ("E_VALIDATION_002", "Invalid field type", "Medium", True, "fix type"),
    ("E_VALIDATION_003", "Invalid enum value", "Medium", True, "use valid value"),
    ("E_VALIDATION_004", "Schema validation failed", "Medium", True, "fix schema"),
    ("E_VALIDATION_005", "Message size exceeded limit (1MB)", "High", False, "reduce size"),
    ("E_ROUTING_001", "Agent not found", "Medium", False, "check agent ID"),
    ("E_ROUTING_002", "Invalid receiver specification", "Medium", True, "fix receiver"),
    ("E_ROUTING_003", "Channel unavailable", "High", True, "retry"),
    ("E_ROUTING_004", "Broadcast failed (partial)", "Medium", True, "retry failed"),
    ("E_PROTOCOL_001", "Unsupported protocol version", "High", False, "upgrade agent"),
    ("E_PROTOCOL_002", "Malformed JSON", "Critical", False, "fix sender"),
    ("E_PROTOCOL_003", "Invalid correlation ID", "Medium", True, "use valid ID"),
    ("E_PROTOCOL_004", "Message timeout", "Medium", True, "retry"),
    ("E_TASK_001", "Task not found", "Medium", False, "check task ID"),
    ("E_TASK_002", "Task already assigned", "Low", False, "ignore"),
    ("E_TASK_003", "Task execution failed", "High", True, "retry/debug"),
    ("E_TASK_004", "Task dependency missing", "High", True, "wait/resolve"),
]


@pytest.mark.parametrize(("code", "title", "severity", "recoverable", "remedy"), DOCUMENTED)
def test_a_row_of_the_catalogue(code: str, title: str, severity: str, recoverable: bool, remedy: str) -> None:
    entry = CATALOGUE[code]
    assert (entry.code, entry.title, entry.severity) == (code, title, severity)
    assert (entry.recoverable, entry.remedy) == (recoverable, remedy)


def test_the_families_of_the_document_have_no_other_rows() -> None:
    families = ("E_VALIDATION", "E_ROUTING", "E_PROTOCOL", "E_TASK")
    assert [code for code in CATALOGUE if code.startswith(families)] == [row[0] for row in DOCUMENTED]


def test_an_unknown_recipient_is_a_404_by_that_name() -> None:
    entry = CATALOGUE["E_ROUTING_001"]
    assert (entry.name, entry.status) == ("unknown_recipient", 404)


def test_names_and_titles_are_unique() -> None:
    assert len({entry.name for entry in CATALOGUE.values()}) == len(CATALOGUE)
    assert len({entry.title for entry in CATALOGUE.values()}) == len(CATALOGUE)


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_row_is_coherent(code: str) -> None:
    entry = CATALOGUE[code]
    assert entry.code == code
    assert entry.status == 207 or 400 <= entry.status <= 599
    assert entry.remedy
    assert entry.recoverable or not entry.retryable, "what can be retried can be recovered from"


@pytest.mark.parametrize(
    ("family", "kind", "parent"),
    [
        ("VALIDATION", errors.ValidationFailed, errors.RequestError),
        ("PROTOCOL", errors.ProtocolViolation, errors.RequestError),
        ("ROUTING", errors.RoutingFailed, errors.RequestError),
        ("AUTH", errors.NotPermitted, errors.RequestError),
        ("STATE", errors.StateConflict, errors.RequestError),
        ("LEASE", errors.LeaseConflict, errors.RequestError),
        ("POLICY", errors.PolicyRefused, errors.RequestError),
        ("TASK", errors.TaskFailed, errors.RequestError),
        ("ADMISSION", errors.AdmissionRefused, errors.TryLater),
        ("HUB", errors.HubUnavailable, errors.TryLater),
    ],
)
def test_each_family_has_its_exception(family: str, kind: type[TocsinError], parent: type[TocsinError]) -> None:
    codes = [code for code in CATALOGUE if code.startswith(f"E_{family}_")]
    assert codes
    for code in codes:
        error = error_for(Problem(code, "as a test asks"))
        assert type(error) is kind
        assert isinstance(error, parent)


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_refusal_carries_its_row(code: str) -> None:
    error = refusal(code, "no", field="$.a", found="1", expected="2", retry_after_s=1.5, recipient_state="available")
    assert (error.code, error.status) == (code, CATALOGUE[code].status)
    assert error.retryable is CATALOGUE[code].retryable
    problem = error.problem
    assert problem.entry is CATALOGUE[code]
    assert (problem.field, problem.found, problem.expected, problem.retry_after_s) == ("$.a", "1", "2", 1.5)
    assert problem.facts == {"recipient_state": "available"}
    assert str(error) == f"{code}: no"


def test_a_refusal_may_know_better_than_its_row() -> None:
    assert not refusal("E_ADMISSION_001", "never", retryable=False).retryable


def test_a_broken_invariant_is_no_refusal() -> None:
    assert not issubclass(errors.InvariantViolation, TocsinError)
