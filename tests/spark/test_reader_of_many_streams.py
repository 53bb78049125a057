"""Queries over so many streams that their offsets are packed, and positions raised."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from crdtstream.spark.offsets import PLAIN_ROWS, from_json, is_packed, to_json
from tests.spark.fake_regions import Regions
from tests.spark.support import options, rows_of, stream_reader, values_of

ALL = ReadAllAvailable()
STREAMS = 2 * PLAIN_ROWS


class Query:
    """A query that goes on from its offset; `read` counts what it has read."""

    def __init__(self, regions: Regions, **given: object) -> None:
        self.regions = regions
        self.given = {"streamsPattern": "s*", "maxPartitions": 2, **given}
        self.reader = stream_reader(regions, **self.given)
        self.read: Counter[bytes] = Counter()

    def begin(self) -> None:
        self.offset = kept(self.reader.initialOffset())

    def restart(self) -> None:
        self.reader = stream_reader(self.regions, **self.given)

    def step(self, limit: Any = ALL) -> int:
        """Run a micro-batch; return how many entries it read."""
        end = kept(self.reader.latestOffset(self.offset, limit))
        values = values_of(rows_of(self.reader, self.reader.partitions(self.offset, end)))
        self.offset = end
        self.read.update(values)
        return len(values)


def kept(offset: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(offset))
    return read


def added(regions: Regions, generator: random.Random, number: int) -> bytes:
    value = b"%d" % number
    regions[generator.choice([1, 2])].add(f"s{generator.randrange(STREAMS)}", value, skip=generator.randrange(3))
    return value


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(37)])
def test_each_entry_is_read_once(regions: Regions, limit: Any) -> None:
    generator = random.Random(5)
    query = Query(regions, startingOffsets="earliest")
    written = [added(regions, generator, number) for number in range(400)]
    query.begin()
    for number in range(400, 1000):
        written.append(added(regions, generator, number))
        if number % 60 == 0:
            regions.sync()
        if number % 50 == 0:
            query.step(limit)
        if number % 170 == 0:
            query.restart()
    regions.sync()
    while query.step(limit):
        pass
    assert is_packed(query.offset)
    assert query.read == Counter(written)


def test_an_idle_query_keeps_its_offset(regions: Regions) -> None:
    for number in range(STREAMS):
        regions[1].add(f"s{number}", b"%d" % number)
    query = Query(regions, startingOffsets="earliest")
    query.begin()
    assert query.step() == STREAMS
    offset = query.offset
    query.restart()
    assert query.step() == 0 and query.offset == offset
    assert len(set(map(str, from_json(offset).values()))) == 1
    regions[1].add("other", b"of no interest")
    assert query.step() == 0 and query.offset == offset


def test_a_query_goes_on_from_an_offset_of_an_earlier_release(regions: Regions) -> None:
    for number in range(STREAMS):
        regions[1].add(f"s{number}", b"%d" % number)
    query = Query(regions, startingOffsets="earliest")
    query.begin()
    query.step()
    query.offset = kept(to_json({f"s{number}": {regions[1].origin: number + 1} for number in range(STREAMS)}))
    regions[1].add("s3", b"new")
    query.read.clear()
    assert query.step() == 1 and query.read == Counter([b"new"])


def test_available_now_ends_where_it_began(regions: Regions) -> None:
    for number in range(STREAMS):
        regions[1].add(f"s{number}", b"%d" % number)
    query = Query(regions, startingOffsets="earliest")
    query.reader.prepareForTriggerAvailableNow()
    query.begin()
    regions[1].add("s3", b"late")
    regions[1].add("snew", b"late")
    while query.step(ReadMaxRows(50)):
        pass
    assert query.read == Counter(b"%d" % number for number in range(STREAMS))


def test_a_query_from_latest_reads_what_comes_later(regions: Regions) -> None:
    for number in range(STREAMS):
        regions[1].add(f"s{number}", b"old")
    query = Query(regions)
    query.begin()
    assert len(set(map(str, from_json(query.offset).values()))) == 1
    regions[1].add("s5", b"5")
    regions[1].add("snew", b"new")
    regions[2].add("s5", b"from another region")
    regions.sync()
    assert query.step() == 3
    assert query.step() == 0


def test_a_packed_offset_may_be_given_as_the_start(regions: Regions) -> None:
    for number in range(STREAMS):
        regions[1].add(f"s{number}", b"%d" % number)
    query = Query(regions, startingOffsets="earliest")
    query.begin()
    query.step()
    regions[1].add("s7", b"new")
    given = options(regions, streamsPattern="s*", startingOffsets=json.dumps(query.offset))
    assert given["startingOffsets"] == from_json(query.offset)
    again = Query(regions, startingOffsets=json.dumps(query.offset))
    again.begin()
    assert again.step() == 1 and again.read == Counter([b"new"])
