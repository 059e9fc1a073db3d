"""The payload schemas: every field of APM §2.2 to §2.8, missing and wrong."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import load, load_bytes, names
from tocsin.core.errors import Problem, TocsinError
from tocsin.core.protocol.payloads import PAYLOADS, Ack, StateSync, TaskUpdate, check_payload
from tocsin.policies import default_policy, parse_policy

EXAMPLES: dict[str, str] = {
    "TASK_ASSIGNMENT": "apm/task_assignment_payload",
    "TASK_UPDATE": "apm/task_update_payload_in_progress",
    "STATE_SYNC": "apm/state_sync_payload_agent_update",
    "ERROR_REPORT": "apm/error_report_payload_critical",
    "HANDOFF_REQUEST": "apm/handoff_request_payload_context_window_limit",
    "ACK": "apm/ack_payload_received",
    "NACK": "apm/nack_payload",
}

#: Each required field, with a value of the wrong type.
REQUIRED: dict[str, dict[str, object]] = {
    "TASK_ASSIGNMENT": {
        "taskId": 31,
        "taskRef": 3.1,
        "taskDescription": ["Design"],
        "memoryLogPath": {"path": "x"},
        "executionType": None,
    },
    "TASK_UPDATE": {"taskId": 31, "status": ["in_progress"], "progress": "half"},
    "STATE_SYNC": {"entityType": None, "entityId": 1, "operation": {}, "state": "healthy", "syncTimestamp": 0},
    "ERROR_REPORT": {"errorType": None, "errorMessage": 3, "severity": 1.5},
    "HANDOFF_REQUEST": {
        "taskId": 31,
        "reason": None,
        "sourceAgent": "impl_001",
        "targetAgent": "impl_002",
        "handoffContext": [],
    },
    "ACK": {"acknowledgedMessageId": 1, "status": None, "timestamp": 1.5},
    "NACK": {"rejectedMessageId": 1, "reason": False, "timestamp": {}},
}

#: Each optional field, with a value of the wrong type.
OPTIONAL: dict[str, dict[str, object]] = {
    "TASK_ASSIGNMENT": {"dependencies": "task_2_4", "context": ["src"]},
    "TASK_UPDATE": {
        "currentStep": 2,
        "notes": ["a"],
        "filesModified": "one.md",
        "blockers": {"type": "x"},
        "estimatedCompletion": 12,
    },
    "STATE_SYNC": {"previousState": "idle"},
    "ERROR_REPORT": {
        "errorCode": 3,
        "context": "Step 2",
        "stackTrace": ["Error"],
        "recoverable": "yes",
        "suggestedAction": 1,
        "metadata": [],
    },
    "HANDOFF_REQUEST": {},
    "ACK": {"processingTime": "fast", "notes": 150},
    "NACK": {"errorCode": 2, "canRetry": "true", "suggestedFix": {}},
}

#: Each enumerated field, with all that it may say.
CHOICES: list[tuple[str, str, list[str]]] = [
    ("TASK_ASSIGNMENT", "executionType", ["single-step", "multi-step"]),
    ("TASK_UPDATE", "status", ["in_progress", "blocked", "pending_review", "completed", "failed"]),
    ("STATE_SYNC", "entityType", ["agent", "task", "memory_log", "configuration"]),
    ("STATE_SYNC", "operation", ["create", "update", "delete"]),
    ("ERROR_REPORT", "errorType", ["TaskFailure", "ValidationError", "SystemError", "DependencyError"]),
    ("ERROR_REPORT", "severity", ["critical", "high", "medium", "low"]),
    ("HANDOFF_REQUEST", "reason", ["context_window_limit", "specialization_required", "load_balancing"]),
    ("ACK", "status", ["received", "processed", "queued"]),
]


def check(message_type: str, payload: object) -> object:
    contract = default_policy().contract_of(message_type)
    assert contract is not None
    return check_payload(message_type, msgspec.json.encode(payload), contract)


def problem_of(message_type: str, payload: object) -> Problem:
    with pytest.raises(TocsinError) as caught:
        check(message_type, payload)
    return caught.value.problem


def cases(table: dict[str, dict[str, object]]) -> list[tuple[str, str, object]]:
    return [(kind, field, wrong) for kind, fields in table.items() for field, wrong in fields.items()]


def test_there_are_seven_types() -> None:
    assert list(PAYLOADS) == list(EXAMPLES) == list(REQUIRED) == list(OPTIONAL)


@pytest.mark.parametrize(
    "name",
    [name for kind in EXAMPLES for name in names(f"apm/{kind.lower()}_payload*")],
)
def test_every_example_fits(name: str) -> None:
    message_type = name.removeprefix("apm/").split("_payload")[0].upper()
    contract = default_policy().contracts[message_type]
    assert isinstance(check_payload(message_type, load_bytes(name), contract), PAYLOADS[message_type])


@pytest.mark.parametrize(("message_type", "field", "wrong"), cases(REQUIRED))
def test_a_required_field_is_missing(message_type: str, field: str, wrong: object) -> None:
    payload = load(EXAMPLES[message_type])
    del payload[field]
    problem = problem_of(message_type, payload)
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_001", f"$.payload.{field}", "nothing")


@pytest.mark.parametrize(("message_type", "field", "wrong"), cases(REQUIRED) + cases(OPTIONAL))
def test_a_field_has_the_wrong_type(message_type: str, field: str, wrong: object) -> None:
    problem = problem_of(message_type, load(EXAMPLES[message_type]) | {field: wrong})
    assert (problem.code, problem.field) == ("E_VALIDATION_002", f"$.payload.{field}")
    assert problem.found == msgspec.json.encode(wrong).decode()


@pytest.mark.parametrize("message_type", EXAMPLES)
def test_the_optional_fields_are_optional(message_type: str) -> None:
    payload = load(EXAMPLES[message_type])
    check(message_type, {field: payload[field] for field in REQUIRED[message_type]})
    check(message_type, payload | dict.fromkeys(OPTIONAL[message_type]))


@pytest.mark.parametrize(("message_type", "field", "allowed"), CHOICES)
def test_a_choice_takes_what_the_document_lists(message_type: str, field: str, allowed: list[str]) -> None:
    for choice in allowed:
        check(message_type, load(EXAMPLES[message_type]) | {field: choice})
    problem = problem_of(message_type, load(EXAMPLES[message_type]) | {field: "whatever"})
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_003", f"$.payload.{field}", '"whatever"')
    assert problem.expected == "one of " + ", ".join(sorted(allowed))


@pytest.mark.parametrize("progress", [0, 0.0, 0.5, 1, 1.0])
def test_progress_is_a_share(progress: float) -> None:
    payload = check("TASK_UPDATE", load(EXAMPLES["TASK_UPDATE"]) | {"progress": progress})
    assert isinstance(payload, TaskUpdate)
    assert payload.progress == progress


@pytest.mark.parametrize("progress", [-0.1, 1.1, 50])
def test_progress_is_no_percentage_over_one(progress: float) -> None:
    problem = problem_of("TASK_UPDATE", load(EXAMPLES["TASK_UPDATE"]) | {"progress": progress})
    assert (problem.code, problem.field) == ("E_VALIDATION_004", "$.payload.progress")


@pytest.mark.parametrize(
    ("message_type", "field"),
    [
        ("TASK_UPDATE", "estimatedCompletion"),
        ("STATE_SYNC", "syncTimestamp"),
        ("ACK", "timestamp"),
        ("NACK", "timestamp"),
    ],
)
@pytest.mark.parametrize("wrong", ["soon", "2025-11-12T10:00:00", ""])
def test_a_moment_is_a_moment(message_type: str, field: str, wrong: str) -> None:
    problem = problem_of(message_type, load(EXAMPLES[message_type]) | {field: wrong})
    assert (problem.code, problem.field) == ("E_VALIDATION_004", f"$.payload.{field}")


@pytest.mark.parametrize(
    ("message_type", "field"),
    [
        ("TASK_ASSIGNMENT", "taskId"),
        ("TASK_ASSIGNMENT", "taskDescription"),
        ("TASK_UPDATE", "taskId"),
        ("STATE_SYNC", "entityId"),
        ("ERROR_REPORT", "errorMessage"),
        ("HANDOFF_REQUEST", "taskId"),
        ("ACK", "acknowledgedMessageId"),
        ("NACK", "reason"),
    ],
)
def test_a_name_is_not_empty(message_type: str, field: str) -> None:
    problem = problem_of(message_type, load(EXAMPLES[message_type]) | {field: ""})
    assert (problem.code, problem.field) == ("E_VALIDATION_004", f"$.payload.{field}")


@pytest.mark.parametrize(
    ("message_type", "changes", "where", "code"),
    [
        ("TASK_ASSIGNMENT", {"dependencies": [{}]}, "$.payload.dependencies[0].taskId", "E_VALIDATION_001"),
        (
            "TASK_ASSIGNMENT",
            {"dependencies": [{"taskId": "a"}, {"taskId": "b", "outputs": [1]}]},
            "$.payload.dependencies[1].outputs[0]",
            "E_VALIDATION_002",
        ),
        ("TASK_UPDATE", {"blockers": [{"severity": "high"}]}, "$.payload.blockers[0].type", "E_VALIDATION_001"),
        ("TASK_UPDATE", {"filesModified": ["a", 2]}, "$.payload.filesModified[1]", "E_VALIDATION_002"),
        ("HANDOFF_REQUEST", {"sourceAgent": {"type": "X"}}, "$.payload.sourceAgent.agentId", "E_VALIDATION_001"),
        ("HANDOFF_REQUEST", {"targetAgent": {"agentId": "x"}}, "$.payload.targetAgent.type", "E_VALIDATION_001"),
        ("ACK", {"processingTime": -1}, "$.payload.processingTime", "E_VALIDATION_004"),
    ],
)
def test_the_inner_fields_are_named(message_type: str, changes: dict[str, object], where: str, code: str) -> None:
    problem = problem_of(message_type, load(EXAMPLES[message_type]) | changes)
    assert (problem.code, problem.field) == (code, where)


@pytest.mark.parametrize("message_type", EXAMPLES)
def test_a_field_of_a_later_version_is_let_through(message_type: str) -> None:
    check(message_type, load(EXAMPLES[message_type]) | {"estimatedComplexity": "low"})


def test_what_is_decoded_is_what_was_sent() -> None:
    ack = check("ACK", load(EXAMPLES["ACK"]))
    assert isinstance(ack, Ack)
    assert ack.acknowledged_message_id == "msg_20251112_100000_001"
    assert (ack.status, ack.processing_time, ack.notes) == ("received", 150, "Message queued for processing")
    sync = check("STATE_SYNC", load(EXAMPLES["STATE_SYNC"]))
    assert isinstance(sync, StateSync)
    assert sync.state["memoryUsageMB"] == 512
    assert sync.previous_state == {"status": "idle", "tasksInProgress": 0}


DIAGNOSTIC = """
contracts:
  DIAGNOSTIC_REQUEST:
    payload:
      required: {diagnosticType: [health, performance, memory], includeMetrics: boolean}
      optional: {depth: integer, ratio: number, notes: string, scope: object, hosts: array}
"""


@pytest.mark.parametrize("name", names("apm/diagnostic_request_payload_*"))
def test_a_type_that_the_policy_adds_takes_its_payload(name: str) -> None:
    contract = parse_policy(DIAGNOSTIC).contracts["DIAGNOSTIC_REQUEST"]
    assert check_payload("DIAGNOSTIC_REQUEST", load_bytes(name), contract) is None


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"diagnosticType": "disk"}, "E_VALIDATION_003", "diagnosticType"),
        ({"diagnosticType": 7.5}, "E_VALIDATION_002", "diagnosticType"),
        ({"includeMetrics": "yes"}, "E_VALIDATION_002", "includeMetrics"),
        ({"depth": 1.5}, "E_VALIDATION_002", "depth"),
        ({"ratio": "half"}, "E_VALIDATION_002", "ratio"),
        ({"notes": 1}, "E_VALIDATION_002", "notes"),
        ({"scope": []}, "E_VALIDATION_002", "scope"),
        ({"hosts": {}}, "E_VALIDATION_002", "hosts"),
    ],
)
def test_a_type_that_the_policy_adds_is_checked(changes: dict[str, object], code: str, where: str) -> None:
    contract = parse_policy(DIAGNOSTIC).contracts["DIAGNOSTIC_REQUEST"]
    payload = load("apm/diagnostic_request_payload_health") | changes
    with pytest.raises(TocsinError) as caught:
        check_payload("DIAGNOSTIC_REQUEST", msgspec.json.encode(payload), contract)
    assert (caught.value.code, caught.value.problem.field) == (code, f"$.payload.{where}")


def test_a_custom_payload_is_free() -> None:
    custom = load("apm/custom")
    assert check(custom["messageType"], custom["payload"]) is None


JSON_VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text(max_size=4)
NESTED = JSON_VALUES | st.lists(JSON_VALUES, max_size=2) | st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=2)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    message_type = draw(st.sampled_from(list(EXAMPLES)))
    payload = load(EXAMPLES[message_type])
    for field in draw(st.sets(st.sampled_from(list(payload)), max_size=3)):
        payload[field] = draw(NESTED)
    return message_type, payload


@given(mutated())
def test_what_the_decoder_refuses_is_explained(case: tuple[str, dict[str, Any]]) -> None:
    message_type, payload = case
    try:
        check(message_type, payload)
    except TocsinError as error:
        problem = error.problem
        assert problem.field is not None
        assert problem.field.startswith("$.payload.")
        assert problem.expected != "a value that matches"
