"""Window accounting of batches and of their parts, without a session around them."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Batch, GroupDestroyed
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import decode_header, encode_batch
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.intake import Intake
from crdtstream.replication.links.parts import Assemblies, write_name
from crdtstream.replication.values.wire_values import WireError

ORIGIN = 1


def numbered(index: int, count: int, payload: bytes, restart: int = 0) -> wire.Part:
    return wire.Part(restart=restart, index=index, count=count, payload=payload)


def batch(last: int, key: bytes = b"k" * 50) -> bytes:
    effect = GroupDestroyed((0, key), b"g")
    return encode_batch(Batch(ORIGIN, last, last, VersionVector({ORIGIN: last - 1}), [effect]))


def named(payload: bytes, begin: int, end: int, restart: int = 0) -> wire.Part:
    header = decode_header(payload)
    name = write_name((header.origin, header.first, header.last, len(payload)))
    return wire.Part(restart=restart, batch=name, offset_bytes=begin, payload=payload[begin:end])


def test_bytes_are_consumed_in_order_of_arrival() -> None:
    intake = Intake(Assemblies(), 100)
    intake.record(1, 5, 10, 0)
    intake.record(2, 1, 20, 0)
    intake.discount(VersionVector({1: 4, 2: 1}))
    assert intake.consumed_bytes == 0
    intake.discount(VersionVector({1: 5}))
    assert intake.consumed_bytes == 10
    intake.discount(VersionVector({1: 5, 2: 1}))
    assert intake.consumed_bytes == 30
    intake.check()


def test_a_restart_forgets_what_waited_and_what_is_still_coming() -> None:
    intake = Intake(Assemblies(), 100)
    intake.record(1, 1, 10, 0)
    assert intake.begin() == 1
    intake.record(1, 2, 10, 0)
    assert intake.add(numbered(0, 2, b"old"), VersionVector()) is None
    intake.record(1, 3, 5, 1)
    intake.discount(VersionVector({1: 3}))
    assert intake.consumed_bytes == 5


def test_all_bytes_of_a_batch_in_parts_but_those_of_the_last_are_consumed_at_once() -> None:
    whole, nothing = batch(1), VersionVector()
    intake = Intake(Assemblies(), 1_000)
    assert intake.add(named(whole, 0, 10), nothing) is None
    assert intake.add(named(whole, 10, 30), nothing) is None
    assert intake.consumed_bytes == 30
    added = intake.add(named(whole, 30, len(whole)), nothing)
    assert added is not None and added[1] == whole and added[0].last == 1
    intake.discount(nothing)
    assert intake.consumed_bytes == 30
    intake.discount(VersionVector({ORIGIN: 1}))
    assert intake.consumed_bytes == len(whole)
    intake.check()


def test_numbered_parts_are_consumed_alike() -> None:
    whole, nothing = batch(1), VersionVector()
    intake = Intake(Assemblies(), 1_000)
    assert intake.add(numbered(0, 2, whole[:30]), nothing) is None
    added = intake.add(numbered(1, 2, whole[30:]), nothing)
    assert added is not None and added[1] == whole
    intake.discount(VersionVector({ORIGIN: 1}))
    assert intake.consumed_bytes == len(whole)


def test_parts_of_a_batch_that_is_applied_are_counted_and_not_kept() -> None:
    """It came by another link before this one began, so the first bytes are nowhere any more."""
    whole, assemblies = batch(1), Assemblies()
    intake = Intake(assemblies, 1_000)
    for begin in range(20, len(whole), 10):
        assert intake.add(named(whole, begin, begin + 10), VersionVector({ORIGIN: 1})) is None
    intake.discount(VersionVector({ORIGIN: 1}))
    assert intake.consumed_bytes == len(whole) - 20
    assert assemblies.rows() == [] and intake.assembly is None


def test_the_slower_of_two_links_brings_the_batch_too() -> None:
    """So it stays, at the expense of the slower link, if the inbox must drop what the faster one brought."""
    whole, assemblies, nothing = batch(1), Assemblies(), VersionVector()
    fast, slow = Intake(assemblies, 1_000), Intake(assemblies, 1_000)
    slow.add(named(whole, 0, 10), nothing)
    assert fast.add(named(whole, 10, len(whole)), nothing) is not None
    assert slow.add(named(whole, 10, 20), nothing) is None
    added = slow.add(named(whole, 20, len(whole)), nothing)
    assert added is not None and added[1] == whole
    assert slow.consumed_bytes == 20 and fast.consumed_bytes == 0


def test_a_batch_that_comes_twice_counts_at_once_and_is_not_remembered() -> None:
    intake = Intake(Assemblies(), 100)
    for _ in range(1_000):
        intake.record(1, 2, 10, 0)
    assert intake.consumed_bytes == 9_990 and len(intake._waiting) == 1
    intake.discount(VersionVector({1: 2}))
    assert intake.consumed_bytes == 10_000
    intake.check()


def test_a_part_of_a_batch_that_is_too_large_is_refused() -> None:
    with pytest.raises(WireError, match="exceeds batch_bytes_max = 10 bytes"):
        Intake(Assemblies(), 10).add(named(batch(1), 0, 5), VersionVector())


def test_a_peer_that_goes_on_where_nothing_is_kept_is_asked_for_all_of_it() -> None:
    """It was interrupted, another link brought the batch meanwhile, and that was dropped for lack of room."""
    whole, nothing = batch(1), VersionVector()
    assemblies = Assemblies()
    intake = Intake(assemblies, 1_000)
    assert intake.add(named(whole, 20, 40), nothing) is None
    assert intake.add(named(whole, 40, len(whole)), nothing) is None
    assert intake.consumed_bytes == 20 and not assemblies.rows(), "the rest is passed over"
    assert not intake.asks_again
    intake.ask_again()
    assert intake.asks_again
    restart = intake.begin()
    assert not intake.asks_again
    assert intake.add(named(whole, 0, 40, restart), nothing) is None
    with pytest.raises(WireError, match="begins at byte 50 of a batch"):
        intake.add(named(whole, 50, 60, restart), nothing)
    assert intake.add(named(whole, 40, len(whole), restart), nothing) is not None


def test_a_peer_that_goes_on_beyond_what_another_link_has_begun_is_asked_for_all_of_it() -> None:
    """It was interrupted, what it had brought was dropped for lack of room, and another link began the batch."""
    whole, nothing, assemblies = batch(1), VersionVector(), Assemblies()
    one, other = Intake(assemblies, 1_000), Intake(assemblies, 1_000)
    assert other.add(named(whole, 0, 10), nothing) is None
    assert one.add(named(whole, 20, 30), nothing) is None
    assert one.dropped and one.parts_dropped and not other.dropped
    restart = one.begin()
    assert not one.parts_dropped
    assert one.add(named(whole, 30, 40, restart - 1), nothing) is None, "it was sent before the restart"
    assert not one.dropped and not one.parts_dropped
    assert other.add(named(whole, 10, 20), nothing) is None, "what the other link brings stays"
    assert one.add(named(whole, 0, 40, restart), nothing) is None
    added = other.add(named(whole, 20, len(whole)), nothing)
    assert added is not None and added[1] == whole
    one.check()
    other.check()


def test_a_drop_of_whole_batches_drops_no_parts() -> None:
    intake = Intake(Assemblies(), 1_000)
    intake.drop()
    assert intake.dropped and not intake.parts_dropped
