"""Explanations of validation errors: the field, the value found and the value expected.

The msgspec decoder decides, which is fast. Only when it refuses a value does this module walk the type's description
over the loosely decoded value to find the reason. The same walk serves envelopes, payloads and policies.
"""

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from tocsin.core.errors import Problem

__all__ = ["explain", "nearest", "problems", "unknown_keys"]

#: Maximum length of a quoted value, characters.
_QUOTE_MAX = 60
#: Items of a list or object that are examined, and further problems that are looked for: a value is refused in any
#: case, and finding the reason must not take long.
_EXAMINED_MAX = 1000
_PROBLEMS_MAX = 100
#: Characters of a name that is not known.
_NAME_MAX = 64
_MISSING = "E_VALIDATION_001"
#: Range of integers that a field can hold.
_INTEGER_MAX = 2**63 - 1
_FLOAT_MAX = 1.7e308


def explain(shape: Any, value: object, path: str = "$") -> Problem:
    """Return the first problem of `value` against the type `shape`; a missing field names all that are missing."""
    for problem in (found := problems(inspect.type_info(shape), value, path)):
        return problem if problem.code != _MISSING else _all_missing(problem, found)
    return Problem("E_VALIDATION_004", f"{path} does not match its schema", path, quote(value), "a value that matches")


def _all_missing(first: Problem, rest: Iterator[Problem]) -> Problem:
    """Return one problem for all missing fields, so that one correction is enough."""
    missing = [first, *(problem for problem in islice(rest, _PROBLEMS_MAX) if problem.code == _MISSING)]
    if len(missing) == 1:
        return first
    wanted = "; ".join(f"{problem.field}: {problem.expected}" for problem in missing)
    names = ", ".join(str(problem.field) for problem in missing)
    return Problem(_MISSING, f"{names} are missing", first.field, "nothing", wanted)


def quote(value: object) -> str:
    """Return a value as JSON, shortened."""
    try:
        text = msgspec.json.encode(value).decode("utf-8", "replace")
    except (OverflowError, ValueError, TypeError):
        text = repr(value)
    return text if len(text) <= _QUOTE_MAX else text[: _QUOTE_MAX - 1] + "…"


def problems(shape: inspect.Type, value: object, path: str) -> Iterator[Problem]:
    """Yield every problem of `value` against a type description, outermost first."""
    match shape:
        case inspect.Metadata(type=inner):
            yield from problems(inner, value, path)
        case inspect.AnyType() | inspect.RawType():
            return
        case inspect.UnionType(types=types):
            yield from _union(types, value, path)
        case inspect.StructType():
            yield from _struct(shape, value, path)
        case inspect.DictType(value_type=value_type):
            if not isinstance(value, dict):
                yield _wrong_type(path, value, "an object")
            else:
                for key, item in islice(value.items(), _EXAMINED_MAX):
                    if not isinstance(key, str):
                        yield _wrong_type(f"{path}.{key}", key, "a string as its key")
                    yield from problems(value_type, item, f"{path}.{key}")
        case inspect.ListType(item_type=item_type) | inspect.VarTupleType(item_type=item_type):
            yield from _list(shape, item_type, value, path)
        case inspect.LiteralType(values=allowed):
            yield from _choice(path, value, list(allowed))
        case inspect.EnumType(cls=cls):
            yield from _choice(path, value, [member.value for member in cls])
        case inspect.StrType():
            yield from _string(shape, value, path)
        case inspect.BoolType():
            if not isinstance(value, bool):
                yield _wrong_type(path, value, "true or false")
        case inspect.IntType() | inspect.FloatType():
            yield from _number(shape, value, path)
        case inspect.DateTimeType():
            yield from _moment(value, path)
        case inspect.NoneType():
            if value is not None:
                yield _wrong_type(path, value, "null")
        case _:
            return


def _struct(shape: inspect.StructType, value: object, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong_type(path, value, "an object")
        return
    for field in shape.fields:
        where = f"{path}.{field.encode_name}"
        if field.encode_name in value:
            yield from problems(field.type, value[field.encode_name], where)
        elif field.required:
            wanted = describe(field.type)
            yield Problem(_MISSING, f"{where} is missing: it must be {wanted}", where, "nothing", wanted)
    if shape.forbid_unknown_fields:
        yield from unknown_keys([field.encode_name for field in shape.fields], value, path)


def unknown_keys(known: list[str], value: dict[str, Any], path: str) -> Iterator[Problem]:
    """Yield a problem for each unknown key, with the nearest known one."""
    for key in value:
        if key not in known:
            near, key = nearest(str(key), known), str(key)[:_NAME_MAX]
            hint = f"did you mean {near!r}?" if near else "known keys: " + ", ".join(known)
            yield Problem("E_VALIDATION_004", f"{path}.{key} is not a known key; {hint}", f"{path}.{key}", key, hint)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like one that is not known."""
    return next(iter(difflib.get_close_matches(name[:_NAME_MAX], known, 1)), None)


def _union(types: tuple[inspect.Type, ...], value: object, path: str) -> Iterator[Problem]:
    if value is None and any(isinstance(inner, inspect.NoneType) for inner in types):
        return
    members = [inner for inner in types if not isinstance(inner, inspect.NoneType)]
    verdicts = [list(islice(problems(inner, value, path), _PROBLEMS_MAX)) for inner in members]
    if all(verdicts):
        yield from (
            verdicts[0] if len(verdicts) == 1 else [_wrong_type(path, value, " or ".join(map(describe, members)))]
        )


def _list(shape: Any, item_type: inspect.Type, value: object, path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield _wrong_type(path, value, "an array")
        return
    if shape.min_length is not None and len(value) < shape.min_length:
        yield _out_of_bounds(path, f"{len(value)} items", f"at least {shape.min_length} items")
    if shape.max_length is not None and len(value) > shape.max_length:
        yield _out_of_bounds(path, f"{len(value)} items", f"at most {shape.max_length} items")
    for index, item in enumerate(value[:_EXAMINED_MAX]):
        yield from problems(item_type, item, f"{path}[{index}]")


def _choice(path: str, value: object, allowed: list[Any]) -> Iterator[Problem]:
    if value in allowed:
        return
    wanted = "one of " + ", ".join(str(choice) for choice in allowed)
    if not isinstance(value, str | int):
        yield _wrong_type(path, value, wanted)
    else:
        found = quote(value)
        yield Problem("E_VALIDATION_003", f"{path} is {found}: it must be {wanted}", path, found, wanted)


def _string(shape: inspect.StrType, value: object, path: str) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield _wrong_type(path, value, describe(shape))
    elif shape.min_length is not None and len(value) < shape.min_length:
        yield _out_of_bounds(path, quote(value), f"at least {shape.min_length} characters")
    elif shape.max_length is not None and len(value) > shape.max_length:
        yield _out_of_bounds(path, f"{len(value)} characters", f"at most {shape.max_length} characters")
    elif shape.pattern is not None and not re.search(shape.pattern, value):
        yield _out_of_bounds(path, quote(value), f"a string like {shape.pattern}")


def _number(shape: inspect.IntType | inspect.FloatType, value: object, path: str) -> Iterator[Problem]:
    whole = isinstance(shape, inspect.IntType)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not _finite(value):
        yield _wrong_type(path, value, describe(shape))
        return
    if abs(value) > (_INTEGER_MAX if whole else _FLOAT_MAX):
        yield _out_of_bounds(path, quote(value), "a smaller number")
        return
    low, high = shape.ge, shape.le
    if low is not None and value < low:
        yield _out_of_bounds(path, quote(value), f"at least {low}")
    if shape.gt is not None and value <= shape.gt:
        yield _out_of_bounds(path, quote(value), f"more than {shape.gt}")
    if high is not None and value > high:
        yield _out_of_bounds(path, quote(value), f"at most {high}")


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _moment(value: object, path: str) -> Iterator[Problem]:
    wanted = "an ISO 8601 UTC timestamp such as 2025-11-12T10:30:45.123Z"
    if not isinstance(value, str):
        yield _wrong_type(path, value, wanted)
        return
    try:
        msgspec.convert(value, Annotated[datetime, msgspec.Meta(tz=True)])
    except msgspec.ValidationError:
        yield _out_of_bounds(path, quote(value), wanted)


def describe(shape: inspect.Type) -> str:
    """Return a short description of a type."""
    match shape:
        case inspect.Metadata(type=inner):
            return describe(inner)
        case inspect.UnionType(types=types):
            return " or ".join(describe(inner) for inner in types)
        case inspect.LiteralType(values=allowed):
            return "one of " + ", ".join(str(choice) for choice in allowed)
        case inspect.EnumType(cls=cls):
            return "one of " + ", ".join(str(member.value) for member in cls)
        case inspect.StrType():
            return "a string"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a number"
        case inspect.NoneType():
            return "null"
        case inspect.ListType() | inspect.VarTupleType():
            return "an array"
        case inspect.DateTimeType():
            return "an ISO 8601 UTC timestamp"
        case _:
            return "an object"


def _wrong_type(path: str, value: object, wanted: str) -> Problem:
    found = quote(value)
    return Problem("E_VALIDATION_002", f"{path} is {found}: it must be {wanted}", path, found, wanted)


def _out_of_bounds(path: str, found: str, wanted: str) -> Problem:
    return Problem("E_VALIDATION_004", f"{path} is {found}: it must be {wanted}", path, found, wanted)
