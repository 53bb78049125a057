"""Transfers: a window of chunks, kept until they are staged, for as long as the peer may come back."""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.replication.transfer.sending import Transfer, Transfers
from crdtstream.replication.transfer.snapshot import Snapshot
from crdtstream.replication.transfer.staging import Staging

CHUNK = 50
WIDE = 1 << 20


def transfer(number: int = 7, entries: int = 20) -> tuple[Transfer, Replica]:
    replica = Replica(1)
    for counter in range(1, entries + 1):
        replica.add_entry((0, b"x"), (counter, 1), [b"f", b"v" * 20])
    replica.drain()
    return Transfer(number, 3, Snapshot(replica, [1])), replica


def sent(one: Transfer, window_bytes: int = WIDE) -> list[tuple[int, bytes]]:
    found = []
    chunk = one.chunk(CHUNK, window_bytes)
    while chunk is not None:
        found.append(chunk)
        one.check()
        chunk = one.chunk(CHUNK, window_bytes)
    return found


def test_all_chunks_go_in_order() -> None:
    one, _ = transfer()
    staging = Staging(1, 7)
    for index, chunk in sent(one):
        staging.stage(index, chunk)
    assert staging.is_done() and one.is_sent() and not one.is_staged()
    one.record_staged(staging.next)
    assert one.is_staged()
    one.check()


def test_the_window_closes_and_opens() -> None:
    one, _ = transfer()
    first = sent(one, 3 * CHUNK)
    assert [index for index, _ in first] == [0, 1, 2]
    one.record_staged(1)
    assert [index for index, _ in sent(one, 3 * CHUNK)] == [3]
    assert not one.is_sent()
    one.record_staged(100)
    assert [index for index, _ in sent(one, 3 * CHUNK)] == [4, 5, 6]


def test_a_lost_link_goes_on_where_it_stopped() -> None:
    one, replica = transfer()
    pieces = dict(sent(one, 4 * CHUNK))
    one.record_staged(1)
    replica.delete_stream((0, b"x"))
    assert one.resume(2)
    again = dict(sent(one, WIDE))
    assert min(again) == 2
    assert all(again[index] == piece for index, piece in pieces.items() if index >= 2)
    staging = Staging(1, 7)
    for index, chunk in sorted((pieces | again).items()):
        staging.stage(index, chunk)
    assert staging.is_done()


def test_chunks_that_are_gone_or_never_were_cannot_be_resumed() -> None:
    one, _ = transfer()
    sent(one, 4 * CHUNK)
    one.record_staged(2)
    assert not one.resume(1)
    assert not one.resume(5)
    assert one.resume(4)
    assert one.resume(4)


def test_fetching_resumes_or_starts_over() -> None:
    transfers = Transfers()
    transfers.fetch(2, 0, 0)
    assert list(transfers.wanted) == [2]
    one, replica = transfer()
    transfers.begin(2, one)
    assert not transfers.wanted and transfers.running.get(2) is one
    assert transfers.first_position() == 3
    sent(one, 4 * CHUNK)
    transfers.fetch(2, 7, 3)
    assert transfers.running.get(2) is one and one.sent == 3
    transfers.fetch(2, 8, 3)
    assert transfers.running.get(2) is None and list(transfers.wanted) == [2]
    assert replica.keyspace.observers == []
    transfers.check()


def test_a_peer_that_restarted_goes_on_with_what_it_has_staged() -> None:
    """It is another origin, and its directory has the chunks."""
    transfers = Transfers()
    one, replica = transfer()
    transfers.begin(2, one)
    sent(one, 4 * CHUNK)
    transfers.fetch(258, 7, 3)
    assert transfers.running.get(258) is one and transfers.running.get(2) is None and one.sent == 3
    assert not transfers.wanted and replica.keyspace.observers
    transfers.fetch(514, 7, 1)
    assert transfers.running.get(258) is None and list(transfers.wanted) == [514], "chunk 1 is gone"
    assert not replica.keyspace.observers
    transfers.check()


def test_what_nobody_comes_back_for_is_let_go() -> None:
    transfers = Transfers()
    one, replica = transfer()
    transfers.begin(2, one)
    transfers.wanted[3] = None
    transfers.tick([2], 100, 500)
    assert not transfers.wanted
    transfers.tick([], 499, 500)
    transfers.tick([2], 100, 500)
    transfers.tick([], 100, 500)
    transfers.tick([], 399, 500)
    assert transfers.running.get(2) is one and replica.keyspace.observers
    transfers.tick([], 1, 500)
    assert transfers.running.get(2) is None and not replica.keyspace.observers
    assert transfers.first_position() is None
