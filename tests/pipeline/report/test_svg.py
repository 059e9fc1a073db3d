"""Plots: well-formed, labelled, and with values at the right positions."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tocsin.pipeline.report.svg import Range, Series, legend, matrix, over_time, ranges

BARS = [1_772_409_600_000_000 + index * 60_000_000 for index in range(10)]
EVIL = '<script>alert("x")</script>&'


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314


def test_bars_stand_on_each_other_and_tell_their_values() -> None:
    series = [Series("fine", "s0", [0, 5, *[0] * 8]), Series(EVIL, "s1", [0, 15, *[0] * 8])]
    plot = over_time(BARS, 60, series, stacked=True, title="t")
    tree = parsed(plot)
    tops = [re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", path.get("d", "")) for path in tree.iter("path")]
    (x0, bottom, middle), (x1, again, top) = tops[0][0], tops[1][0]
    assert x0 == x1
    assert middle == again
    assert float(bottom) > float(middle) > float(top)
    assert abs((float(bottom) - float(middle)) * 4 - (float(bottom) - float(top))) < 0.5
    (told,) = [title.text for title in tree.iter("title")]
    assert told == f"2026-03-02 00:01\nfine: 5\n{EVIL}: 15"
    assert "<script>" not in plot


def test_a_line_is_broken_where_nothing_was_and_a_lone_value_is_a_dot() -> None:
    values = [None, 100, 1000, None, 50, None, None, 10, 20, 30]
    tree = parsed(over_time(BARS, 60, [Series("p99", "l3", values)], stacked=False, log=True, title="t"))
    (path,) = [path.get("d", "") for path in tree.iter("path")]
    assert path.count("M") == 2
    assert path.count("L") == 3
    assert len(list(tree.iter("circle"))) == 1


def test_steps_hold_until_the_next_bar() -> None:
    tree = parsed(over_time(BARS, 60, [Series("live", "s0", [3] * 10)], stacked=False, steps=True, title="t"))
    (path,) = [path.get("d", "") for path in tree.iter("path")]
    assert path.count("h") == 10


def test_nothing_is_no_plot() -> None:
    assert over_time([], 60, [], stacked=True) == ""
    assert over_time(BARS, 60, [Series("none", "s0", [None] * 10)], stacked=False, log=True) == ""
    assert ranges([], title="t") == ""
    assert matrix({}, title="t") == ""


@given(st.lists(st.tuples(*[st.integers(0, 10**12)] * 4), min_size=1, max_size=5))
def test_quantiles_are_inside_the_plot_and_in_order(rows: list[tuple[int, ...]]) -> None:
    ordered = [sorted(row[:3]) for row in rows]
    some = [Range(EVIL, low, mid, high, 1, row[3]) for (low, mid, high), row in zip(ordered, rows, strict=True)]
    tree = parsed(ranges(some, title="t"))
    for line in tree.iter("line"):
        assert 0 <= float(line.get("x1", "-1")) <= float(line.get("x2", "-1")) <= 560
    assert len(list(tree.iter("circle"))) == len(rows)


@given(
    st.dictionaries(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), st.integers(1, 10**9), min_size=1)
)
def test_the_matrix_has_a_cell_for_each_pair(cells: dict[tuple[str, str], int]) -> None:
    tree = parsed(matrix(cells, title="t"))
    names = {name for pair in cells for name in pair}
    assert len(list(tree.iter("rect"))) == len(names) ** 2
    assert len(list(tree.iter("title"))) == len(cells)
    most = max(cells.values())
    strongest = [rect for rect in tree.iter("rect") if "opacity:1.00" in rect.get("style", "")]
    assert len(strongest) >= list(cells.values()).count(most)


def test_a_legend_names_its_colours() -> None:
    text = legend([Series(EVIL, "dead", [])])
    assert "var(--dead)" in text
    assert "<script>" not in text
