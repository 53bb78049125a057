"""A state as chunks: what comes out is what went in, less what is local, wherever the chunks are cut."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.digest import digest_stream
from crdtstream.core.members import ADMITTED, EVICTED, JOINED, KNEW, PAST, SUCCEEDED, VOID
from crdtstream.core.values.causality import VersionVector, origin_of
from crdtstream.protocols.columns import CodecError, column
from crdtstream.protocols.rows import Row
from crdtstream.protocols.state_rows import StreamImage, block_row, capture_replicated
from crdtstream.protocols.transfer_rows import Drafting, TransferReader, context_row, head_row, tail_row
from tests.protocols.test_state_rows import KEY, full_producers, full_stream

FAR = origin_of(1, -1)
VECTOR = VersionVector({1: 2**63, 258: 5, FAR: 7})
FOUNDERS = [1, 258]
CONTEXTS = {1: VersionVector({1: 9, 258: 2}), FAR: VersionVector()}
MEMBERS = [
    (JOINED, FAR, 1, 2**40, 0),
    (ADMITTED, 258, 0, 0, 1),
    (VOID, FAR, 0, 0, 0),
    (EVICTED, 3, 1, 5, 0),
    (EVICTED, 3, 258, 9, 2**63),
    (SUCCEEDED, 3, 1, 5, 259),
    (KNEW, FAR, 258, 9, 0),
    (PAST, 4, 0, 0, 2**64 - 1),
]


def rows_of(image: StreamImage) -> list[Row]:
    rows = list(image.rows)
    for tree in image.trees:
        rows += [block_row(tree, at) for at in range(len(tree.blocks))]
    for group in image.groups:
        rows += group.rows
    return rows


def state_rows() -> list[Row]:
    contexts = [context_row(origin, context) for origin, context in CONTEXTS.items()]
    streams = rows_of(capture_replicated(KEY, full_stream()))
    return [head_row(VECTOR, FOUNDERS, MEMBERS), *contexts, *streams, tail_row(1)]


def read(rows: list[Row], chunk_bytes: int = 1 << 20) -> TransferReader:
    draft = Drafting()
    draft.put(rows)
    reader = TransferReader()
    while draft.byte_count():
        reader.feed(draft.read(chunk_bytes))
    return reader


@given(st.integers(1, 3000))
def test_a_state_comes_back(chunk_bytes: int) -> None:
    reader = read(state_rows(), chunk_bytes)
    assert reader.done
    assert reader.vector == VECTOR
    assert (reader.founders, reader.contexts) == (FOUNDERS, CONTEXTS)
    assert reader.members.rows() == MEMBERS
    ((key, stream),) = reader.streams.items()
    assert key == KEY
    assert digest_stream(stream) == digest_stream(full_stream())
    assert (stream.deleted, stream.destroyed) == (full_stream().deleted, full_stream().destroyed)


def test_removed_entries_are_not_sent() -> None:
    tree = read(state_rows()).streams[KEY].trees[1]
    tree.check()
    assert (tree.count, tree.first_id()) == (193, (8, 1))


def test_what_is_local_stays_behind() -> None:
    group = read(state_rows()).streams[KEY].groups[b"g"]
    assert not group.delivered and not group.skipped and not group.replay and not group.consumers
    assert len(group.creates) == 2
    assert group.floor.default == (0, 0)


def test_names_are_sent_without_what_is_local() -> None:
    producers = read(state_rows()).streams[KEY].producers
    assert producers is not None and producers.register is not None and producers.is_shared
    assert (producers.duration_s, producers.added, producers.rows()) == (None, 0, full_producers().rows())
    adds = producers.register.adds_of((b"q", b"1"))
    assert [(add.dot, add.entry_id, add.at_ms, add.seen) for add in adds] == [
        ((1, 7), (1, 1), 5, []),
        ((258, 2**64 - 1), (1, 2), 2**63, [(1, 7), (258, 3)]),
        ((3, 1), (4, 2), 6, []),
    ]
    assert not any(add.acknowledged or add.is_lost for add in adds)
    assert producers.register.met == {(b"q", b"1"): None}


def test_a_state_without_its_head_or_a_stream_is_refused() -> None:
    for missing in (0, 1 + len(CONTEXTS)):
        rows = state_rows()
        del rows[missing]
        with pytest.raises(CodecError):
            read(rows)


def test_a_state_without_its_tail_is_not_done() -> None:
    assert not read(state_rows()[:-1]).done


def test_bad_rows_are_refused() -> None:
    head, end = head_row(VECTOR, FOUNDERS, MEMBERS), tail_row(0)
    bad: list[list[Row]] = [
        [head, head],
        [head, end, end],
        [head, tail_row(1)],
        [context_row(1, VersionVector()), head, end],
        [head, (102, 256, b"")],
        [head, (102, 1, column([1, 0]))],
        [head, (102, 1)],
        [(100, b"", column([256]), b"")],
        [(100, column([1, 0]), column([1]), b"")],
        [(100, b"", b"", column([1, 2, 3]))],
        [(100, b"", b"", column([9, 1, 0, 0, 0]))],
        [(100, b"", b"")],
        [head, (1, 0, b"k", 1, b""), (1, 0, b"k", 1, b""), end],
        [head, (11, 0, b"k", 1), end],
        [head, (1, 0, b"k", 1, b""), (12, 1, column([1]), column([1]), column([1]), column([2]), b"x")],
        [head, (1, 0, b"k", 1, b""), (12, 1, b"", b"", b"", b"", b"")],
        [head, (1, 0, b"k", 1, b""), (12, 1, column([1, 2]), column([1]), column([1]), column([1]), b"x")],
    ]
    for rows in bad:
        with pytest.raises(CodecError):
            read(rows)
    with pytest.raises(CodecError):
        TransferReader().feed(msgpack.packb(b"text"))
