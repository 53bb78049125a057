"""What is put must fit into a batch that every region takes, and into messages between the regions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.partitions.values import INVALID, LIMIT, Refused
from crdtstream.settings.config import Limits
from tests.partitions.region_streams import STREAM, Regions

KIB = 1 << 10
LIMITS = Limits(segment_bytes_max=1 << 16)


@pytest.mark.parametrize("number", [1, 2])
def test_more_than_a_batch_is_refused_at_the_home_and_elsewhere(number: int) -> None:
    regions = Regions(2, limits=replace(LIMITS, batch_bytes_max=64 * KIB))
    with pytest.raises(Refused, match="batch_bytes_max = 65536 of region 1") as raised:
        regions.put(number, *[b"v" * 10 * KIB] * 8)
    assert raised.value.code == LIMIT
    assert [stamp.offset for stamp in regions.put(number, *[b"v" * 10 * KIB] * 4)] == [0, 1, 2, 3]


def test_a_call_that_the_home_does_not_take_is_not_sent() -> None:
    regions = Regions(2)
    link = regions.link(1, 2).number
    regions.node(2).exchange.forwarding.bound(link, 1, 64 * KIB)
    with pytest.raises(Refused, match="a call to the home region is limited to 32768 bytes") as raised:
        regions.put(2, b"v" * 40 * KIB)
    assert raised.value.code == INVALID
    assert regions.put(2, b"v" * 20 * KIB)


def test_what_cannot_be_answered_is_not_carried_out() -> None:
    regions = Regions(2)
    link = regions.link(1, 2).number
    regions.node(1).exchange.forwarding.bound(link, 2, 4 * KIB)
    with pytest.raises(Refused, match="100 messages cannot be answered in 2048 bytes") as raised:
        regions.put(2, *[b""] * 100)
    assert raised.value.code == LIMIT
    assert regions.values(1) == []
    assert len(regions.put(2, *[b""] * 50)) == 50


def test_many_stale_messages_are_numbered_again_in_several_batches() -> None:
    regions = Regions(2, limits=replace(LIMITS, batch_bytes_max=64 * KIB))
    regions.cut(1, 2)
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    for at in range(20):
        regions.put(1, b"%d" % at + b"v" * 8 * KIB)
    regions.put(2, b"w")
    regions.heal(1, 2)
    regions.live(5_000)
    assert len(regions.values(1)) == len(regions.values(2)) == 21
    assert regions.node(2).exchange.greeted() == [1]
