"""Payloads of DUMP: what is written is read, payloads of other versions, and damage."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.entry_id import U64_MAX
from crdtstream.protocols import stream_dump
from crdtstream.protocols.listpack import DumpFault
from crdtstream.protocols.stream_dump import (
    KIND_1,
    GroupDump,
    PendingDump,
    StreamDump,
    dumped,
    id_bytes,
    is_sound,
    length,
    node_bytes,
    nodes_of,
    restored,
    sealed,
    string,
)

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
def streams(draw: st.DrawFn) -> StreamDump:
    stream = StreamDump()
    ids = sorted(draw(st.sets(IDS, max_size=8)))
    stream.entries = [(entry_id, [part for pair in draw(FIELDS) for part in pair]) for entry_id in ids]
    stream.last_id = max([*ids, draw(IDS)])
    stream.max_deleted = draw(IDS)
    stream.entries_added = len(ids) + draw(st.integers(0, 2**62))
    stream.groups = [draw(groups(name)) for name in sorted(draw(st.sets(NAMES, max_size=2)))]
    return stream


@st.composite
def groups(draw: st.DrawFn, name: bytes) -> GroupDump:
    group = GroupDump(name, draw(IDS), draw(st.integers(-1, 2**40)))
    times = st.integers(0, 2**50)
    group.consumers = [(one, draw(times), -1) for one in sorted(draw(st.sets(NAMES, max_size=3)))]
    if group.consumers:
        owners = st.sampled_from([one for one, _, _ in group.consumers])
        ids = sorted(draw(st.sets(IDS, max_size=4)))
        group.pending = [PendingDump(one, draw(owners), draw(times), draw(st.integers(0, 2**40))) for one in ids]
    return group


def values(thing: object) -> object:
    """Slots as tuples, all the way down."""
    if isinstance(thing, list):
        return [values(one) for one in thing]
    if isinstance(thing, StreamDump | GroupDump | PendingDump):
        return [(name, values(getattr(thing, name))) for name in sorted(type(thing).__slots__)]
    return thing


@pytest.mark.interpreted
@given(streams())
def test_what_is_written_is_read(stream: StreamDump) -> None:
    payload = dumped(stream)
    assert is_sound(payload)
    assert values(restored(payload)) == values(stream)


@given(streams(), st.data())
def test_damage_is_found_or_harmless(stream: StreamDump, data: st.DataObject) -> None:
    body = bytearray(dumped(stream)[: -stream_dump.FOOTER_BYTES])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 3))
    with suppress(DumpFault):
        restored(sealed(bytes(body[: len(body) - cut])))


def test_every_byte_counts_for_the_checksum() -> None:
    for at in range(len(BY_8_2)):
        assert not is_sound(BY_8_2[:at] + bytes([BY_8_2[at] ^ 1]) + BY_8_2[at + 1 :])
        assert not is_sound(BY_8_2[:at])


def test_kind_3() -> None:
    assert is_sound(BY_8_2)
    stream = restored(BY_8_2)
    assert stream.entries == [((1, 1), [b"f", b"v"]), ((2, 1), [b"f", b"w"])]
    (group,) = stream.groups
    assert (group.name, group.last_id, group.entries_read) == (b"g", (1, 1), 1)
    assert [(row.entry_id, row.consumer, row.deliveries) for row in group.pending] == [((1, 1), b"c", 1)]
    assert group.consumers[0][1] == group.consumers[0][2] == group.pending[0].delivered_ms


def kind_1(last_group_id: tuple[int, int]) -> bytes:
    """A stream as Redis 6.2 dumps it: no counters, and nothing of the first and of deleted entries."""
    entries = [((ms, 1), [b"f", b"v"]) for ms in (1, 2, 3)]
    parts = [bytes([KIND_1]), length(1)]
    (node,) = nodes_of(entries)
    parts += [string(id_bytes((1, 1))), string(node_bytes(node)), *map(length, (3, 3, 1)), length(1)]
    parts += [b"\xc0\x07", *map(length, last_group_id), length(0), length(0)]
    return sealed(b"".join(parts))


@pytest.mark.parametrize(("last_id", "read"), [((0, 0), 0), ((2, 1), -1), ((3, 1), 3)])
def test_kind_1(last_id: tuple[int, int], read: int) -> None:
    stream = restored(kind_1(last_id))
    assert [entry_id for entry_id, _ in stream.entries] == [(1, 1), (2, 1), (3, 1)]
    assert (stream.last_id, stream.max_deleted, stream.entries_added) == ((3, 1), (0, 0), 3)
    assert [(group.name, group.last_id, group.entries_read) for group in stream.groups] == [(b"7", last_id, read)]


@pytest.mark.parametrize("kind", [0, 14, 16, 20, 255])
def test_other_types(kind: int) -> None:
    with pytest.raises(DumpFault):
        restored(sealed(bytes([kind]) + BY_8_2[1:-10]))
