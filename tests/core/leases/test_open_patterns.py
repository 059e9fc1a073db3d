"""Open patterns: how much it costs to compare them, and limits that hold for new requests only."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.conftest import NewTeam
from tests.core.leases.test_globs import PATTERN
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.leases.globs import DEEP, Pattern, Segment, comparing, intersects, parse_pattern
from tocsin.core.leases.sequences import Form, Places, form_of, forms_meet
from tocsin.core.leases.used_patterns import UsedPatterns

TOKENS = st.sampled_from(["*", "?", "a", "b", "[ab]", "[!a]", "[b-d]"])
SEGMENT = st.one_of(
    st.just(DEEP), st.lists(TOKENS, min_size=1, max_size=9).map("".join).filter(lambda text: DEEP not in text)
)
LONG_PATTERN = st.lists(SEGMENT, min_size=1, max_size=6).map("/".join)
#: What each token allows, of an alphabet in which all tokens differ.
ALLOWED = {"?": "abcde", "[ab]": "ab", "[!a]": "bcde", "[b-d]": "bcd", "[a-c]": "abc"} | dict(
    zip("abc", "abc", strict=True)
)


def tokens(segment: str) -> tuple[str, ...]:
    found: list[str] = []
    while segment:
        end = segment.index("]") + 1 if segment[0] == "[" else 1
        found.append(segment[:end])
        segment = segment[end:]
    return tuple(found)


def meet(one: tuple[str, ...], other: tuple[str, ...], star: str, overlap: object) -> bool:
    """Walk two sequences at once, step by step, in all ways: the definition, with none of the code under test."""

    @cache
    def walk(i: int, j: int) -> bool:
        if i == len(one) and j == len(other):
            return True
        if i < len(one) and one[i] == star and (walk(i + 1, j) or (j < len(other) and walk(i, j + 1))):
            return True
        if j < len(other) and other[j] == star:
            return walk(i, j + 1) or (i < len(one) and walk(i + 1, j))
        stars = star in (one[i : i + 1] + other[j : j + 1])
        inside = i < len(one) and j < len(other) and not stars
        return inside and overlap(one[i], other[j]) and walk(i + 1, j + 1)  # type: ignore[operator]

    return walk(0, 0)


def segments_meet(one: str, other: str) -> bool:
    return meet(tokens(one), tokens(other), "*", lambda a, b: bool({*ALLOWED[a]} & {*ALLOWED[b]}))


@given(LONG_PATTERN, LONG_PATTERN)
@example("*a*a*b", "*a*a*c*a")
@example("a*b?*[ab]*", "abbbab")
@example("**/a?/**/?b/**", "a/ab/bb/b")
def test_long_patterns_meet_when_walking_both_says_so(one: str, other: str) -> None:
    expected = meet(tuple(one.split("/")), tuple(other.split("/")), DEEP, segments_meet)
    assert intersects(parse_pattern(one), parse_pattern(other)) is expected
    assert intersects(parse_pattern(other), parse_pattern(one)) is expected


@given(PATTERN, PATTERN)
def test_short_patterns_meet_when_walking_both_says_so(one: str, other: str) -> None:
    expected = meet(tuple(one.split("/")), tuple(other.split("/")), DEEP, segments_meet)
    assert intersects(parse_pattern(one), parse_pattern(other)) is expected


RUNS = st.lists(st.sampled_from(["*", "*", "?", "b", "[ab]"]), min_size=3, max_size=9).map("".join)


@given(RUNS.map(lambda text: text.replace("**", "*a")), st.text("aab", min_size=3, max_size=12))
@example("*b?*b?*", "bbbbb")
@example("*[ab]b*[ab]b*", "ababab")
def test_the_runs_of_a_glob_take_the_first_places_that_they_can(glob: str, name: str) -> None:
    """As characters of one segment, and as segments of a path."""
    expected = segments_meet(glob, name)
    assert intersects(parse_pattern(glob), parse_pattern(name)) is expected
    path = "/".join(tokens(glob)).replace("*", DEEP)
    assert intersects(parse_pattern(path), parse_pattern("/".join(name))) is expected


class Read(tuple[str, ...]):
    """Characters that count how often they are read from first to last."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        Read.times += 1
        return super().__iter__()


def test_the_characters_of_a_name_are_read_once_for_all_patterns() -> None:
    """Their places were found again for each pattern, which took longer than the comparison itself."""
    name = Segment("abab", Form(Read("abab"), None, (), 4), prefix="abab", suffix="abab")
    meets = comparing(msgspec.structs.replace(parse_pattern("abab"), form=Form((name,), None, (), 1)))
    Read.times = 0
    for text in ("*a?*", "*?b*", "*[ac]b*", "**/*[!c]?*", "*?c*"):
        assert meets(parse_pattern(text)) is ("?c" not in text)
    assert Read.times == 1


def escaped_segments_meet(one: str, other: str) -> bool:
    """Compare segments that may have an escaped wildcard, as a letter of its own."""
    plain = {"[?]": "d", "[*]": "e"}
    for escaped, letter in plain.items():
        one, other = one.replace(escaped, letter), other.replace(escaped, letter)
    allowed = ALLOWED | {"d": "d", "e": "e", "[!a]": "bcde", "[!c]": "abde"}
    return meet(tokens(one), tokens(other), "*", lambda a, b: bool({*allowed[a]} & {*allowed[b]}))


def noting(asked: list[tuple[str, str]]) -> Callable[[Pattern], Callable[[Pattern], bool]]:
    """Return the comparison of patterns, with a note of each pair."""

    def noted(one: Pattern) -> Callable[[Pattern], bool]:
        meets = comparing(one)

        def meet(other: Pattern) -> bool:
            asked.append((one.text, other.text))
            return meets(other)

        return meet

    return noted


class Counted:
    """Elements that are equal or not, and the number of steps that it took to find out."""

    def __init__(self) -> None:
        self.steps = 0

    def overlap(self, one: object, other: object) -> bool:
        self.steps += 1
        return one == other

    def places(self, elements: Sequence[object]) -> Places:
        counted = self

        class Counting(Places):
            def of(self, element: object, wanted: int, offset: int) -> int:
                counted.steps += 1
                return sum(1 << place for place, known in enumerate(elements) if known == element)

        return Counting(elements)

    def meet(self, one: str, other: str) -> bool:
        forms = [form_of([None if part == "*" else part for part in text]) for text in (one, other)]
        return forms_meet(forms[0], forms[1], self.overlap, self.places, 0, 0)


@pytest.mark.skipif(os.environ.get("TOCSIN_FORM") == "compiled", reason="compiled classes cannot be extended")
@pytest.mark.parametrize("size", [10, 100, 1000])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{a}*{stars}*b", "{a}*{stars}*c"),
        ("{a}*{stars}*{a}", "{a}*{stars}*{a}"),
        ("*{stars}*b*", "{a}{a}{a}"),
        ("*{a}b*", "{a}{a}{a}"),
        ("{a}*{a}b*{a}", "{a}{a}{a}{a}"),
    ],
)
def test_the_steps_to_compare_two_patterns_grow_with_their_length_only(one: str, other: str, size: int) -> None:
    """Two globs of many stars took a step for each pair of their characters, and a set for all of them."""
    texts = {"a": "a" * size, "stars": "*".join("a" * size)}
    counted = Counted()
    counted.meet(one.format(**texts), other.format(**texts))
    assert counted.steps <= len(one.format(**texts)) + len(other.format(**texts))


def test_a_pair_is_compared_once_however_often_it_is_asked_about() -> None:
    """A name is compared with each open pattern when it is first asked about, and never with other names."""
    asked: list[tuple[str, str]] = []
    used = UsedPatterns(noting(asked))
    for number in range(8):
        used.queue(f"**/{number}*/x", ("open", number))
    assert len(asked) == 8 * 9 // 2
    del asked[:]
    names = [f"a/{number}/x" for number in range(64)]
    for _ in range(3):
        for name in names:
            used.conflicting(name)
    for number, name in enumerate(names):
        used.queue(name, ("plain", number))
        used.hold(name, ("plain", number))
    for name in names:
        assert len(used.conflicting(name)) == 1 + (name[2] in "01234567")
    assert len(asked) == len({*asked}) == 8 * 64


def test_patterns_that_are_only_asked_about_are_not_all_kept() -> None:
    """Each new pattern is compared with the open ones that are in use, and others of at most 16 wildcards."""
    asked: list[tuple[str, str]] = []
    used = UsedPatterns(noting(asked))
    used.hold("**/x", ("lease", 0))
    for wildcards, kept in ((1, 16), (3, 5), (8, 2)):
        for number in range(100):
            used.conflicting(f"**/{number}{'?' * (wildcards - 1)}")
        del asked[:]
        used.conflicting(f"name{wildcards}")
        assert len(asked) == 1 + kept


def test_an_open_pattern_that_was_asked_about_comes_into_use_as_it_is() -> None:
    """The patterns of a whole request are kept from the question to the grant, and then no longer count as kept."""
    asked: list[tuple[str, str]] = []
    used = UsedPatterns(noting(asked))
    ordinary = [f"src/**/*.{number}" for number in range(8)]
    for _ in range(2):
        for text in ordinary:
            used.conflicting(text)
    for number, text in enumerate(ordinary):
        used.hold(text, ("lease", number))
    assert len(asked) == 8 * 9 // 2
    for number in range(16):
        used.conflicting(f"**/{number}")
    del asked[:]
    used.conflicting("name")
    assert len(asked) == 16 + 8


def test_a_comparison_with_several_patterns_keeps_the_places_of_each_segment_apart() -> None:
    """The same text is a name in one segment and a glob in another, and each is compared with many patterns."""
    for text in ("[?]b/?b", "a/aa/aba/b?", "ab[ab]/ab[!a]", "[*]/*a*b"):
        meets = comparing(parse_pattern(text))
        for other in ("*b*/**", "**/*?b", "*[ab]*a*/*b", "**/a?a*/**", "*[!a]*/*?*b*", "[?]?/**/[!c]?", "**/*a?*/*"):
            expected = meet(tuple(text.split("/")), tuple(other.split("/")), DEEP, escaped_segments_meet)
            assert meets(parse_pattern(other)) is expected, (text, other)


def test_what_was_taken_under_other_limits_is_replayed_and_can_be_released(new_team: NewTeam) -> None:
    """A history from before the limits holds more than they allow: it counts, but it is not undone."""
    limits = "wildcards_max: 1000, globs_between_max: 1000, open_length_max: 512, reach_max: 100000000"
    counts = "wildcards_per_lease_max: 10000, wildcards_per_agent_max: 10000, wildcards_in_all_max: 10000"
    team = new_team(f"leases: {{{limits}, {counts}, segment_length_max: 512}}")
    for agent in ("one", "two"):
        team.register(agent)
    before = tuple(f"*{'a*' * 100}{number}" for number in range(20))
    held = team.hold(cmd.AcquireLease(before), "one")
    waiting = team.wait_for_lease(cmd.AcquireLease(tuple(f"{name}*" for name in before), wait_s=600), "two")
    team.adopt(None)
    team.check_replay()
    for agent in ("one", "two"):
        assert team.refused(cmd.AcquireLease(("x?",)), agent).code == "E_ADMISSION_008"
        assert team.refused(cmd.AcquireLease((before[0],)), agent).code == "E_LEASE_005"
    team.ask(cmd.ReleaseLease(held.lease), "one", cmd.Released)
    assert [event.lease for event in team.happened(ev.LeaseGranted)] == [held.lease, waiting.lease]
    team.hold(cmd.AcquireLease(("x/**", "x.py", "x/*.py")), "one")
    team.ask(cmd.ReleaseLease(waiting.lease), "two", cmd.Released)
    assert not team.exchange.state.leases.wildcards_by_agent
    team.hold(cmd.AcquireLease(("x?",)), "one")


def test_the_wildcards_of_open_patterns_are_counted_while_they_are_held_or_waited_for(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two"):
        team.register(agent)
    book = team.exchange.state.leases
    first = team.hold(cmd.AcquireLease(("a/**/x", "c/**", "d/*.py"), ("b?",)), "one")
    second = team.wait_for_lease(cmd.AcquireLease(("a/**/[xy]",), wait_s=600), "two")
    assert (book.wildcards, book.wildcards_by_agent) == (4, {"one": 2, "two": 2})
    team.ask(cmd.ReleaseLease(resources=("b?", "c/**")), "one", cmd.Released)
    assert (book.wildcards, book.wildcards_by_agent) == (3, {"one": 1, "two": 2})
    team.ask(cmd.ReleaseLease(first.lease), "one", cmd.Released)
    assert (book.wildcards, book.wildcards_by_agent) == (2, {"two": 2})
    team.ask(cmd.ReleaseLease(second.lease), "two", cmd.Released)
    assert (book.wildcards, book.wildcards_by_agent) == (0, {})


def test_a_team_has_room_for_many_ordinary_patterns(new_team: NewTeam) -> None:
    """By default 8 patterns such as `src/**/*.py` in a lease, 16 of an agent, 32 in a project."""
    team = new_team()
    agents = ("one", "two", "three")
    for agent in agents:
        team.register(agent)
    for agent in agents[:2]:
        for lease in range(2):
            patterns = tuple(f"src/{agent}/**/*.{lease}{number}" for number in range(8))
            assert "wildcards" in team.refused(cmd.AcquireLease((*patterns, "src/*/*.md")), agent).detail
            team.hold(cmd.AcquireLease(patterns), agent)
        assert agent in team.refused(cmd.AcquireLease(("docs/**/*.md",)), agent).detail
    assert "the project" in team.refused(cmd.AcquireLease(("docs/**/*.md",)), "three").detail


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        *product(("a", "a/b.py", "a/**", "**", "*", "*.py", "a/b_*.py", "src/*", "[*]/a", "a/[[]b"), [False]),
        *product(("**/a", "a/**/b", "*/a", "a*/**", "a?", "a/[ab]", "*a*", "a/*b*c", "**/*"), [True]),
    ],
)
def test_what_is_open(text: str, is_open: bool) -> None:
    assert parse_pattern(text).is_open is is_open
