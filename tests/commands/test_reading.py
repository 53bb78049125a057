"""MAXCOUNT and MAXSIZE of XREAD: what one reply holds of all its streams."""

from __future__ import annotations

import pytest

from tests.commands.group_region import NILA, array, bulk, entries, entry
from tests.commands.harness import Region


def of(name: str, *ids: str) -> bytes:
    return array(bulk(name), entries(*ids))


@pytest.fixture
def region() -> Region:
    made = Region()
    for name in ("s", "t", "u"):
        for number in range(1, 5):
            made.line(f"XADD {name} {number}-0 f v")
    return made


def test_maxcount_counts_all_streams(region: Region) -> None:
    assert region.line("XREAD MAXCOUNT 5 STREAMS s t u 0 2 0") == array(
        of("s", "1-0", "2-0", "3-0", "4-0"), of("t", "3-0")
    )
    two = of("s", "1-0", "2-0"), of("t", "1-0")
    assert region.line("XREAD COUNT 2 MAXCOUNT 3 STREAMS s t u 0 0 0") == array(*two)


ENTRY = len(entry("1-0"))
HEADER = len(array(bulk("s"), b"*1\r\n"))


@pytest.mark.parametrize(
    ("size", "ids"),
    [
        (1, ["1-0"]),
        (HEADER + ENTRY, ["1-0"]),
        (HEADER + 2 * ENTRY - 1, ["1-0"]),
        (HEADER + 2 * ENTRY, ["1-0", "2-0"]),
        (HEADER + 3 * ENTRY + 5, ["1-0", "2-0", "3-0"]),
        (HEADER + 4 * ENTRY, ["1-0", "2-0", "3-0", "4-0"]),
    ],
)
def test_maxsize_always_gives_one_entry(region: Region, size: int, ids: list[str]) -> None:
    assert region.line(f"XREAD MAXSIZE {size} STREAMS s t 0 0") == array(of("s", *ids))


def test_maxsize_reaches_into_later_streams(region: Region) -> None:
    size = 2 * HEADER + 6 * ENTRY
    expected = array(of("s", "1-0", "2-0", "3-0", "4-0"), of("t", "1-0", "2-0"))
    assert region.line(f"XREAD MAXSIZE {size} STREAMS s t u 0 0 0") == expected


def test_an_empty_reply_stays_empty(region: Region) -> None:
    assert region.line("XREAD MAXCOUNT 1 MAXSIZE 1 STREAMS s nokey 4 0") == NILA


def test_maxima_in_protocol_3(region: Region) -> None:
    region.client.protocol = 3
    assert region.line("XREAD MAXCOUNT 1 STREAMS s t 0 0") == b"%1\r\n" + bulk("s") + entries("1-0")
