"""Urgency: seen in a frame that has not been read, decided by its envelopes."""

import json
from typing import Any

import msgspec
import pytest

from tests.gateways.hubs import envelope
from tocsin.core.policy import Policy
from tocsin.gateways.websocket.priority_scan import PriorityScan
from tocsin.policies import default_policy
from tocsin.wire.socket import read_frame


def frame(**changes: Any) -> str:
    document = {key: value for key, value in envelope(1, **changes).items() if value is not None}
    return json.dumps([{"op": "ping", "id": 1}, {"op": "send_message", "id": 2, "envelope": document}])


def looks(text: str, policy: Policy | None = None) -> tuple[bool, bool]:
    """Say what a glance at the text says, and what the envelopes say."""
    urgency = PriorityScan(lambda: policy or default_policy())
    return urgency.may_be_in(text), urgency.is_among(read_frame(text, 10))


@pytest.mark.parametrize("name", ["Critical", "DirectorOverride", "BLOCKER"])
def test_urgent_by_its_own_word(name: str) -> None:
    assert looks(frame(priority=name)) == (True, True)


@pytest.mark.parametrize("name", ["Info", "Blocking", "ASK", "LOUD"])
def test_not_urgent_by_its_own_word(name: str) -> None:
    assert looks(frame(priority=name)) == (False, False)


def test_urgent_by_its_type() -> None:
    policy = default_policy()
    contract = msgspec.structs.replace(policy.contracts["Blocker"], priority="Critical")
    loud = msgspec.structs.replace(policy, contracts={**policy.contracts, "Blocker": contract})
    calm = msgspec.structs.replace(contract, priority="Blocking")
    quiet = msgspec.structs.replace(policy, contracts={**policy.contracts, "Blocker": calm})
    assert looks(frame(priority=None, messageType="Blocker"), loud) == (True, True)
    assert looks(frame(priority="Info", messageType="Blocker"), loud) == (True, False)
    assert looks(frame(priority=None, messageType="Blocker"), quiet) == (False, False)


def test_types_of_ones_own_have_a_contract_too() -> None:
    policy = default_policy()
    contract = msgspec.structs.replace(policy.custom_contract, priority="Critical")
    loud = msgspec.structs.replace(policy, custom_contract=contract)
    assert looks(frame(priority=None, messageType="CUSTOM_fire"), loud) == (True, True)


def test_another_policy_means_other_words() -> None:
    policies = [default_policy()]
    urgency = PriorityScan(lambda: policies[-1])
    text = frame(priority=None, messageType="CUSTOM_fire")
    assert not urgency.may_be_in(text)
    contract = msgspec.structs.replace(policies[0].custom_contract, priority="Critical")
    policies.append(msgspec.structs.replace(policies[0], custom_contract=contract))
    assert urgency.may_be_in(text)


def test_speaking_of_it_is_not_asking_for_it() -> None:
    assert looks(frame(priority="Info", payload={"text": "Critical"})) == (True, False)


def test_what_cannot_be_read_is_in_no_hurry() -> None:
    assert looks(frame(messageType=7, priority="Critical")) == (True, False)
