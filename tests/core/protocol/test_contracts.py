"""The contracts: the tables of APM §2.1 and §4.3 and of SPEC-071 §6, with the documents' own numbers."""

import pytest

from tocsin.core.protocol.contracts import AckRule, Contract, CorrelationRule, DeliveryClass, ResponseRule
from tocsin.core.protocol.priority import Priority
from tocsin.policies import default_policy, parse_policy

SECOND, MINUTE, HOUR, DAY = 1, 60, 3600, 86400


def contract_of(message_type: str) -> Contract:
    contract = default_policy().contract_of(message_type)
    assert contract is not None
    return contract


@pytest.mark.parametrize(
    ("message_type", "timeout_s", "retries_max", "backoff_s"),
    [
        ("TASK_ASSIGNMENT", 30, 3, [1, 2, 4]),
        ("TASK_UPDATE", 15, 2, [1, 2]),
        ("STATE_SYNC", 10, 2, [1, 2]),
        ("ERROR_REPORT", 30, 3, [1, 2, 4]),
        ("HANDOFF_REQUEST", 60, 2, [2, 4]),
        ("ACK", None, 0, []),
        ("NACK", None, 0, []),
    ],
)
def test_timeout_behaviour(
    message_type: str, timeout_s: float | None, retries_max: int, backoff_s: list[float]
) -> None:
    contract = contract_of(message_type)
    assert (contract.timeout_s, contract.retries_max, contract.backoff_s) == (timeout_s, retries_max, backoff_s)
    waits = [contract.backoff_us(attempt) for attempt in range(1, retries_max + 1)]
    assert waits == [wait * 1_000_000 for wait in backoff_s]


@pytest.mark.parametrize(
    ("message_type", "senders", "receivers", "correlation"),
    [
        ("TASK_ASSIGNMENT", ["Manager"], ["Implementation"], CorrelationRule.NEW),
        ("TASK_UPDATE", ["Implementation"], ["Manager"], CorrelationRule.MATCHES_ASSIGNMENT),
        ("STATE_SYNC", [], [], CorrelationRule.OPTIONAL),
        ("ERROR_REPORT", [], ["Manager"], CorrelationRule.OPTIONAL),
        ("HANDOFF_REQUEST", [], [], CorrelationRule.NEW),
        ("ACK", [], [], CorrelationRule.MATCHES_MESSAGE),
        ("NACK", [], [], CorrelationRule.MATCHES_MESSAGE),
    ],
)
def test_direction_and_correlation(
    message_type: str, senders: list[str], receivers: list[str], correlation: CorrelationRule
) -> None:
    contract = contract_of(message_type)
    assert (contract.senders, contract.receivers, contract.correlation) == (senders, receivers, correlation)


@pytest.mark.parametrize(
    ("message_type", "ack"),
    [
        ("TASK_ASSIGNMENT", AckRule.REQUIRED),
        ("TASK_UPDATE", AckRule.OPTIONAL),
        ("STATE_SYNC", AckRule.RECOMMENDED),
        ("ERROR_REPORT", AckRule.REQUIRED),
        ("HANDOFF_REQUEST", AckRule.REQUIRED),
        ("ACK", AckRule.NONE),
        ("NACK", AckRule.NONE),
    ],
)
def test_acknowledgment(message_type: str, ack: AckRule) -> None:
    assert contract_of(message_type).ack is ack


@pytest.mark.parametrize(
    "message_type", ["TASK_ASSIGNMENT", "TASK_UPDATE", "STATE_SYNC", "ERROR_REPORT", "HANDOFF_REQUEST", "ACK", "NACK"]
)
def test_an_apm_message_lives_an_hour_and_is_in_both_versions(message_type: str) -> None:
    contract = contract_of(message_type)
    assert (contract.ttl_s, contract.since, contract.delivery_class) == (3600, "1.0.0", DeliveryClass.ASYNC)


@pytest.mark.parametrize(
    ("signal_type", "delivery_class", "ttl_s", "priority", "system"),
    [
        ("Blocker", "sync", 4 * HOUR, Priority.CRITICAL, False),
        ("Question", "sync", 1 * HOUR, Priority.BLOCKING, False),
        ("ReviewRequested", "async", 24 * HOUR, Priority.BLOCKING, False),
        ("TaskAssigned", "async", 7 * DAY, Priority.COORDINATE, False),
        ("TaskCompleted", "async", 24 * HOUR, Priority.INFO, False),
        ("StatusUpdate", "async", 24 * HOUR, Priority.INFO, False),
        ("Acknowledgment", "async", 1 * HOUR, Priority.INFO, False),
        ("MasterPreempted", "async", 2 * MINUTE, Priority.INFO, True),
        ("PeerJoined", "async", 5 * MINUTE, Priority.INFO, True),
        ("PeerLeft", "async", 5 * MINUTE, Priority.INFO, True),
    ],
)
def test_the_defaults_of_a_signal(
    signal_type: str, delivery_class: str, ttl_s: int, priority: Priority, system: bool
) -> None:
    contract = contract_of(signal_type)
    assert (contract.delivery_class, contract.ttl_s, contract.default_priority) == (delivery_class, ttl_s, priority)
    assert contract.system is system
    assert contract.since == "1.1.0"
    assert (contract.retries_max, contract.timeout_s) == (0, None), "a signal is never replayed for want of an ACK"
    assert contract.ack is not AckRule.REQUIRED


def test_there_are_seventeen_types_those_of_the_bus_and_custom_ones() -> None:
    policy = default_policy()
    own = {name for name in policy.contracts if name.startswith(("Approval", "Discussion", "LEASE_", "NoticesFolded"))}
    assert all(policy.contracts[name].system for name in own)
    assert len(policy.contracts.keys() - own) == 17
    assert policy.contract_of("CUSTOM_ANALYSIS_REQUEST") is policy.custom_contract
    assert policy.contract_of("ANALYSIS_REQUEST") is None


def test_what_counts_as_the_response() -> None:
    assert contract_of("TASK_ASSIGNMENT").response is ResponseRule.COMPLETION
    assert contract_of("HANDOFF_REQUEST").response is ResponseRule.ANY
    assert contract_of("ACK").response is ResponseRule.NONE


def test_a_policy_adds_a_type_and_overrides_a_default() -> None:
    policy = parse_policy(
        "contracts: {DIAGNOSTIC_REQUEST: {priority: ASK, ttl_s: 30}, Blocker: {delivery_class: async}}"
    )
    added, changed = policy.contracts["DIAGNOSTIC_REQUEST"], policy.contracts["Blocker"]
    assert (added.default_priority, added.ttl_s, added.delivery_class) == (Priority.BLOCKING, 30, DeliveryClass.ASYNC)
    assert (changed.delivery_class, changed.ttl_s) == (DeliveryClass.ASYNC, 4 * HOUR)


def test_a_custom_type_may_have_a_contract_of_its_own() -> None:
    policy = parse_policy("contracts: {CUSTOM_ALARM: {priority: Critical}}")
    alarm = policy.contract_of("CUSTOM_ALARM")
    assert alarm is not None
    assert alarm.default_priority is Priority.CRITICAL


@pytest.mark.parametrize(("attempt", "wait_s"), [(1, 1), (2, 2), (3, 4), (4, 4), (100, 4)])
def test_the_last_wait_repeats(attempt: int, wait_s: int) -> None:
    assert contract_of("TASK_ASSIGNMENT").backoff_us(attempt) == wait_s * 1_000_000
