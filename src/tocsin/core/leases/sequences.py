"""Sequences with stars, and the test whether two of them can be the same.

Theory of operation. A star is any number of elements. The elements of a segment are its characters and classes, those
of a pattern are its segments; what it means that two elements overlap is for the caller to say.

Two sequences that both have a star meet if their heads do, as far as the shorter one goes, and their tails do: what
begins with the longer head and ends with the longer tail can have in between first what the middle of one asks for and
then what the middle of the other does, because each has a star for what is not its own.

If only one has a star, the other has a fixed length. The head and the tail of the first are compared with its ends, and
each run of the middle takes the first place, after the run before it, where all its elements fit. The places where an
element fits are the bits of one integer, so a run costs a shift and an `and` for each of its elements.
"""

from collections.abc import Callable, Sequence

import msgspec

__all__ = ["Form", "Places", "form_of", "forms_meet"]


class Form(msgspec.Struct, frozen=True):
    """A sequence, split at its stars."""

    #: Elements before the first star; all of them if there is no star.
    head: Sequence[object]
    #: Elements between each star and the next; null if there is no star.
    middle: tuple[Sequence[object], ...] | None = None
    #: Elements after the last star.
    tail: Sequence[object] = ()
    #: Number of elements, stars aside.
    size: int = 0


def form_of(elements: Sequence[object]) -> Form:
    """Split elements at their stars, which are null."""
    runs: list[list[object]] = [[]]
    for element in elements:
        if element is None:
            runs.append([])
        else:
            runs[-1].append(element)
    size = sum(map(len, runs))
    if len(runs) == 1:
        return Form(tuple(runs[0]), None, (), size)
    return Form(tuple(runs[0]), tuple([tuple(run) for run in runs[1:-1] if run]), tuple(runs[-1]), size)


class Places:
    """A sequence of fixed length, in which runs of elements are placed."""

    def __init__(self, elements: Sequence[object]) -> None:
        self.elements = elements
        self.size = len(elements)

    def first(self, run: Sequence[object], start: int, end: int) -> int:
        """Return the first place where a run fits between a start and an end, or -1."""
        last = end - len(run)
        if last < start:
            return -1
        fitting = ((1 << (last + 1)) - 1) >> start << start
        for offset, element in enumerate(run):
            fitting &= self.of(element, fitting, offset) >> offset
            if not fitting:
                return -1
        return (fitting & -fitting).bit_length() - 1

    def of(self, element: object, wanted: int, offset: int) -> int:
        """Return the places of an element; those that are not wanted, shifted by the offset, need not be right."""
        raise NotImplementedError


def forms_meet(
    one: Form,
    other: Form,
    overlap: Callable[[object, object], bool],
    places: Callable[[Sequence[object]], Places],
    begin: int,
    end: int,
) -> bool:
    """Return whether two sequences meet; `begin` and `end` elements at their ends are known to do so."""
    if one.middle is None:
        one, other = other, one
    fixed = other.middle is None
    if fixed and (other.size < one.size or (one.middle is None and other.size > one.size)):
        return False
    for place in range(begin, min(len(one.head), len(other.head))):
        if not overlap(one.head[place], other.head[place]):
            return False
    tail = other.head if fixed else other.tail
    for place in range(end + 1, min(len(one.tail), len(tail)) + 1):
        if not overlap(one.tail[-place], tail[-place]):
            return False
    if not fixed or not one.middle:
        return True
    whole = places(other.head)
    start, stop = len(one.head), other.size - len(one.tail)
    for run in one.middle:
        start = whole.first(run, start, stop)
        if start < 0:
            return False
        start += len(run)
    return True
