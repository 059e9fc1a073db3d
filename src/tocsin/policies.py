"""Policies from YAML: the packaged defaults, overridden by a project's file."""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from tocsin.core.errors import refusal
from tocsin.core.policy import Policy, policy_from
from tocsin.core.protocol.validation import problems
from tocsin.frames.policy import FramesPolicy

__all__ = ["default_policy", "frames_policy", "load_policy", "parse_policy"]


@cache
def default_policy() -> Policy:
    """Return the packaged default policy."""
    return policy_from(_filled(_defaults()))


def load_policy(path: Path) -> Policy:
    """Read a project's policy file and apply it over the defaults."""
    return parse_policy(path.read_text(encoding="utf-8"))


def parse_policy(text: str) -> Policy:
    """Apply a YAML text over the defaults; an unknown key is refused, and the nearest known key is named."""
    try:
        changes = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise refusal("E_POLICY_001", f"not YAML: {error}") from None
    if changes is None:
        return default_policy()
    if not isinstance(changes, dict):
        raise refusal(
            "E_POLICY_001",
            "a policy must be a mapping of sections",
            field="$",
            found=type(changes).__name__,
        )
    policy = policy_from(_filled(_merged(_defaults(), changes)))
    frames_policy(policy)
    return policy


def frames_policy(policy: Policy) -> FramesPolicy:
    """Return the settings of the frame bus; an invalid one raises `E_POLICY_001`."""
    try:
        return msgspec.convert(policy.frames, FramesPolicy)
    except msgspec.ValidationError as error:
        wrong = next(problems(inspect.type_info(FramesPolicy), policy.frames, "$.frames"), None)
        detail = wrong.detail if wrong is not None else f"$.frames: {error}"
        raise refusal("E_POLICY_001", detail, field=wrong.field if wrong is not None else "$.frames") from None


def _defaults() -> dict[str, Any]:
    text = resources.files("tocsin").joinpath("tocsin.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    """Fill the settings that a contract does not name from the custom contract."""
    base, contracts = document.get("custom_contract"), document.get("contracts")
    if not isinstance(base, dict) or not isinstance(contracts, dict):
        return document
    filled = {name: base | row if isinstance(row, dict) else row for name, row in contracts.items()}
    return document | {"contracts": filled}
