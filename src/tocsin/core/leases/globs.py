"""Resource patterns: parsing, matching, and the test whether two patterns overlap.

A resource is segments between slashes. In a segment `*` is any characters, `?` is one, `[a-z]` is one of a class,
`[!a-z]` one that is not in it, `[*]` is a star itself. `**` is a segment of its own and is any number of segments, none
included, so `src/api/**` covers `src/api` and all below it. A resource without any of those is an exact name, and need
not be a path. Nothing here touches files.

Two patterns conflict when some name matches both. Segments are compared as automata, both at once, so the answer is
exact even for two globs.
"""

from functools import lru_cache

import msgspec

from tocsin.core.errors import refusal

__all__ = ["DEEP", "Pattern", "Segment", "intersects", "matches", "parse_pattern"]

#: Segment that matches any number of segments.
DEEP = "**"
_SPECIAL = frozenset("*?[]")
_LAST = 0x10FFFF
#: Sorted, disjoint ranges of code points, both ends included.
Ranges = tuple[tuple[int, int], ...]
#: Every character that a segment may hold.
_ANY: Ranges = ((0, ord("/") - 1), (ord("/") + 1, _LAST))


class Segment(msgspec.Struct, frozen=True):
    """One segment of a pattern."""

    text: str
    #: For a glob, its parts in order: ranges of one character, or null for any number of characters.
    parts: tuple[Ranges | None, ...] | None = None
    #: Literal prefix and suffix of every name that matches.
    prefix: str = ""
    suffix: str = ""

    @property
    def is_glob(self) -> bool:
        """Return whether the segment is a glob."""
        return self.parts is not None


class Pattern(msgspec.Struct, frozen=True):
    """A parsed resource."""

    text: str
    segments: tuple[Segment, ...]

    @property
    def is_glob(self) -> bool:
        """Return whether it can match more than one name."""
        return any(segment.text == DEEP or segment.is_glob for segment in self.segments)


@lru_cache(maxsize=65536)
def parse_pattern(text: str) -> Pattern:
    """Parse a resource; refuse an invalid one with the reason."""
    if not text or text != text.strip():
        raise _invalid(text, "it is empty, or begins or ends with a space", "a name, or a path with globs")
    if any(ord(character) < 32 or ord(character) == 127 for character in text) or not text.isprintable():
        raise _invalid(text, "it has characters that are not printable", "printable characters")
    names = text.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise _invalid(
            text, "it has an empty segment, `.` or `..`", "a path from the project's root, such as src/api/**"
        )
    return Pattern(text, tuple(_segment(text, name) for name in names))


def _invalid(text: str, why: str, expected: str) -> Exception:
    shown = text[:120]
    return refusal("E_LEASE_005", f"{shown!r} is not a valid resource: {why}", found=shown, expected=expected)


@lru_cache(maxsize=65536)
def _segment(text: str, name: str) -> Segment:
    if name == DEEP or not _SPECIAL & {*name}:
        return Segment(name)
    if DEEP in name:
        raise _invalid(text, "`**` must be a segment of its own", "`**` between slashes, or a single `*`")
    parts: list[Ranges | None] = []
    index = 0
    while index < len(name):
        character = name[index]
        if character == "*":
            parts.append(None)
        elif character == "?":
            parts.append(_ANY)
        elif character == "[":
            # A bracket directly after the opening one, or after its `!`, is a member of the class.
            first = index + 2 if name[index + 1 : index + 2] == "!" else index + 1
            end = name.find("]", first + 1)
            if end < 0:
                raise _invalid(text, "`[` has no closing `]`", "`[abc]`, or `[[]` for the character itself")
            parts.append(_class(text, name[first:end], negated=first == index + 2))
            index = end
        elif character == "]":
            raise _invalid(text, "`]` has no opening `[`", "`[]]` for the character itself")
        else:
            parts.append(((ord(character), ord(character)),))
        index += 1
    literals = [_literal(part) for part in parts]
    prefix = "".join(_until_wild(literals))
    suffix = "".join(reversed(_until_wild(literals[::-1]))) if None in literals else prefix
    return Segment(name, tuple(parts), prefix, suffix)


def _literal(part: Ranges | None) -> str | None:
    if part is not None and len(part) == 1 and part[0][0] == part[0][1]:
        return chr(part[0][0])
    return None


def _until_wild(literals: list[str | None]) -> list[str]:
    found: list[str] = []
    for literal in literals:
        if literal is None:
            break
        found.append(literal)
    return found


def _class(text: str, members: str, *, negated: bool) -> Ranges:
    ranges: list[tuple[int, int]] = []
    index = 0
    while index < len(members):
        low = high = ord(members[index])
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            high = ord(members[index + 2])
            index += 2
        if high < low:
            raise _invalid(text, f"the range in [{members}] is reversed", "`[a-z]`")
        ranges.append((low, high))
        index += 1
    merged = _merged(ranges)
    found = _minus(_ANY, merged) if negated else _minus(merged, ((ord("/"), ord("/")),))
    if not found:
        raise _invalid(text, f"the class [{'!' * negated}{members}] is empty", "a class with at least one character")
    return found


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _minus(ranges: Ranges, holes: Ranges) -> Ranges:
    left: list[tuple[int, int]] = []
    for start, end in ranges:
        low = start
        for hole_low, hole_high in holes:
            if hole_high < low or hole_low > end:
                continue
            if hole_low > low:
                left.append((low, hole_low - 1))
            low = hole_high + 1
        if low <= end:
            left.append((low, end))
    return tuple(left)


def _overlap(one: Ranges, other: Ranges) -> bool:
    return any(low <= high2 and low2 <= high for low, high in one for low2, high2 in other)


def intersects(one: Pattern, other: Pattern) -> bool:
    """Return whether some name matches both patterns."""
    left, right = one.segments, other.segments
    begin = 0
    for mine, its in zip(left, right, strict=False):  # Most pairs differ in a plain segment near the beginning.
        if mine.parts is not None or its.parts is not None or mine.text == DEEP or its.text == DEEP:
            break
        if mine.text != its.text:
            return False
        begin += 1
    places = {(begin, begin)}
    seen: set[tuple[int, int]] = set()
    while places:
        place = places.pop()
        if place in seen:
            continue
        seen.add(place)
        i, j = place
        if i == len(left) and j == len(right):
            return True
        if i < len(left) and left[i].text == DEEP:
            places.add((i + 1, j))
            if j < len(right):
                places.add((i, j + 1))
        elif j < len(right) and right[j].text == DEEP:
            places.add((i, j + 1))
            if i < len(left):
                places.add((i + 1, j))
        elif i < len(left) and j < len(right) and segments_meet(left[i], right[j]):
            places.add((i + 1, j + 1))
    return False


def segments_meet(one: Segment, other: Segment) -> bool:
    """Return whether some single segment matches both; neither is `**`."""
    if one.parts is None and other.parts is None:
        return one.text == other.text
    if one.parts is None:
        one, other = other, one
    if other.parts is None:
        return _fits(one, other.text)
    if not _compatible(one.prefix, other.prefix, starts=True) or not _compatible(
        one.suffix, other.suffix, starts=False
    ):
        return False
    return _globs_meet(one.text, other.text)


def _compatible(one: str, other: str, *, starts: bool) -> bool:
    if starts:
        return one.startswith(other) or other.startswith(one)
    return one.endswith(other) or other.endswith(one)


@lru_cache(maxsize=65536)
def _globs_meet(one: str, other: str) -> bool:
    """Walk two globs at once; each step takes one character that both allow."""
    left, right = _segment(one, one).parts, _segment(other, other).parts
    if left is None or right is None:
        return one == other
    reached = {(0, 0)}
    pending = [(0, 0)]
    for i, j in pending:
        if i == len(left) and j == len(right):
            return True
        steps: list[tuple[int, int]] = []
        a = left[i] if i < len(left) else ()
        b = right[j] if j < len(right) else ()
        if a is None:
            steps.append((i + 1, j))
        if b is None:
            steps.append((i, j + 1))
        if a is None and b:
            steps.append((i, j + 1))
        elif b is None and a:
            steps.append((i + 1, j))
        elif a and b and _overlap(a, b):
            steps.append((i + 1, j + 1))
        for step in steps:
            if step not in reached:
                reached.add(step)
                pending.append(step)
    return False


def _fits(glob: Segment, name: str) -> bool:
    """Return whether a name matches a glob of one segment."""
    if not name.startswith(glob.prefix) or not name.endswith(glob.suffix):
        return False
    parts = glob.parts or ()
    literal = len(glob.prefix) + len(glob.suffix)
    if len(parts) == literal + 1 and parts[len(glob.prefix)] is None:
        return len(name) >= literal  # one star and nothing else, such as `*.py`
    place = name_place = 0
    star = star_name = -1
    while name_place < len(name):
        if place < len(parts) and parts[place] is None:
            star, star_name = place, name_place
            place += 1
            continue
        part = parts[place] if place < len(parts) else None
        code = ord(name[name_place])
        if part is not None and any(low <= code <= high for low, high in part):
            place += 1
            name_place += 1
        elif star >= 0:
            star_name += 1
            place, name_place = star + 1, star_name
        else:
            return False
    return all(part is None for part in parts[place:])


def matches(pattern: Pattern, name: str) -> bool:
    """Return whether an exact name, such as a file path, matches a pattern; nothing in the name is special."""
    segments = name.split("/")
    return DEEP not in segments and intersects(pattern, Pattern(name, tuple(map(Segment, segments))))
