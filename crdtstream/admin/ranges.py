"""Compares a range of a stream in all regions, page by page, however long it is.

Regions may lack entries of each other anywhere, so pages of equal length end at different IDs. What is compared in one
step is a stretch of IDs that every region's page covers completely: all below the smallest last ID of a full page. The
next page begins with that ID, since several entries may have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from crdtstream.admin.comparison import (
    AGREE,
    DIFFER,
    UNREACHABLE,
    ComparisonRow,
    RegionComparison,
    compare,
)
from crdtstream.admin.regions import Counterparts
from crdtstream.observing.asking import RegionAnswer

PAGE_ENTRIES = 1_000


class Range:
    """The result: the first rows, at most `first_max`, and further ones that differ, at most `shown_max`."""

    def __init__(self, shown_max: int, first_max: int) -> None:
        self.shown_max = shown_max
        self.first_max = first_max
        self.compared = 0
        self.differing = 0
        self.complete = True
        self.is_late = False
        self._names: list[str] = []
        self._error: ComparisonRow | None = None
        self._first: list[ComparisonRow] = []
        self._later: list[ComparisonRow] = []
        self._codes: set[int] = {AGREE}

    def add(self, answers: list[RegionAnswer]) -> None:
        """Compare a stretch."""
        found = compare(answers)
        self._names = found.regions
        self._codes.add(found.code)
        has_error = any(answer.error for answer in answers)
        if has_error:
            self._error = found.rows[0]
        for row in sorted(found.rows[has_error:], key=place):
            self.compared += 1
            self.differing += row.differs
            if len(self._first) < self.first_max:
                self._first.append(row)
            elif row.differs and len(self._later) < self.shown_max:
                self._later.append(row)

    def comparison(self) -> RegionComparison:
        errors = [] if self._error is None else [self._error]
        code = max(self._codes, key=[AGREE, DIFFER, UNREACHABLE].index)
        return RegionComparison(self._names, [*errors, *self._first, *self._later], code)

    def summary(self) -> str:
        longer = ": wait longer with --timeout" if self.is_late else ""
        whole = "" if self.complete else f"; the range goes on{longer}"
        shown = len(self._first) + len(self._later)
        return f"{self.compared:,} entries compared, {self.differing:,} different, {shown:,} shown{whole}"


def compare_range(
    regions: Counterparts,
    key: str,
    start: str,
    end: str,
    shown_max: int,
    compared_max: int = 0,
    first_max: int | None = None,
) -> Range:
    """Compare entries of the range, at most `compared_max` of them; all if that is 0. It ends early where the time for
    the command does.
    """
    result = Range(shown_max, shown_max if first_max is None else first_max)
    for answers, left in stretches(regions, key, start, end):
        room = compared_max - result.compared if compared_max else -1
        fitting = first_of(answers, room) if compared_max else answers
        result.add(fitting)
        cut = [answer.value for answer in fitting] != [answer.value for answer in answers]
        result.is_late = left and regions.deadline.is_near()
        if cut or (left and (result.is_late or (compared_max and result.compared >= compared_max))):
            result.complete = False
            break
    return result


def stretches(regions: Counterparts, key: str, start: str, end: str) -> Iterator[tuple[list[RegionAnswer], bool]]:
    """Yield the entries of all regions between two IDs, stretch by stretch, and whether more may follow."""
    page = PAGE_ENTRIES
    while True:
        answers = regions.ask("XRANGE", key, start, end, "COUNT", page)
        ends = [answer.value[-1][0] for answer in answers if not answer.error and len(answer.value) == page]
        if not ends:
            yield answers, False
            return
        bound = min(ends, key=order)
        complete = [below(answer, bound) for answer in answers]
        if any(answer.value for answer in complete):
            start = bound.decode()
            yield complete, True
        else:
            # A whole page with one ID.
            page *= 2


def below(answer: RegionAnswer, bound: bytes) -> RegionAnswer:
    """Return the entries with IDs below this one."""
    if answer.error:
        return answer
    return RegionAnswer(answer.region, [entry for entry in answer.value if order(entry[0]) < order(bound)])


def first_of(answers: list[RegionAnswer], count: int) -> list[RegionAnswer]:
    """Cut the answers behind the first `count` IDs of all of them."""
    names = sorted({entry[0] for answer in answers if not answer.error for entry in answer.value}, key=order)
    return answers if len(names) <= count else [below(answer, names[count]) for answer in answers]


def place(row: ComparisonRow) -> tuple[tuple[int, int], int]:
    """Where a row belongs: by its ID, and behind others of that ID by its apostrophes."""
    entry_id = row.field.rstrip("'")
    return order(entry_id.encode()), len(row.field) - len(entry_id)


def order(entry_id: bytes) -> tuple[int, int]:
    ms, _, seq = entry_id.partition(b"-")
    return int(ms), int(seq)
