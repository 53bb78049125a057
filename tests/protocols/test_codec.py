"""The codec: everything comes back as it went in, and bad bytes raise one error that says what was wrong."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crdtstream.core import effects as fx
from crdtstream.core.effects import Batch, Effect, EntriesAdded, GroupDestroyed, Position
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.local_facts import (
    ConsumerCreated,
    ConsumerDeleted,
    EntriesDelivered,
    LocalFact,
    PendingClaimed,
    PendingDropped,
    PlaceSet,
    PositionRaised,
    PositionSet,
    ProducerRecorded,
    ProducersConfigured,
)
from crdtstream.core.values.causality import ORIGIN_MAX, RANDOM_BITS, VersionVector, origin_of, region_of
from crdtstream.core.values.entry_id import U64_MAX, EntryId
from crdtstream.core.values.intervals import Interval
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.protocols.codec import (
    FORMAT_VERSION,
    OLDEST_FORMAT,
    CodecError,
    batch_parts,
    decode_batch,
    decode_facts,
    decode_founder,
    decode_gap,
    decode_header,
    decode_joined,
    decode_stable,
    decode_staged,
    decode_start,
    encode_batch,
    encode_facts,
    encode_founder,
    encode_gap,
    encode_joined,
    encode_stable,
    encode_staged,
    encode_start,
)
from crdtstream.protocols.effect_rows import effect_row
from tests.effort import examples

DECODERS: list[Callable[[bytes], object]] = [
    decode_batch,
    decode_header,
    decode_facts,
    decode_founder,
    decode_start,
    decode_staged,
    decode_joined,
    decode_gap,
    decode_stable,
]

edges = st.sampled_from([2**32 - 1, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, U64_MAX])
u64 = st.integers(0, 5) | edges
counters = st.integers(1, 5) | edges
tallies = st.integers(-3, 3) | st.sampled_from([-(2**62), 2**53, 2**63 - 1])
random_bits = st.integers(0, 3) | st.integers(0, 2**RANDOM_BITS - 1)
origins = st.builds(origin_of, st.integers(1, 255), random_bits)
names = st.binary(max_size=4)
keys = st.tuples(st.integers(0, 15), names)
entry_ids: st.SearchStrategy[EntryId] = st.tuples(u64, u64)
intervals = st.lists(entry_ids, min_size=2, max_size=2, unique=True).map(lambda ids: (min(ids), max(ids)))
interval_sets = st.dictionaries(origins, st.lists(intervals, max_size=3), max_size=3)
counter_ranges = st.tuples(counters, counters).map(lambda pair: (min(pair), max(pair)))
positions = st.builds(Position, entry_ids, st.dictionaries(origins, entry_ids, max_size=3))


def block_of(ids: list[EntryId], counter: int, value: bytes = b"v") -> Block:
    block = Block()
    for index, entry_id in enumerate(ids):
        block.append(entry_id, counter + index, encode_entry(entry_id, [b"f", value * index]))
    return block


@st.composite
def entries_added(draw: st.DrawFn, counter: int) -> EntriesAdded:
    """A slice of a block whose counters from `low` on are those of the effect."""
    ids = sorted(draw(st.sets(entry_ids, min_size=1, max_size=6)))
    low = draw(st.integers(0, len(ids) - 1))
    high = draw(st.integers(low + 1, len(ids)))
    first = draw(st.integers(1, counter))
    before = draw(st.integers(0, counter - first))
    block = block_of(ids, counter - low if counter > low else counter)
    return EntriesAdded(draw(keys), first, before, block, low, high)


def evicted(origin: int, through: int, successor: int | None) -> fx.MemberEvicted:
    return fx.MemberEvicted(origin, through, 0 if successor is None else origin_of(region_of(origin), successor))


def single_effects() -> st.SearchStrategy[Effect]:
    return st.one_of(
        st.builds(
            fx.EntriesRemoved,
            keys,
            st.dictionaries(origins, st.lists(counter_ranges, max_size=3), max_size=3),
            st.booleans(),
            st.none() | entry_ids,
            interval_sets,
        ),
        st.builds(fx.StreamDeleted, keys, st.dictionaries(origins, st.tuples(u64, u64), max_size=3)),
        st.builds(fx.StreamIdSet, keys, entry_ids, st.none() | entry_ids, st.none() | tallies, u64),
        st.builds(fx.GroupCreated, keys, names, positions, st.integers(-1, 3)),
        st.builds(fx.GroupDestroyed, keys, names),
        st.builds(fx.ExpirySet, keys, u64),
        st.builds(fx.StreamPropertiesSet, keys, counters, st.dictionaries(names, names, max_size=3)),
        st.builds(fx.AddCounted, keys, st.just(1), st.just(0)),
        st.builds(fx.EntryNamed, keys, st.binary(max_size=9), st.binary(max_size=9), st.integers(0, 2**64 - 1)),
        st.builds(fx.MemberJoined, origins),
        st.builds(evicted, origins, u64, st.none() | random_bits),
        st.builds(fx.MemberAdmitted, origins, counters, st.booleans()),
        st.just(fx.MemberAdmitted(0, 0, False)),
        st.builds(fx.Acknowledged, keys, names, st.lists(st.tuples(origins, counters), max_size=3), interval_sets),
    )


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    origin = draw(origins)
    first = counter = draw(st.sampled_from([1, 2, 2**32, 2**53 + 1, U64_MAX - 40]))
    effects: list[Effect] = []
    for adds in draw(st.lists(st.booleans(), min_size=1, max_size=5)):
        effects.append(draw(entries_added(counter)) if adds else draw(single_effects()))
        counter += effects[-1].width
    context = VersionVector(draw(st.dictionaries(origins, counters, max_size=4)) | {origin: first - 1})
    return Batch(origin, first, counter - 1, context, effects)


def facts() -> st.SearchStrategy[LocalFact]:
    times = st.integers(-(2**62), 2**63 - 1)
    pieces = interval_sets.map(OriginIntervals.of)
    claims = st.lists(st.tuples(origins, entry_ids, times, u64), max_size=3)
    return st.one_of(
        st.builds(ConsumerCreated, keys, names, names, u64),
        st.builds(ConsumerDeleted, keys, names, names),
        st.builds(EntriesDelivered, keys, names, names, u64, pieces, st.booleans(), st.integers(-1, 3)),
        st.builds(PendingClaimed, keys, names, names, claims),
        st.builds(PendingDropped, keys, names, pieces),
        st.builds(PositionSet, keys, names, positions, st.integers(-1, 3)),
        st.builds(PositionRaised, keys, names, entry_ids),
        st.builds(ProducerRecorded, keys, names, names, entry_ids, u64, st.integers(-(2**40), 2**40), u64),
        st.builds(PlaceSet, keys, names, positions, interval_sets, interval_sets, interval_sets, st.integers(-1, 3)),
        st.builds(ProducersConfigured, keys, st.none() | u64, st.none() | u64),
    )


def values_of(value: Effect | LocalFact) -> tuple[object, ...]:
    """All that a value says, comparable; entries as (ID, counter, bytes)."""
    if isinstance(value, EntriesAdded):
        block = value.block
        rows = [(block.id_at(i), block.entry(i)) for i in range(value.low, value.high)]
        return (EntriesAdded, value.key, value.first, value.before, rows)
    names = sorted(name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
    return (type(value), *(getattr(value, name) for name in names))


def header_bytes(*values: object) -> bytes:
    return bytes(msgpack.packb(values))


def batch_of(*effects: Effect, first: int = 1) -> Batch:
    width = sum(effect.width for effect in effects)
    return Batch(1, first, first + width - 1, VersionVector({1: first - 1}), list(effects))


DESTROYED = GroupDestroyed((0, b"s"), b"g")


# Round trips


@given(batches())
def test_a_batch_comes_back(batch: Batch) -> None:
    payload = encode_batch(batch)
    back = decode_batch(payload)
    back.check()
    assert (back.origin, back.first, back.last, back.context) == (batch.origin, batch.first, batch.last, batch.context)
    assert [values_of(effect) for effect in back.effects] == [values_of(effect) for effect in batch.effects]
    assert encode_batch(back) == payload


@given(batches())
def test_a_header_is_read_without_the_effects(batch: Batch) -> None:
    header = decode_header(encode_batch(batch))
    assert (header.origin, header.first, header.last) == (batch.origin, batch.first, batch.last)
    assert header.context == batch.context


@given(batches())
def test_decoded_blocks_begin_at_zero_and_count_up(batch: Batch) -> None:
    back = decode_batch(encode_batch(batch))
    counter = back.first
    for effect in back.effects:
        if isinstance(effect, EntriesAdded):
            effect.block.check()
            assert (effect.low, effect.high) == (0, effect.block.count)
            assert list(effect.block.counters(0, effect.block.count)) == list(
                range(counter, counter + effect.block.count)
            )
        counter += effect.width


@pytest.mark.parametrize("low", [0, 1, 300])
def test_a_long_slice(low: int) -> None:
    block = block_of([(5, index) for index in range(700)], 1)
    back = decode_batch(encode_batch(batch_of(EntriesAdded((0, b"s"), 1, 0, block, low, 700), first=low + 1)))
    effect = back.effects[0]
    assert isinstance(effect, EntriesAdded)
    effect.block.check()
    assert effect.block.data() == block.entry_slice(low, 700)
    assert list(effect.block.counters(0, effect.block.count)) == list(range(low + 1, 701))


@pytest.mark.parametrize("size", [100, 4_000, 4_096, 30_000, 65_535, 65_536, 70_000])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_large_entries_are_encoded_as_small_ones_are(size: int, count: int) -> None:
    block = Block()
    for index in range(1, 2 * count + 1):
        block.append((5, index), index, encode_entry((5, index), [b"f", bytes(size // count)]))
    small = EntriesAdded((0, b"s"), 1, 0, block, 0, count)
    batch = batch_of(small, DESTROYED, EntriesAdded((0, b"s"), 1, count, block, count, 2 * count))
    parts = batch_parts(batch)
    rows = [(1, batch.first, batch.last, b""), *[effect_row(effect) for effect in batch.effects]]
    assert b"".join(parts) == b"".join([msgpack.packb(row) for row in rows])
    assert decode_batch(b"".join(parts)).last == batch.last


def test_large_values_are_not_copied() -> None:
    block = Block()
    block.append((5, 1), 1, encode_entry((5, 1), [b"f", bytes(10_000)]))
    assert any(part is block.chunks[0] for part in batch_parts(batch_of(EntriesAdded((0, b"s"), 1, 0, block, 0, 1))))


def test_a_header_longer_than_its_prefix() -> None:
    context = VersionVector({256 * start + 2: 2**63 for start in range(200)})
    header = decode_header(encode_batch(Batch(1, 1, 1, context, [DESTROYED])))
    assert header.context == context


@given(st.lists(st.tuples(u64, facts()), max_size=5), u64)
def test_facts_come_back(rows: list[tuple[int, LocalFact]], through: int) -> None:
    payload = encode_facts(rows, through)
    back, end = decode_facts(payload)
    assert [(stamp, values_of(fact)) for stamp, fact in back] == [(stamp, values_of(fact)) for stamp, fact in rows]
    assert end == through
    assert encode_facts(back, end) == payload


@given(origins, u64)
def test_a_start_and_a_founder_come_back(origin: int, count: int) -> None:
    assert decode_start(encode_start(origin, count)) == (origin, count)
    assert decode_founder(encode_founder(origin)) == origin


@pytest.mark.parametrize("origin", [0, 256, ORIGIN_MAX + 1, 2**63 + 1])
def test_a_start_or_a_founder_that_is_no_origin_is_refused(origin: int) -> None:
    with pytest.raises(CodecError, match=f"origin: {origin} is not an origin"):
        decode_start(encode_start(origin, 0))
    with pytest.raises(CodecError, match=f"founder: {origin} is not an origin"):
        decode_founder(encode_founder(origin))


def test_a_context_is_written_without_its_own_part() -> None:
    """The first counter says it, whether the writer kept it or not."""
    spared, kept = (Batch(1, 5, 5, VersionVector({2: 7, **own}), [DESTROYED]) for own in ({}, {1: 4}))
    assert encode_batch(spared) == encode_batch(kept)
    assert decode_batch(encode_batch(spared)).context == VersionVector({1: 4, 2: 7})


# Bad bytes


@given(st.binary(max_size=80), st.sampled_from(DECODERS))
@example(b"\x93\x01\xc4\x01\xff\xc4\x01\xff", decode_start)
@example(b"\x91" * 3000, decode_batch)
@example(b"\xd7\xff" + bytes(8), decode_batch)
@example(b"\xc7\x0c\xff" + b"\xff" * 12, decode_facts)
@example(b"\x81\x91\x01\x01", decode_batch)
def test_random_bytes_raise_nothing_else(raw: bytes, decode: Callable[[bytes], object]) -> None:
    try:
        decode(raw)
    except CodecError as error:
        assert str(error)


@given(batches(), st.data())
def test_a_damaged_batch_raises_nothing_else(batch: Batch, data: st.DataObject) -> None:
    payload = bytearray(encode_batch(batch))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_batch(bytes(payload)).check()
    except CodecError as error:
        assert str(error)


@given(st.lists(st.tuples(u64, facts()), min_size=1, max_size=3), st.data())
def test_damaged_facts_raise_nothing_else(rows: list[tuple[int, LocalFact]], data: st.DataObject) -> None:
    payload = bytearray(encode_facts(rows, 1))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_facts(bytes(payload))
    except CodecError as error:
        assert str(error)


@settings(max_examples=examples(100))
@given(batches())
def test_a_batch_cut_short_is_refused_at_every_length(batch: Batch) -> None:
    payload = encode_batch(batch)
    for length in range(len(payload)):
        with pytest.raises(CodecError):
            decode_batch(payload[:length])


@given(batches(), st.binary(min_size=1, max_size=3))
def test_what_follows_a_batch_is_refused(batch: Batch, rest: bytes) -> None:
    with pytest.raises(CodecError, match="follow the last row"):
        decode_batch(encode_batch(batch) + rest)


ENTRIES_HEADER = header_bytes(1, 5, 5, b"")
ONE = (5).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "empty"),
        (header_bytes(256, 1, 1, b""), "256 is not an origin"),
        (header_bytes(0, 1, 1, b""), "0 is not an origin"),
        (header_bytes(1, 0, 1, b""), "begin at 1"),
        (header_bytes(1, 2, 1, b""), "below the first"),
        (header_bytes(True, 1, 1, b""), "expected an integer, not bool"),
        (header_bytes(1, 1, 1), "row of 4"),
        (header_bytes(1, 1, 1, b"12345678"), "not a whole number of 16-byte rows"),
        (header_bytes(1, 2, 2, (1).to_bytes(8, "little") * 2), "in a batch of origin 1"),
        (header_bytes(1, 1, 1, ((2).to_bytes(8, "little") * 2) * 2), "origin 2 comes after origin 2"),
        (header_bytes(1, 1, 1, b""), "ends early"),
        (header_bytes(1, 1, 1, b"") + header_bytes(99), "effect at counter 1: 99 is not a kind of effect"),
        (header_bytes(1, 1, 1, b"") + header_bytes(6, 0, b"s"), "GroupDestroyed: not a row of 4"),
        (header_bytes(1, 1, 1, b"") + header_bytes(8, 0, b"s", -1), "expiry: -1"),
        (header_bytes(1, 1, 1, b"") + header_bytes(9, 0, b"s", 2, 0), "is later than this add"),
        (header_bytes(1, 1, 1, b"") + header_bytes(10, 256), "joined member: 256 is not an origin"),
        (header_bytes(1, 1, 1, b"") + header_bytes(11, 0, 5, 0), "evicted member: 0 is not an origin"),
        (header_bytes(1, 1, 1, b"") + header_bytes(11, 1, -1, 0), "through: -1"),
        (header_bytes(1, 1, 1, b"") + header_bytes(11, 1, 5, 258), "successor 258 is of another region than origin 1"),
        (header_bytes(1, 1, 1, b"") + header_bytes(11, 1, 5, 512), "successor: 512 is not an origin"),
        (header_bytes(1, 1, 1, b"") + header_bytes(12, 512, 1, False), "sponsor: 512 is not an origin"),
        (header_bytes(1, 1, 1, b"") + header_bytes(12, 1, 1, 1), "by all: expected a flag, not int"),
        (header_bytes(1, 1, 1, b"") + header_bytes(12, 1, 0, False), "begin at 1"),
        (header_bytes(1, 1, 1, b"") + header_bytes(6, 0, "s", 1), "group: expected bytes, not int"),
        (ENTRIES_HEADER + header_bytes(1, 0, b"s", 1, 0, b"", b"", b"", b""), "differ in length: 0, 0 and 0"),
        (ENTRIES_HEADER + header_bytes(1, 0, b"s", 1, 0, ONE, ONE * 2, ONE, b"12345"), "differ in length: 1, 2 and 1"),
        (ENTRIES_HEADER + header_bytes(1, 0, b"s", 1, 0, ONE, ONE, ONE, b"1234"), "ends at 5 of 4 bytes"),
        (
            ENTRIES_HEADER + header_bytes(1, 0, b"s", 1, 5, ONE, ONE, ONE, b"12345"),
            "5 earlier adds do not fit between counter 1",
        ),
        (ENTRIES_HEADER + header_bytes(1, 0, b"s", 6, 0, ONE, ONE, ONE, b"12345"), "is later than this add"),
        (ENTRIES_HEADER + header_bytes(1, 0, b"s", 1, 0, ONE * 2, ONE * 2, ONE * 2, b"12345"), "5..6, the header says"),
        (ENTRIES_HEADER + header_bytes(2, 0, b"s", ONE + ONE * 2, False, None), "does not fit its column"),
    ],
)
def test_what_was_wrong_is_said(payload: bytes, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        decode_batch(payload)


def test_entries_beyond_the_last_counter_are_refused() -> None:
    row = header_bytes(1, 0, b"s", 1, 0, ONE * 2, ONE * 2, ONE * 2, b"12345")
    with pytest.raises(CodecError, match="2 entries exhaust the counters"):
        decode_batch(header_bytes(1, U64_MAX, U64_MAX, b"") + row)


@pytest.mark.parametrize("runs", [{1: [((5, 0), (5, 0))]}, {1: [((5, 1), (5, 0))]}])
def test_an_empty_interval_is_refused(runs: dict[int, list[Interval]]) -> None:
    with pytest.raises(CodecError, match="is empty"):
        decode_batch(encode_batch(batch_of(fx.Acknowledged((0, b"s"), b"g", [], runs))))


@pytest.mark.parametrize("pair", [(0, 3), (4, 3)])
def test_a_bad_counter_range_is_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(CodecError, match="not a range of counters"):
        decode_batch(encode_batch(batch_of(fx.EntriesRemoved((0, b"s"), {1: [pair]}, False, None))))


@given(u64, u64, u64, st.binary(max_size=100))
def test_staged_chunks(region: int, transfer: int, index: int, chunk: bytes) -> None:
    assert decode_staged(encode_staged(region, transfer, index, chunk)) == (region, transfer, index, chunk)


@given(u64, counters, st.dictionaries(origins, counters))
def test_joins_and_gaps(transfer: int, position: int, gap: dict[int, int]) -> None:
    assert decode_joined(encode_joined(transfer, VersionVector(gap))) == (transfer, VersionVector(gap))
    assert decode_gap(encode_gap(position, VersionVector(gap))) == (position, VersionVector(gap))
    assert decode_stable(encode_stable(position, VersionVector(gap))) == (position, VersionVector(gap))


@pytest.mark.parametrize("version", [OLDEST_FORMAT - 1, FORMAT_VERSION + 1])
def test_another_format_is_named(version: int) -> None:
    with pytest.raises(CodecError, match=f"format {version}; this build"):
        decode_start(header_bytes(version, 1, 2, 3, 4))


def test_the_format_before_is_read() -> None:
    """A removal of format 2 says nothing of references; such a row is still written where there are none."""
    assert decode_start(msgpack.packb((2, 1, 5))) == (1, 5)
    effect = decode_batch(encode_batch(batch_of(fx.EntriesRemoved((0, b"s"), {1: [(1, 2)]}, True, None)))).effects[0]
    assert isinstance(effect, fx.EntriesRemoved)
    assert (effect.ranges, effect.references) == ({1: [(1, 2)]}, {})


@pytest.mark.parametrize(
    "raw",
    [
        b"\xdd\xff\xff\xff\xff" * 200,  # arrays of 2**32 - 1 values
        b"\xdc\xff\xff" * 500,
        b"\xdf\xff\xff\xff\xff" * 200,  # maps
        b"\x94\x01\x01\x01\xc6\xff\xff\xff\xff",  # a header whose context declares 4 GiB
        b"\x9f" * 1000,
        b"\xdd\x00\x01\x00\x00" * 20 + bytes(2**17),  # fewer values than bytes, but nested
        header_bytes(2**64 - 1),
    ],
)
@pytest.mark.parametrize("decode", DECODERS)
def test_a_declared_count_reserves_no_memory(raw: bytes, decode: Callable[[bytes], object]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            decode(raw)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("own", [1, 3])
def test_a_context_that_does_not_fit_its_batch_is_none(own: int) -> None:
    with pytest.raises(AssertionError, match="own component"):
        Batch(1, 3, 3, VersionVector({1: own}), [DESTROYED]).check()
