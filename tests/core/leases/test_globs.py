"""Whether two patterns can mean the same thing, held against trying every name of a small world."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.core.errors import TocsinError
from tocsin.core.leases.globs import DEEP, intersects, matches, parse_pattern
from tocsin.core.leases.used_patterns import UsedPatterns

ALPHABET = "abc"
NAMES = ["".join(letters) for size in (1, 2, 3) for letters in product(ALPHABET, repeat=size)]
SEGMENT = st.one_of(
    st.just(DEEP),
    st.text("ab", min_size=1, max_size=2),
    st.lists(st.sampled_from(["*", "?", "a", "b", "[ab]", "[!a]", "[a-c]"]), min_size=1, max_size=3)
    .map("".join)
    .filter(lambda text: DEEP not in text),
)
PATTERN = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)
#: Long enough to tell any two patterns of three segments with parts of one letter apart.
SHORT = [name for name in NAMES if len(name) <= 2] + ["abc", "cba", "bab", "aab", "bba", "ccc"]
PATHS = ["/".join(names) for size in (1, 2, 3) for names in product(SHORT[:9], repeat=size)]


def regex(text: str) -> re.Pattern[str]:
    """Say what a pattern matches in the plainest way: as a regular expression over names with a slash before each."""
    whole = ""
    for segment in text.split("/"):
        if segment == DEEP:
            whole += "(?:/[^/]+)*"
            continue
        part = ""
        for token in re.findall(r"\[!?\]?[^\]]*\]|.", segment):
            part += {"*": "[^/]*", "?": "[^/]"}.get(token) or (
                "[^/" + token[2:] if token.startswith("[!") else token if token.startswith("[") else re.escape(token)
            )
        whole += f"/(?!/|$){part}"
    return re.compile(whole)


def names_of(text: str, names: list[str]) -> set[str]:
    return {name for name in names if regex(text).fullmatch("/" + name)}


@given(PATTERN, st.sampled_from(PATHS))
def test_a_pattern_matches_what_it_says(text: str, name: str) -> None:
    assert matches(parse_pattern(text), name) == bool(regex(text).fullmatch("/" + name))


GLOB = SEGMENT.filter(lambda text: text != DEEP)


@given(GLOB, GLOB)
def test_two_segments_conflict_when_a_name_matches_both(one: str, other: str) -> None:
    names = ["".join(letters) for size in range(1, 7) for letters in product(ALPHABET, repeat=size)]
    assert intersects(parse_pattern(one), parse_pattern(other)) == bool(names_of(one, names) & names_of(other, names))


@given(
    st.lists(st.sampled_from([DEEP, "*", "a", "b", "a*", "*b", "?"]), min_size=1, max_size=4).map("/".join),
    st.lists(st.sampled_from([DEEP, "*", "a", "b", "a*", "*b", "?"]), min_size=1, max_size=4).map("/".join),
)
def test_two_paths_conflict_when_a_path_matches_both(one: str, other: str) -> None:
    names = ["/".join(parts) for size in range(1, 9) for parts in product(("a", "b", "ab"), repeat=size) if size < 6]
    assert intersects(parse_pattern(one), parse_pattern(other)) == bool(names_of(one, names) & names_of(other, names))


@given(st.lists(PATTERN, max_size=25), PATTERN, st.sets(st.integers(0, 24)))
def test_the_resources_in_use_find_exactly_what_conflicts(texts: list[str], query: str, struck: set[int]) -> None:
    used = UsedPatterns()
    for number, text in enumerate(texts):
        used.hold(text, ("lease", number))
    for number in struck & set(range(len(texts))):
        used.release(texts[number], ("lease", number))
    wanted = {
        ("lease", number)
        for number, text in enumerate(texts)
        if number not in struck and intersects(parse_pattern(text), parse_pattern(query))
    }
    for _ in range(2):  # The second time it is known.
        assert {key for pattern in used.conflicting(query) for key in pattern.held} == wanted
    for number in struck & set(range(len(texts))):
        used.queue(texts[number], ("request", number))
        used.unqueue(texts[number], ("request", number))
    assert {key for pattern in used.conflicting(query) for key in pattern.held} == wanted


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ("src/api/**", "src/api/users.py", True),
        ("src/api/**", "src/api", True),
        ("src/api/**", "src/apis/users.py", False),
        ("src/*/users.py", "src/**/users.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("**/*.py", "docs/**", True),
        ("**/*.py", "docs/*.md", False),
        ("a[0-4]", "a[5-9]", False),
        ("a[0-4]", "a[!1-9]", True),
        ("port 8080", "port 8080", True),
        ("db:users", "db:orders", False),
        ("[*]", "*", True),
        ("[*]", "a", False),
        ("[]]", "]?", None),
        ("Straße/*", "Stra?e/haus", True),
    ],
)
def test_what_conflicts_with_what(one: str, other: str, conflict: bool | None) -> None:
    if conflict is None:
        with pytest.raises(TocsinError, match="no opening"):
            parse_pattern(other)
    else:
        assert intersects(parse_pattern(one), parse_pattern(other)) is conflict
        assert intersects(parse_pattern(other), parse_pattern(one)) is conflict


@pytest.mark.parametrize(
    "text",
    [
        "",
        " a",
        "a ",
        "a//b",
        "/a",
        "a/",
        "./a",
        "a/../b",
        "a**",
        "**a/b",
        "[abc",
        "a]",
        "[b-a]",
        "[/]",
        "a\nb",
        "a\x7f",
    ],
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(TocsinError) as caught:
        parse_pattern(text)
    assert caught.value.code == "E_LEASE_005"


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("[!b]x", "ax", True),
        ("[!b]x", "bx", False),
        ("[!b]x", "cx", True),
        ("*[ab]", "xa", True),
        ("*[ab]", "xc", False),
        ("*.py", ".py", True),
        ("a*a", "a", False),
    ],
)
def test_a_glob_of_one_segment(pattern: str, name: str, expected: bool) -> None:
    assert matches(parse_pattern(pattern), name) is expected
