"""Dimensions of a search: policy settings with a range or choices, such as `aging.threshold_s=10..300`.

A dimension is a path into the policy document with a range or a list of choices. A point has one value for each
dimension. It is applied over a base policy; `changes_of` returns the difference to the defaults.
"""

import copy
import difflib
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.core.errors import TocsinError, refusal
from tocsin.core.policy import Policy, document_of, policy_from
from tocsin.policies import default_policy

__all__ = ["Dimension", "changes_of", "parse_dimension", "policy_at"]

#: Ratio of its ends from which a range is searched on a logarithmic scale.
_LOG_FROM = 20.0
#: Short names; the rest of the name replaces `*`.
_ALIASES = {"ttl": "contracts.*.ttl_s", "priority": "contracts.*.priority", "retries": "contracts.*.retries_max"}


class Dimension(msgspec.Struct, frozen=True):
    """One setting that is varied."""

    #: Name as given by the user.
    name: str
    #: Path of the setting in the policy document.
    path: tuple[str, ...]
    #: Range, if it has no choices.
    low: float = 0.0
    high: float = 0.0
    #: Whether values are whole numbers.
    whole: bool = False
    #: Choices, if it has no range.
    choices: tuple[Any, ...] = ()

    def value(self, place: float) -> Any:
        """Return the value at a position from 0 to 1."""
        if self.choices:
            return self.choices[min(int(place * len(self.choices)), len(self.choices) - 1)]
        if self.low > 0 and self.high / self.low >= _LOG_FROM:
            value = self.low * math.pow(self.high / self.low, place)
        else:
            value = self.low + (self.high - self.low) * place
        # Four significant digits are enough for a policy, and readable.
        return round(value) if self.whole else float(f"{value:.4g}")


def parse_dimension(text: str, base: Any) -> Dimension:
    """Parse a dimension, and check it against the policy document."""
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise refusal("E_LAB_003", f"{text!r} has no values: use NAME=LOW..HIGH or NAME=A|B|C", found=text)
    path = _path(name, base)
    current = _at(base, path)
    if ".." in values:
        low, high = (_number(part, text) for part in values.split("..", 1))
        if not low < high:
            raise refusal("E_LAB_003", f"{text!r} is not a range: the low end comes first", found=values)
        if isinstance(current, bool) or not isinstance(current, int | float):
            raise refusal("E_LAB_003", f"{name} is {current!r} and has no range: give choices, A|B|C")
        return Dimension(name, path, low, high, whole=isinstance(current, int))
    choices = tuple(_value(part) for part in values.split("|"))
    if len(choices) < 2:
        raise refusal("E_LAB_003", f"{text!r} has only one choice: give at least two, A|B", found=values)
    return Dimension(name, path, choices=choices)


def _path(name: str, base: Any) -> tuple[str, ...]:
    first, _, rest = name.partition(".")
    if first in _ALIASES and rest:
        name = _ALIASES[first].replace("*", rest)
    path: list[str] = []
    here = base
    for part in name.split("."):
        if not isinstance(here, dict) or part not in here:
            known = list(here) if isinstance(here, dict) else []
            near = difflib.get_close_matches(part, known, 1)
            hint = f": did you mean {'.'.join([*path, near[0]])}?" if near else ""
            raise refusal("E_LAB_003", f"the policy has no setting {'.'.join([*path, part])}{hint}", found=name)
        path.append(part)
        here = here[part]
    if isinstance(here, dict):
        raise refusal(
            "E_LAB_003", f"{name} is a section, not a setting", expected="one of " + ", ".join(list(here)[:10])
        )
    return tuple(path)


def _at(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document[part]
    return document


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise refusal("E_LAB_003", f"{whole!r}: {text!r} is not a number", found=text) from None
    if not math.isfinite(value):
        raise refusal("E_LAB_003", f"{whole!r}: {text!r} is not a number", found=text)
    return value


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return text


def policy_at(base: Any, dimensions: Sequence[Dimension], values: Sequence[Any]) -> Policy | None:
    """Return the base policy with these values; None if the result is not a valid policy."""
    document = copy.deepcopy(base)
    for dimension, value in zip(dimensions, values, strict=True):
        _at(document, dimension.path[:-1])[dimension.path[-1]] = value
    try:
        return policy_from(document)
    except TocsinError:
        return None


def changes_of(policy: Policy) -> dict[str, Any]:
    """Return the differences of a policy to the defaults, as in a project's policy file."""
    found = _changed(document_of(default_policy()), document_of(policy))
    return found if isinstance(found, dict) else {}


def _changed(under: Any, over: Any) -> Any:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    found = {}
    for key, value in over.items():
        if key not in under:
            found[key] = value
        elif under[key] != value:
            found[key] = _changed(under[key], value)
    return found
