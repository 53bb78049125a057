"""Batches are cut into parts and put together again, over as many links as it takes."""

from __future__ import annotations

import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.effects import Batch, GroupDestroyed
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import CodecError, encode_batch
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.parts import (
    KEPT_MAX,
    Assemblies,
    Assembly,
    Cutter,
    Name,
    Numbered,
    read_name,
    write_name,
)
from crdtstream.replication.values.wire_values import WireError

ORIGIN = 1
NOTHING = VersionVector()


def batch(last: int = 1, size: int = 200, seed: int = 0) -> bytes:
    effect = GroupDestroyed((0, Random(seed).randbytes(size)), b"g")
    return encode_batch(Batch(ORIGIN, last, last, VersionVector({ORIGIN: last - 1}), [effect]))


def name_of(payload: bytes, last: int = 1) -> Name:
    return (ORIGIN, last, last, len(payload))


def cutter_of(payload: bytes, unfinished: list[wire.Unfinished], piece_bytes: int = 50) -> Cutter:
    cutter = Cutter()
    cutter.greet(unfinished)
    cutter.begin(payload, piece_bytes)
    return cutter


def held(assemblies: Assemblies, payload: bytes, bytes_held: int, last: int = 1) -> Assembly:
    """The first bytes of this batch have arrived."""
    assembly = assemblies.open(name_of(payload, last))
    assembly.add(0, payload[:bytes_held])
    return assembly


# Cutting and putting together


@given(data=st.data(), size=st.integers(1, 600))
def test_a_batch_arrives_over_links_that_are_cut(data: st.DataObject, size: int) -> None:
    """Each link carries some parts, of its own size, and each of them goes on where the last one stopped."""
    payload, assemblies = batch(size=size), Assemblies()
    sent = 0
    whole: bytes | None = None
    while whole is None:
        piece_bytes = data.draw(st.integers(1, 300))
        cutter = cutter_of(payload, assemblies.rows(), piece_bytes)
        for _ in range(data.draw(st.integers(1, 4))):
            part = cutter.part(0, piece_bytes)
            sent += len(part.payload)
            assembly = assemblies.open(read_name(part.batch, len(payload)))
            assemblies.add(assembly, part.offset_bytes, part.payload)
            assemblies.check()
            if assembly.whole is not None:
                whole = assembly.batch()[1]
                break
    assert whole == payload and sent == len(payload)


@given(data=st.data())
def test_links_that_bring_one_batch_at_once_share_its_bytes(data: st.DataObject) -> None:
    payload, assembly = batch(), Assembly(name_of(batch()))
    sizes = data.draw(st.lists(st.integers(1, 90), min_size=2, max_size=3))
    cutters = [cutter_of(payload, [], size) for size in sizes]
    while any(cutter.is_cutting() for cutter in cutters):
        at = data.draw(st.sampled_from([at for at, cutter in enumerate(cutters) if cutter.is_cutting()]))
        part = cutters[at].part(0, sizes[at])
        assembly.add(part.offset_bytes, part.payload)
        assembly.check()
    assert assembly.batch()[1] == payload


def test_another_batch_of_that_name_is_sent_from_its_start_and_drops_what_was_there() -> None:
    """Two processes that were cloned, memory and all, made both."""
    mine, other, assemblies = batch(seed=1), batch(seed=2), Assemblies()
    assembly = held(assemblies, mine, 100)
    cutter = cutter_of(other, assemblies.rows())
    while cutter.is_cutting():
        part = cutter.part(0, 50)
        assemblies.add(assembly, part.offset_bytes, part.payload)
        assemblies.check()
    assert assembly.batch()[1] == other


def test_a_batch_of_another_size_is_another_batch() -> None:
    assemblies = Assemblies()
    held(assemblies, batch(size=200), 100)
    assert cutter_of(batch(size=201), assemblies.rows()).part(0, 50).offset_bytes == 0


@pytest.mark.parametrize("held_bytes", [0, len(batch()), 1 << 60])
def test_a_peer_that_holds_nothing_or_everything_is_sent_all(held_bytes: int) -> None:
    row = wire.Unfinished(batch=write_name(name_of(batch())), held_bytes=held_bytes)
    assert cutter_of(batch(), [row]).part(0, 50).offset_bytes == 0


def test_an_interrupted_batch_goes_on_where_it_stopped() -> None:
    """A restart of what the peer is served comes between: what was sent on this link will have arrived."""
    payload = batch()
    cutter = cutter_of(payload, [])
    cutter.part(0, 50)
    cutter.stop()
    assert not cutter.is_cutting()
    cutter.begin(batch(last=2), 50)
    assert cutter.part(1, 500).offset_bytes == 0
    cutter.begin(payload, 50)
    assert cutter.part(1, 50).offset_bytes == 50
    cutter.stop()
    cutter.begin(payload, 50)
    assert cutter.part(1, 500).offset_bytes == 100
    cutter.begin(payload, 50)
    assert cutter.part(1, 50).offset_bytes == 0, "it was sent whole"


def test_a_batch_whose_parts_the_peer_dropped_begins_at_its_start() -> None:
    payload = batch()
    cutter = cutter_of(payload, [])
    cutter.part(0, 50)
    cutter.stop()
    cutter.forget()
    cutter.begin(payload, 50)
    assert cutter.part(1, 50).offset_bytes == 0


def test_a_peer_of_an_older_release_is_sent_numbered_parts_of_one_size_from_the_start() -> None:
    payload = batch()
    cutter, numbered = Cutter(), Numbered(1_000)
    cutter.begin(payload, 50)
    cutter.part(0, 50)
    cutter.stop()
    cutter.begin(payload, 50)
    parts: list[wire.Part] = []
    while cutter.is_cutting():
        parts.append(cutter.part(0, 10 + len(parts)))
    assert not any(part.HasField("batch") for part in parts)
    assert [numbered.add(part) for part in parts] == [None] * (len(parts) - 1) + [payload]


# What no sound peer sends


@pytest.mark.parametrize(("offset", "size"), [(101, 5), (50, 0), (100, 1_000), (1 << 40, 5)])
def test_a_part_out_of_place_is_refused(offset: int, size: int) -> None:
    assembly = held(Assemblies(), batch(), 100)
    with pytest.raises(WireError, match="a part of"):
        assembly.add(offset, bytes(size))


@pytest.mark.parametrize("name", [(1, 0, 0, 9), (1, 5, 4, 9), (256, 1, 1, 9), (1, 1, 1, 11)])
def test_a_name_of_no_batch_is_refused(name: Name) -> None:
    with pytest.raises(WireError):
        read_name(write_name(name), 10)


def test_a_batch_has_the_name_that_its_parts_say() -> None:
    assembly = Assembly((ORIGIN, 1, 2, len(batch())))
    with pytest.raises(WireError, match="before others"):
        assembly.batch()
    assembly.add(0, batch())
    with pytest.raises(CodecError, match="another name"):
        assembly.batch()


@pytest.mark.parametrize(("index", "count", "payload"), [(0, 0, b"x"), (2, 3, b"x"), (1, 4, b"x"), (1, 3, b"")])
def test_numbered_parts_out_of_order_are_refused(index: int, count: int, payload: bytes) -> None:
    numbered = Numbered(100)
    numbered.add(wire.Part(index=0, count=3, payload=b"abc"))
    with pytest.raises(WireError, match="part"):
        numbered.add(wire.Part(index=index, count=count, payload=payload))


def test_numbered_parts_take_their_bytes_and_no_more() -> None:
    numbered = Numbered(100_000)
    for index in range(10_000):
        numbered.add(wire.Part(index=index, count=1 << 31, payload=b"x"))
    assert numbered.held_bytes == 10_000
    assert sys.getsizeof(numbered._data) < 20_000
    numbered.add(wire.Part(index=0, count=1 << 31, payload=b"x"))
    assert numbered.held_bytes == 1, "a first part begins another batch"
    with pytest.raises(WireError, match="exceeds batch_bytes_max = 100000 bytes"):
        numbered.add(wire.Part(index=1, count=1 << 31, payload=b"x" * 100_000))


# What is kept, and for how long


def test_what_no_link_brings_is_kept_for_a_while() -> None:
    assemblies = Assemblies()
    used, idle = held(assemblies, batch(1), 10), held(assemblies, batch(2), 10, last=2)
    assemblies.tick({used}, 999, 1_000, NOTHING)
    idle.add(10, batch(2)[10:20])
    assemblies.tick({used}, 999, 1_000, NOTHING)
    assert assemblies.kept(()) == [used, idle]
    assemblies.tick({used}, 1, 1_000, NOTHING)
    assert assemblies.kept(()) == [used]


def test_what_came_by_another_route_is_not_kept() -> None:
    assemblies = Assemblies()
    held(assemblies, batch(1), 10)
    last = held(assemblies, batch(2), 10, last=2)
    assemblies.tick((), 0, 1_000, VersionVector({ORIGIN: 1}))
    assert assemblies.kept(()) == [last]


def test_what_is_kept_is_bounded_and_the_newest_stays() -> None:
    assemblies = Assemblies()
    made = [held(assemblies, batch(last), 10, last) for last in range(1, 6)]
    assemblies.bound({made[0]}, 25)
    assert assemblies.kept(()) == [made[0], *made[3:]]
    assemblies.bound((), -1)
    assert assemblies.kept(()) == made[4:]
    for last in range(10, 10 + 2 * KEPT_MAX):
        held(assemblies, batch(last), 1, last)
        assemblies.bound((), 1 << 20)
    assert len(assemblies.kept(())) == KEPT_MAX
