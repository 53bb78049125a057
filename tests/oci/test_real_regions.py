"""Two regions: streams, cursors and groups are the same in both, and what a region cannot do says so."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.oci.sdk import DEADLINE_S, Clients, Gateway, gateways, oci


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Gateway]]:
    with gateways(tmp_path_factory.mktemp("pair"), 2) as both:
        yield both


def await_stream(clients: Clients, stream: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            clients.cursor(stream)
            return
        except oci.exceptions.ServiceError:
            assert time.monotonic() < end, "the stream does not come"


def test_a_consumer_moves_between_regions(pair: list[Gateway]) -> None:
    east, west = (Clients(gateway.url) for gateway in pair)
    stream = east.stream("orders", 1)
    await_stream(west, stream)
    assert west.put(stream, *[(None, str(number)) for number in range(10)]).failures == 0
    values, cursor = east.get_until(stream, east.cursor(stream), 10)
    assert values == [str(number) for number in range(10)]
    west.put(stream, (None, "more"))
    assert west.get_until(stream, cursor, 1)[0] == ["more"], "a cursor of one region is good in the other"
    _, group = east.get(stream, east.group_cursor(stream), limit=4)
    values, group = west.get(stream, group, limit=2)
    assert values == ["4", "5"]
    assert east.data.get_group(stream, "g").data.reservations[0].committed_offset == 3


def test_puts_fail_one_by_one_while_the_home_is_away(pair: list[Gateway]) -> None:
    east, west = (Clients(gateway.url) for gateway in pair)
    stream = east.stream("orders", 1)
    east.put(stream, (None, "before"))
    await_stream(west, stream)
    plain = west.cursor(stream)
    assert west.get_until(stream, plain, 1)[0] == ["before"]
    pair[0].region.kill()
    result = west.put(stream, (None, "a"), (None, "b"))
    assert result.failures == 2 and {row.error for row in result.entries} == {"ServiceUnavailable"}
    assert west.get(stream, plain)[0] == ["before"], "reads go on"
    pair[0].start(pair[1])
    pair[0].region.await_serving()
    end = time.monotonic() + DEADLINE_S
    while west.put(stream, (None, "after")).failures:
        assert time.monotonic() < end, "the home does not come back"
    assert west.get_until(stream, plain, 2)[0] == ["before", "after"]
