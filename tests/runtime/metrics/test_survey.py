"""A walk sums up everything, and shows the largest within the bound."""

from __future__ import annotations

import pytest

from crdtstream.runtime.metrics import survey
from crdtstream.runtime.metrics.histogram import FAST_S, Histogram
from crdtstream.runtime.metrics.survey import GROUP_SERIES, STREAM_SERIES, Survey, SurveyedStream
from tests.commands.harness import Region

WAIT_S = 60.0


async def seen_in(region: Region, series_max: int = 1_000) -> SurveyedStream:
    seen = await Survey(region.replica.keyspace, Histogram(FAST_S)).look(series_max, WAIT_S)
    assert seen is not None
    return seen


def filled(streams: int) -> Region:
    """Streams s0 with no entry to sN with N, and a group of each of the last two."""
    region = Region()
    for number in range(streams):
        region.line(f"XGROUP CREATE s{number} g 0 MKSTREAM")
        for index in range(number):
            region.line(f"XADD s{number} {index + 1}-1 f v")
        if number < streams - 2:
            region.line(f"XGROUP DESTROY s{number} g")
        else:
            region.line(f"XREADGROUP GROUP g c COUNT 3 STREAMS s{number} >")
            region.line(f"XACK s{number} g 1-1")
    region.replica.acknowledge_all()
    return region


async def test_figures_of_streams_and_groups() -> None:
    seen = await seen_in(filled(6))
    assert [(one.key, one.length, one.added) for one in seen.streams[:2]] == [((0, b"s5"), 5, 5), ((0, b"s4"), 4, 4)]
    [five, four] = seen.groups
    assert (five.key, five.name, five.pending, five.lag, five.consumers) == ((0, b"s5"), b"g", 2, 2, 1)
    assert (five.deliveries, five.unacknowledged, four.unacknowledged) == (3, 4, 3)
    assert seen.streams[-1].tombstones > 0
    assert (seen.totals.streams, seen.totals.entries, seen.totals.pending) == (5, 15, 4), "s0 does not exist"
    assert seen.totals.tombstones == 4
    assert seen.omitted.streams == seen.omitted.entries == 0


async def test_repeated_deliveries_count() -> None:
    region = filled(4)
    region.line("XREADGROUP GROUP g c STREAMS s3 0")
    region.line("XCLAIM s3 g d 0 2-1")
    region.line("XAUTOCLAIM s3 g d 0 0 COUNT 1")
    [three, _] = (await seen_in(region)).groups
    assert three.deliveries == 3 + 2 + 1 + 1


@pytest.mark.parametrize("series_max", [0, 3, STREAM_SERIES, STREAM_SERIES + GROUP_SERIES, 20, 21, 40])
async def test_series_are_bounded_and_the_rest_is_summed_up(series_max: int) -> None:
    seen = await seen_in(filled(9), series_max)
    assert STREAM_SERIES * len(seen.streams) + GROUP_SERIES * len(seen.groups) <= series_max
    lengths = [one.length for one in seen.streams]
    assert lengths == list(range(8, 8 - len(lengths), -1)), "the longest"
    assert seen.omitted.streams == 8 - len(lengths)
    assert seen.omitted.entries == 36 - sum(lengths)
    assert seen.omitted.groups == seen.totals.groups - len(seen.groups)
    assert seen.omitted.pending == 4 - sum(one.pending for one in seen.groups)


async def test_of_one_length_those_that_were_used_last() -> None:
    region = Region()
    for number in range(8):
        region.replica.keyspace.now_ms += 1
        region.line(f"XADD s{number} 1-1 f v")
    region.replica.keyspace.now_ms += 1
    region.line("XLEN s3")
    assert [one.key[1] for one in (await seen_in(region, 2 * STREAM_SERIES)).streams] == [b"s3", b"s7"]


async def test_every_database_and_many_keys_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SLICE_S", 0.0)
    region = Region()
    for database in (0, 15):
        region.line(f"SELECT {database}")
        for number in range(200):
            region.line(f"XADD s{number} 1-1 f v")
    slices = Histogram(FAST_S)
    looking = Survey(region.replica.keyspace, slices)
    seen = await looking.look(100, WAIT_S)
    assert seen is not None and seen.totals.streams == 400 and len(seen.streams) == 25
    assert sum(slices.counts) >= 400 / survey.PAGE_KEYS


async def test_a_long_walk_shows_the_one_before_and_is_not_repeated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SLICE_S", 0.0)
    monkeypatch.setattr(survey, "SHARE", 1e-9)
    region = filled(3)
    looking = Survey(region.replica.keyspace, Histogram(FAST_S))
    assert await looking.look(100, 0.0) is None, "it goes on"
    first = await looking.look(100, WAIT_S)
    assert first is not None
    region.line("XADD new * f v")
    assert await looking.look(100, WAIT_S) is first
    await looking.stop()
