"""State of streams as rows: every field is known, all that is kept comes back, bad rows are refused."""

from __future__ import annotations

from array import array

import msgpack
import pytest

from crdtstream.core.effects import Position
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.groups.create import NEVER_RESET, Create
from crdtstream.core.groups.group import Group
from crdtstream.core.names.producers import Producers
from crdtstream.core.names.register import NamedAdd
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.properties import StreamProperties
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.intervals import IntervalSet
from crdtstream.protocols.columns import CodecError
from crdtstream.protocols.rows import Row, Rows
from crdtstream.protocols.state_rows import (
    _CONSUMER_NUMBER,
    KNOWN_FIELDS,
    StateReader,
    StreamImage,
    capture_stream,
    span_row,
    tree_row,
)
from simulations.portrait import plain

KEY = (3, b"key\xff")


@pytest.mark.interpreted
@pytest.mark.parametrize("kept", KNOWN_FIELDS, ids=[kept.__name__ for kept in KNOWN_FIELDS])
def test_every_field_is_known(kept: type) -> None:
    """A field that is new in the class must be kept in the rows, or derived, or left out on purpose."""
    assert list(KNOWN_FIELDS[kept].split()) == sorted(kept.__dict__["__slots__"])


def entry_block(first: int, count: int) -> Block:
    block = Block()
    for counter in range(first, first + count):
        block.append((counter, 1), counter, encode_entry((counter, 1), [b"f", b"%d" % counter]))
    return block


def full_producers() -> Producers:
    producers = Producers()
    producers.duration_s, producers.added, producers.duplicates = 7, 3, 2
    producers.record(b"q", b"1", (1, 1), 5)
    producers.record(b"p", b"2", (2, 1), 6)
    producers.record(b"q", b"\xff", (3, 2**64 - 1), 6)
    register = producers.share()
    register.put((b"q", b"1"), NamedAdd((1, 7), (1, 1), 5, []))
    register.put((b"", b"letter"), NamedAdd((1, 9), (1, 2), 0, []))
    register.put((b"q", b"1"), NamedAdd((258, 2**64 - 1), (1, 2), 2**63, [(1, 7), (258, 3)]))
    register.put((b"q", b"1"), NamedAdd((3, 1), (4, 2), 6, []))
    (lost,) = register.adds_with(3, (4, 2))
    lost.is_lost = True
    lost.acknowledge(b"g", [((1, 7), NEVER_RESET), ((2, 8), (4, 1))])
    lost.acknowledge(b"h", [((1, 9), NEVER_RESET)])
    return producers


def full_stream() -> Stream:
    stream = Stream()
    stream.deleted = {1: 5, 2: 2**63}
    stream.destroyed = {b"gone": {1: 3}, b"": {}}
    for origin in (1, 258):
        meta = stream.metas.of(origin)
        for number, name in enumerate(KNOWN_FIELDS[type(meta)].split(), origin):
            setattr(meta, name, (number, 2**64 - number) if name.endswith("_id") else number)
    stream.metas[1].offset = -(2**63)
    for first in (1, 101):
        stream.trees.of(1).link(entry_block(first, 100), 0, 100)
    stream.trees.of(1).remove_through(7)
    stream.trees.of(258)
    stream.put_group(b"g", full_group())
    stream.producers = full_producers()
    stream.properties = StreamProperties()
    stream.properties.add((b"maxlen", 258, 2**63, 7, b"12"))
    stream.properties.add((b"", 1, 1, 2**64 - 1, b"\xff"))
    stream.put_group(b"h", Group((1, 9), Position(), -1))
    stream.derive()
    assert stream.length == 193
    return stream


def full_group() -> Group:
    group = Group((1, 7), Position((0, 1), {1: (5, 5), 2: (0, 0)}), 12)
    group.creates[(2, 8)] = Create(Position())
    group.creates[(1, 7)].runs = {1: IntervalSet.of([((1, 0), (2, 0)), ((3, 0), (4, 0))]), 2: IntervalSet()}
    group.delivered[1], group.delivered[3] = IntervalSet.of([((1, 0), (9, 0))]), IntervalSet()
    group.skipped = {1: IntervalSet.of([((9, 0), (11, 0))])}
    group.replay = {2: IntervalSet.of([((0, 0), (2**64 - 1, 2**64 - 1))])}
    for name in (b"a", b"b", b"c"):
        group.touch(name, 100).active_ms = 99
    group.pending.add(1, [(n, 1) for n in range(1, 400)], b"a", 2**53 + 1, 3)
    group.pending.add(2, [(n, 1) for n in range(1, 4)], b"b", 0, 1)
    group.pending.set(1, (5, 1), b"c", 7, 2**40)
    group.pending.remove_consumer(b"b")
    group.derive()
    return group


def rows_of(image: StreamImage, blocks: dict[int, Block]) -> list[Row]:
    """As a checkpoint writes them; the places are made up."""
    rows = list(image.rows)
    for tree in image.trees:
        places = array("Q")
        for block in tree.blocks:
            place = len(blocks) + 1000
            blocks[place] = block
            places.append(place)
        rows.append(tree_row(tree.origin, tree.head, places[:1]))
        rows.append(tree_row(tree.origin, tree.head, places[1:]))
    for group in image.groups:
        rows += group.rows
        rows += [span_row(origin, span) for origin, span in group.spans]
    return rows


def read(rows: list[Row], blocks: dict[int, Block]) -> list[tuple[tuple[int, bytes], Stream | None, int]]:
    reader = StateReader(blocks)
    parsed = Rows(b"".join(msgpack.packb(row) for row in rows))
    found = []
    while not parsed.done():
        done = reader.add(parsed.next())
        if done is not None:
            found.append(done)
    done = reader.end()
    return found if done is None else [*found, done]


def test_all_that_is_kept_comes_back() -> None:
    stream = full_stream()
    blocks: dict[int, Block] = {}
    rows = rows_of(capture_stream(KEY, stream, 77), blocks)
    rows += rows_of(capture_stream((0, b"gone"), None, 78), blocks)
    rows += rows_of(capture_stream((0, b""), Stream(), 79), blocks)
    first, second, third = read(rows, blocks)
    assert (first[0], first[2]) == (KEY, 77)
    assert first[1] is not None and plain(first[1]) == plain(stream)
    for group in first[1].groups.values():
        group.pending.check()
    for tree in first[1].trees.values():
        tree.check()
    assert second == ((0, b"gone"), None, 78)
    assert third[0] == (0, b"") and plain(third[1]) == plain(Stream())
    assert third[1] is not None and third[1].deleted is Stream().deleted, "an empty dictionary of its own"


def test_a_capture_stays_as_it_was() -> None:
    stream = full_stream()
    image = capture_stream(KEY, stream, 1)
    before = plain(stream)
    group = stream.groups[b"g"]
    group.pending.remove(1, (9, 1))
    group.pending.set(1, (10, 1), b"z", 1, 1)
    group.delivered = ByOrigin(IntervalSet)
    stream.metas = ByOrigin(OriginMeta)
    stream.trees[1].remove_counters(50, 60)
    blocks: dict[int, Block] = {}
    ((_, found, _),) = read(rows_of(image, blocks), blocks)
    assert plain(found) == before


def test_metadata_without_a_dropped_counter_is_as_before_format_3() -> None:
    stream = Stream()
    stream.metas.of(1).first = 7
    ((_, origin, values),) = [row for row in capture_stream(KEY, stream, 1).rows if row[0] == 2]
    assert isinstance(values, bytes) and (origin, len(values)) == (1, 18 * 8)
    stream.metas.of(1).dropped_counter = 9
    image = capture_stream(KEY, stream, 1)
    ((_, found, _),) = read(rows_of(image, {}), {})
    assert found is not None and found.metas[1].dropped_counter == 9


def test_a_holder_of_nothing_is_refused() -> None:
    blocks: dict[int, Block] = {}
    rows = rows_of(capture_stream(KEY, full_stream(), 77), blocks)
    at = next(at for at, row in enumerate(rows) if row[0] == _CONSUMER_NUMBER)
    rows.insert(at, (_CONSUMER_NUMBER, 1_000, b"ghost"))
    with pytest.raises(CodecError, match="holds nothing"):
        read(rows, blocks)


def test_bad_rows_are_refused() -> None:
    """Every value of every row, replaced by others of the wrong kind."""
    blocks: dict[int, Block] = {}
    rows = rows_of(capture_stream(KEY, full_stream(), 77), blocks)
    wrong: list[object] = [None, -1, 2**40, b"x", "text", ()]
    refused = 0
    for index, row in enumerate(rows):
        for column in range(len(row)):
            for value in wrong:
                bad = (*row[:column], value, *row[column + 1 :])
                try:
                    read([*rows[:index], bad, *rows[index + 1 :]], blocks)
                except CodecError:
                    refused += 1
    assert refused > 400
    for index in range(1, len(rows)):
        with_start_missing = rows[index:]
        if with_start_missing[0][0] != 1:
            with pytest.raises(CodecError):
                read(with_start_missing, blocks)


@pytest.mark.parametrize(
    "rows",
    [
        [(99, 1)],
        [(1, 0, b"k", 1, b""), (2, 1, b"12345678")],
        [(1, 0, b"k", 1, b""), (4, 1, 0, array("Q", [1]).tobytes())],
        [(1, 0, b"k", 1, b""), (5, b"g", (0, 0), b"", 0)],
        [(1, 0, b"k", 1, b""), (8, b"a", 1, 1)],
        [(1, 0, b"k", 1, b""), (99, 1)],
    ],
    ids=["kind", "metadata", "place", "no create", "no group", "part"],
)
def test_rows_that_make_no_stream_are_refused(rows: list[Row]) -> None:
    with pytest.raises(CodecError):
        read(rows, {})
