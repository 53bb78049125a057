"""The bounds that regions tell each other, and the smallest of them."""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.values.bounds import BatchBounds, PeerBounds, own_bounds
from crdtstream.settings.config import Limits

OWN, OTHER, NEWER, THIRD = 0x101, 0x102, 0x202, 0x103


def bounds_of(limit: int = 1 << 20) -> BatchBounds:
    return BatchBounds(1, Limits(batch_bytes_max=limit), Replica(OWN))


def test_a_release_that_tells_nothing_has_its_defaults() -> None:
    for told in (PeerBounds(), PeerBounds(wire.Hello().bounds)):
        assert (told.message_bytes_max, told.window_bytes, told.batch_bytes_max) == (4 << 20, 32 << 20, 2 << 30)
    bounds = bounds_of()
    assert not bounds.record(OTHER, 0)
    assert bounds.smallest({OTHER: 0}) == (1 << 20, 1)


def test_what_is_told_is_heard() -> None:
    limits = Limits(message_bytes_max=1 << 18, window_bytes=1 << 19, batch_bytes_max=1 << 21)
    told = PeerBounds(wire.Bounds.FromString(own_bounds(limits).SerializeToString()))
    assert (told.message_bytes_max, told.window_bytes, told.batch_bytes_max) == (1 << 18, 1 << 19, 1 << 21)
    assert told.message_bytes == 1 << 16


def test_the_smallest_of_the_newest_origins_counts() -> None:
    bounds = bounds_of()
    assert bounds.record(OTHER, 1 << 17) and not bounds.record(OTHER, 1 << 17)
    assert bounds.smallest({OTHER: 0}) == (1 << 17, 2)
    bounds.record(NEWER, 1 << 19)
    assert bounds.smallest({OTHER: 0, NEWER: 1}) == (1 << 19, 2), "its region started again with a higher limit"
    bounds.record(THIRD, 1 << 18)
    assert bounds.smallest({OTHER: 0, NEWER: 1, THIRD: 0}) == (1 << 18, 3)
    bounds.record(0x301, 1)
    assert bounds.smallest({OTHER: 0, NEWER: 1, THIRD: 0, 0x301: 9}) == (1 << 18, 3), "another process of this region"


def test_an_origin_that_nobody_counts_any_more_is_forgotten() -> None:
    bounds = bounds_of()
    bounds.record(OTHER, 1 << 17)
    bounds.fit({})
    assert bounds.told == {}
    assert bounds.of(OWN) == 1 << 20 and bounds.of(OTHER) == 0
