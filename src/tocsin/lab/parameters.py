"""Which numbers of a policy are varied, and between what: `aging.threshold_s=10..300`, `ttl.StatusUpdate=60..86400`.

A dimension is a path into the policy's document with a range or a list of choices. A point is one value for each; it
becomes a policy by being laid over a base, and a change that a person can read by being held against the defaults.
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

#: From this ratio of its ends on, a range is searched by factors instead of by steps.
_LOG_FROM = 20.0
#: Short names: what comes after goes in the place of `*`.
_ALIASES = {"ttl": "contracts.*.ttl_s", "priority": "contracts.*.priority", "retries": "contracts.*.retries_max"}


class Dimension(msgspec.Struct, frozen=True):
    """One number, or one choice, that is varied."""

    #: As it was said.
    name: str
    path: tuple[str, ...]
    low: float = 0.0
    high: float = 0.0
    #: Whether only whole numbers make sense.
    whole: bool = False
    #: What it is chosen from, where it has no range.
    choices: tuple[Any, ...] = ()

    def value(self, place: float) -> Any:
        """Return the value at a place from 0 to 1."""
        if self.choices:
            return self.choices[min(int(place * len(self.choices)), len(self.choices) - 1)]
        if self.low > 0 and self.high / self.low >= _LOG_FROM:
            value = self.low * math.pow(self.high / self.low, place)
        else:
            value = self.low + (self.high - self.low) * place
        # Four digits are more than a policy needs, and make a change that can be read.
        return round(value) if self.whole else float(f"{value:.4g}")


def parse_dimension(text: str, base: Any) -> Dimension:
    """Read what is to be varied, against the document that it is a part of."""
    name, equals, said = text.partition("=")
    if not equals or not said:
        raise refusal("E_LAB_003", f"{text!r}: say NAME=LOW..HIGH or NAME=A|B|C", found=text)
    path = _path(name, base)
    present = _at(base, path)
    if ".." in said:
        low, high = (_number(part, text) for part in said.split("..", 1))
        if not low < high:
            raise refusal("E_LAB_003", f"{text!r}: the low end comes first", found=said)
        if isinstance(present, bool) or not isinstance(present, int | float):
            raise refusal("E_LAB_003", f"{name} is {present!r} and has no range: say its choices, A|B|C")
        return Dimension(name, path, low, high, whole=isinstance(present, int))
    choices = tuple(_value(part) for part in said.split("|"))
    if len(choices) < 2:
        raise refusal("E_LAB_003", f"{text!r}: one choice is none", found=said)
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
            raise refusal("E_LAB_003", f"there is no {'.'.join([*path, part])} in the policy{hint}", found=name)
        path.append(part)
        here = here[part]
    if isinstance(here, dict):
        raise refusal("E_LAB_003", f"{name} is not one number", expected="one of " + ", ".join(list(here)[:10]))
    return tuple(path)


def _at(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document[part]
    return document


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise refusal("E_LAB_003", f"{whole!r}: {text!r} is no number", found=text) from None
    if not math.isfinite(value):
        raise refusal("E_LAB_003", f"{whole!r}: {text!r} is no number", found=text)
    return value


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return text


def policy_at(base: Any, dimensions: Sequence[Dimension], values: Sequence[Any]) -> Policy | None:
    """Return the base with these values; nothing where they contradict each other."""
    document = copy.deepcopy(base)
    for dimension, value in zip(dimensions, values, strict=True):
        _at(document, dimension.path[:-1])[dimension.path[-1]] = value
    try:
        return policy_from(document)
    except TocsinError:
        return None


def changes_of(policy: Policy) -> dict[str, Any]:
    """Return what a policy changes of the defaults, as a project's own file would say it."""
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
