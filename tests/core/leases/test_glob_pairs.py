"""Pairs of patterns: those that some path matches, and those that none does."""

import pytest

from tocsin.core.leases.globs import intersects, matches, parse_pattern

MEET = [
    ("ab*", "a*"),
    ("abc*x", "ab*"),
    ("*yz", "*z"),
    ("x*yz", "*xyz"),
    ("a?c", "ab*"),
    ("a*c", "*b*"),
    ("[ab]x", "[bc]x"),
    ("[!a]x", "[b]x"),
    ("[a-c]1", "[c-e]1"),
    ("src/**", "src"),
    ("src/**", "src/a/b"),
    ("**/b", "a/**"),
    ("src/*/x", "src/api/*"),
    ("**", "anything/at/all"),
    ("a/**/z", "a/z"),
    ("a/**/z", "a/b/c/z"),
]
PART = [
    ("ab*", "ac*"),
    ("*yz", "*yx"),
    ("a?", "abc"),
    ("[ab]x", "[cd]x"),
    ("[!ab]", "[ab]"),
    ("[a-c]1", "[d-e]1"),
    ("src/*", "src"),
    ("src/*", "src/a/b"),
    ("a/**/z", "a/b"),
    ("src/*/x", "src/api"),
    ("lib/**", "src/**"),
    ("a", "b"),
]


@pytest.mark.parametrize(("one", "other"), MEET)
def test_patterns_that_meet(one: str, other: str) -> None:
    assert intersects(parse_pattern(one), parse_pattern(other))
    assert intersects(parse_pattern(other), parse_pattern(one))


@pytest.mark.parametrize(("one", "other"), PART)
def test_patterns_that_do_not_meet(one: str, other: str) -> None:
    assert not intersects(parse_pattern(one), parse_pattern(other))
    assert not intersects(parse_pattern(other), parse_pattern(one))


@pytest.mark.parametrize(
    ("pattern", "path", "whether"),
    [
        ("ab*", "ab", True),
        ("ab*", "abba", True),
        ("ab*", "a", False),
        ("a*b*c", "axbyc", True),
        ("a*b*c", "axyc", False),
        ("*.py", "x.py", True),
        ("*.py", "x.pyc", False),
        ("[]]", "]", True),
        ("[[]x", "[x", True),
        ("[!]]", "]", False),
        ("[a-]", "-", True),
        ("src/**", "src/a/b", True),
        ("src/**", "lib/a", False),
        ("src/*", "src/a//b", False),
    ],
)
def test_a_pattern_matches_a_path(pattern: str, path: str, whether: bool) -> None:
    assert matches(parse_pattern(pattern), path) is whether
