"""The priority scan: detects names in an unparsed frame, then reads its envelopes."""

import json
from typing import Any

import msgspec
import pytest

from tests.envelopes import envelope
from tocsin.core.policy import Policy
from tocsin.gateways.websocket.priority_scan import PriorityScan
from tocsin.policies import default_policy
from tocsin.wire.socket import read_frame


def frame(**changes: Any) -> bytes:
    document = {key: value for key, value in envelope(1, **changes).items() if value is not None}
    return json.dumps([{"op": "ping", "id": 1}, {"op": "send_message", "id": 2, "envelope": document}]).encode()


def scanned(text: bytes, policy: Policy | None = None) -> tuple[bool, bool]:
    """Return whether the text may be urgent, and whether an envelope is."""
    scan = PriorityScan(lambda: policy or default_policy())
    return scan.may_be_urgent(text), scan.is_urgent(read_frame(text, 10))


@pytest.mark.parametrize("name", ["Critical", "DirectorOverride", "BLOCKER"])
def test_urgent_by_its_priority(name: str) -> None:
    assert scanned(frame(priority=name)) == (True, True)


@pytest.mark.parametrize("name", ["Info", "Blocking", "ASK", "LOUD"])
def test_not_urgent_by_its_priority(name: str) -> None:
    assert scanned(frame(priority=name)) == (False, False)


def test_urgent_by_its_type() -> None:
    policy = default_policy()
    contract = msgspec.structs.replace(policy.contracts["Blocker"], priority="Critical")
    loud = msgspec.structs.replace(policy, contracts={**policy.contracts, "Blocker": contract})
    calm = msgspec.structs.replace(contract, priority="Blocking")
    quiet = msgspec.structs.replace(policy, contracts={**policy.contracts, "Blocker": calm})
    assert scanned(frame(priority=None, messageType="Blocker"), loud) == (True, True)
    assert scanned(frame(priority="Info", messageType="Blocker"), loud) == (True, False)
    assert scanned(frame(priority=None, messageType="Blocker"), quiet) == (False, False)


def test_custom_types_use_the_custom_contract() -> None:
    policy = default_policy()
    contract = msgspec.structs.replace(policy.custom_contract, priority="Critical")
    loud = msgspec.structs.replace(policy, custom_contract=contract)
    assert scanned(frame(priority=None, messageType="CUSTOM_fire"), loud) == (True, True)


def test_another_policy_has_other_urgent_names() -> None:
    policies = [default_policy()]
    scan = PriorityScan(lambda: policies[-1])
    text = frame(priority=None, messageType="CUSTOM_fire")
    assert not scan.may_be_urgent(text)
    contract = msgspec.structs.replace(policies[0].custom_contract, priority="Critical")
    policies.append(msgspec.structs.replace(policies[0], custom_contract=contract))
    assert scan.may_be_urgent(text)


def test_a_payload_that_contains_a_name_is_not_urgent() -> None:
    assert scanned(frame(priority="Info", payload={"text": "Critical"})) == (True, False)


def test_an_envelope_that_cannot_be_read_is_not_urgent() -> None:
    assert scanned(frame(messageType=7, priority="Critical")) == (True, False)
