"""Policies from YAML: the packaged defaults, overridden by a project's file."""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from tocsin.core.errors import refusal
from tocsin.core.policy import Policy, document_of, policy_from
from tocsin.core.protocol.validation import problems
from tocsin.frames.policy import FramesPolicy

__all__ = [
    "POLICY_FILE",
    "Difference",
    "changed_policy",
    "default_policy",
    "differences",
    "frames_policy",
    "load_policy",
    "parse_policy",
    "whole_policy",
]


#: Units of settings, by the end of their name.
_UNITS = {"_s": "s", "_ms": "ms", "_h": "h", "_days": "days", "_bytes": "bytes"}
#: Name of a project's policy file.
POLICY_FILE = "tocsin.yaml"


class Difference(msgspec.Struct, frozen=True):
    """One setting that two policies have different values for."""

    #: Its path, as `aging.threshold_s`.
    setting: str
    #: Value before; null if it was not set.
    before: Any
    #: Value after; null if it is not set.
    after: Any

    def __str__(self) -> str:
        """Return the difference in a line."""
        unit = next((unit for end, unit in _UNITS.items() if self.setting.endswith(end)), "")
        return f"{self.setting}: {_written(self.before, unit)} → {_written(self.after, unit)}"


@cache
def default_policy() -> Policy:
    """Return the packaged default policy."""
    return policy_from(_filled(_defaults()))


def load_policy(path: Path, base: Policy | None = None) -> Policy:
    """Read a policy file and apply it over the defaults, or over another policy."""
    return parse_policy(path.read_text(encoding="utf-8"), base)


def parse_policy(text: str, base: Policy | None = None) -> Policy:
    """Apply a YAML text over the defaults, or over another policy; an unknown key is refused with the nearest one."""
    try:
        changes = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise refusal("E_POLICY_001", f"not YAML: {error}") from None
    if changes is None:
        return base or default_policy()
    if not isinstance(changes, dict):
        raise refusal(
            "E_POLICY_001",
            "a policy must be a mapping of sections",
            field="$",
            found=type(changes).__name__,
        )
    return whole_policy(changes) if base is None else changed_policy(base, changes)


def whole_policy(settings: dict[str, Any]) -> Policy:
    """Apply settings over the defaults."""
    return _applied(_defaults(), settings)


def changed_policy(policy: Policy, changes: dict[str, Any]) -> Policy:
    """Apply changes over a policy; for an unknown key the nearest known one is named."""
    return _applied(document_of(policy), changes)


def _applied(document: dict[str, Any], changes: dict[str, Any]) -> Policy:
    policy = policy_from(_filled(_merged(document, changes)))
    frames_policy(policy)
    return policy


def differences(before: object, after: object, setting: str = "") -> list[Difference]:
    """Return the settings in which two policy documents differ, in the order of the second."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*after, *(name for name in before if name not in after)]
        prefix = f"{setting}." if setting else ""
        return [one for name in names for one in differences(before.get(name), after.get(name), f"{prefix}{name}")]
    return [] if before == after else [Difference(setting, before, after)]


def _written(value: object, unit: str) -> str:
    """Return a value as in JSON; a number has its unit, and no fraction if it is whole."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = msgspec.json.encode(value).decode()
    return f"{text} {unit}" if unit and isinstance(value, int | float) and not isinstance(value, bool) else text


def frames_policy(policy: Policy) -> FramesPolicy:
    """Return the settings of the frame bus; an invalid one raises `E_POLICY_001`."""
    try:
        return msgspec.convert(policy.frames, FramesPolicy)
    except msgspec.ValidationError as error:
        wrong = next(problems(inspect.type_info(FramesPolicy), policy.frames, "$.frames"), None)
        detail = wrong.detail if wrong is not None else f"$.frames: {error}"
        raise refusal("E_POLICY_001", detail, field=wrong.field if wrong is not None else "$.frames") from None


@cache
def _defaults() -> dict[str, Any]:
    """Return the packaged document, which is parsed once: that takes most of the time of making a policy."""
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
