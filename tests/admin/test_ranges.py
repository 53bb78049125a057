"""Ranges that are longer than a page: every entry is compared, wherever regions lack some."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.admin import ranges
from crdtstream.admin.comparison import AGREE, DIFFER, UNREACHABLE
from crdtstream.admin.ranges import Range, compare_range, order
from crdtstream.admin.regions import Counterparts, Deadline
from crdtstream.observing.asking import RegionAnswer

PAGE = 3
Entry = tuple[int, str]


class FakeCounterparts(Counterparts):
    """Regions whose streams are lists of (seq, value), in order; None for one that does not answer."""

    def __init__(self, *streams: list[Entry] | None) -> None:
        self.deadline = Deadline(1)
        self.streams = streams
        self.asked = 0

    def ask(self, *words: str | bytes | int) -> list[RegionAnswer]:
        self.asked += 1
        assert words[0] == "XRANGE" and words[4] == "COUNT"
        start, count = 0 if words[2] == "-" else order(str(words[2]).encode())[1], int(words[5])
        return [self.answer(f"r{i}", stream, start, count) for i, stream in enumerate(self.streams, 1)]

    def answer(self, name: str, stream: list[Entry] | None, start: int, count: int) -> RegionAnswer:
        if stream is None:
            return RegionAnswer(name, error="down", unreachable=True)
        found = [[b"0-%d" % seq, [b"f", value.encode()]] for seq, value in stream if seq >= start]
        return RegionAnswer(name, found[:count])


@pytest.fixture(autouse=True)
def _short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "PAGE_ENTRIES", PAGE)


def compared(*streams: list[Entry] | None, shown: int = 100, most: int = 0) -> Range:
    return compare_range(FakeCounterparts(*streams), "s", "-", "+", shown, most)


def entries(*seqs: int) -> list[Entry]:
    return [(seq, "v") for seq in seqs]


def test_a_difference_behind_the_first_page_is_found() -> None:
    one, other = entries(*range(1, 20)), [*entries(*range(1, 15)), (15, "w"), *entries(*range(16, 20))]
    found = compared(one, other, shown=2)
    assert found.comparison().code == DIFFER
    assert [row.field for row in found.comparison().rows] == ["0-1", "0-2", "0-15"]
    assert found.summary() == "19 entries compared, 1 different, 3 shown"


def test_equal_ranges_agree_whatever_is_shown() -> None:
    found = compared(entries(*range(1, 20)), entries(*range(1, 20)), shown=1)
    assert (found.comparison().code, len(found.comparison().rows), found.compared) == (AGREE, 1, 19)


def test_what_one_region_lacks_at_the_end_is_found() -> None:
    found = compared(entries(*range(1, 8)), entries(1))
    assert found.comparison().code == DIFFER
    assert found.differing == 6


def test_a_page_of_one_id_is_got_over() -> None:
    found = compared([(1, str(number)) for number in range(7)], [(1, str(number)) for number in range(7)])
    assert (found.comparison().code, found.compared) == (AGREE, 7)


def test_a_bound_is_told() -> None:
    found = compared(entries(*range(1, 20)), entries(*range(1, 20)), most=5)
    assert (found.compared, found.complete) == (5, False)
    assert found.summary().endswith("; the range goes on")
    assert compared(entries(1, 2), entries(1, 2), most=2).complete
    assert compared([], [], most=2).complete


def test_the_time_for_the_command_ends_it() -> None:
    regions = FakeCounterparts(entries(*range(1, 20)), entries(*range(1, 20)))
    regions.deadline = Deadline(1e-9)
    found = compare_range(regions, "s", "-", "+", 100)
    assert (found.compared, found.complete, regions.asked) == (2, False, 1)
    assert found.summary().endswith("; the range goes on: wait longer with --timeout")


def test_a_region_that_does_not_answer_is_told_once() -> None:
    found = compared(entries(*range(1, 8)), None)
    rows = found.comparison().rows
    assert found.comparison().code == UNREACHABLE
    assert [row.field for row in rows] == ["error", *[f"0-{seq}" for seq in range(1, 8)]]
    assert compared(None).comparison().code == UNREACHABLE


streams = st.dictionaries(st.integers(1, 30), st.sampled_from("ab")).map(lambda found: sorted(found.items()))


@given(st.lists(streams, min_size=1, max_size=3), st.integers(0, 12))
def test_pages_compare_as_a_whole_does(held: list[list[Entry]], most: int) -> None:
    found = compared(*held, most=most)
    seqs = sorted({seq for stream in held for seq, _ in stream})
    chosen = seqs[:most] if most else seqs
    differing = [seq for seq in chosen if len({dict(stream).get(seq) for stream in held}) > 1]
    assert [row.field for row in found.comparison().rows] == [f"0-{seq}" for seq in chosen]
    assert [row.field for row in found.comparison().rows if row.differs] == [f"0-{seq}" for seq in differing]
    assert found.complete == (chosen == seqs)
