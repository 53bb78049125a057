"""IDs, ends of ranges and COUNT: what is read, and what Redis would say of the rest."""

from __future__ import annotations

import pytest

from crdtstream.commands import arguments
from crdtstream.commands.arguments import INVALID_ID, SYNTAX
from crdtstream.commands.integers import NOT_AN_INTEGER
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId
from tests.commands.parsing import refused, words

LAST = b"%d-%d" % ID_MAX


# IDs


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (b"-", ID_MIN, ID_MIN),
        (b"+", ID_MAX, ID_MAX),
        (b"5", (5, 0), (5, U64_MAX)),
        (b"5-3", (5, 3), (5, 3)),
        (b"(5-3", (5, 4), (5, 2)),
        (b"(5", (5, 1), (5, U64_MAX - 1)),
        (b"(5-0", (5, 1), (4, U64_MAX)),
        (b"007-01", (7, 1), (7, 1)),
        (b" 5-\t+3", (5, 3), (5, 3)),
        (LAST, ID_MAX, ID_MAX),
        (b"4294967296-9007199254740993", (2**32, 2**53 + 1), (2**32, 2**53 + 1)),
    ],
)
def test_ends_of_ranges(text: bytes, start: EntryId, end: EntryId) -> None:
    assert arguments.parse_range_start(text) == start
    assert arguments.parse_range_end(text) == end


@pytest.mark.parametrize(
    "text", [b"", b"(", b"(-", b"(+", b"x", b"-1", b"1-", b"1-2-3", b"1-x", b"1-*", b"18446744073709551616"]
)
def test_what_is_no_end_of_a_range(text: bytes) -> None:
    refused(lambda: arguments.parse_range_start(text), INVALID_ID)
    refused(lambda: arguments.parse_range_end(text), INVALID_ID)


def test_nothing_lies_outside_the_outermost_ids() -> None:
    refused(lambda: arguments.parse_range_start(b"(" + LAST), "ERR invalid start ID for the interval")
    refused(lambda: arguments.parse_range_end(b"(0-0"), "ERR invalid end ID for the interval")
    assert arguments.parse_range_end(b"(" + LAST) == (U64_MAX, U64_MAX - 1)


# Options


@pytest.mark.parametrize(
    ("line", "count"),
    [("", arguments.COUNT_ALL), ("COUNT 3", 3), ("count 0", 0), ("COUNT -7", 0), ("COUNT 1 COUNT 2", 2)],
)
def test_count(line: str, count: int) -> None:
    assert arguments.parse_count(words(line), 0) == count


@pytest.mark.parametrize(
    ("line", "text"),
    [("COUNT", SYNTAX), ("FOO 1", SYNTAX), ("COUNT 1 COUNT", SYNTAX), ("COUNT x", NOT_AN_INTEGER)],
)
def test_count_refuses(line: str, text: str) -> None:
    refused(lambda: arguments.parse_count(words(line), 0), text)
