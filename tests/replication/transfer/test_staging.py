"""Staging: chunks in order make a state, and nothing else does."""

from __future__ import annotations

import pytest

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import CodecError
from crdtstream.replication.transfer.snapshot import Snapshot
from crdtstream.replication.transfer.staging import Staging


def chunks(size: int = 20) -> list[bytes]:
    replica = Replica(1)
    replica.add_entry((0, b"x"), (1, 1), [b"f", b"v" * 100])
    replica.drain()
    snapshot = Snapshot(replica, [1])
    found = []
    while not snapshot.is_done():
        found.append(snapshot.chunk(size))
    return found


def test_chunks_make_a_state() -> None:
    staging, pieces = Staging(1, 77), chunks()
    for index, piece in enumerate(pieces):
        assert not staging.is_done()
        staging.check()
        assert staging.stage(index, piece)
        assert staging.next == index + 1
    assert staging.is_done()
    assert staging.state.vector == VersionVector({1: 1})
    assert [stream.length for stream in staging.state.streams.values()] == [1]
    assert staging.byte_count == sum(map(len, pieces))


def test_a_chunk_that_comes_twice_is_passed_over() -> None:
    staging, pieces = Staging(1, 77), chunks()
    assert staging.stage(0, pieces[0])
    assert not staging.stage(0, pieces[0])
    assert staging.stage(1, pieces[1])
    assert staging.next == 2


def test_a_chunk_that_comes_early_is_refused() -> None:
    staging, pieces = Staging(1, 77), chunks()
    with pytest.raises(CodecError, match="chunk 1"):
        staging.stage(1, pieces[1])


def test_an_empty_chunk_is_refused() -> None:
    """There would be no end of them, each a record of the log."""
    staging = Staging(1, 77)
    with pytest.raises(CodecError, match="chunk 0 of a state is empty"):
        staging.stage(0, b"")
    staging.check()


def test_check_sees_a_state_that_was_not_joined() -> None:
    staging = Staging(1, 77)
    for index, piece in enumerate(chunks()):
        staging.stage(index, piece)
    with pytest.raises(AssertionError, match="not joined"):
        staging.check()
