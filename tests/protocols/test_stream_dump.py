"""Payloads of DUMP: what is written is read, payloads of other versions, and damage."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.groups.pending import RELEASED_MIN
from crdtstream.core.values.entry_id import U64_MAX
from crdtstream.protocols import stream_dump
from crdtstream.protocols.dump_writing import id_bytes, length, node_bytes, string
from crdtstream.protocols.listpack import DumpFault
from crdtstream.protocols.stream_dump import (
    BYTES_MAX,
    ELEMENT_BYTES,
    KIND_2,
    KIND_3,
    KIND_4,
    KIND_5,
    ROW_BYTES,
    BadFooter,
    DumpedEntry,
    GroupDump,
    PendingDump,
    ProducersDump,
    StreamDump,
    TooLarge,
)
from tests.protocols.old_payloads import by_6_2
from tests.protocols.payloads import dumped, restored, sealed

# Two entries and a group whose consumer holds the first, as Redis 8.2 dumps them.
BY_8_2 = bytes.fromhex(
    "1501100000000000000001000000000000000128280000000f00020100010101816602000102010001000181760204010201010100018177"
    "020401ff020201010100000201016701010101000000000000000100000000000000014af55004a2010000010101634af55004a20100004a"
    "f55004a201000001000000000000000100000000000000010c002fab88b72750bb38"
)
IDS = st.tuples(st.integers(0, U64_MAX), st.integers(0, U64_MAX)).filter(lambda one: one != (0, 0))
NAMES = st.binary(max_size=70)
FIELDS = st.lists(st.tuples(st.sampled_from([b"a", b"b"]) | NAMES, NAMES), min_size=1, max_size=3)


@st.composite
def streams(draw: st.DrawFn) -> tuple[StreamDump, list[DumpedEntry]]:
    stream = StreamDump()
    ids = sorted(draw(st.sets(IDS, max_size=8)))
    entries = [(entry_id, [part for pair in draw(FIELDS) for part in pair]) for entry_id in ids]
    if ids:
        stream.count, stream.first_id, stream.newest_id = len(ids), ids[0], ids[-1]
    stream.last_id = max([*ids, draw(IDS)])
    stream.max_deleted = draw(IDS)
    stream.entries_added = len(ids) + draw(st.integers(0, 2**62))
    stream.groups = [draw(groups(name)) for name in sorted(draw(st.sets(NAMES, max_size=2)))]
    stream.producers = draw(st.none() | producers())
    return stream, entries


@st.composite
def producers(draw: st.DrawFn) -> ProducersDump:
    found = ProducersDump(draw(st.integers(1, 86_400)), draw(st.integers(1, 10_000)))
    names = sorted(draw(st.sets(st.tuples(NAMES, NAMES), max_size=4)))
    found.records = [(producer, name, draw(IDS)) for producer, name in names]
    found.added, found.duplicates = draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 9))
    return found


@st.composite
def groups(draw: st.DrawFn, name: bytes) -> GroupDump:
    group = GroupDump(name, draw(IDS), draw(st.integers(-1, 2**40)))
    times = st.integers(0, 2**50)
    group.consumers = [
        (one, draw(times), draw(times | st.just(-1))) for one in sorted(draw(st.sets(NAMES, max_size=3)))
    ]
    if group.consumers:
        owners = st.sampled_from([one for one, _, _ in group.consumers])
        ids = sorted(draw(st.sets(IDS, max_size=4)))
        group.pending = [PendingDump(one, draw(owners), draw(times), draw(st.integers(0, 2**40))) for one in ids]
        for at, row in enumerate(draw(st.lists(st.sampled_from(group.pending), unique=True)) if ids else []):
            row.consumer, row.delivered_ms = b"", RELEASED_MIN + at
    return group


def values(thing: object) -> object:
    """Origins as tuples, all the way down."""
    if isinstance(thing, list):
        return [values(one) for one in thing]
    if isinstance(thing, StreamDump | GroupDump | PendingDump | ProducersDump):
        return [(name, values(getattr(thing, name))) for name in sorted(type(thing).__slots__)]
    return thing


@pytest.mark.interpreted
@given(streams())
def test_what_is_written_is_read(drawn: tuple[StreamDump, list[DumpedEntry]]) -> None:
    stream, entries = drawn
    found, read = restored(dumped(stream, entries))
    assert read == entries
    assert stream.producers is None or values(found.producers) == values(stream.producers)
    found.producers = stream.producers
    assert values(found) == values(stream)


@given(streams(), st.data())
def test_damage_is_found_or_harmless(drawn: tuple[StreamDump, list[DumpedEntry]], data: st.DataObject) -> None:
    body = bytearray(dumped(*drawn)[: -stream_dump.FOOTER_BYTES])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 3))
    with suppress(DumpFault):
        restored(sealed(bytes(body[: len(body) - cut])))


def test_every_byte_counts_for_the_checksum() -> None:
    for at in range(len(BY_8_2)):
        for damaged in (BY_8_2[:at] + bytes([BY_8_2[at] ^ 1]) + BY_8_2[at + 1 :], BY_8_2[:at]):
            with pytest.raises(BadFooter):
                restored(damaged)


def test_kind_3() -> None:
    stream, entries = restored(BY_8_2)
    assert entries == [((1, 1), [b"f", b"v"]), ((2, 1), [b"f", b"w"])]
    (group,) = stream.groups
    assert (group.name, group.last_id, group.entries_read) == (b"g", (1, 1), 1)
    assert [(row.entry_id, row.consumer, row.deliveries) for row in group.pending] == [((1, 1), b"c", 1)]
    assert group.consumers[0][1] == group.consumers[0][2] == group.pending[0].delivered_ms


def test_the_oldest_kind_that_holds_everything_is_written() -> None:
    """So that Redis 7.0 restores what needs nothing newer."""
    stream = StreamDump()
    stream.groups = [GroupDump(b"g", (0, 0), 0)]
    written = [dumped(stream, [])]
    stream.groups[0].consumers = [(b"c", 5, -1)]
    written.append(dumped(stream, []))
    stream.producers = ProducersDump(100, 100)
    written.append(dumped(stream, []))
    stream.groups[0].pending = [PendingDump((1, 1), b"", RELEASED_MIN, 2)]
    written.append(dumped(stream, []))
    heads = [(payload[0], int.from_bytes(payload[-10:-8], "little")) for payload in written]
    assert heads == [(KIND_2, 10), (KIND_3, 11), (KIND_4, 13), (KIND_5, 14)]


# As Redis 8.8 lays it out: one entry that a producer added, and that a consumer has received and released.
BY_8_8 = (
    b"\x1b\x01\x10" + id_bytes((1, 1)) + string(node_bytes([((1, 1), [b"f", b"v"])]))
    + bytes([1, 1, 1, 1, 1, 0, 0, 1, 1])
    + b"\x01g\x01\x01\x01" + b"\x01" + id_bytes((1, 1)) + bytes(8) + b"\x02"
    + b"\x01\x01c" + bytes([5, *bytes(7), 4, *bytes(7)]) + b"\x00" + b"\x01" + id_bytes((1, 1))
    + b"\x40\x64\x40\x64" + b"\x01\x01p\x01\x01i\x01\x01" + b"\x03\x02"
)  # fmt: skip


def test_kind_5() -> None:
    stream, entries = restored(sealed(BY_8_8))
    (group,) = stream.groups
    assert group.consumers == [(b"c", 5, 4)]
    (row,) = group.pending
    assert (row.entry_id, row.consumer, row.delivered_ms, row.deliveries) == ((1, 1), b"", RELEASED_MIN, 2)
    assert stream.producers is not None
    assert stream.producers.records == [(b"p", b"i", (1, 1))]
    assert (stream.producers.duration_s, stream.producers.entries_max) == (100, 100)
    assert (stream.producers.added, stream.producers.duplicates) == (3, 2)
    assert dumped(stream, entries)[:-10] == BY_8_8


@pytest.mark.parametrize(("last_id", "read"), [((0, 0), 0), ((1, 1), 1), ((2, 1), -1), ((3, 1), 3), ((3, 2), -1)])
def test_kind_1(last_id: tuple[int, int], read: int) -> None:
    stream, entries = restored(by_6_2(3, last_id))
    assert [entry_id for entry_id, _ in entries] == [(1, 1), (2, 1), (3, 1)]
    assert (stream.last_id, stream.max_deleted, stream.entries_added) == ((3, 1), (0, 0), 3)
    assert [(group.name, group.last_id, group.entries_read) for group in stream.groups] == [(b"7", last_id, read)]


@pytest.mark.parametrize("last_group_id", [(0, 0), (1, 1), (3, 1), (4, 0)])
def test_kind_1_that_was_emptied(last_group_id: tuple[int, int]) -> None:
    stream, _ = restored(by_6_2(0, last_group_id))
    assert [group.entries_read for group in stream.groups] == [0]


@pytest.mark.parametrize("kind", [0, 14, 16, 20, 255])
def test_other_types(kind: int) -> None:
    with pytest.raises(DumpFault):
        restored(sealed(bytes([kind]) + BY_8_2[1:-10]))


def shared_names(count: int, name: bytes, value: bytes = b"v") -> bytes:
    """A node whose entries all have the name of the first one, which is written once."""
    entries: list[DumpedEntry] = [((1, at), [name, value]) for at in range(1, count + 1)]
    return b"".join([bytes([KIND_2, 1]), string(id_bytes((1, 1))), string(node_bytes(entries))])


def lzf(plain: bytes) -> bytes:
    """A string of one repeated byte, compressed."""
    count = (len(plain) - 1) // 264
    rest = plain[1 + 264 * count :]
    assert plain == plain[:1] * len(plain) and len(rest) < 32
    data = b"\0" + plain[:1] + b"\xe0\xff\0" * count + (bytes([len(rest) - 1]) + rest if rest else b"")
    return b"\xc3" + length(len(data)) + length(len(plain)) + data


@pytest.mark.parametrize("bytes_max", [10_000_000, 1_000_000])
def test_names_that_entries_share_are_counted_for_each(bytes_max: int) -> None:
    """And not copied: 90 kB that mean 90 MB end the reading before there are many."""
    body = shared_names(1_000, b"n" * 90_000)
    with pytest.raises(TooLarge):
        restored(sealed(body), bytes_max)


def test_a_name_is_one_object_for_all_entries_of_a_node() -> None:
    numbers = b"".join(map(length, (3, 1, 3, 1, 1, 0, 0, 3)))
    _, entries = restored(sealed(shared_names(3, b"n" * 500) + numbers + length(0)))
    assert len({id(fields[0]) for _, fields in entries}) == 1 and len(entries) == 3


@pytest.mark.parametrize("place", ["node", "group", "consumer"])
def test_a_compressed_string_is_bounded_wherever_it_is(place: str) -> None:
    """One MB in 12 kB, three times too much."""
    large = lzf(b"a" * (1 + 264 * 4_000))
    parts = {
        "node": [bytes([KIND_2, 1]), string(id_bytes((1, 1))), large],
        "group": [bytes([KIND_2, 0]), *map(length, (0, 0, 0, 0, 0, 0, 0, 0, 1)), large],
        "consumer": [
            bytes([KIND_2, 0]),
            *map(length, (0, 0, 0, 0, 0, 0, 0, 0, 1)),
            string(b"g"),
            bytes([0, 0, 0, 0, 1]),
            large,
        ],
    }
    payload = sealed(b"".join(parts[place]))
    with pytest.raises(TooLarge):
        restored(payload, 300_000)
    with pytest.raises(DumpFault) as found:
        restored(payload, 3_000_000)
    assert found.type is DumpFault


@given(streams())
def test_what_is_read_expands_to_no_more_than_its_bound(drawn: tuple[StreamDump, list[DumpedEntry]]) -> None:
    payload = dumped(*drawn)
    stream, entries = restored(payload)
    size = sum(len(field) + ELEMENT_BYTES for _, fields in entries for field in fields)
    size += ROW_BYTES * sum(len(group.pending) + len(group.consumers) + 1 for group in stream.groups)
    if size:
        with pytest.raises(TooLarge):
            restored(payload, size - 1)
    assert restored(payload, BYTES_MAX)[1] == entries


@pytest.mark.parametrize("count", [2**40, 2**64 - 1])
def test_a_length_alone_makes_nothing(count: int) -> None:
    for body in (bytes([KIND_2]) + length(count), bytes([KIND_2, 0]) + length(0) * 8 + length(count)):
        with pytest.raises(DumpFault):
            restored(sealed(body))
