"""Resource patterns: their grammar, and the test whether two of them overlap.

A resource is segments between slashes. In a segment `*` is any characters, `?` is one, `[a-z]` is one of a class,
`[!a-z]` one that is not in it, `[*]` is a star itself. `**` is a segment of its own and is any number of segments, none
included, so `src/api/**` covers `src/api` and all below it. A resource without any of those is an exact name, and need
not be a path. Nothing here touches files.

Two patterns conflict when some name matches both; the answer is exact, also for two globs. A pattern is a sequence of
segments with `**` in between, a glob of one segment a sequence of characters with `*` in between; `sequences` says how
two of either are compared.

A *plain* pattern is an exact name, or exact segments followed by one `**` or by one segment with a single star, such as
`src/api/**` and `src/*.py`. An index finds what conflicts with it (`tocsin.core.leases.glob_index`). Any other pattern
is *open*: it has to be compared with others one by one, so the policy limits open patterns in number, length and
wildcards.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tocsin.core.errors import refusal
from tocsin.core.leases.characters import ANY, Part, PartPlaces, merged_ranges, parts_overlap, ranges_without
from tocsin.core.leases.sequences import Form, Places, form_of, forms_meet

__all__ = [
    "DEEP",
    "Pattern",
    "Segment",
    "comparing",
    "exact_pattern",
    "intersects",
    "matches",
    "parse_pattern",
    "segments_meet",
]

#: Segment that matches any number of segments.
DEEP: Final = "**"
_SPECIAL = frozenset("*?[]")


class Segment(msgspec.Struct, frozen=True):
    """One segment of a pattern, other than `**`."""

    #: The only name that matches, or the text of a glob.
    text: str
    form: Form
    is_glob: bool = False
    #: Literal prefix and suffix of every name that matches.
    prefix: str = ""
    suffix: str = ""
    #: Number of wildcards: stars, question marks, and the characters and ranges of classes.
    wildcards: int = 0

    @property
    def is_plain(self) -> bool:
        """Return whether its prefix and suffix say all: it is exact, or has a single star and no other wildcard."""
        return not self.is_glob or (self.wildcards == 1 and self.form.middle is not None)


class Pattern(msgspec.Struct, frozen=True):
    """A parsed resource."""

    text: str
    form: Form
    #: Exact segments before the first segment with a wildcard.
    folder: tuple[str, ...]
    #: The glob after the folder, if the pattern is plain and ends in one.
    last: Segment | None
    #: Whether a plain pattern ends with `**` after its folder.
    is_deep: bool
    #: Whether it must be compared with other patterns one by one.
    is_open: bool
    #: Number of segments, and of wildcards in all of them.
    depth: int
    wildcards: int


def parse_pattern(text: str) -> Pattern:
    """Parse a resource; refuse an invalid one with the reason."""
    if not text or text != text.strip():
        raise _invalid(text, "it is empty, or begins or ends with a space", "a name, or a path with globs")
    if not text.isprintable():
        raise _invalid(text, "it has characters that are not printable", "printable characters")
    names = text.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise _invalid(
            text, "it has an empty segment, `.` or `..`", "a path from the project's root, such as src/api/**"
        )
    return _pattern(text, [None if name == DEEP else _segment(text, name) for name in names])


def exact_pattern(path: str) -> Pattern:
    """Return the pattern of an exact path, such as that of a file; nothing in it is special."""
    return _pattern(path, [_exact(name) for name in path.split("/")])


def _pattern(text: str, segments: list[Segment | None]) -> Pattern:
    folder: list[str] = []
    for segment in segments:
        if segment is None or segment.is_glob:
            break
        folder.append(segment.text)
    rest = segments[len(folder) :]
    last = rest[0] if len(rest) == 1 else None
    is_deep = len(rest) == 1 and last is None
    is_open = len(rest) > 1 or (last is not None and not last.is_plain)
    wildcards = sum(1 if segment is None else segment.wildcards for segment in rest)
    return Pattern(
        text, form_of(segments), tuple(folder), None if is_open else last, is_deep, is_open, len(segments), wildcards
    )


def _invalid(text: str, why: str, expected: str) -> Exception:
    shown = text[:120]
    return refusal("E_LEASE_005", f"{shown!r} is not a valid resource: {why}", found=shown, expected=expected)


def _exact(name: str) -> Segment:
    return Segment(name, Form(name, None, (), len(name)), False, name, name)


def _segment(text: str, name: str) -> Segment:
    if not _SPECIAL & {*name}:
        return _exact(name)
    if DEEP in name:
        raise _invalid(text, "`**` must be a segment of its own", "`**` between slashes, or a single `*`")
    parts: list[Part | None] = []
    wildcards = index = 0
    while index < len(name):
        character = name[index]
        if character == "*":
            parts.append(None)
            wildcards += 1
        elif character == "?":
            parts.append(ANY)
            wildcards += 1
        elif character == "[":
            # A bracket directly after the opening one, or after its `!`, is a member of the class.
            first = index + 2 if name[index + 1 : index + 2] == "!" else index + 1
            end = name.find("]", first + 1)
            if end < 0:
                raise _invalid(text, "`[` has no closing `]`", "`[abc]`, or `[[]` for the character itself")
            part = _class(text, name[first:end], negated=first == index + 2)
            parts.append(part)
            wildcards += 0 if isinstance(part, str) else len(part)
            index = end
        elif character == "]":
            raise _invalid(text, "`]` has no opening `[`", "`[]]` for the character itself")
        else:
            parts.append(character)
        index += 1
    prefix, suffix = _literal(parts), _literal(parts[::-1])[::-1]
    if not wildcards:
        return _exact(prefix)
    form = form_of(parts)
    if form.middle:
        form = msgspec.structs.replace(form, middle=tuple([_joined(run) for run in form.middle]))
    return Segment(name, form, True, prefix, suffix, wildcards)


def _joined(run: Sequence[object]) -> Sequence[object]:
    """Return a run of characters as text, if it has no classes."""
    characters = [part for part in run if isinstance(part, str)]
    return "".join(characters) if len(characters) == len(run) else run


def _literal(parts: list[Part | None]) -> str:
    """Return the literal characters before the first wildcard."""
    found: list[str] = []
    for part in parts:
        if not isinstance(part, str):
            break
        found.append(part)
    return "".join(found)


def _class(text: str, members: str, *, negated: bool) -> Part:
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
    merged = merged_ranges(ranges)
    found = ranges_without(ANY, merged) if negated else ranges_without(merged, ((ord("/"), ord("/")),))
    if not found:
        raise _invalid(text, f"the class [{'!' * negated}{members}] is empty", "a class with at least one character")
    return chr(found[0][0]) if len(found) == 1 and found[0][0] == found[0][1] else found


def intersects(one: Pattern, other: Pattern) -> bool:
    """Return whether some name matches both patterns."""
    return _Comparison(one).meets(other)


def comparing(pattern: Pattern) -> Callable[[Pattern], bool]:
    """Return a test whether some name matches a pattern and another one, to compare one pattern with several."""
    return _Comparison(pattern).meets


def matches(pattern: Pattern, name: str) -> bool:
    """Return whether an exact name, such as a file path, matches a pattern; nothing in the name is special."""
    return intersects(pattern, exact_pattern(name))


def segments_meet(one: Segment, other: Segment) -> bool:
    """Return whether some single segment matches both."""
    return _segments_meet(one, other, PartPlaces)


def _segments_meet(one: Segment, other: Segment, places: Callable[[Sequence[object]], Places]) -> bool:
    if not (one.is_glob or other.is_glob):
        return one.text == other.text
    if not (one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix)):
        return False
    if not (one.suffix.endswith(other.suffix) or other.suffix.endswith(one.suffix)):
        return False
    begin, end = min(len(one.prefix), len(other.prefix)), min(len(one.suffix), len(other.suffix))
    return forms_meet(one.form, other.form, parts_overlap, places, begin, end)


class _Comparison:
    """A pattern that is compared with others; the places of its segments and characters are found once."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        #: By the identity of the sequences, which the places keep.
        self._segments: dict[int, Places] = {}
        self._parts: dict[int, Places] = {}

    def meets(self, other: Pattern) -> bool:
        """Return whether some name matches the pattern and another one."""
        one = self._pattern
        same = min(len(one.folder), len(other.folder))
        for place in range(same):
            if one.folder[place] != other.folder[place]:
                return False
        return forms_meet(one.form, other.form, self._overlap, self._places_of_segments, same, 0)

    def _overlap(self, one: object, other: object) -> bool:
        return isinstance(one, Segment) and isinstance(other, Segment) and self.segments_meet(one, other)

    def segments_meet(self, one: Segment, other: Segment) -> bool:
        """Return whether some single segment matches both."""
        return _segments_meet(one, other, self._places_of_parts)

    def _places_of_segments(self, elements: Sequence[object]) -> Places:
        found = self._segments.get(id(elements))
        if found is None:
            found = self._segments[id(elements)] = _SegmentPlaces(elements, self)
        return found

    def _places_of_parts(self, elements: Sequence[object]) -> Places:
        found = self._parts.get(id(elements))
        if found is None:
            found = self._parts[id(elements)] = PartPlaces(elements)
        return found


class _SegmentPlaces(Places):
    """The segments of a pattern."""

    def __init__(self, elements: Sequence[object], comparison: _Comparison) -> None:
        super().__init__(elements)
        self._comparison = comparison
        #: Places of each exact name, and of each glob.
        self._names: dict[str, int] = {}
        self._globs: dict[str, int] = {}
        self._segments: list[Segment] = []
        for place, segment in enumerate(elements):
            if isinstance(segment, Segment):
                places = self._globs if segment.is_glob else self._names
                if segment.text not in places:
                    places[segment.text] = 0
                    self._segments.append(segment)
                places[segment.text] |= 1 << place

    def of(self, element: object, wanted: int, offset: int) -> int:
        """Return those of the wanted places where a segment fits."""
        if not isinstance(element, Segment):
            return 0
        found = 0 if element.is_glob else self._names.get(element.text, 0)
        for segment in self._segments if element.is_glob or self._globs else ():
            if segment.is_glob or element.is_glob:
                places = (self._globs if segment.is_glob else self._names)[segment.text]
                if places >> offset & wanted and self._comparison.segments_meet(element, segment):
                    found |= places
        return found
